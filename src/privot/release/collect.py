"""Many devices' releases as one: what a curator does before learning anything."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from privot.errors import PrivotError
from privot.release.randomizer import Release
from privot.release.report_ids import in_order
from privot.release.report_table import ReportTable


def collect(releases: Iterable[Release]) -> Release:
    """All reports of some releases that the same randomizer made, in random order.

    Each person's guarantee is that of their own report: reports of different people do not compose.
    (A person who is in twice has reported twice, and has spent two budgets; nobody can tell from here.)

    Raises:
        PrivotError: if there are none, or their randomizers differ.
    """
    parts = list(releases)
    if not parts:
        raise PrivotError("releases are none: give at least one")
    first = parts[0].randomizer
    for number, part in enumerate(parts[1:], start=2):
        if part.randomizer.to_json() != first.to_json():
            raise PrivotError(
                f"release {number} was made by another randomizer than the first: "
                "collect reports of one randomizer, and fit others apart"
            )
    reports = pa.concat_tables([part.table for part in parts])
    return Release(ReportTable.of(in_order(reports)), first)
