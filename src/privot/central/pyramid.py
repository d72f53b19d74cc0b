r"""Densities of places, estimated from one round of noisy counts in a pyramid of cells.

**Counts.** A record is one place in a box of d coordinates, d ≤ 3. Halving every axis l times makes
$2^{dl}$ cells. One round counts the records in each cell at several levels: a record contributes one
indicator to each level (`privot.central.sums.Indicators`), so with L levels $Δ = \sqrt{2L}$, and all
counts have the same noise σ. A cell has f = 8 children in space, otherwise 4 (on a line, a level is two
halvings). A missing place has a cell of its own at every level.

The error of the estimate is measured as a squared transport distance. Noise in counts of level l moves
mass between cells whose squared distance is $∝ 4^{−l}$, and there are $2^{dl}$ of them. In the plane the
product is the same for every level, so all levels have the same noise; other divisions of Δ were tried,
and were not better. The finest level has about $s = n μ$ cells, a public number, with μ = Δ/σ of the
run: the mean count in them is about the noise.

**Masses** (Hay, Rastogi, Miklau, Suciu 2010). Estimates are computed from the finest level up. With y
the released count of a cell, $z_k$ the estimates of its children and $v_k$ the variance of each,

$$ z = w y + (1 − w) \sum_k z_k, \qquad w = \frac{f v_k}{f v_k + σ^2}, \qquad v = w σ^2 , $$

z is the best linear unbiased estimate, of variance v. Then, from the top down, the children of a cell
are replaced by the nearest non-negative numbers (Euclidean) that sum to the mass of the cell, at the top
to n. So errors stay within a cell.

**Sampling.** A cell is drawn by its mass, and a place in it from a density that is continuous across
cells (`privot.schema.sampling`).

**Privacy review.** Adjacency `replace_one`; Δ is √(2L); the round is a Gaussian mechanism
(`privot.central.sums`). Estimates are functions of the release and of the public number of records. They
assume only that all counts have the same noise, so they also apply to the sums of two servers. A place
is moved into the box and rounded to its cell, independently of other records.

References:
    Hay, Rastogi, Miklau, Suciu, *Boosting the accuracy of differentially private histograms through
    consistency* (2010).
    Ghazi, He, Kohlhoff, Kumar, Manurangsi, Navalpakkam, Valliappan, *Differentially private heatmaps*
    (2023), for pyramids of counts judged by transport.
    Duchi, Shalev-Shwartz, Singer, Chandra, *Efficient projections onto the ℓ1-ball* (2008).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.central.fitting import PIECE, PLACE_DEPTHS, Law, OneSumFit, RecordMap, SumSettings
from privot.central.sums import Budget, Floats, Indicators, Integers, NoisySums, Records, SumPlan
from privot.local.grid_channels import draw_given
from privot.local.model import read_condition
from privot.schema import Schema
from privot.schema.columns.column import PointColumn
from privot.schema.domains import from_unit
from privot.schema.sampling import draw_within, end_densities

_MAX_NOISE = 0.35  # largest total variation that noise may cause in the coarsest cells


@dataclass(frozen=True)
class PlaceRecords(RecordMap):
    """Map from rows of one place to points of [−1, 1]^d."""

    schema: Schema  # a single column, of 1 to 3 coordinates in a box

    @property
    def name(self) -> str:
        """Name of the column."""
        return next(iter(self.schema.columns))

    @property
    def column(self) -> PointColumn:
        """Column of the places."""
        return self.schema.point_column(self.name)

    def encode(self, table: pa.Table) -> tuple[Floats, Integers]:
        """See `RecordMap`: points (n, d), and indicators (n,) of missing ones, 1 or 0."""
        points = self.column.encode_units(self.name, table)
        missing = np.asarray(np.isnan(points).any(axis=1))
        return np.where(missing[:, None], 0.0, points), missing.astype(np.int64)

    def decode(self, points: Floats) -> pa.Table:
        """Return the table of points (n, d); a row of NaN is a missing place."""
        values = from_unit(self.column.domain, points)
        return pa.table(self.column.decode_points(self.name, values))


@dataclass(frozen=True)
class Pyramid(Indicators):
    """Query: a record's cell at each level.

    A cell's number has d bits for each halving, one for each axis, the coarsest halving first. So a
    right shift gives the number of its parent, and the children of a cell are consecutive.

    Examples:
        >>> pyramid = Pyramid(2, depth=2)
        >>> pyramid.sizes
        (4, 16)
        >>> pyramid.positions((np.array([[-1.0, -1.0], [0.1, -0.9]]), np.zeros(2, int))).tolist()
        [[0, 0], [2, 8]]
    """

    dimension: int  # number d of coordinates
    depth: int  # halvings of each axis at the finest level
    # Whether places may be missing; a missing place has the last position of each block.
    nullable: bool = False

    @classmethod
    def of(cls, records: PlaceRecords, signal: float) -> Self:
        """Return the pyramid of a column with about s = n μ finest cells, at most `PLACE_DEPTHS`."""
        dimension = records.column.domain.dimension
        depth = round(math.log2(max(signal, 1.0)) / dimension)
        depth = min(max(depth, 1), PLACE_DEPTHS[dimension])
        if dimension == 1:  # a level is two halvings
            depth = max(depth - depth % 2, 2)
        return cls(dimension, depth, records.column.nullable)

    @property
    def levels(self) -> range:
        """Number of halvings of each axis at each level, the coarsest first."""
        step = 2 if self.dimension == 1 else 1
        return range(step, self.depth + 1, step)

    @cached_property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]  # from the levels
        return tuple(2 ** (self.dimension * level) + self.nullable for level in self.levels)

    def positions(self, records: Records) -> Integers:
        """See `Indicators`; `records` are the points and indicators of `PlaceRecords.encode`."""
        points, missing = records
        cells = np.floor((points + 1) * 2.0 ** (self.depth - 1)).astype(np.int64)
        finest = self.cell_numbers(cells.clip(0, 2**self.depth - 1))[:, None]
        shifts = self.dimension * (self.depth - np.array(self.levels))
        return np.where(missing[:, None] == 1, np.array(self.sizes) - 1, finest >> shifts)

    def cell_numbers(self, cells: Integers) -> Integers:
        """Return the numbers (n,) of finest cells at indices (n, d) along the axes."""
        numbers = np.zeros(len(cells), np.int64)
        for bit in reversed(range(self.depth)):
            for axis in range(self.dimension):
                numbers = 2 * numbers + (cells[:, axis] >> bit & 1)
        return numbers

    def masses(self, released: NoisySums, records: int) -> tuple[Floats, float]:
        """Return masses of the finest cells by number, and of missing places; they sum to `records`.

        Arguments:
            released: Answer to this query, with the same noise on every count.
            records: Number of records that were counted.

        Examples:
            >>> answer = np.array([[3.0, 1.0, -1.0, 1.0]])
            >>> Pyramid(2, depth=1).masses(NoisySums(answer, 1.0), 4)[0].round(3).tolist()
            [2.667, 0.667, 0.0, 0.667]
        """
        levels = np.split(released.sums[0], np.cumsum(self.sizes)[:-1])
        missing = np.zeros(0)
        if self.nullable:
            missing = np.array([np.mean([counts[-1] for counts in levels])])
            levels = [counts[:-1] for counts in levels]
        estimates = _estimates_from_below(levels)
        top = np.append(estimates[0], missing)
        top = project_to_simplex(top[None], np.array([float(records)]))[0]
        masses = top[: len(estimates[0])]
        for estimate in estimates[1:]:
            masses = project_to_simplex(estimate.reshape(len(masses), -1), masses).ravel()
        return masses, float(top[-1]) if self.nullable else 0.0


def _estimates_from_below(levels: list[Floats]) -> list[Floats]:
    """Estimate each level's counts from the released counts of this level and of finer ones."""
    estimates, variance = [levels[-1]], 1.0  # σ² is 1
    for counts in reversed(levels[:-1]):
        children = estimates[0].reshape(len(counts), -1)
        below = children.shape[1] * variance
        variance = below / (below + 1)  # also the weight w
        estimates.insert(0, variance * counts + (1 - variance) * children.sum(axis=1))
    return estimates


