r"""Exact optimal assignment of two equally large samples, in NumPy.

$$ \min_{s ∈ S_n} \tfrac1n \sum_i ‖x_i − y_{s(i)}‖_p^p , \qquad p ∈ \{1, 2\} $$

with the ℓ1 (p = 1) or Euclidean (p = 2) ground cost: Birkhoff's theorem makes the optimal coupling of
two uniform samples a permutation, which SciPy's linear assignment finds in O(n³).

Adding a number to a row or a column of the costs changes no assignment's rank. The search therefore
starts from costs reduced by the potentials of entropic problems of falling regularization: nearly all
augmenting paths are then short (20 seconds become less than 2 for noisy samples, n = 3000). The result
is exact whatever the potentials are.

References:
    Peyré, Cuturi, *Computational optimal transport* (2019), sections 2.3 and 4.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from privot.errors import PrivotError

Array = NDArray[Any]
Indices = NDArray[np.int64]
_REDUCE_FROM = 300
_REGS = (0.1, 0.02, 0.005, 0.001)  # of the mean cost
_ITERATIONS = 50
_METRICS = {1: "cityblock", 2: "sqeuclidean"}


def assignment(x: Array, y: Array, p: int = 2) -> Indices:
    """Indices s (n,) such that matching $x_i$ with $y_{s(i)}$ costs least.

    Arguments:
        x: Points (n, d).
        y: Points (n, d).
        p: Exponent: 1 for the ℓ1 ground cost, 2 for the squared Euclidean one.

    Raises:
        PrivotError: if `p` is neither, or the samples have different shapes.

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
    if len(x) >= _REDUCE_FROM:
        cost = _reduced(cost)
    return np.asarray(linear_sum_assignment(cost)[1])


def wasserstein(x: Array, y: Array, p: int = 2) -> float:
    """W_p of two samples (n, d) of equal size.

    Examples:
        >>> wasserstein(np.array([[0.0], [1.0]]), np.array([[4.0], [3.0]]))
        3.0
    """
    gap = np.abs(x - y[assignment(x, y, p)])
    return float(gap.sum(axis=1).mean() if p == 1 else np.sqrt((gap**2).sum(axis=1).mean()))


def _reduced(cost: Array) -> Array:
    """The cost less potentials f_i + g_j, which changes no optimal assignment.

    Sinkhorn's scaling of falling regularization in single precision, each begun from the potentials of
    the one before. Every row and column of `left` has a zero, so that no sum of the kernel vanishes.
    """
    cost = cost / (cost.mean() or 1.0)
    left = _c_transformed(cost).astype(np.float32)
    for reg in _REGS:
        kernel = np.exp(-left / np.float32(reg))
        u = v = np.ones(len(left), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(_ITERATIONS):
                u = 1 / (kernel @ v)
                v = 1 / (u @ kernel)
        if not (np.isfinite(u).all() and np.isfinite(v).all() and u.all() and v.all()):
            break
        left = _c_transformed(left - np.float32(reg) * (np.log(u)[:, None] + np.log(v)))
    g = (cost - left)[0]  # the columns' potentials, up to a constant
    return _c_transformed(cost - g)


def _c_transformed(cost: Array) -> Array:
    """The cost less the minima of its rows, and then of its columns: ≥ 0, with a zero in each."""
    cost = cost - cost.min(axis=1, keepdims=True)
    return cost - cost.min(axis=0)
