r"""Grids of places as published: disk area (DAM), its exponential variant (HUEM), square waves (MDSW).

A place in [−1, 1]² is rounded to the middle x of one of d × d cells. A report is a cell y of the same
grid, which goes on beyond the square by the radius b. Its probability is

$$ P(y | x) ∝ e^{ε s(y − x)} , $$

where the score s is, averaged over the cell y, 1 within b of x and 0 beyond (DAM; cells that the circle
cuts have the area's share of both), or $1 − ‖y − x‖ / b$ within b (HUEM). Report cells are those that
some record scores. MDSW reports each coordinate by the square wave at ε/2.

**Radius.** DAM maximizes the mutual information of a uniform record, edges neglected: the share of the
report area that a disk covers is the τ* of `privot.mechanisms.window_cells`, so b solves
$π b^2 = τ^* (4 + 8 b + π b^2)$. On a grid b is rounded down to whole cells, at least one.

**Estimate.** Expectation maximization from the uniform law, until the log-likelihood grows by less than
$10^{−3} e^ε$, with or without smoothing by weights (1, 2, 1)/4 along each coordinate after each step.

Rebuilt from the papers' definitions: neither code was at hand.

References:
    Du, Cheng, Zheng, Lian, Chen, Xi, Ni, *Numerical estimation of spatial distributions under
    differential privacy* (2024). Li, Wang, Lopuhaä-Zwakenberg, Škorić, Li, *Estimating numerical
    distributions under local differential privacy* (2020), for EM and smoothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.mechanisms.window_cells import best_window_share
from privot.schema.domains import Array

Score = Literal["disk", "hybrid"]

_PARTS = 16  # of a cell along each coordinate, by which its mean score is found
_MOST_STEPS = 10_000


def disk_radius(epsilon: float) -> float:
    """DAM's radius b, where the square's side is 2.

    >>> round(disk_radius(1.0), 2), round(disk_radius(4.0), 2)
    (1.69, 0.37)
    """
    share = best_window_share(epsilon)
    square, linear = (1 - share) * math.pi, 8 * share
    return (linear + math.sqrt(linear**2 + 16 * square * share)) / (2 * square)


def whole_cells(radius: float, cells: int) -> float:
    """A radius rounded down to whole cells of a grid, at least one."""
    return max(1, math.floor(radius * cells / 2)) * 2 / cells


@dataclass(frozen=True)
class GridReports:
    """Channel from d × d cells to a larger grid of the same cells, by scores of their offsets.

    Arguments:
        epsilon: Privacy loss of a report.
        cells: d, along each coordinate.
        radius: b, where the square's side is 2.
        score: `"disk"` (DAM) or `"hybrid"` (HUEM).
    """

    epsilon: float
    cells: int
    radius: float
    score: Score = "disk"

    @cached_property
    def _margin(self) -> int:
        return math.ceil(self.radius * self.cells / 2 + 0.5 - 1e-9)

    @cached_property
    def _excess(self) -> Array:
        """P(y | x) / least − 1 by offset (2 margin + 1, 2 margin + 1)."""
        reach = self._margin
        ends = (np.arange((2 * reach + 1) * _PARTS) + 0.5) / _PARTS - reach - 0.5
        length = np.hypot(*np.meshgrid(ends, ends)) * (2 / self.cells)
        near = length <= self.radius
        scores = near if self.score == "disk" else near * (1 - length / self.radius)
        factor = np.where(near, np.expm1(self.epsilon * scores), 0.0)
        side = 2 * reach + 1
        return np.asarray(factor.reshape(side, _PARTS, side, _PARTS).mean(axis=(1, 3)))

    @cached_property
    def _possible(self) -> NDArray[np.bool_]:
        """Indicator of the report cells (d + 2 margin, d + 2 margin)."""
        return np.asarray(
            self._spread(np.ones((self.cells, self.cells)), (self._excess > 0).astype(float)) > 0.5
        )

    @cached_property
    def _least(self) -> float:
        """Probability of a report cell that the record does not score."""
        return 1 / (float(self._possible.sum()) + float(self._excess.sum()))

    @property
    def loss(self) -> float:
        """Largest log-ratio of probabilities of a report; at most ε."""
        return math.log1p(float(self._excess.max()))

    def _spread(self, weights: Array, kernel: Array) -> Array:
        return np.asarray(scipy.signal.fftconvolve(weights, kernel.astype(float)))

    def forward(self, shares: Array) -> Array:
        """Probabilities of report cells, flat, of shares (d, d) of record cells."""
        mixed = self._possible * shares.sum() + np.maximum(self._spread(shares, self._excess), 0)
        return np.asarray(self._least * mixed[self._possible])

    def back(self, ratios: Array) -> Array:
        """The transpose of `forward`, (d, d)."""
        spread = np.zeros(self._possible.shape)
        spread[self._possible] = ratios
        near = scipy.signal.fftconvolve(spread, self._excess, mode="valid")
        return np.asarray(self._least * (ratios.sum() + near))

    def report(self, people: Array, rng: np.random.Generator) -> Array:
        """Counts of report cells, flat, of people (n, 2) in [−1, 1]²."""
        own = _cell_of(people, self.cells) + self._margin
        uniform = rng.random(len(people)) < self._least * self._possible.sum()
        anywhere = np.argwhere(self._possible)[rng.integers(0, self._possible.sum(), len(people))]
        chances = np.cumsum(self._excess.ravel())
        offsets = np.searchsorted(chances, rng.random(len(people)) * chances[-1], side="right")
        side = 2 * self._margin + 1
        near = own + np.stack(np.divmod(offsets, side), axis=1) - self._margin
        cells = np.where(uniform[:, None], anywhere, near)
        counts = np.zeros(self._possible.shape)
        np.add.at(counts, tuple(cells.T), 1)
        return np.asarray(counts[self._possible])


@dataclass(frozen=True)
class SquareWaves:
    """MDSW: a square wave for each coordinate at ε/2, of d cells and d report bins each."""

    epsilon: float
    cells: int

    @cached_property
    def _half(self) -> float:
        share = best_window_share(self.epsilon / 2)
        return share / (1 - share)

    @cached_property
    def _law(self) -> Array:
        """P(report bin | record cell) of one coordinate, the record in the middle of its cell."""
        half, factor = self._half, math.exp(self.epsilon / 2)
        ends = np.linspace(-1 - half, 1 + half, self.cells + 1)
        middles = (np.arange(self.cells) + 0.5) * 2 / self.cells - 1
        inside = np.diff(np.clip(ends[:, None] - middles, -half, half), axis=0)
        law = np.diff(ends)[:, None] + (factor - 1) * inside
        return np.asarray(law / law.sum(axis=0))

    def forward(self, shares: Array) -> Array:
        """See `GridReports`."""
        return (self._law @ shares @ self._law.T).ravel()

    def back(self, ratios: Array) -> Array:
        """See `GridReports`."""
        return np.asarray(self._law.T @ ratios.reshape(self.cells, self.cells) @ self._law)

    def report(self, people: Array, rng: np.random.Generator) -> Array:
        """See `GridReports`."""
        own = (_cell_of(people, self.cells) + 0.5) * 2 / self.cells - 1
        half, factor = self._half, math.exp(self.epsilon / 2)
        uniform = rng.random(own.shape) < (2 + 2 * half) / (2 + 2 * half * factor)
        anywhere = rng.uniform(-1 - half, 1 + half, own.shape)
        values = np.where(uniform, anywhere, own + rng.uniform(-half, half, own.shape))
        ends = np.linspace(-1 - half, 1 + half, self.cells + 1)
        return np.histogram2d(values[:, 0], values[:, 1], bins=[ends, ends])[0].ravel()


def _cell_of(people: Array, cells: int) -> Array:
    return np.clip(((people + 1) * cells / 2).astype(np.int64), 0, cells - 1)


def maximize(channel: GridReports | SquareWaves, counts: Array, *, smooth: bool) -> Array:
    """Shares (d, d) by expectation maximization."""
    start = np.full((channel.cells, channel.cells), channel.cells**-2.0)
    return expect(channel.forward, channel.back, counts, start, channel.epsilon, smooth=smooth)


def expect(
    forward: Callable[[Array], Array],
    back: Callable[[Array], Array],
    counts: Array,
    shares: Array,
    epsilon: float,
    *,
    smooth: bool,
) -> Array:
    """Expectation maximization from given shares, in one or two dimensions."""
    last, tolerance = -math.inf, 1e-3 * math.exp(epsilon)
    total = counts.sum()
    for _ in range(_MOST_STEPS):
        mixed = forward(shares)
        shares = shares * back(counts / mixed) / total
        for axis in range(shares.ndim if smooth else 0):
            shares = scipy.ndimage.convolve1d(shares, [0.25, 0.5, 0.25], axis, mode="nearest")
        shares = shares / shares.sum()
        reached = float(counts @ np.log(mixed))
        if reached - last < tolerance:
            break
        last = reached
    return shares


def draw(shares: Array, size: int, rng: np.random.Generator) -> Array:
    """Points (size, 2) in [−1, 1]², uniform within cells of shares (d, d)."""
    drawn = rng.choice(shares.size, size, p=shares.ravel())
    cells = np.stack(np.unravel_index(drawn, shares.shape), axis=1)
    return np.asarray((cells + rng.random((size, 2))) * (2 / len(shares)) - 1)