def project_to_simplex(numbers: Floats, totals: Floats) -> Floats:
    """Return the non-negative rows nearest to `numbers` (n, k) that sum to totals (n,) ≥ 0."""
    descending = -np.sort(-numbers, axis=1)
    ranks = np.arange(1, numbers.shape[1] + 1)
    # The projection subtracts a shift from a row. Column j has the shift by which the j largest numbers
    # sum to the total; the right one is the last for which they all remain positive (Duchi et al.).
    shifts = (np.cumsum(descending, axis=1) - totals[:, None]) / ranks
    last = np.maximum((descending > shifts).sum(axis=1) - 1, 0)
    nearest = np.maximum(numbers - np.take_along_axis(shifts, last[:, None], axis=1), 0.0)
    return np.where(totals[:, None] > 0, nearest, 0.0)


@dataclass(frozen=True, eq=False)
class PlaceDensity(Law):
    """Density of one place, given by the shares of cells."""

    kind: ClassVar[str] = "pyramid"

    shares: Floats  # probabilities of cells (side, …, side), with d axes
    missing: float  # probability of a missing place; all probabilities sum to 1

    def pieces(
        self,
        records: PlaceRecords,
        num_rows: int,
        rng: np.random.Generator,
        where: Mapping[str, Any],
    ) -> Iterator[pa.Table]:
        """See `Law`; `where` may name cells of the place, and records are drawn until enough meet it."""
        condition = read_condition(records.schema, where)

        def draw(count: int) -> pa.Table:
            return records.decode(self.points(count, rng))

        for start in range(0, max(num_rows, 1), PIECE):
            rows = min(PIECE, num_rows - start)
            yield draw_given(draw, records.schema, condition, rows) if condition else draw(rows)

    def points(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw points (count, d) of [−1, 1]^d; a row of NaN is a missing place."""
        ends = np.cumsum(np.append(self.shares.ravel(), self.missing))
        drawn = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
        present = drawn < self.shares.size
        side, dimension = self.shares.shape[0], self.shares.ndim
        cells = np.stack(np.unravel_index(drawn[present], self.shares.shape), axis=1)
        slopes = end_densities(cells, side, np.ones(self.shares.shape, bool))
        points = np.full((count, dimension), np.nan)
        points[present] = (cells + draw_within(slopes, rng)) * (2 / side) - 1
        return points

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"shares": self.shares, "missing": np.array([self.missing])}

    @classmethod
    def build(
        cls, records: Any, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        return cls(arrays["shares"], float(arrays["missing"][0]))


class PlaceFit(OneSumFit):
    """Fit of one place by one round."""

    records: PlaceRecords
    query: Pyramid

    def __init__(self, schema: Schema, settings: SumSettings, budget: Budget) -> None:
        self.records, self.settings, self.budget = PlaceRecords(schema), settings, budget
        self.query = Pyramid.of(self.records, budget.signal(1))

    def plan(self) -> SumPlan:
        """See `CentralFit`; refuse noise that would move more than .35 of the mass of coarsest cells."""
        plan = self.budget.plan([1.0])
        share_error = plan.released_stddev(self.query) / self.budget.records
        # Expected total variation: half the sum of the cells' mean absolute errors.
        noise = self.query.sizes[0] * share_error / math.sqrt(2 * math.pi)
        effect = (
            f"noise alone would move a share of {noise:.2g} of the mass between quarters of the map"
        )
        remedy = "a box that fits more tightly"
        self.budget.require_signal(noise, _MAX_NOISE, "rows", effect, remedy)
        return plan

    def law(self, released: NoisySums) -> PlaceDensity:
        masses, missing = self.query.masses(released, self.budget.records)
        shape = (2**self.query.depth,) * self.query.dimension
        cells = np.indices(shape).reshape(len(shape), -1).T
        shares = masses[self.query.cell_numbers(cells)].reshape(shape)
        return PlaceDensity(shares / self.budget.records, missing / self.budget.records)
