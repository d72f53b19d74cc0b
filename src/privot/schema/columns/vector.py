"""Vectors: several numbers under one domain."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import model_validator

from privot.errors import PrivotError
from privot.schema.columns.column import Bounds, PointColumn
from privot.schema.columns.raw_values import Problem, read_numbers
from privot.schema.domains.balls import L1Ball, L2Ball
from privot.schema.domains.domain import Array, Box, Domain, from_unit
from privot.schema.domains.polyline import Polyline


class VectorColumn(PointColumn):
    """Several numbers under one domain: a box, an ℓ1 or ℓ2 ball, or a known support.

    Exactly one of `bounds` (a pair a coordinate), `radius` (with `norm` 1 or 2, and `non_negative`
    where it is known) and `support` (corners of a public polyline) declares the domain. With
    `nullable`, the vector may be missing: it is, if any of its coordinates is.
    """

    kind: Literal["vector"]
    columns: tuple[str, ...]
    bounds: tuple[Bounds, ...] | None = None
    radius: float | None = None
    norm: Literal[1, 2] = 2
    non_negative: bool = False
    support: tuple[tuple[float, ...], ...] | None = None

    holds_numbers: ClassVar[bool] = True

    @cached_property
    def domain(self) -> Domain:
        """The declared set."""
        declared = [
            field for field in ("bounds", "radius", "support") if getattr(self, field) is not None
        ]
        if len(declared) != 1:
            raise PrivotError(
                f"bounds are missing or not alone (declared: {', '.join(declared) or 'nothing'}): "
                "declare exactly one of bounds, radius, support in the schema "
                "(public knowledge; never computed from the data)"
            )
        domain: Domain
        if self.bounds is not None:
            domain = Box(tuple(b[0] for b in self.bounds), tuple(b[1] for b in self.bounds))
        elif self.radius is not None:
            ball = L1Ball if self.norm == 1 else L2Ball
            domain = ball(len(self.columns), self.radius, self.non_negative)
        else:
            assert self.support is not None
            domain = Polyline(self.support)
        if domain.dimension != len(self.columns):
            raise PrivotError(
                f"{declared[0]} has {domain.dimension} coordinates for {len(self.columns)} columns "
                f"{list(self.columns)}: give one a column"
            )
        return domain

    def table_columns(self, name: str) -> tuple[str, ...]:
        """Names of the table columns that hold its coordinates."""
        return self.columns

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        """Coordinates (n, d), rows of NaN where any is missing."""
        parts = [read_numbers(table.column(part), part, self.nullable) for part in self.columns]
        points = np.stack([numbers for numbers, _ in parts], axis=1)
        points[np.isnan(points).any(axis=1)] = np.nan
        return points, [problem for _, problems in parts for problem in problems]

    def _write_points(self, name: str, points: Array) -> dict[str, pa.Array]:
        absent = np.isnan(points)
        return {p: pa.array(points[:, j], mask=absent[:, j]) for j, p in enumerate(self.columns)}

    def make_up_points(self, name: str, units: Array) -> dict[str, pa.Array]:
        """See `PointColumn`."""
        return self._write_points(name, from_unit(self.domain, units))

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain  # building it checks what declares it
        return self
