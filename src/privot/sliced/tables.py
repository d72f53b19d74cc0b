r"""Tables as records: numbers in the unit interval, codes as one-hots, all from the public schema.

A column of numbers becomes one coordinate in [0, 1] between its public bounds (a vector as many; its
domain must be a box), any other column the one-hot of its public alphabet. With c scalars and
alphabets, a row has norm at most √c: that, and nothing computed from data, scales degree 1 into the
unit ball. Degree 2, the default, squares the lifted row: pairwise relations of all columns are then
means. Every coordinate is non-negative, which Δ rests on: values that come from elsewhere than `encode`
are cut to [0, 1], row by row. Nullable numbers are taken as codes, missing being one of them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.schema import Box, Schema, from_unit
from privot.sliced.records import Records, lift, square, width_of


@dataclass(frozen=True)
class TableRecords(Records):
    """Rows of a table with a public schema; a label is a column like the others.

    Arguments:
        schema: What a row may be.
        degree: 1 for means of the coordinates, 2 for those of all pairs as well.
    """

    schema: Schema
    _: KW_ONLY
    degree: int = 2

    def __post_init__(self) -> None:
        _ = self.width  # building it checks the domains

    @property
    def non_negative(self) -> bool:
        """See `RecordMap`."""
        return True

    @cached_property
    def widths(self) -> dict[str, int]:
        """Number of coordinates by column."""
        return {
            name: self.schema.coded[name].alphabet.size
            if self._is_coded(name)
            else self._box(name).dimension
            for name in self.schema.columns
        }

    @cached_property
    def _scale(self) -> float:
        ones = [1 if self._is_coded(name) else width for name, width in self.widths.items()]
        return float(np.sqrt(sum(ones)))

    @property
    def array_shape(self) -> tuple[int, ...]:
        """See `Records`: the coordinates of a row."""
        return (sum(self.widths.values()),)

    @property
    def width(self) -> int:
        """See `RecordMap`."""
        return width_of(self.outputs, self.degree)

    def encode(self, table: pa.Table) -> tuple[Tensor, None]:
        """See `Records`: coordinates (n, p) in [0, 1]; numbers beyond their bounds are moved to them."""
        parts = []
        for name, width in self.widths.items():
            if self._is_coded(name):
                parts.append(np.eye(width)[self.schema.coded[name].encode_codes(name, table)])
            else:
                units = self.schema.point_column(name).encode_units(name, table)
                parts.append(np.clip((units + 1) / 2, 0.0, 1.0))
        return torch.from_numpy(np.concatenate(parts, axis=1)), None

    def prepare(self, values: Tensor) -> Tensor:
        """Coordinates (n, p), cut to [0, 1]: whoever gives others keeps the Δ that was paid for."""
        if tuple(values.shape[1:]) != (self.outputs,):
            raise PrivotError(
                f"rows have shape {tuple(values.shape[1:])}: give ({self.outputs},), as "
                "encode(table) does"
            )
        return values.clamp(0.0, 1.0)  # NaN stays NaN, and is refused by the mechanism

    def features(self, prepared: Tensor) -> Tensor:
        """See `RecordMap`."""
        scaled = prepared / self._scale
        return scaled if self.degree == 1 else square(lift(scaled, 1.0))

    def activate(self, outputs: Tensor) -> Tensor:
        """See `Records`: a sigmoid a number, a softmax an alphabet."""
        parts = zip(self.widths, outputs.split(list(self.widths.values()), dim=1), strict=True)
        values = [x.softmax(dim=1) if self._is_coded(name) else x.sigmoid() for name, x in parts]
        return torch.cat(values, dim=1)

    def decode(self, values: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        """See `Records`."""
        columns: dict[str, pa.Array] = {}
        within = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        parts = values.split(list(self.widths.values()), dim=1)
        for name, part in zip(self.widths, parts, strict=True):
            if self._is_coded(name):
                codes = _drawn(part, rng)
                columns |= self.schema.coded[name].decode_codes(name, codes, within)
            else:
                points = from_unit(self._box(name), part.double().numpy() * 2 - 1)
                columns |= self.schema.point_column(name).decode_points(name, points)
        return pa.table(columns).select(list(self.schema.table_columns))

    def _is_coded(self, name: str) -> bool:
        column = self.schema.columns[name]
        return column.domain is None or (column.nullable and column.is_number)

    def _box(self, name: str) -> Box:
        domain = self.schema.point_column(name).domain
        if not isinstance(domain, Box) or self.schema.columns[name].nullable:
            raise PrivotError(
                f"column {name!r} is no box of bounds, or may be missing as a whole: "
                "declare bounds for each of its coordinates"
            )
        return domain

    def to_dict(self) -> dict[str, Any]:
        """See `Records`."""
        return {"schema": self.schema.to_dict(), "degree": self.degree}


def _drawn(shares: Tensor, rng: torch.Generator) -> np.ndarray:
    """One code (n,) for each row of probabilities (n, k)."""
    if not len(shares):
        return np.zeros(0, np.int64)
    return torch.multinomial(shares, 1, replacement=True, generator=rng)[:, 0].numpy()
