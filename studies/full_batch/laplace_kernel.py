r"""Sums of the product-Laplace kernel over point clouds of one or two dimensions, in O(n log n).

Wanted, for every target $x_i$, from sources $y_j$ with log-weights $h_j$, is

$$ s_i = \log \sum_j e^{h_j - ‖x_i - y_j‖_1/λ} . $$

In each quadrant around $x_i$ the signs of $x_i − y_j$ are fixed, and the kernel is a product:
for sources to the lower left, $e^{-‖x_i-y_j‖_1/λ} = e^{-(x_{i1}+x_{i2})/λ}\, e^{(y_{j1}+y_{j2})/λ}$.
The sum over a quadrant is thus a *dominance sum*: of the numbers $e^{h_j + (y_{j1}+y_{j2})/λ}$ over
the sources with $y_{j1} ≤ x_{i1}$ and $y_{j2} ≤ x_{i2}$. Sweep the targets by first coordinate, add
the sources passed to a Fenwick tree indexed by the rank of their second coordinate, and read off a
prefix sum: O((n + m) log m), four sweeps. In one dimension there are two half-lines, and a running
sum is enough. All terms are positive: nothing cancels, and the only errors are those of rounding.

**Range.** The premultiplied numbers reach $e^{±R}$, with R the diameter of the data over λ plus the
spread of h, beyond double precision from about 700. Numbers that do not fit are kept as pairs
$(w, k)$ that stand for $w·2^{512k}$ with $2^{-256} ≤ w$: equal k add, neighboring k add after a
scaling by $2^{-512}$, and two apart the smaller one is below $2^{-512}$ of the larger, up to the
number of terms. Any R is thus possible; what remains is the rounding of the exponents themselves,
a relative error of $2^{-53} R$ in $e^{s_i}$.

References:
    Fenwick, *A new data structure for cumulative frequency tables* (1994). The divide-and-conquer
    view of dominance sums: Bentley, *Multidimensional divide-and-conquer* (1980).
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from privot.core.compiled import compiled
from privot.transport.ground import in_threads

Array = NDArray[np.float64]
Counts = NDArray[np.int32]

# |log| of products up to which doubles hold them and the sums of them.
_PLAIN_LOG = 600.0
_STEP = 512 * np.log(2.0)
_DOWN = 2.0**-512
_NOTHING = -np.inf
# Clouds smaller than this are swept faster than threads are woken.
_THREADS_FROM = 10_000


class LaplaceKernel:
    r"""The kernel $e^{-‖x_i - y_j‖_1/λ}$ between clouds x (n, d) and y (m, d), d ∈ {1, 2}.

    Holds the sorted orders of both clouds; no n × m array is ever formed. All methods take and
    return natural logarithms.

    Examples:
        >>> kernel = LaplaceKernel(np.array([[0.0]]), np.array([[1.0], [-1.0]]), reg=1.0)
        >>> kernel.at_x(np.zeros(2)) - np.log(2)
        array([-1.])
    """

    def __init__(self, x: Array, y: Array, reg: float) -> None:
        x, y = x / reg, y / reg
        center = (x.T.copy().mean(axis=1) + y.T.copy().mean(axis=1)) / 2
        cloud_x, cloud_y = _Cloud(x - center), _Cloud(y - center)
        self.magnitude = max(cloud_x.reach, cloud_y.reach)
        self._to_x = _Dominance(cloud_y, cloud_x)
        self._to_y = _Dominance(cloud_x, cloud_y)

    @property
    def start(self) -> Array:
        """Potentials of y over λ (m,) to start from when nothing better is known: zeros."""
        return np.zeros(self._to_y.size)

    def at_x(self, h: Array) -> Array:
        """$\\log Σ_j e^{h_j - ‖x_i-y_j‖_1/λ}$ (n,) from log-weights h (m,)."""
        return self._to_x.log_sums(h)

    def at_y(self, h: Array) -> Array:
        """$\\log Σ_i e^{h_i - ‖x_i-y_j‖_1/λ}$ (m,) from log-weights h (n,)."""
        return self._to_y.log_sums(h)

    def slope_x(self, h: Array) -> Array:
        """Mean of $∇_x ‖x_i - y‖_1$ (n, d) over the sources y, weighted by h and the kernel."""
        return self._to_x.mean_signs(h)

    def slope_y(self, h: Array) -> Array:
        """Mean of $∇_y ‖x - y_j‖_1$ (m, d) over the x, weighted by h and the kernel."""
        return self._to_y.mean_signs(h)


class _Cloud:
    """A cloud in units of λ, sorted by each coordinate."""

    def __init__(self, points: Array) -> None:
        size, self.dim = points.shape
        self.order = np.argsort(points[:, 0])
        self.points = np.ascontiguousarray(points[self.order].T)
        self.signs = list(product((1, -1), repeat=self.dim))
        self.reach = float(np.abs(self.points).max(axis=1).sum())
        if self.dim == 2:
            self.by_second = np.argsort(self.points[1])
            self.second = self.points[1][self.by_second]
            self.rank = np.empty(size, np.int32)
            self.rank[self.by_second] = np.arange(1, size + 1, dtype=np.int32)

    def offset(self, q: int) -> Array:
        """Logs of what the sources of quadrant q are multiplied with, the targets divided."""
        return np.asarray(sum(s * c for s, c in zip(self.signs[q], self.points, strict=True)))


class _Dominance:
    """Sums over the quadrants around the targets, from the sources in them."""

    def __init__(self, sources: _Cloud, targets: _Cloud) -> None:
        self._sources, self._targets = sources, targets
        self.size = len(targets.order)
        self._at_or_below = self._positions("right")

    def _positions(self, side: str) -> tuple[Counts, Counts | None]:
        """How many sources lie at or below (strictly below, for `left`) each target, a coordinate.

        Both arrays are sorted, and so is what is searched for: the searches walk through memory.
        """
        sources, targets = self._sources, self._targets
        passed = np.searchsorted(sources.points[0], targets.points[0], side)  # type: ignore[call-overload]  # side is "left" or "right"
        if sources.dim == 1:
            return passed.astype(np.int32), None
        below = np.empty(self.size, np.int32)
        below[targets.by_second] = np.searchsorted(sources.second, targets.second, side)  # type: ignore[call-overload]  # side is "left" or "right"
        return passed.astype(np.int32), below

    def log_sums(self, h: Array) -> Array:
        quadrants, log_scale = self._quadrants(h, *self._at_or_below)
        out = np.empty(self.size)
        out[self._targets.order] = np.log(quadrants.sum(axis=0)) + log_scale
        return out

    def mean_signs(self, h: Array) -> Array:
        """Mean sign of target − source; where they coincide the sign is 0, halfway between ±1."""
        slope = self._mean_signs(h, *self._at_or_below)
        below = self._positions("left")
        pairs = zip(below, self._at_or_below, strict=True)
        if any(a is not None and (a != b).any() for a, b in pairs):
            slope = (slope + self._mean_signs(h, *below)) / 2
        out = np.empty_like(slope)
        out[self._targets.order] = slope
        return out

    def _mean_signs(self, h: Array, passed: Counts, below: Counts | None) -> Array:
        quadrants, _ = self._quadrants(h, passed, below)
        slopes = np.einsum("qi,qc->ic", quadrants, np.asarray(self._targets.signs, float))
        return np.asarray(slopes / quadrants.sum(axis=0)[:, None])

    def _quadrants(
        self, h: Array, passed: Counts, below: Counts | None
    ) -> tuple[Array, Array | float]:
        """Sums over the quadrants (2^d, n), targets in order, over e^scale."""
        sources, targets = self._sources, self._targets
        middle = (h.max() + h.min()) / 2
        h = h[sources.order] - middle
        reach = np.abs(h).max() + sources.reach + targets.reach
        wide = bool(reach > _PLAIN_LOG)
        sums = np.empty((len(sources.signs), self.size))

        def sweep(q: int) -> None:
            logs = sources.offset(q)
            logs += h
            powers = np.rint(logs / _STEP) if wide else np.zeros(1)
            logs -= powers * _STEP
            weights, out = np.exp(logs, out=logs), sums[q]
            out_powers = np.empty(self.size if wide else 1)
            flips = [sign < 0 for sign in sources.signs[q]]
            if below is None:
                _half_line(weights, powers, wide, passed, *flips, out, out_powers)
            else:
                rank = sources.rank
                _quadrant(weights, powers, wide, rank, passed, below, *flips, out, out_powers)
            if wide:
                with np.errstate(divide="ignore"):
                    np.log(out, out=out)
                out += out_powers * _STEP
                out -= targets.offset(q)
            else:
                out *= np.exp(-targets.offset(q))

        in_threads(sweep, len(sums), parallel=len(h) + self.size > _THREADS_FROM)
        if not wide:
            return sums, middle
        top = sums.max(axis=0)
        return np.exp(sums - top), top + middle


@compiled
def _quadrant(weights, powers, wide, rank, passed, below, right, above, sums, sum_powers):  # type: ignore[no-untyped-def]  # compiled: numba infers types
    """Sums over the quadrant of each target that is to the left (right) and below (above)."""
    m, n = rank.size, passed.size
    tree = np.zeros(m + 1)
    tree_powers = np.full(m + 1 if wide else 1, _NOTHING)
    added = 0
    for step in range(n):
        i = n - 1 - step if right else step
        limit = m - passed[i] if right else passed[i]
        while added < limit:
            j = m - 1 - added if right else added
            added += 1
            node = m + 1 - rank[j] if above else rank[j]
            w = weights[j]
            if not wide:
                while node <= m:
                    tree[node] += w
                    node += node & -node
                continue
            k = powers[j]
            while node <= m:
                gap = k - tree_powers[node]
                if gap == 0:
                    tree[node] += w
                elif gap == -1:
                    tree[node] += w * _DOWN
                elif gap > 0:
                    tree[node] = w + (tree[node] * _DOWN if gap == 1 else 0.0)
                    tree_powers[node] = k
                node += node & -node
        node = m - below[i] if above else below[i]
        total, k = 0.0, _NOTHING
        if not wide:
            while node > 0:
                total += tree[node]
                node &= node - 1
            sums[i] = total
            continue
        while node > 0:
            gap = tree_powers[node] - k
            if gap == 0:
                total += tree[node]
            elif gap == -1:
                total += tree[node] * _DOWN
            elif gap > 0:
                total = tree[node] + (total * _DOWN if gap == 1 else 0.0)
                k = tree_powers[node]
            node &= node - 1
        sums[i] = total
        if wide:
            sum_powers[i] = k


@compiled
def _half_line(weights, powers, wide, passed, right, sums, sum_powers):  # type: ignore[no-untyped-def]  # compiled: numba infers types
    """Running sums over the sources to the left (right) of each target."""
    m, n = weights.size, passed.size
    total, k, added = 0.0, _NOTHING if wide else 0.0, 0
    for step in range(n):
        i = n - 1 - step if right else step
        limit = m - passed[i] if right else passed[i]
        while added < limit:
            j = m - 1 - added if right else added
            added += 1
            gap = powers[j] - k if wide else 0.0
            if gap == 0:
                total += weights[j]
            elif gap == -1:
                total += weights[j] * _DOWN
            elif gap > 0:
                total = weights[j] + (total * _DOWN if gap == 1 else 0.0)
                k = powers[j]
        sums[i] = total
        if wide:
            sum_powers[i] = k
