r"""Releases of waves: the reports of a panel, each in the wave that its hour says.

A report carries its time, rounded down to a public step (an hour), so that the wave of each is known
where waves begin with such steps. In memory there is a release for each wave (`releases_by_wave`). A
collector's release has all of them: **every shard is of one wave**, which its Parquet metadata say with
the panel, under `privot.wave`; manifest, columns and order are those of any release (`open_waves`).

**Privacy review.** Post-processing of reports, by whoever received them: adjacency and Δ are those of a
report. What a shard says is a function of the hour that its reports came with, and coarser. Who knows
ids of people can compute who was due in a wave, so that a report in it is of one of N/w people and not
of N: how many they are is how well they hide, and a wave of one person's names them (what they report
stays ε-private). Two reports of one person have ids of their own, lie in random order in shards of their
waves, and are linked by nothing but their slot, which all of it share. No report names a person, and
nothing here looks for two of one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privot.device.report import Report
from privot.errors import PrivotError, printable
from privot.release.collecting.collect import Collected
from privot.release.collecting.payloads import from_reports
from privot.release.randomizer import Randomizer
from privot.release.reports.programs import TIME_STEP
from privot.release.reports.rows import is_release, shard_files
from privot.waves import Panel

_WAVE_KEY = b"privot.wave"


class WaveReleases(NamedTuple):
    """What came in each wave.

    Arguments:
        collected: By the number of the wave, for those in which something came.
        outside: How many reports were no reports, or of no wave of the panel.

    Examples:
        >>> WaveReleases(collected={}, outside=2).outside
        2
    """

    collected: dict[int, Collected]
    outside: int


def releases_by_wave(
    randomizer: Randomizer, panel: Panel, reports: Iterable[bytes | Report]
) -> WaveReleases:
    """One release a wave, of reports in any order; a report that is there several times counts once.

    Arguments:
        randomizer: Whose reports they are.
        panel: In which people reported.
        reports: As `privot.device` makes them, or `privot.device.read_batch` reads them.

    Raises:
        PrivotError: if waves do not begin with whole steps of time, or nothing can be counted.

    Examples:
        >>> from privot import Schema
        >>> from privot.device import Device
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=1.0)
        >>> panel = Panel("bits", window=1, start=0, length=3600, seed="public")
        >>> device = Device.from_json(randomizer.to_json())
        >>> sent = [device.report({"bit": True}, now=now) for now in (10, 20, 3700)]
        >>> found = releases_by_wave(randomizer, panel, sent).collected
        >>> {wave: len(each.release) for wave, each in found.items()}
        {0: 2, 1: 1}
    """
    require_whole_hours(panel)
    waves: dict[int, list[Report]] = {}
    outside = 0
    for data in reports:
        try:
            report = Report.from_bytes(data) if isinstance(data, bytes) else data
            waves.setdefault(panel.wave_at(report.time * TIME_STEP), []).append(report)
        except PrivotError:
            outside += 1
    if not waves:
        raise PrivotError(
            f"{outside:,} reports are of no wave of panel {panel.name!r}: check its start"
        )
    collected = {wave: from_reports(randomizer, waves[wave]) for wave in sorted(waves)}
    return WaveReleases(collected, outside)


def require_whole_hours(panel: Panel) -> None:
    """Refuse a panel of whose waves the hour of a report says nothing."""
    if panel.start % TIME_STEP or panel.length % TIME_STEP:
        raise PrivotError(
            f"panel {panel.name!r} has waves that begin within an hour, and reports say the hour: let "
            f"start and length be multiples of {TIME_STEP} seconds"
        )


def waves_of_hours(panel: Panel, hours: NDArray[np.integer]) -> NDArray[np.int64]:
    """The wave of each time, in steps of reports; −1 before the first and after the last."""
    waves = (hours.astype(np.int64) * TIME_STEP - panel.start) // panel.length
    after = np.inf if panel.waves is None else panel.waves
    return np.where((waves < 0) | (waves >= after), -1, waves)


def wave_metadata(panel: Panel, wave: int) -> dict[bytes, bytes]:
    """What a shard of one wave carries beside its randomizer."""
    fields = {"panel": panel.to_dict(), "wave": wave}
    return {_WAVE_KEY: json.dumps(fields, sort_keys=True).encode()}


class SealedWaves(NamedTuple):
    """What a collector's release has of each wave.

    Arguments:
        panel: In which people reported.
        shards: By the number of the wave, in order.
    """

    panel: Panel
    shards: dict[int, list[Path]]


def sealed_waves(path: Path) -> SealedWaves | None:
    """The waves of a release's shards; None of what was sealed without a panel.

    Raises:
        PrivotError: if shards are of several panels, or some of none.
    """
    if not path.is_dir() or not is_release(path):
        return None
    panels: set[str] = set()
    waves: dict[int, list[Path]] = {}
    for file in shard_files(path):
        try:
            told = (pq.read_schema(file).metadata or {}).get(_WAVE_KEY)
            fields = json.loads(told or b'{"panel": null, "wave": -1}')
            panels.add(json.dumps(fields["panel"], sort_keys=True))
            waves.setdefault(int(fields["wave"]), []).append(file)
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
            raise PrivotError(
                f"{printable(str(file))} cannot be read, or its wave: copy it again"
            ) from None
    if panels == {"null"}:
        return None
    if len(panels) > 1:
        raise PrivotError(
            f"release {printable(str(path))} has shards of several panels, or of none: give releases "
            "of its waves, each as a file"
        )
    return SealedWaves(Panel.from_json(panels.pop()), dict(sorted(waves.items())))
