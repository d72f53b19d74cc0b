r"""Exact optimal assignment of two samples of equal size, in NumPy.

$$ \min_{s ∈ S_n} \tfrac1n \sum_i ‖x_i − y_{s(i)}‖_p^p , \qquad p ∈ \{1, 2\} $$

The ground cost is ℓ1 (p = 1) or squared Euclidean (p = 2). By Birkhoff's theorem, an optimal coupling of
two uniform samples is a permutation, which SciPy's linear assignment finds in O(n³).

Adding a constant to a row or a column of the costs changes the costs of all assignments equally. So
costs are first reduced by potentials, which makes nearly all augmenting paths short: noisy samples of n
= 3000 take one second instead of 20. The potentials solve an entropic problem between the means of small
cells of points, with decreasing regularization. The assignment is exact for any potentials.

References:
    Peyré, Cuturi, *Computational optimal transport* (2019), sections 2.3 and 4.2.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from privot.core.errors import PrivotError

Array = NDArray[Any]
Indices = NDArray[np.int64]
_MIN_REDUCED_SIZE = 300  # for smaller samples, the assignment takes less time than the potentials
# Regularizations of the potentials, relative to the mean cost, and Sinkhorn steps at each.
_REGULARIZATION, _STEPS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001), 50
_LARGEST_EXPONENT = 16  # sparse kernels omit entries below e^−16, which hardly changes potentials
_SPARSE_SHARE = 0.25  # up to this share of larger entries, a sparse kernel is faster
_POINTS_PER_CELL = 2  # potentials of single points would cost as much time as they save
_METRICS = {1: "cityblock", 2: "sqeuclidean"}


def assignment(x: Array, y: Array, p: int = 2) -> Indices:
    """Return indices s (n,) for which matching $x_i$ with $y_{s(i)}$ has the least cost.

    Arguments:
        x: Points (n, d).
        y: Points (n, d).
        p: Exponent: 1 for the ℓ1 ground cost, 2 for the squared Euclidean one.

    Raises:
        PrivotError: if `p` is neither 1 nor 2, or the samples have different shapes.

    Examples:
        >>> assignment(np.array([[0.0], [1.0]]), np.array([[4.0], [3.0]])).tolist()
        [1, 0]
    """
    if p not in _METRICS:
        raise PrivotError(f"p {p!r} is not known: use 1 (ℓ1) or 2 (Euclidean)")
    if x.shape != y.shape or x.ndim != 2:
        raise PrivotError(
            f"samples have shapes {tuple(x.shape)} and {tuple(y.shape)}: "
            "give two samples of the same shape (n, d)"
        )
    cost = cdist(x, y, _METRICS[p])
    if len(x) >= _MIN_REDUCED_SIZE:
        cost /= cost.mean() or 1.0
        cost = _reduced(cost - _potentials(x, y, p))
    return np.asarray(linear_sum_assignment(cost)[1])


def wasserstein(x: Array, y: Array, p: int = 2) -> float:
    """Return the distance W_p of two samples (n, d), with the arguments and errors of `assignment`.

    Examples:
        >>> wasserstein(np.array([[0.0], [1.0]]), np.array([[4.0], [3.0]]))
        3.0
    """
    difference = x - y[assignment(x, y, p)]
    if p == 1:
        return float(np.abs(difference).sum(axis=1).mean())
    return float(np.sqrt((difference**2).sum(axis=1).mean()))


def _potentials(x: Array, y: Array, p: int) -> Array:
    r"""Return potentials g (n,) of the points y, in units of the mean cost.

    They are the c-transform $g_j = \min_i (C_{ij} − f_i)$ of the potentials f of the cells' means of x.
    """
    depth = max(0, int(math.log2(len(x) / _POINTS_PER_CELL)))
    means_x, means_y = _cell_means(x, depth), _cell_means(y, depth)
    cost = cdist(means_x, means_y, _METRICS[p])
    mean_cost = cost.mean() or 1.0
    cost /= mean_cost
    # Reduced costs are C_ij − f_i − g_j, so any column of the difference is f up to a constant.
    f = (cost - _reduced_by_sinkhorn(_reduced(cost)))[:, 0]
    return np.asarray((cdist(means_x, y, _METRICS[p]) / mean_cost - f[:, None]).min(axis=0))


def _cell_means(points: Array, depth: int) -> Array:
    """Return the means (2^depth, d) of cells, halved at the median of their widest coordinate."""
    cells = [points]
    for _ in range(depth):
        halves = []
        for cell in cells:
            order = np.argpartition(cell[:, np.argmax(np.ptp(cell, axis=0))], len(cell) // 2)
            halves += [cell[order[: len(cell) // 2]], cell[order[len(cell) // 2 :]]]
        cells = halves
    return np.array([cell.mean(axis=0) for cell in cells])


def _reduced_by_sinkhorn(reduced: Array) -> Array:
    """Reduce a cost further by the potentials of Sinkhorn's algorithm, in single precision.

    For each regularization, each row and column of `reduced` has a zero, so no sum of the kernel is 0.
    """
    reduced = reduced.astype(np.float32)
    for reg in map(np.float32, _REGULARIZATION):
        kernel, transposed = _kernel(reduced, reg)
        u: Array = np.ones(len(reduced), np.float32)
        v: Array = u
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for _ in range(_STEPS):
                u = 1 / (kernel @ v)
                v = 1 / (transposed @ u)
        if not (np.isfinite(u).all() and np.isfinite(v).all() and u.all() and v.all()):
            break
        reduced -= (reg * np.log(u))[:, None]
        reduced -= reg * np.log(v)
        reduced = _reduced(reduced)
    return reduced


def _kernel(reduced: Array, reg: np.float32) -> tuple[Any, Any]:
    """Return exp(−reduced/reg) and its transpose, sparse if at most a quarter of it exceeds e^−16."""
    large = reduced < _LARGEST_EXPONENT * reg
    if large.mean() > _SPARSE_SHARE:
        kernel = np.exp(reduced / -reg)
        return kernel, kernel.T
    rows, columns = np.nonzero(large)
    entries = np.exp(reduced[rows, columns] / -reg)
    sparse = csr_array((entries, (rows, columns)), shape=reduced.shape)
    return sparse, sparse.T.tocsr()


def _reduced(cost: Array) -> Array:
    """Subtract row minima, then column minima: the result is ≥ 0, with a zero in each row and column."""
    cost = cost - cost.min(axis=1, keepdims=True)
    cost -= cost.min(axis=0)
    return cost
