r"""Releases of waves: the reports of a panel, each in the wave that its hour says.

A report carries its time, rounded down to a public step (an hour), so that the wave of each is known
where waves begin with such steps. A release has no times: there is one for each wave.

**Privacy review.** Post-processing of reports, by whoever received them. What it shows is what they
received, and no more: which reports came in which wave. No report names a person, and nothing here
looks for two of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from privot.device.report import Report
from privot.errors import PrivotError
from privot.release.collecting.collect import Collected
from privot.release.collecting.payloads import from_reports
from privot.release.randomizer import Randomizer
from privot.release.reports.programs import TIME_STEP
from privot.waves import Panel


class WaveReleases(NamedTuple):
    """What came in each wave.

    Arguments:
        collected: By the number of the wave, for those in which something came.
        outside: How many reports were no reports, or of no wave of the panel.
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
    """
    if panel.start % TIME_STEP or panel.length % TIME_STEP:
        raise PrivotError(
            f"panel {panel.name!r} has waves that begin within an hour, and reports say the hour: let "
            f"start and length be multiples of {TIME_STEP} seconds"
        )
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
