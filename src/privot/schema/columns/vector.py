"""Vector columns: several numbers in one domain, reported as a point or as a cell of a grid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import model_validator

from privot.core.errors import MOST_CODES, PrivotError, require_count
from privot.schema.columns.alphabet import MISSING, Alphabet, Codes
from privot.schema.columns.column import BoundedColumn, Bounds, TableColumns
from privot.schema.columns.raw_values import Problem, read_numbers
from privot.schema.domains import Array, Box, Domain, L1Ball, L2Ball, Polyline, from_unit
from privot.schema.sampling import draw_within, end_densities

# Default number of bins along each axis, by dimension: about 200 cells in all.
DEFAULT_BINS = {2: 16, 3: 6}
_TRIES = 64  # largest number of draws of a point until one is in the domain
_ROUNDING = 1e-9
# A cell that only touches the domain has no code: cells are shrunk by the share _SLIVER of their side,
# and points in a cell without code move toward 0 by the larger share _PULL.
_SLIVER, _PULL = 1e-6, 1e-5
_FAR = 1000.0  # factor of test values, so that they lie outside the domain


@dataclass(frozen=True)
class Cells(Alphabet):
    """Alphabet of the cells of a domain of two or three coordinates.

    The box around the unit domain, $[−1, 1]^d$, is divided into $b^d$ equal cells. The k cells that
    intersect the domain are numbered in C order; a nullable vector has one more code, the last. Bins are
    declared or follow from d; they are never computed from data. Vectors are encoded on the device,
    which does not store them. A decoded vector is drawn from its cell's intersection with the domain,
    by a density that is continuous across cells (`privot.schema.sampling`).

    Examples:
        >>> from privot.schema import Box
        >>> cells = Cells(Box((0.0, 0.0), (1.0, 3.0)), bins=2)
        >>> cells.labels
        ('[0, 0.5] x [0, 1.5]', '[0, 0.5] x [1.5, 3]', '[0.5, 1] x [0, 1.5]', '[0.5, 1] x [1.5, 3]')
        >>> cells.encode(np.array([[-1.0, 1.0], [0.2, 0.2]])).tolist()
        [1, 3]
    """

    domain: Domain  # domain of the vectors, in the column's units
    # Number b of bins along each axis; by default 16 for d = 2 and 6 for d = 3.
    bins: int | None = None
    nullable: bool = False  # whether a vector may be missing

    def __post_init__(self) -> None:
        d = self.domain.dimension
        most = math.floor(MOST_CODES ** (1 / d) + _ROUNDING)
        if self.bins is not None:
            require_count("bins", self.bins, most, f"along each of {d} coordinates", least=2)

    @property
    def side(self) -> int:
        """Number b of bins along each axis."""
        return self.bins or DEFAULT_BINS[self.domain.dimension]

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Bin along each axis (k, d), from 0 to b − 1, of every cell that intersects the domain."""
        d, unit = self.domain.dimension, self.domain.unit
        places = np.indices((self.side,) * d).reshape(d, -1).T
        # A cell intersects a box, a ball or its non-negative part if the cell's point nearest to 0 does.
        nearest = self._nearest(self._corners(places))
        distance = np.abs(unit.project(nearest) - nearest).max(axis=1)
        return np.asarray(places[distance <= _ROUNDING])

    def _nearest(self, low: Array) -> Array:
        """Return the point nearest to 0 (n, d) of each cell, given its lower corner `low` (n, d)."""
        width = 2 / self.side
        return np.clip(0.0, low + _SLIVER * width, low + (1 - _SLIVER) * width)

    @cached_property
    def _codes(self) -> NDArray[np.int64]:
        """Code (b^d,) of every cell of the box in C order; −1 outside the domain."""
        codes = np.full(self.side**self.domain.dimension, -1)
        codes[self._flat_index(self._places)] = np.arange(len(self._places))
        return codes

    def _flat_index(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index (n,) in C order of the cells at places (n, d)."""
        return np.asarray(places @ self.side ** np.arange(places.shape[1])[::-1])

    def _corners(self, places: NDArray[np.int64]) -> Array:
        """Return the lower corners (n, d) of the cells at places (n, d), in unit coordinates."""
        return np.asarray(places * (2 / self.side) - 1, np.float64)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels of all codes: the intervals of each cell, in the column's units."""
        corners = self._corners(self._places)
        lows = from_unit(self.domain, corners)
        highs = from_unit(self.domain, corners + 2 / self.side)
        intervals = np.stack([lows, highs], axis=2)  # (k, d, 2)
        cells = [" x ".join(f"[{low:.6g}, {high:.6g}]" for low, high in cell) for cell in intervals]
        return tuple(cells) + (MISSING,) * self.nullable

    @property
    def codes(self) -> list[int] | None:
        """Code of every cell of the box in C order, −1 if it has none; None if all have codes."""
        return None if len(self._places) == len(self._codes) else self._codes.tolist()

    @property
    def size(self) -> int:
        return len(self._places) + self.nullable

    def encode(self, units: Array) -> Codes:
        """Return the codes of points (n, d) of the domain in unit coordinates; rows of NaN are missing.

        Raises:
            PrivotError: for a missing vector of a column that is not nullable.
        """
        absent = np.asarray(np.isnan(units).any(axis=1))
        if absent.any() and not self.nullable:
            raise PrivotError("a vector is missing in a column that is not nullable")
        inside = np.where(absent[:, None], 0.0, units)
        codes = self._code(inside)
        on_edge = np.flatnonzero(codes < 0)
        codes[on_edge] = self._code(inside[on_edge] * (1 - _PULL))
        return np.where(absent, self.size - 1, codes)

    def _code(self, units: Array) -> Codes:
        """Return the codes (n,) of the cells of points (n, d); −1 for a cell without code."""
        places = np.floor((units + 1) * (self.side / 2)).astype(np.int64)
        return self._codes[self._flat_index(places.clip(0, self.side - 1))]

    def decode(self, codes: Codes, rng: Generator) -> Array:
        """Draw points (n, d), in unit coordinates, within the cells of codes (n,); NaN where missing."""
        absent = np.asarray(codes >= len(self._places))
        places = self._places[np.where(absent, 0, codes)]
        exists = (self._codes >= 0).reshape((self.side,) * self.domain.dimension)
        ends = end_densities(places[~absent], self.side, exists)
        unit, low = self.domain.unit, self._corners(places)
        points, pending = low.copy(), np.flatnonzero(~absent)
        index_in_ends = np.cumsum(~absent) - 1
        for _ in range(_TRIES):
            positions = draw_within(ends[:, index_in_ends[pending]], rng)
            points[pending] = low[pending] + positions * (2 / self.side)
            moved = np.abs(unit.project(points[pending]) - points[pending]).max(axis=1, initial=0.0)
            pending = pending[moved > _ROUNDING]
        points[pending] = self._nearest(low[pending])  # of cells with a tiny intersection
        points = unit.project(points)
        points[absent] = np.nan
        return points


class VectorColumn(BoundedColumn):
    """Column of several numbers in one domain: a box, an ℓ1 or ℓ2 ball, or a known support.

    Exactly one of `bounds`, `radius` and `support` declares the domain. In a joint report with other
    columns, a vector of two or three coordinates is reported as a cell of a grid (`Cells`). A vector of
    more coordinates, or on a polyline, has no codes.

    Arguments:
        columns: Names of the table columns of the d coordinates.
        bounds: Smallest and largest value of each coordinate.
        radius: Radius of a ball around 0.
        norm: Norm of the ball, 1 or 2.
        non_negative: Whether the domain is the part of the ball without negative coordinates.
        support: Corners of a public polyline.
        bins: Number of bins along each axis of the grid.
        nullable: Whether a vector may be missing; it is missing if any coordinate is.
        out_of_bounds: See `BoundedColumn`.

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
        """Declared domain."""
        fields = ("bounds", "radius", "support")
        declared = [field for field in fields if getattr(self, field) is not None]
        if len(declared) != 1:
            raise PrivotError(
                f"bounds are missing or not alone (declared: {', '.join(declared) or 'nothing'}): "
                "declare exactly one of bounds, radius, support in the schema "
                "(public knowledge; never computed from the data)"
            )
        domain: Domain
        if self.bounds is not None:
            lower, upper = (tuple(pair[end] for pair in self.bounds) for end in (0, 1))
            domain = Box(lower, upper)
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
    def alphabet(self) -> Cells | None:  # type: ignore[override]  # some have no codes
        """Cells, and the missing vector; None if it cannot be reported as a code."""
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
        """The alphabet, of a column that has one."""
        assert self.alphabet is not None
        return self.alphabet

    def code_program(self, name: str, codings: Sequence[Any]) -> dict[str, Any] | None:
        cells, domain = self._cells, self.domain.program
        if domain is None:
            return None
        encoding: dict[str, Any] = {"take": "cell", "columns": list(self.columns), "domain": domain}
        encoding |= {"side": cells.side, "codes": cells.codes, "missing": cells.missing}
        return encoding | self.clip_program

    def limits(self, axis: int) -> str:
        if self.bounds is not None:
            return "{:g} to {:g}".format(*self.bounds[axis])
        return "support" if self.radius is None else f"radius {self.radius:g}"

    def table_columns(self, name: str) -> tuple[str, ...]:
        return self.columns

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        """Return (the coordinates (n, d), rows of NaN where any is missing; all problems)."""
        parts = [read_numbers(table.column(part), part, self.nullable) for part in self.columns]
        points = np.stack([numbers for numbers, _ in parts])  # contiguous columns, as in a table
        points[:, np.isnan(points).any(axis=0)] = np.nan
        return points.T, [problem for _, problems in parts for problem in problems]

    def _write_points(self, name: str, points: Array) -> TableColumns:
        coordinates = zip(self.columns, points.T, strict=True)
        return {part: pa.array(numbers, mask=np.isnan(numbers)) for part, numbers in coordinates}

    def make_up_points(self, name: str, units: Array) -> TableColumns:
        if self.out_of_bounds == "refuse":
            absent = np.isnan(units)
            units = np.where(absent, units, self.domain.unit.project(np.where(absent, 0, units)))
        return self._write_points(name, from_unit(self.domain, units))

    def encode_codes(self, name: str, table: pa.Table) -> Codes:
        """See `CodedColumn`; a vector outside the domain has the code of its projection."""
        return self._cells.encode(self.encode_units(name, table))

    def decode_codes(self, name: str, codes: Codes, rng: Generator) -> TableColumns:
        return self.decode_points(name, from_unit(self.domain, self._cells.decode(codes, rng)))

    def make_up_codes(self, name: str, coding: Any, codes: Codes, rng: Generator) -> TableColumns:
        """See `CodedColumn`; half of the vectors in cells at an edge that clips lie far outside."""
        units = self._cells.decode(codes, rng)
        far = np.where(rng.random((len(codes), 1)) < 0.5, _FAR, 1.0) * units
        projected = self.domain.unit.project(np.where(np.isnan(far), 0.0, far))
        same_code = self._cells.encode(np.where(np.isnan(far), far, projected)) == codes
        return self.make_up_points(name, np.where(same_code[:, None], far, units))

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain, self.alphabet  # building them checks the fields
        return self
