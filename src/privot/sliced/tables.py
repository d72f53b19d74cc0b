r"""Tables as records: numbers in the unit interval, codes as one-hots, all from the public schema.

A numeric or datetime column becomes one coordinate in [0, 1] between its public bounds (a vector as
many; its domain must be a box), any other column the one-hot of its public alphabet. With c scalars and
alphabets, a row has norm at most √c: that, and nothing computed from data, scales degree 1 into the
unit ball. Degree 2, the default, squares the lifted row: pairwise relations of all columns are then
means. Every coordinate is non-negative, which Δ rests on: values that come from elsewhere than `encode`
are cut to [0, 1], row by row. Nullable numbers are taken as codes, missing being one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.release import as_table
from privot.release.reports.rows import require_raw
from privot.schema import Box, Schema, from_unit
from privot.sliced.records import lift, square


@dataclass(frozen=True)
class TableRecords:
    """Rows of a table with a public schema.

    Arguments:
        schema: What a row may be.
        degree: 1 for means of the coordinates, 2 for those of all pairs as well.
        num_labels: Always 1: a label is a column like the others.
    """

    schema: Schema
    degree: int = 2
    num_labels: int = 1
    non_negative: bool = True

    def __post_init__(self) -> None:
        if self.degree not in (1, 2) or self.num_labels != 1 or not self.non_negative:
            raise PrivotError(f"degree {self.degree}: give 1 or 2, and only the schema besides")
        _ = self.widths  # building it checks the domains

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
        coded = sum(self._is_coded(name) for name in self.widths)
        points = sum(w for name, w in self.widths.items() if not self._is_coded(name))
        return float(np.sqrt(coded + points))

    @property
    def unit(self) -> str:
        """Whom a row belongs to: the schema says it."""
        return self.schema.unit

    @property
    def num_coordinates(self) -> int:
        """Number of coordinates of a row."""
        return sum(self.widths.values())

    @property
    def width(self) -> int:
        """See `RecordMap`."""
        longer = self.num_coordinates + 1
        return self.num_coordinates if self.degree == 1 else longer * (longer + 1) // 2

    def encode(self, data: Any) -> Tensor:
        """Rows as coordinates (n, p) in [0, 1]: numbers beyond their bounds are moved to them.

        Raises:
            PrivotError: for what the schema does not allow, or a release.
        """
        table = require_raw(as_table(data))
        self.schema.check_table(table)
        parts = []
        for name, width in self.widths.items():
            if self._is_coded(name):
                codes = self.schema.coded[name].encode_codes(name, table)
                parts.append(np.eye(width)[codes])
            else:
                units = self.schema.point_column(name).encode_units(name, table)
                parts.append(np.clip((units + 1) / 2, 0.0, 1.0))
        return torch.from_numpy(np.concatenate(parts, axis=1))

    def prepare(self, values: Tensor) -> Tensor:
        """Coordinates (n, p), cut to [0, 1]: whoever gives others keeps the Δ that was paid for."""
        if tuple(values.shape[1:]) != (self.num_coordinates,):
            raise PrivotError(
                f"rows have shape {tuple(values.shape[1:])}: give ({self.num_coordinates},), as "
                "encode(table) does"
            )
        return values.clamp(0.0, 1.0)  # NaN stays NaN, and is refused by the mechanism

    def features(self, prepared: Tensor) -> Tensor:
        """See `RecordMap`."""
        scaled = prepared / self._scale
        return scaled if self.degree == 1 else square(lift(scaled, 1.0))

    def activate(self, raw: Tensor) -> Tensor:
        """Coordinates of a generator's outputs (n, p): a sigmoid a number, a softmax an alphabet."""
        parts = raw.split(list(self.widths.values()), dim=1)
        return torch.cat(
            [
                part.softmax(dim=1) if self._is_coded(name) else part.sigmoid()
                for name, part in zip(self.widths, parts, strict=True)
            ],
            dim=1,
        )

    def decode(self, coordinates: Tensor, rng: torch.Generator) -> pa.Table:
        """A table of coordinates; codes are drawn from their probabilities."""
        columns: dict[str, pa.Array] = {}
        within = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        parts = coordinates.split(list(self.widths.values()), dim=1)
        for name, part in zip(self.widths, parts, strict=True):
            if self._is_coded(name):
                drawn = torch.multinomial(part, 1, replacement=True, generator=rng)
                codes = drawn[:, 0].numpy()
                columns |= self.schema.coded[name].decode_codes(name, codes, within)
            else:
                points = from_unit(self._box(name), part.double().numpy() * 2 - 1)
                columns |= self.schema.point_column(name).decode_points(name, points)
        return pa.table(columns).select(list(self.schema.table_columns))

    def _is_coded(self, name: str) -> bool:
        column = self.schema.columns[name]
        return column.alphabet is not None and (column.nullable or column.domain is None)

    def _box(self, name: str) -> Box:
        domain = self.schema.point_column(name).domain
        if not isinstance(domain, Box) or self.schema.columns[name].nullable:
            raise PrivotError(
                f"column {name!r} is no box of bounds, or may be missing as a whole: "
                "declare bounds for each of its coordinates"
            )
        return domain

    def to_dict(self) -> dict[str, Any]:
        """See `RecordMap`."""
        return {"kind": "table", "schema": self.schema.to_dict(), "degree": self.degree}
