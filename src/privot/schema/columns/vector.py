r"""Vector columns, and the sampling of positions within the cells of a sampled code.

**Density within cells.** Within a cell the density is interpolated, so that samples show no steps. Where
a cell of mean density ρ and width w meets a neighbor of mean density ρ′ and width w′, the density is a
harmonic mean,

$$ e = \min\Bigl( \frac{w + w'}{w'/ρ + w/ρ'},\ 2ρ,\ 2ρ' \Bigr) . $$

Between its two ends, of densities $e_-$ and $e_+$, the density of a cell is **two line segments** that
meet at a knot: in the middle, at the height $2ρ − (e_- + e_+)/2 ≥ 0$ that preserves the mass. If ρ lies
between $e_-$ and $e_+$, the height is clipped between them and the knot moved, so that a density that
decreases from cell to cell decreases within each cell, too.

On the **line** (`LineCells`) cells may have any widths, and each class of a latent-class model has its
own densities. The outer end of an outer cell has density $\max(0, 2ρ − e)$. Integer i gets the mass of
$[i, i+1)$. Cells of width 0 are points. On a **grid** (`end_densities`) the density is a product over
the axes, whose steps between cells are of second order. There the mass of a cell is the number of points
to be drawn in it plus a constant, so that few points are drawn nearly uniformly. At the edge of the
grid, and of the domain, $e = ρ$.

Privacy review: samples are a function of a model's codes and probabilities and of random numbers;
nobody's record is used.

References:
    Boneva, Kendall, Stefanov, *Spline transformations* (1971), for densities that keep histograms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import model_validator

from privot.core.errors import MOST_CODES, PrivotError
from privot.schema.columns.alphabet import MISSING, Alphabet, Codes
from privot.schema.columns.column import Bounds, CodedColumn, PointColumn
from privot.schema.columns.raw_values import Problem, read_numbers
from privot.schema.domains import Array, Box, Domain, L1Ball, L2Ball, Polyline, from_unit

_PSEUDO_POINTS = 4.0  # added to the number of points of every cell
_MAX_TRIES = 100  # draws of an integer until it is none of the points
_BELOW_ONE = np.nextafter(1.0, 0.0)


def end_densities(places: NDArray[np.int64], side: int, exists: NDArray[np.bool_]) -> Array:
    """Return the end densities $e_-/ρ, e_+/ρ$ of each point's cell along each axis, (2, n, d).

    Arguments:
        places: Cell of each point (n, d), from 0 to side − 1.
        side: Number of cells along each axis.
        exists: Mask (side, …, side) of the cells in the domain.
    """
    dimension = places.shape[1]
    shape = (side,) * dimension
    counts = np.bincount(np.ravel_multi_index(tuple(places.T), shape), minlength=side**dimension)
    masses = np.where(exists, counts.reshape(shape) + _PSEUDO_POINTS, np.nan)
    ends = np.empty((2, *places.shape))
    for axis in range(dimension):
        padding = [(1, 1) if j == axis else (0, 0) for j in range(dimension)]
        padded = np.pad(masses, padding, mode="edge")
        # In `padded`, the neighbors below have places 0 … side − 1, those above 2 … side + 1.
        for end in (0, 1):
            neighbors = np.take(padded, np.arange(side) + 2 * end, axis=axis)
            ratio = np.where(np.isnan(neighbors), 1.0, 2 * neighbors / (neighbors + masses))
            ends[end, :, axis] = ratio[tuple(places.T)]
    return ends


def draw_within(ends: Array, rng: np.random.Generator) -> Array:
    """Draw positions (…) in [0, 1) by densities of mean 1: two segments, end densities (2, …) ≤ 2.

    On either segment the density is linear, so a quantile is the root of a quadratic equation.

    Examples:
        >>> ends = np.array([[[0.0]], [[2.0]]]) * np.ones((2, 10_000, 1))  # the density is 2u
        >>> round(float(draw_within(ends, np.random.default_rng(0)).mean()), 2)
        0.67
    """
    below, above = ends
    height = 2 - (below + above) / 2
    monotone = (below - 1) * (above - 1) < 0
    bounded = np.clip(height, np.minimum(below, above), np.maximum(below, above))
    height = np.where(monotone, bounded, height)
    gap = np.where(monotone, below - above, 1.0)
    knot = np.where(monotone, (2 - height - above) / gap, 0.5)
    left_mass = knot * (below + height) / 2
    uniform = rng.random(below.shape)
    left = uniform < left_mass
    left_share = uniform / np.maximum(left_mass, 1e-300)
    share = np.where(left, left_share, (uniform - left_mass) / (1 - left_mass))
    start, end = np.where(left, below, height), np.where(left, height, above)
    # Quantile `share` of a linear density from `start` to `end`.
    root = np.sqrt(np.maximum(start**2 + (end**2 - start**2) * share, 0.0))
    along = share * (start + end) / np.maximum(start + root, 1e-300)
    positions = np.where(left, knot * along, knot + (1 - knot) * along)
    return np.asarray(np.clip(positions, 0.0, _BELOW_ONE))


@dataclass(frozen=True, eq=False)
class LineCells:
    """Cells of the real line: adjacent intervals [low, high), single points, and missing values.

    Arguments:
        low: Lower end (a,) of each cell; NaN for a missing value.
        high: Upper end (a,) of each cell; equal to `low` for a point.
        integer: Whether numbers are integers; those that are points belong to no interval.

    Examples:
        >>> cells = LineCells(np.array([0.0, 4.0, 2.0]), np.array([4.0, 9.0, 2.0]), integer=True)
        >>> drawn = cells.draw(np.arange(3).repeat(99), np.zeros(297, int), np.full((3, 1), 1 / 3),
        ...                    np.random.default_rng(0))
        >>> [np.unique(part).tolist() for part in np.split(drawn, 3)]
        [[0.0, 1.0, 3.0], [4.0, 5.0, 6.0, 7.0, 8.0], [2.0]]
    """

    low: Array
    high: Array
    integer: bool

    @cached_property
    def in_order(self) -> NDArray[np.int64]:
        """Indices of the intervals, from left to right."""
        wide = np.flatnonzero(self.high > self.low)
        return wide[np.argsort(self.low[wide], kind="stable")]

    @cached_property
    def points(self) -> Array:
        """Numbers that are cells by themselves, in increasing order."""
        return np.unique(self.low[self.high == self.low])

    @cached_property
    def widths(self) -> Array:
        """Width of each interval in order: its length, or its number of integers that are not points."""
        low, high = self.low[self.in_order], self.high[self.in_order]
        if not self.integer:
            return np.asarray(high - low)
        inside = np.searchsorted(self.points, high) - np.searchsorted(self.points, low)
        return np.asarray(np.maximum(high - low - inside, 1.0))

    def ends(self, masses: Array) -> Array:
        """Return end densities $e_-/ρ, e_+/ρ$ (2, a, classes) for cell masses (a, classes)."""
        order, widths = self.in_order, self.widths[:, None]
        ends = np.ones((2, *masses.shape))
        if len(order) < 2:
            return ends
        density = np.maximum(masses[order] / widths, 1e-300)
        below, above = density[:-1], density[1:]  # on both sides of each inner edge
        edge = (widths[:-1] + widths[1:]) / (widths[1:] / below + widths[:-1] / above)
        edge = np.minimum(edge, 2 * np.minimum(below, above))
        left, right = np.empty_like(density), np.empty_like(density)
        left[1:], right[:-1] = edge / above, edge / below
        left[0], right[-1] = 2 - right[0], 2 - left[-1]  # the outer ends
        ends[:, order] = left, right
        return np.clip(ends, 0.0, 2.0)

    def draw(
        self,
        cells: NDArray[np.int64],
        classes: NDArray[np.int64],
        masses: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Draw a number (n,) in each of `cells`, by the density of its class; NaN where missing.

        Arguments:
            cells: Cell (n,) of each number.
            classes: Class (n,) of each number.
            masses: Mass of every cell in every class (a, classes).
            rng: Generator of the draws.
        """
        ends = self.ends(masses)
        low, width = self.low[cells], (self.high - self.low)[cells]
        numbers, pending = low.copy(), np.flatnonzero(width > 0)
        for _ in range(_MAX_TRIES):
            if not len(pending):
                break
            positions = draw_within(ends[:, cells[pending], classes[pending]], rng)
            numbers[pending] = low[pending] + positions * width[pending]
            if not self.integer:
                break
            numbers[pending] = np.floor(numbers[pending])
            pending = pending[np.isin(numbers[pending], self.points)]
        return numbers


