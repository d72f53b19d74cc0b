r"""Sums of the Gaussian kernel by Chebyshev interpolation on a grid of cells, with error bounds.

Wanted, for every target x of two coordinates, from sources y with log-weights h, is

$$ s = \log \sum_j e^{h_j - ‖x - y_j‖_2^2/2} . $$

**Factorization.** The kernel is $k(x_1-y_1)\,k(x_2-y_2)$ with $k(t) = e^{-t^2/2}$. Cut each axis
into intervals of width w, and on every pair (I, J) of them replace k by its Chebyshev interpolant of
degree M − 1 in both variables. Then $K ≈ P_x\, (B_1 ⊗ B_2)\, P_y^⊤$, where a row of P holds the
$M^2$ products $T_k(t_1) T_l(t_2)$ for the one cell that its point lies in: moments of the sources,
cell by cell; two small dense products; polynomials at the targets. O(n M²), and nothing larger than
the points and the cells is ever stored.

**Error bound.** k is entire. On the Bernstein ellipse of parameter ρ around J, of half-axes
$a, b = \tfrac w4 (ρ ± ρ^{-1})$, for x at distance D from J, $|k(x-y)|$ is at most
$e^{b^2/2 - (D + w/2 - a)_+^2/2}$, and the interpolant's error at most $4ρ^{1-M}/(ρ-1)$ times that;
the best of several ρ is taken, and the other variable multiplies by one plus its Lebesgue constant.
With the product rule for two axes, and rounding, every $e^s$ has an error of at most three sums over
*cells*, which are worked out along with it. What may miss the accuracy asked for is reported.

References:
    Fong, Darve, *The black-box fast multipole method* (2009). Trefethen, *Approximation theory and
    approximation practice* (2013), theorem 8.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from privot.core.compiled import compiled
from privot.transport.ground import in_threads

Array = NDArray[np.float64]

_ELLIPSES = np.geomspace(1.5, 64.0, 40)
# Of the two dense products, relative to the largest kernel between two cells times the mass.
_ROUNDING = 1e-14
# Weights and kernels below this may have been flushed to zero.
_TINY = 1e-290
_CHUNKS = 8
_THREADS_FROM = 10_000


class Grid:
    """A cloud sorted into square cells, with coordinates in [−1, 1] inside them."""

    def __init__(self, points: Array, width: float, degree: int) -> None:
        self.width, self.degree = width, degree
        columns = points.T.copy()
        low = columns.min(axis=1, keepdims=True)
        cells = np.floor((columns - low) / width).astype(np.int64)
        self.shape = cells.max(axis=1) + 1
        # Centers of the intervals along both axes.
        self.centers = [low[c] + width * (np.arange(self.shape[c]) + 0.5) for c in range(2)]
        key = cells[0] * self.shape[1] + cells[1]
        self.order = np.argsort(key.astype(np.int32), kind="stable")
        self.cell = key[self.order]
        counts = np.bincount(key, minlength=int(self.shape.prod()))
        self.starts = np.concatenate([[0], counts.cumsum()])
        local = (columns - low - (cells + 0.5) * width) * (2 / width)
        self.local = np.ascontiguousarray(local[:, self.order].T)


def product(
    target: Grid,
    source: Grid,
    axes: list[Axis],
    h: Array,
    accuracy: float,
    slope: bool,
    sums: Array,
    gaps: Array,
) -> NDArray[np.bool_]:
    """Fill log-sums and mean gaps at the targets; which of them miss the accuracy."""
    top = h.max()
    weights = np.exp(h[source.order] - top)
    mass = np.bincount(source.cell, weights, len(source.starts) - 1).reshape(source.shape)
    parallel = len(h) + len(sums) > _THREADS_FROM
    moments = np.zeros(source.shape * source.degree)
    edges = _edges(source)

    def spread(c: int) -> None:
        _spread(source.local, weights, source.starts, *edges[c : c + 2], source.degree, moments)

    in_threads(spread, _CHUNKS, parallel)
    values = _between(axes[0].matrix, moments, axes[1].matrix)
    (k0, e0), (k1, e1) = ((axis.largest, axis.error) for axis in axes)
    bound = _between(e0, mass, k1) + _between(k0 + e0, mass, e1) + _TINY * (1 + mass.sum())
    edges = _edges(target)
    out = np.empty((len(sums), 3 if slope else 1))

    def gather(c: int) -> None:
        _gather(target.local, values, target.starts, *edges[c : c + 2], target.degree, slope, out)

    in_threads(gather, _CHUNKS, parallel)
    found = out[:, 0] * accuracy >= bound.ravel()[target.cell]
    safe = np.where(found, out[:, 0], 1.0)
    sums[target.order] = np.log(safe) + top
    if slope:
        # ∇ log Σ_j e^{h_j − ‖x−y_j‖²/2} is the mean of y − x; the cells' coordinates are scaled.
        gaps[target.order] = out[:, 1:] * (-2 / target.width) / safe[:, None]
    missed = np.empty(len(sums), bool)
    missed[target.order] = ~found
    return missed


def _edges(grid: Grid) -> NDArray[np.int64]:
    """Limits of runs of cells that hold about equally many points."""
    marks = np.linspace(0, len(grid.cell), _CHUNKS + 1)
    return np.searchsorted(grid.starts, marks).astype(np.int64)


def matmul(a: NDArray[np.floating], b: NDArray[np.floating]) -> Array:
    """Product of matrices on torch's threads, of which the caller decides.

    NumPy's are others, and on a busy machine small products wait for them ten times their own time.
    """
    return np.asarray((torch.from_numpy(a) @ torch.from_numpy(b)).numpy())


def _between(left: Array, middle: Array, right: Array) -> Array:
    return np.ascontiguousarray(matmul(matmul(left, middle), right.T))


@dataclass(frozen=True)
class Axis:
    """One axis: the kernel between the intervals' polynomials, its maxima, its error bounds."""

    matrix: Array
    largest: Array
    error: Array

    @property
    def transposed(self) -> Axis:
        """The same with targets and sources exchanged."""
        return Axis(self.matrix.T, self.largest.T, self.error.T)

    @classmethod
    def between(cls, target: Array, source: Array, width: float, degree: int) -> Axis:
        """Axis of intervals around given centers."""
        k = np.arange(degree)
        angles = np.pi * (k + 0.5) / degree
        nodes = width / 2 * np.cos(angles)
        to_modes = np.cos(np.outer(k, angles)) * np.where(k == 0, 1, 2)[:, None] / degree
        steps = target[:, None] - source[None, :]
        gap = steps[:, :, None, None] + nodes[:, None] - nodes[None, :]
        blocks = _between(to_modes, np.exp(-gap * gap / 2), to_modes)
        size = (len(target) * degree, len(source) * degree)
        matrix = blocks.transpose(0, 2, 1, 3).reshape(size)
        distance = np.maximum(np.abs(steps) - width, 0.0)
        largest = np.exp(-distance * distance / 2)
        log_error = np.full_like(distance, np.inf)
        for rho in _ELLIPSES:
            a, b = width / 4 * (rho + 1 / rho), width / 4 * (rho - 1 / rho)
            left = np.maximum(distance + width / 2 - a, 0.0)
            log_bound = (b * b - left * left) / 2 + (1 - degree) * np.log(rho) - np.log(rho - 1)
            log_error = np.minimum(log_error, log_bound)
        # Beyond e^100 a bound is useless whatever its value.
        once = 4 * np.exp(np.minimum(log_error, 100.0))
        both = (2 + 2 / np.pi * np.log(degree)) * once
        return cls(matrix, largest, both + _ROUNDING * largest)


