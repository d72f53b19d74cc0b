r"""Sums of the Gaussian kernel over point clouds of one or two dimensions, in O(n).

Wanted, for every target $x_i$, from sources $y_j$ with log-weights $h_j$, is

$$ s_i = \log \sum_j e^{h_j - ‖x_i - y_j‖_2^2/λ} . $$

in units of $\sqrt{λ/2}$, which make it the kernel $e^{-‖x-y‖^2/2}$. Most of the work is done on a
grid of cells (`chebyshev_grid`), whose sums come with error bounds. Where too many of them miss the
accuracy asked for, the cells are made smaller; the few that still miss are summed directly
(`direct_sums`), and so is everything where that is faster: small clouds, or very small λ.

**Alignment.** $‖x-y‖^2$ and $‖x'-y'‖^2$, with $x' = A(x - \bar x)$ and $y' = A^{-⊤}(y - \bar y)$,
differ by a function of x plus a function of y. Sums change by known factors, the plan by nothing. A
is chosen such that both clouds have the same covariance: then the mean displacement of matched
points is gone, and the potentials, which are flat for two Gaussian clouds as λ → 0, are far from
overflow; flat is also a good start.

References:
    Greengard, Strain, *The fast Gauss transform* (1991). The alignment is the optimal linear map
    between Gaussians: Peyré, Cuturi, *Computational optimal transport* (2019), remark 2.31.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from studies.full_batch.chebyshev_grid import Axis, Grid, matmul, product
from studies.full_batch.direct_sums import DirectSums

Array = NDArray[np.float64]

# Widths w to try, in standard deviations of the kernel, with M a multiple of 4.
_CUTS = ((1.5, 16), (1.0, 16), (0.75, 16), (0.5, 12), (0.375, 12), (0.3, 16))
# An axis; 50 MB for what connects them.
_MOST_NODES = 2500
# Rough nanoseconds: an entry of the dense products, a point of the grid, a pair summed directly;
# and how far apart pairs still matter, both ways.
_ENTRY, _POINT, _PAIR, _REACH = 0.05, 150.0, 4.0, 16.0


class GaussianKernel:
    r"""The kernel $e^{-‖x_i - y_j‖_2^2/λ}$ between clouds x (n, d) and y (m, d), d ∈ {1, 2}.

    `accuracy` bounds the relative error of every sum; slopes, the derivatives of what is bounded,
    are measured to stay within some hundred times that, in units of $\sqrt{λ}$, and have no proof.
    Sums take and return natural logarithms.

    Examples:
        >>> kernel = GaussianKernel(np.array([[0.0]]), np.array([[2.0], [-2.0]]), reg=1.0)
        >>> np.round(kernel.at_x(np.zeros(2)) - np.log(2), 6)
        array([-4.])
    """

    def __init__(self, x: Array, y: Array, reg: float, accuracy: float = 1e-6) -> None:
        self._accuracy, self._unit = accuracy, np.sqrt(reg / 2)
        mean_x, mean_y = x.T.copy().mean(axis=1), y.T.copy().mean(axis=1)
        x, y = (x - mean_x) / self._unit, (y - mean_y) / self._unit
        gap = (mean_x - mean_y) / self._unit
        self._map = _alignment(x, y)
        self._inverse = np.linalg.inv(self._map)
        aligned_x, aligned_y = matmul(x, self._map), matmul(y, self._inverse)
        # ‖x + gap − y‖²/2 = ‖x′ − y′‖²/2 + shift of x + shift of y
        self._shift_x = _half_squares(x + gap) - _half_squares(aligned_x)
        self._shift_y = _half_squares(y) - _half_squares(aligned_y) - (y * gap).sum(axis=1)
        largest = max(np.abs(self._shift_x).max(), np.abs(self._shift_y).max())
        self.magnitude = float(largest + gap @ gap)
        self._from_mean_y, self._from_mean_x = x + gap, y - gap
        self._x, self._y = _two_columns(aligned_x), _two_columns(aligned_y)
        self._grids: tuple[Grid, Grid] | None = None
        self._direct: dict[bool, DirectSums] = {}
        self._spans = np.maximum(*(np.ptp(c.T.copy(), axis=1) for c in (self._x, self._y)))
        share = np.minimum(1, _REACH / np.maximum(self._spans, 1)).prod()
        direct = _PAIR * len(x) * len(y) * share
        self._cuts = [c for c in _CUTS if self._grid_time(c, len(x), len(y)) < direct]
        if self._cuts:
            self._refine()

    def _grid_time(self, cut: tuple[float, int], n: int, m: int) -> float:
        """Rough nanoseconds of a product over the grid, infinite where it needs too much memory."""
        width, degree = cut
        nodes = degree * np.ceil(self._spans / width)
        if nodes.max() > _MOST_NODES:
            return float("inf")
        return float(_ENTRY * nodes.prod() * nodes.sum() + _POINT * (n + m))

    def _refine(self) -> None:
        """Cut the axes into the next smaller intervals."""
        width, degree = self._cuts.pop(0)
        x, y = self._grids = Grid(self._x, width, degree), Grid(self._y, width, degree)
        self._axes = [Axis.between(x.centers[c], y.centers[c], width, degree) for c in range(2)]

    @property
    def start(self) -> Array:
        """Potentials of y over λ (m,) to start from when nothing better is known."""
        return np.asarray(self._shift_y)

    def at_x(self, h: Array) -> Array:
        """$\\log Σ_j e^{h_j - ‖x_i-y_j‖²/λ}$ (n,) from log-weights h (m,)."""
        return np.asarray(self._sums(h - self._shift_y, to_x=True)[0] - self._shift_x)

    def at_y(self, h: Array) -> Array:
        """$\\log Σ_i e^{h_i - ‖x_i-y_j‖²/λ}$ (m,) from log-weights h (n,)."""
        return np.asarray(self._sums(h - self._shift_x, to_x=False)[0] - self._shift_y)

    def slope_x(self, h: Array) -> Array:
        """Mean of $∇_x ‖x_i - y‖_2^2$ (n, d) over the sources y, weighted by h and the kernel."""
        _, gap = self._sums(h - self._shift_y, to_x=True, slope=True)
        mean_y = matmul((self._x - gap)[:, : len(self._map)], self._map)
        return np.asarray(2 * self._unit * (self._from_mean_y - mean_y))

    def slope_y(self, h: Array) -> Array:
        """Mean of $∇_y ‖x - y_j‖_2^2$ (m, d) over the x, weighted by h and the kernel."""
        _, gap = self._sums(h - self._shift_x, to_x=False, slope=True)
        mean_x = matmul((self._y - gap)[:, : len(self._map)], self._inverse)
        return np.asarray(2 * self._unit * (self._from_mean_x - mean_x))

    def _sums(self, h: Array, to_x: bool, slope: bool = False) -> tuple[Array, Array]:
        """Log-sums, and means of target − source where `slope`, all of aligned points."""
        targets, sources = (self._x, self._y) if to_x else (self._y, self._x)
        sums, gaps = np.empty(len(targets)), np.empty((len(targets), 2))
        missed = np.ones(len(targets), bool)
        while self._grids is not None:
            pair = self._grids if to_x else self._grids[::-1]
            axes = self._axes if to_x else [axis.transposed for axis in self._axes]
            missed = product(*pair, axes, h, self._accuracy, slope, sums, gaps)
            # Points far out miss first. They lie scattered: all pairs of theirs may matter.
            direct = _PAIR * missed.sum() * len(h)
            if not self._cuts or direct < self._grid_time(self._cuts[0], len(targets), len(h)):
                break
            self._refine()
        if missed.any():
            if to_x not in self._direct:
                self._direct[to_x] = DirectSums(sources)
            sums[missed], gaps[missed] = self._direct[to_x](targets[missed], h)
        return sums, gaps


def _half_squares(points: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", points, points) / 2)


def _two_columns(points: Array) -> Array:
    return np.ascontiguousarray(np.hstack([points, np.zeros((len(points), 2 - points.shape[1]))]))


def _alignment(x: Array, y: Array) -> Array:
    """The symmetric A with A S_x A = A⁻¹ S_y A⁻¹, where S is a covariance plus that of the kernel.

    Both clouds are centered.
    """
    cov_x, cov_y = (matmul(c.T, c) / len(c) + np.eye(c.shape[1]) for c in (x, y))
    root, inverse = _power(cov_x, 0.5), _power(cov_x, -0.5)
    return _power(inverse @ _power(root @ cov_y @ root, 0.5) @ inverse, 0.5)


def _power(matrix: Array, exponent: float) -> Array:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * values**exponent) @ vectors.T)