# Default number of bins along each axis, by dimension: about 200 cells in all.
DEFAULT_BINS = {2: 16, 3: 6}
_TRIES = 64  # draws of a point until it is in the domain
_ROUNDING = 1e-9
# A cell that only touches the domain has no code: cells are shrunk by the share _SLIVER of their side,
# and points in a cell without code move toward 0 by the larger share _PULL.
_SLIVER, _PULL = 1e-6, 1e-5


@dataclass(frozen=True)
class Cells(Alphabet):
    """Alphabet of the cells of a domain of two or three coordinates.

    The box around the unit domain, $[−1, 1]^d$, is cut into $b^d$ equal cells. Cells that intersect
    the domain are numbered in C order; a nullable vector has one more code, the last. Bins
    are declared or follow from d; they are never computed from data. Vectors are encoded on the device,
    which stores nothing of them. A decoded vector is drawn from its cell's intersection with the domain,
    by the density described in this module.

    Arguments:
        domain: Domain of the vectors, in the column's units.
        bins: Number of bins along each axis; by default 16 in the plane, 6 in space.
        nullable: Whether a vector may be missing.

    Examples:
        >>> from privot.schema import Box
        >>> cells = Cells(Box((0.0, 0.0), (1.0, 3.0)), bins=2)
        >>> cells.labels
        ('[0, 0.5] x [0, 1.5]', '[0, 0.5] x [1.5, 3]', '[0.5, 1] x [0, 1.5]', '[0.5, 1] x [1.5, 3]')
        >>> cells.encode(np.array([[-1.0, 1.0], [0.2, 0.2]])).tolist()
        [1, 3]
    """

    domain: Domain
    bins: int | None = None
    nullable: bool = False

    def __post_init__(self) -> None:
        d = self.domain.dimension
        most = math.floor(MOST_CODES ** (1 / d) + _ROUNDING)
        if self.bins is not None and not 2 <= self.bins <= most:
            raise PrivotError(
                f"bins {self.bins} cannot be, along each of {d} coordinates: give a whole number "
                f"from 2 to {most}"
            )

    @property
    def side(self) -> int:
        """Number of bins along each axis."""
        return self.bins or DEFAULT_BINS[self.domain.dimension]

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Bin along each axis (K, d), from 0 to b − 1, of every cell that intersects the domain."""
        d, unit = self.domain.dimension, self.domain.unit
        places = np.indices((self.side,) * d).reshape(d, -1).T
        # A cell intersects a box, a ball, or its non-negative part if its point nearest to 0 is inside.
        nearest = self._nearest(self._corners(places))
        distance = np.abs(unit.project(nearest) - nearest).max(axis=1)
        return np.asarray(places[distance <= _ROUNDING])

    def _nearest(self, low: Array) -> Array:
        """Return the point nearest to 0 of each cell, given lower corners `low` (n, d)."""
        width = 2 / self.side
        return np.clip(0.0, low + _SLIVER * width, low + (1 - _SLIVER) * width)

    @cached_property
    def _codes(self) -> NDArray[np.int64]:
        """Code (b^d,) of every cell of the box in C order; −1 outside the domain."""
        codes = np.full(self.side**self.domain.dimension, -1)
        codes[self._flat_index(self._places)] = np.arange(len(self._places))
        return codes

    def _flat_index(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index (n,) in C order of cells with bins (n, d)."""
        return np.asarray(places @ self.side ** np.arange(places.shape[1])[::-1])

    def _corners(self, places: NDArray[np.int64]) -> Array:
        """Return the lower corners (n, d) of cells, in unit coordinates."""
        return np.asarray(places * (2 / self.side) - 1, np.float64)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels of all codes: the intervals of a cell."""
        low = self._corners(self._places)
        ends = np.stack([from_unit(self.domain, low), from_unit(self.domain, low + 2 / self.side)])
        pairs = ends.swapaxes(0, 1)
        cells = [" x ".join(f"[{a:.6g}, {b:.6g}]" for a, b in pair.T) for pair in pairs]
        return tuple(cells) + (MISSING,) * self.nullable

    @property
    def codes(self) -> list[int] | None:
        """Code of every cell of the box in C order, −1 if it has none; None if all have codes."""
        return None if len(self._places) == len(self._codes) else self._codes.tolist()

    @property
    def size(self) -> int:
        """Number of codes K."""
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
        """Return the codes (n,) of points (n, d); −1 in a cell without code."""
        places = np.floor((units + 1) * (self.side / 2)).astype(np.int64)
        return self._codes[self._flat_index(places.clip(0, self.side - 1))]

    def decode(self, codes: Codes, rng: np.random.Generator) -> Array:
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
        points[pending] = self._nearest(low[pending])  # cells with a tiny intersection
        points = unit.project(points)
        points[absent] = np.nan
        return points


_FAR = 1000.0  # test values beyond the domain are so many times as far from 0


class VectorColumn(PointColumn, CodedColumn):
    """Column of several numbers in one domain: a box, an ℓ1 or ℓ2 ball, or a known support.

    Exactly one of `bounds` (a pair for each coordinate), `radius` (with `norm` 1 or 2, and
    `non_negative`) and `support` (corners of a public polyline) declares the domain. With `nullable`,
    the vector may be missing; it counts as missing if any coordinate is.

    In a joint report with other columns, a vector of two or three coordinates is reported as one of the
    cells (`Cells`) of a grid with `bins` bins along each axis. A vector of more coordinates, or on a
    polyline, has no codes.

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
        """Return the names of the table columns that hold its coordinates."""
        return self.columns

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        """Return the coordinates (n, d), rows of NaN where any is missing."""
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
        """See `CodedColumn`; a vector outside the domain has the code of its projection."""
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
        """See `CodedColumn`: half of the vectors in cells at the domain's edge lie far beyond it."""
        units = self._cells.decode(codes, rng)
        far = np.where(rng.random((len(codes), 1)) < 0.5, _FAR, 1.0) * units
        projected = self.domain.unit.project(np.where(np.isnan(far), 0.0, far))
        same_code = self._cells.encode(np.where(np.isnan(far), far, projected)) == codes
        return self.make_up_points(name, np.where(same_code[:, None], far, units))

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain, self.alphabet  # building them checks what declares them
        return self