@compiled
def _spread(local, weights, starts, first, last, degree, moments):  # type: ignore[no-untyped-def]  # compiled: numba infers types
    """Moments Σ w T_k(t_1) T_l(t_2) of the cells' points, four points at a time."""
    columns = moments.shape[1] // degree
    p, q = np.zeros((4, degree)), np.zeros((4, degree))
    block = np.zeros((degree, degree))
    for cell in range(first, last):
        block[:] = 0.0
        for start in range(starts[cell], starts[cell + 1], 4):
            p[:] = 0.0
            for i in range(min(4, starts[cell + 1] - start)):
                s, t = local[start + i, 0], local[start + i, 1]
                p[i, 0], p[i, 1] = weights[start + i], weights[start + i] * s
                q[i, 0], q[i, 1] = 1.0, t
                for k in range(2, degree):
                    p[i, k] = 2 * s * p[i, k - 1] - p[i, k - 2]
                    q[i, k] = 2 * t * q[i, k - 1] - q[i, k - 2]
            for k in range(degree):
                p0, p1, p2, p3 = p[0, k], p[1, k], p[2, k], p[3, k]
                for m in range(degree):
                    block[k, m] += p0 * q[0, m] + p1 * q[1, m] + p2 * q[2, m] + p3 * q[3, m]
        row, column = cell // columns * degree, cell % columns * degree
        for k in range(degree):
            for m in range(degree):
                moments[row + k, column + m] = block[k, m]


@compiled
def _gather(local, values, starts, first, last, degree, slope, out):  # type: ignore[no-untyped-def]  # compiled: numba infers types
    """The cells' polynomials at their points, followed by both derivatives where `slope`."""
    columns = values.shape[1] // degree
    p, q = np.zeros((2, degree)), np.zeros((2, degree))
    block, inner = np.zeros((degree, degree)), np.zeros(degree)
    for cell in range(first, last):
        row, column = cell // columns * degree, cell % columns * degree
        for k in range(degree):
            for m in range(degree):
                block[k, m] = values[row + k, column + m]
        for i in range(starts[cell], starts[cell + 1]):
            s, t = local[i, 0], local[i, 1]
            p[0, 0], p[0, 1], p[1, 1] = 1.0, s, 1.0
            q[0, 0], q[0, 1], q[1, 1] = 1.0, t, 1.0
            for k in range(2, degree):
                p[0, k] = 2 * s * p[0, k - 1] - p[0, k - 2]
                q[0, k] = 2 * t * q[0, k - 1] - q[0, k - 2]
                if slope:
                    p[1, k] = 2 * p[0, k - 1] + 2 * s * p[1, k - 1] - p[1, k - 2]
                    q[1, k] = 2 * q[0, k - 1] + 2 * t * q[1, k - 1] - q[1, k - 2]
            for order in range(2 if slope else 1):
                inner[:] = 0.0
                for k in range(0, degree, 4):
                    p0, p1, p2, p3 = p[order, k], p[order, k + 1], p[order, k + 2], p[order, k + 3]
                    for m in range(degree):
                        inner[m] += (
                            p0 * block[k, m]
                            + p1 * block[k + 1, m]
                            + p2 * block[k + 2, m]
                            + p3 * block[k + 3, m]
                        )
                total = turned = 0.0
                for m in range(degree):
                    total += inner[m] * q[0, m]
                    turned += inner[m] * q[1, m]
                out[i, order] = total
                if slope and order == 0:
                    out[i, 2] = turned
