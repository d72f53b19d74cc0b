r"""Places within cells: a density that is continuous from cell to cell, and keeps every cell's mass.

A cell of density d, between neighbors of densities $d_-$ and $d_+$, shares with each the density where
they meet, a harmonic mean; of cells as wide as w and w′

$$ e = \min\Bigl( \frac{w + w'}{w'/d + w/d'},\ 2d,\ 2d' \Bigr) . $$

From one end to the other it is **two lines** that meet at a knot: in the middle, at the height that
keeps the mass, $2d − (e_- + e_+)/2 ≥ 0$; where d lies between the ends, that height is moved between
them and the knot aside, so that a density which falls from cell to cell falls within each of them, too.

On the **line** (`LineCells`) cells may have any widths, and there are as many laws as the caller has
classes of people; the outer end of an outer cell is where a single line leads, $\max(0, 2d − e)$.
Integers have what falls into $[i, i+1)$. Cells of no width are points: nobody is drawn near them. Along
the axes of a **grid** (`draw_ends`) a draw is a product, in which steps across cells are of second
order: no grid is seen where records are plotted. There masses are how many of the points to be drawn are
in each cell, with a few more in all: of a handful of points nothing is known, and they are nearly
uniform. At the end of the grid, and of the domain, $e = d$.

Privacy review: a function of codes, of a model's probabilities and of coins; whoever draws holds a
model's codes, not people's.

References:
    Boneva, Kendall, Stefanov, *Spline transformations* (1971), for densities that keep histograms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privot.schema.domains.domain import Array

_MORE = 4.0  # points in every cell
_MOST_TRIES = 100
_BELOW_ONE = np.nextafter(1.0, 0.0)


def draw_ends(places: NDArray[np.int64], side: int, exists: NDArray[np.bool_]) -> Array:
    """Both ends $e_-/d, e_+/d$ of each point's cell along each axis, (2, n, d).

    Arguments:
        places: Cells (n, d), from 0 to side − 1.
        side: Cells along each axis.
        exists: Which cells (side, …, side) there are.
    """
    dimension = places.shape[1]
    shape = (side,) * dimension
    masses = np.bincount(np.ravel_multi_index(tuple(places.T), shape), minlength=side**dimension)
    masses = np.where(exists, masses.reshape(shape) + _MORE, np.nan)
    ends = np.empty((2, *places.shape))
    for axis in range(dimension):
        padded = np.pad(masses, [(int(j == axis),) * 2 for j in range(dimension)], mode="edge")
        for side_of, start in ((0, 0), (1, 2)):
            beside = np.take(padded, np.arange(start, start + side), axis=axis)
            ratio = np.where(np.isnan(beside), 1.0, 2 * beside / (beside + masses))
            ends[side_of, :, axis] = ratio[tuple(places.T)]
    return ends


def draw_within(ends: Array, rng: np.random.Generator) -> Array:
    """Places (…) in [0, 1) within cells, of two lines of mean 1 with these ends (2, …), up to 2.

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
    first = knot * (below + height) / 2
    share = rng.random(below.shape)
    left = share < first
    share = np.where(left, share / np.maximum(first, 1e-300), (share - first) / (1 - first))
    start, end = np.where(left, below, height), np.where(left, height, above)
    # Of a line from `start` to `end`, the place below which this share of its mass lies.
    root = np.sqrt(np.maximum(start**2 + (end**2 - start**2) * share, 0.0))
    along = share * (start + end) / np.maximum(start + root, 1e-300)
    places = np.where(left, knot * along, knot + (1 - knot) * along)
    return np.asarray(np.clip(places, 0.0, _BELOW_ONE))


@dataclass(frozen=True, eq=False)
class LineCells:
    """Cells of numbers: intervals [low, high) side by side, points, and missing values.

    Arguments:
        low: Where each begins (a,); NaN of a missing value.
        high: Where it ends; equal to `low` of a point.
        integer: Whether numbers are integers; those that are points are in no interval.

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
        """The intervals, from left to right."""
        wide = np.flatnonzero(self.high > self.low)
        return wide[np.argsort(self.low[wide], kind="stable")]

    @cached_property
    def points(self) -> Array:
        """Numbers that are cells of their own."""
        return np.unique(self.low[self.high == self.low])

    @cached_property
    def widths(self) -> Array:
        """Of the intervals in order: the length, or the number of integers that are no points."""
        low, high = self.low[self.in_order], self.high[self.in_order]
        if not self.integer:
            return np.asarray(high - low)
        inside = np.searchsorted(self.points, high) - np.searchsorted(self.points, low)
        return np.asarray(np.maximum(high - low - inside, 1.0))

    def ends(self, masses: Array) -> Array:
        """$e_-/d, e_+/d$ of every cell for every class, (2, a, classes), of masses (a, classes)."""
        order, widths = self.in_order, self.widths[:, None]
        ends = np.ones((2, *masses.shape))
        if len(order) < 2:
            return ends
        density = np.maximum(masses[order] / widths, 1e-300)
        one, other = density[:-1], density[1:]
        meet = (widths[:-1] + widths[1:]) / (widths[1:] / one + widths[:-1] / other)
        meet = np.minimum(meet, 2 * np.minimum(one, other))
        left, right = np.empty_like(density), np.empty_like(density)
        left[1:], right[:-1] = meet / other, meet / one
        left[0], right[-1] = 2 - right[0], 2 - left[-1]
        ends[:, order] = left, right
        return np.clip(ends, 0.0, 2.0)

    def draw(
        self,
        cells: NDArray[np.int64],
        classes: NDArray[np.int64],
        masses: Array,
        rng: np.random.Generator,
    ) -> Array:
        """A number in each of `cells` (n,), NaN where missing, by the density of its class.

        Arguments:
            cells: Whose numbers are drawn.
            classes: The class of each (n,).
            masses: Of all cells by class (a, classes).
            rng: Of the draws.
        """
        ends = self.ends(masses)
        low, width = self.low[cells], (self.high - self.low)[cells]
        numbers, left = low.copy(), np.flatnonzero(width > 0)
        for _ in range(_MOST_TRIES):
            if not len(left):
                break
            places = draw_within(ends[:, cells[left], classes[left]], rng)
            numbers[left] = low[left] + places * width[left]
            if not self.integer:
                break
            numbers[left] = np.floor(numbers[left])
            left = left[np.isin(numbers[left], self.points)]
        return numbers
