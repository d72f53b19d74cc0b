"""Waves of collected reports: the wave of a report by its hour, and shards of one wave each.

A report contains its time, rounded down to an hour, which determines its wave if all waves of the panel
begin at full hours. A collector's release contains all waves, and **each of its shards has the reports
of one wave**. The Parquet metadata of a shard (key `privot.wave`) contain the panel and the wave's
number. Otherwise it is an ordinary release.

**Privacy review.** Post-processing of reports, by whoever received them: adjacency and Δ are those of a
report. A release stores no times; the wave of a shard is a function of the hour of its reports, and
coarser. Whoever knows the ids of persons can compute who was due in a wave. In a panel of N persons,
each of whom is due once in w waves, a report of the wave comes from one of about N/w persons; if only
one person is due, the wave identifies them (the report is still ε-private). Two reports of one person
have different ids, are in random order in the shards of their waves, and are linked only by the number
of the wave mod w, which many persons share. No report names a person, and no code here searches for two
reports of one person.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privot.core.errors import PrivotError, printable
from privot.randomizer.randomizer import TIME_STEP
from privot.randomizer.reports.rows import is_release, shard_files
from privot.waves.panel import WAVE_KEY, Panel


def require_whole_hours(panel: Panel) -> None:
    """Raise PrivotError unless all waves of a panel begin at full hours."""
    if panel.start % TIME_STEP or panel.length % TIME_STEP:
        raise PrivotError(
            f"panel {panel.name!r} has waves that begin within an hour, and reports state the hour: let "
            f"start and length be multiples of {TIME_STEP} seconds"
        )


def waves_of_hours(panel: Panel, hours: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the wave (n,) of each hour since 1970 (n,); −1 before the first wave and after the last."""
    waves = (hours.astype(np.int64) * TIME_STEP - panel.start) // panel.length
    after = np.inf if panel.waves is None else panel.waves
    return np.where((waves < 0) | (waves >= after), -1, waves)


def wave_metadata(panel: Panel, wave: int) -> dict[bytes, bytes]:
    """Return the Parquet metadata that name the panel and the wave of a shard."""
    fields = {"panel": panel.to_dict(), "wave": wave}
    return {WAVE_KEY: json.dumps(fields, sort_keys=True).encode()}


class SealedWaves(NamedTuple):
    """Shards of a collector's release, by wave."""

    panel: Panel  # the panel in which people reported
    shards: dict[int, list[Path]]  # paths of the shards of each wave, by the wave's number


def sealed_waves(path: Path) -> SealedWaves | None:
    """Return the waves of a release's shards; None if it was sealed without a panel.

    Raises:
        PrivotError: if a shard cannot be read, or shards are of several panels, or only some of one.
    """
    if not path.is_dir() or not is_release(path):
        return None
    panels: set[str] = set()
    waves: dict[int, list[Path]] = {}
    for file in shard_files(path):
        try:
            stored = (pq.read_schema(file).metadata or {}).get(WAVE_KEY)
            fields = json.loads(stored or b'{"panel": null, "wave": -1}')
            panels.add(json.dumps(fields["panel"], sort_keys=True))
            waves.setdefault(int(fields["wave"]), []).append(file)
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
            raise PrivotError(f"{printable(str(file))} cannot be read: copy it again") from None
    if panels == {"null"}:
        return None
    if len(panels) > 1:
        raise PrivotError(
            f"release {printable(str(path))} has shards of several panels, or of none: give releases "
            "of its waves, each as a file"
        )
    return SealedWaves(Panel.from_json(panels.pop()), dict(sorted(waves.items())))
