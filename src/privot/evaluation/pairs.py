r"""Two columns of codes: their joint table, and how strongly it says that they hang together.

Of a joint table $p_{ab}$ with margins $p_a$ and $p_b$:

- **independence** is the table $p_a p_b$ of the same margins, and the total variation between the two
  is what a model loses that gets every column right and learns nothing else;
- **Cramér's V** is $\sqrt{φ² / (\min(r, c) − 1)}$ with $φ² = \sum_{ab} p_{ab}²/(p_a p_b) − 1$: 0 where
  the columns are independent, 1 where one determines the other. A sample's V is biased upwards, by about
  $(r−1)(c−1)/n$ in φ²; a comparison of two V is to be read beside that of two samples of one table;
- **correlation** is Pearson's, of the numbers that the codes stand for.

Every function takes tables (…, r, c) and works on the last two axes.

References:
    Cramér, *Mathematical Methods of Statistics* (1946), §21.9.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Array = NDArray[np.float64]


def total_variation(p: Array, q: Array) -> float:
    """Half the ℓ1 distance of two distributions on the same cells.

    Examples:
        >>> total_variation(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
        0.5
    """
    return float(np.abs(p - q).sum() / 2)


def joint_shares(first: Codes, second: Codes, shape: tuple[int, int]) -> Array:
    """The shares (r, c) of records with each pair of codes.

    Examples:
        >>> joint_shares(np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0]), (2, 2)).tolist()
        [[0.25, 0.0], [0.25, 0.5]]
    """
    cells = np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1])
    return cells.reshape(shape) / len(first)


def independent(joint: Array) -> Array:
    """The table of independent columns with the margins of `joint`."""
    product: Array = joint.sum(-1, keepdims=True) * joint.sum(-2, keepdims=True)
    return product


def cramers_v(joint: Array) -> Array:
    """Cramér's V; 0 where a column is constant.

    Examples:
        >>> float(cramers_v(np.eye(3) / 3))
        1.0
    """
    rows, columns = joint.shape[-2:]
    if min(rows, columns) < 2:
        return np.zeros(joint.shape[:-2])
    expected = independent(joint)
    ratios = np.divide(joint**2, expected, out=np.zeros_like(joint), where=expected > 0)
    excess = np.clip(ratios.sum((-2, -1)) - 1, 0, None)
    return np.sqrt(excess / (min(rows, columns) - 1))


def correlation(joint: Array, first: Array, second: Array) -> Array:
    """Pearson's correlation of the numbers `first` (r,) and `second` (c,) that the codes stand for.

    Codes whose number is NaN (missing values) are left out. Where either column is constant there is
    nothing to correlate, and the answer is 0.

    Examples:
        >>> float(correlation(np.eye(2) / 2, np.array([0.0, 1.0]), np.array([5.0, 2.0])))
        -1.0
    """
    known = np.isfinite(first), np.isfinite(second)
    if not known[0].any() or not known[1].any():
        return np.zeros(joint.shape[:-2])
    complete = joint[..., known[0], :][..., known[1]]
    total = complete.sum((-2, -1), keepdims=True)
    complete = np.divide(complete, total, out=np.zeros_like(complete), where=total > 0)
    x = first[known[0]] - np.mean(first[known[0]])
    y = second[known[1]] - np.mean(second[known[1]])
    margins = complete.sum(-1), complete.sum(-2)
    means = margins[0] @ x, margins[1] @ y
    spread = np.clip(
        (margins[0] @ x**2 - means[0] ** 2) * (margins[1] @ y**2 - means[1] ** 2), 0, None
    )
    covariance = np.einsum("...rc,r,c->...", complete, x, y) - means[0] * means[1]
    # A constant column leaves a spread of rounding errors, relative to the codes' own.
    constant = spread <= 1e-24 * (x @ x) * (y @ y)
    out: Array = np.where(constant, 0.0, covariance / np.sqrt(np.where(constant, 1.0, spread)))
    return out
