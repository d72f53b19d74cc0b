"""Split reports: one column, by a mechanism of its own, with a share of the budget.

Raw values become projected unit coordinates or codes on the way in; reports become noisy unit
coordinates or the codes that they support, with a mask of who reported them, on the way out. How a
release's table holds them is their layout (`privot.release.reports.layouts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.mechanisms import Mechanism, random_words
from privot.mechanisms.additive.nullable_noise import mark_missing
from privot.privacy import ApproximateDP, PureDP
from privot.release.reports.layouts import Labels, Layout, Mask, Numbers, Pixels, Sets
from privot.schema import CodedColumn, Column, PointColumn


@dataclass(frozen=True)
class SplitReport:
    """One column's part of a report.

    Arguments:
        name: What the schema calls the column.
        column: What its values may be.
        mechanism: How they are reported.
    """

    name: str
    column: Column
    mechanism: Mechanism

    @cached_property
    def layout(self) -> Layout:
        """How a release's table holds it."""
        if self.mechanism.takes_codes:
            layout = Labels if self.mechanism.names_code else Sets
            return layout(self.name, cast("CodedColumn", self.column))
        column = cast("PointColumn", self.column)
        if column.image_shape is not None:
            return Pixels(self.name, column)
        return Numbers(self.name, column, self.mechanism.flagged)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Names and types of the columns that a release holds it in."""
        return self.layout.types

    def encode(self, table: pa.Table) -> NDArray[Any]:
        """Raw values as what the mechanism takes: codes (n,), or projected unit coordinates (n, d)."""
        if self.mechanism.takes_codes:
            return cast("CodedColumn", self.column).encode_codes(self.name, table)
        column = cast("PointColumn", self.column)
        units = column.encode_units(self.name, table)
        return mark_missing(units, column.domain) if self.mechanism.flagged else units

    def privatize(self, records: NDArray[Any], reported: Mask) -> dict[str, pa.Array]:
        """Table columns of fresh reports of those who report it (n,); null elsewhere."""
        return self.layout.privatize(self.mechanism, records, reported)

    def read(self, table: pa.Table) -> tuple[NDArray[Any], Mask]:
        """Its reports, on the grid that they were drawn on, and of whom; see `Release.reports`."""
        values, reported = self.layout.read(table)
        return values if self.layout.exact else self.mechanism.to_grid(values), reported

    def reported(self, table: pa.Table) -> Mask:
        """Who reported it (n,), all of its columns."""
        return np.asarray(np.logical_and.reduce(self._held(table)))

    def faults(self, table: pa.Table) -> Iterator[tuple[Mask, str]]:
        """Which rows (n,) no device sends, and why."""
        held, reported = self._held(table), self.reported(table)
        yield np.logical_or.reduce(held) & ~reported, f"column {self.name!r} is half reported"
        legible = self.layout.legible(table)
        with np.errstate(all="ignore"):  # of numbers that are not finite, or absurd
            values, read = self.read(legible)
            possible = read & self.mechanism.possible(values, self.column.domain)
            possible &= self.layout.intact(legible, self.mechanism.to_grid(values))
        yield (
            reported & ~possible,
            f"column {self.name!r} holds what the randomizer does not report",
        )

    def _held(self, table: pa.Table) -> list[Mask]:
        return [np.asarray(pc.is_valid(table.column(part)).to_numpy()) for part in self.types]

    def guarantee(self, delta: float) -> PureDP | ApproximateDP:
        """That of its mechanism, on the column's domain."""
        return self.mechanism.guarantee(self.column.domain, delta)

    def expected(self) -> dict[str, Any]:
        """What to expect of it, before anyone reports; see `Randomizer.expected_noise`."""
        told = self.mechanism.expected(self.column)
        return {"column": self.name, "mechanism": self.mechanism.kind} | told


def privatize_columns(
    reports: Mapping[str, SplitReport], num_reported: int, encoded: Mapping[str, NDArray[Any]]
) -> dict[str, pa.Array]:
    """Table columns of `num_reported` of these reports a record, drawn by fresh coins."""
    num_rows = max((len(values) for values in encoded.values()), default=0)
    chosen = draw_columns(num_rows, len(reports), num_reported)
    columns: dict[str, pa.Array] = {}
    for index, (name, report) in enumerate(reports.items()):
        # What is not reported is never randomized: nothing of it is left in memory under a null.
        columns |= report.privatize(encoded[name], chosen[:, index])
    return columns


def draw_columns(num_rows: int, total: int, chosen: int) -> Mask:
    """A uniformly random subset of `chosen` of `total` columns for each record, as a mask.

    Fresh coins, which know nothing of the record. Ranks of independent
    64-bit words are a uniform permutation but for ties (probability < 2^−50 a record), which are
    broken by position.
    """
    if chosen == total:
        return np.ones((num_rows, total), dtype=bool)
    words = random_words(num_rows * total).reshape(num_rows, total)
    return np.asarray(np.argsort(np.argsort(words, axis=1), axis=1) < chosen)
