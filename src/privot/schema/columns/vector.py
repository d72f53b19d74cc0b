"""Vectors: several numbers under one domain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import model_validator

from privot.errors import PrivotError
from privot.schema.columns.alphabet import Codes
from privot.schema.columns.cells import DEFAULT_BINS, Cells
from privot.schema.columns.column import Bounds, CodedColumn, PointColumn
from privot.schema.columns.raw_values import Problem, read_numbers
from privot.schema.domains.balls import L1Ball, L2Ball
from privot.schema.domains.domain import Array, Box, Domain, from_unit
from privot.schema.domains.polyline import Polyline

_FAR = 1000.0  # times as far out as the domain, of made-up values


class VectorColumn(PointColumn, CodedColumn):
    """Several numbers under one domain: a box, an ℓ1 or ℓ2 ball, or a known support.

    Exactly one of `bounds` (a pair a coordinate), `radius` (with `norm` 1 or 2, and `non_negative`
    where it is known) and `support` (corners of a public polyline) declares the domain. With
    `nullable`, the vector may be missing: it is, if any of its coordinates is.

    Beside other columns of a table, a vector of two or three coordinates is reported with them, as
    one of the cells (`privot.schema.columns.cells`) that `bins` along each axis make. One of more
    coordinates, or on a polyline, has no codes.

    Examples:
        >>> VectorColumn(kind="vector", columns=("x", "y"), radius=1.0).domain.diameter(2)
        2.0
    """

    kind: Literal["vector"]
    columns: tuple[str, ...]
    bounds: tuple[Bounds, ...] | None = None
    radius: float | None = None
    norm: Literal[1, 2] = 2
    non_negative: bool = False
    support: tuple[tuple[float, ...], ...] | None = None
    bins: int | None = None

    holds_numbers: ClassVar[bool] = True
    in_rules = "number"

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

    @cached_property
    def alphabet(self) -> Cells | None:  # type: ignore[override]  # where there are none
        """Cells, and the missing vector."""
        if self.support is not None or len(self.columns) not in DEFAULT_BINS:
            if self.bins is not None:
                raise PrivotError(
                    f"bins {self.bins} make no cells of {len(self.columns)} coordinates, or along a "
                    "support: leave them out, or declare a vector of 2 or 3 coordinates otherwise"
                )
            return None
        return Cells(self.domain, self.bins, self.nullable)

    @property
    def declares_codes(self) -> bool:
        """Whether bins are declared."""
        return self.bins is not None

    @property
    def _cells(self) -> Cells:
        assert self.alphabet is not None  # as a column of the schema's `coded` has
        return self.alphabet

    def code_program(self, name: str, codings: Sequence[Any]) -> dict[str, Any] | None:
        """See `Column`."""
        (cells,), domain = codings, self.domain.program
        if domain is None:
            return None
        how = {"take": "cell", "columns": list(self.columns), "domain": domain}
        return how | {"side": cells.side, "codes": cells.codes, "missing": cells.missing}

    def table_columns(self, name: str) -> tuple[str, ...]:
        """Names of the table columns that hold its coordinates."""
        return self.columns

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        """Coordinates (n, d), rows of NaN where any is missing."""
        parts = [read_numbers(table.column(part), part, self.nullable) for part in self.columns]
        points = np.stack([numbers for numbers, _ in parts])  # columns stay together, as in a table
        points[:, np.isnan(points).any(axis=0)] = np.nan
        return points.T, [problem for _, problems in parts for problem in problems]

    def _write_points(self, name: str, points: Array) -> dict[str, pa.Array]:
        absent = np.isnan(points)
        return {p: pa.array(points[:, j], mask=absent[:, j]) for j, p in enumerate(self.columns)}

    def make_up_points(self, name: str, units: Array) -> dict[str, pa.Array]:
        """See `PointColumn`."""
        return self._write_points(name, from_unit(self.domain, units))

    def encode_codes(self, name: str, table: pa.Table) -> Codes:
        """See `CodedColumn`; what lies beyond the domain is in the cell of its projection."""
        return self._cells.encode(self.encode_units(name, table))

    def decode_codes(
        self, name: str, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`."""
        points = from_unit(self.domain, self._cells.decode(codes, rng))
        return self.decode_points(name, points)

    def make_up_codes(
        self, name: str, coding: Any, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`: half of those on the domain's edge lie far beyond it."""
        units = self._cells.decode(codes, rng)
        far = np.where(rng.random((len(codes), 1)) < 0.5, _FAR, 1.0) * units
        again = self.domain.unit.project(np.where(np.isnan(far), 0.0, far))
        same = self._cells.encode(np.where(np.isnan(far), far, again)) == codes
        return self.make_up_points(name, np.where(same[:, None], far, units))

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain, self.alphabet  # building them checks what declares them
        return self
