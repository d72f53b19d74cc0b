r"""Sealing: records become shards of a release, in random order, that `privot fit` reads.

A sealing takes all that a store holds, reads it as rows, puts what no device writes into
`quarantine-000000.csv`, and the rest, ordered by ids (which are uniform coins: in random order,
`privot.release.streaming.publishing`), into Parquet shards; then the manifest is replaced, which
names all shards so far. Shards are written to a folder, or to any address that fsspec knows. Of a
campaign with a panel each shard is of one wave, and says so (`privot.release.collecting.wave_releases`,
which has the privacy review of that).

**Once.** A sealing that breaks off is done again by the next one, first of all, with the same
records: the order is theirs, so shards have the same rows under the same names, and no manifest
names a row twice. A reader finds the old manifest or the new one.

**Privacy review.** Post-processing of reports. Which sealing a report was in says when it came, as
roughly as sealings are far apart; within one the order says nothing. Who must not know it gets what
`privot collect` makes of the release, which is in one random order.
"""

from __future__ import annotations

import base64
import csv
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from privot.collector.arrivals import Campaign
from privot.collector.deleting import erase
from privot.collector.records import CRC_BYTES, ID_AT, PAYLOAD_AT, Records
from privot.collector.shelves import Shelf
from privot.collector.store import Store
from privot.device.report import ID_BYTES
from privot.release.collecting.wave_releases import wave_metadata
from privot.release.reports.rows import MANIFEST, manifest_text, shard_name, write_reports
from privot.release.streaming.publishing import reordered, write_scattered

_SHARD_ROWS, _SHARD_BYTES = 2**20, 2**28
_BUCKET_BYTES = 2**25
_NO_WAVE = "it is of no wave of the campaign's panel"


@dataclass(frozen=True)
class Sealed:
    """What a sealing did.

    Arguments:
        rows: Reports in its shards.
        quarantined: Reports that no device writes.
        total: Reports in all shards by now.
    """

    rows: int
    quarantined: int
    total: int


def seal(store: Store, campaign: Campaign, shelf: Shelf) -> Sealed | None:
    """Move all that is stored into shards; None if there is nothing new.

    A deletion that broke off is finished first.
    """
    erase(store, shelf)
    batch = store.begin_sealing()
    if batch is None:
        return None
    with TemporaryDirectory(prefix="privot-") as work:
        buckets = 1 + batch.reports * campaign.record_bytes // _BUCKET_BYTES
        aside = Path(work) / "aside.csv"
        waves, quarantined = _parts(store.taken(batch), campaign, buckets, Path(work), aside)
        if quarantined:
            with shelf.writing(f"quarantine-{batch.number:06d}.csv") as draft:
                shutil.copyfile(aside, draft)
        rows: list[int] = []
        size = max(1, min(_SHARD_ROWS, _SHARD_BYTES // campaign.record_bytes))
        made_by, panel = campaign.randomizer.to_json(), campaign.panel
        for wave, parts in sorted(waves.items()):
            more = None if panel is None else wave_metadata(panel, wave)
            for table in reordered(parts, buckets, size):
                with shelf.writing(shard_name(len(batch.shards) + len(rows))) as draft:
                    rows.append(write_reports(draft, [table], made_by, more))
    if rows:
        with shelf.writing(MANIFEST) as draft:
            draft.write_text(manifest_text([*batch.shards, *rows]), encoding="utf-8")
    store.finish_sealing(batch, rows)
    return Sealed(sum(rows), quarantined, sum(batch.shards) + sum(rows))


def _parts(
    pieces: Iterator[Records], campaign: Campaign, buckets: int, work: Path, aside: Path
) -> tuple[dict[int, list[Path]], int]:
    """By wave, rows of all records that can be, in buckets; and how many cannot, put aside."""
    parts: dict[int, list[Path]] = {}
    quarantined = 0
    with open(aside, "w", newline="", encoding="utf-8") as out:
        lines = csv.writer(out)
        lines.writerow(["reason", "report"])
        for wave, records in _by_wave(pieces, campaign):
            ids, payloads = records[:, ID_AT : ID_AT + ID_BYTES], records[:, PAYLOAD_AT:-CRC_BYTES]
            rows, against = campaign.payloads.rows(ids, payloads)
            if wave < 0:  # stored before the campaign had its panel
                against, rows = [_NO_WAVE] * len(records), rows.slice(0, 0)
            for row in np.flatnonzero([words is not None for words in against]).tolist():
                lines.writerow([against[row], base64.b64encode(records[row].tobytes()).decode()])
                quarantined += 1
            if len(rows):
                own = parts.setdefault(wave, [])
                own.append(work / f"part-{wave}-{len(own):06d}.arrow")
                write_scattered(own[-1], [rows], buckets)
    return parts, quarantined


def _by_wave(pieces: Iterator[Records], campaign: Campaign) -> Iterator[tuple[int, Records]]:
    """Records of one wave each; all of wave 0 where there is no panel."""
    for records in pieces:
        waves = campaign.waves_of(records)
        for wave in np.unique(waves).tolist():
            yield wave, records[waves == wave]
