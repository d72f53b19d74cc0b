r"""The published bounds on the sensitivity of slices, for comparison only.

Rakotomamonjy and Ralaivola (2021) bound $H = ‖Uᵀz‖²$, ‖z‖ = 1, k independent directions, by a number w
that it exceeds with probability at most δ, and account for a Gaussian mechanism of squared
sensitivity w at what is left of δ:

- **Bernstein** (Lemma 2): $w = k/d + ⅔ \ln(1/δ) + (2/d) \sqrt{k \ln(1/δ) (d−1)/(d+2)}$. True, but the
  middle term bounds each $Y_j$ by 1, while it is about 1/d.
- **CLT**: $w = k/d + (z_{1−δ}/d) \sqrt{2k (d−1)/(d+2)}$, the normal law's quantile. *Not* an upper
  bound: each $Y_j$ is skewed to the right, and so is their sum. At d = 784 it is exceeded 3 times as
  often as δ = 5e-6 says for k = 1000, 185 times as often for k = 10.

Both presuppose that two data sets differ in one row, by 1 at most. Algorithm 2 divides the rows of a
private batch by twice their largest norm, and a record that is replaced changes that norm, hence every
row: of B records of norm 1 let one grow to norm r. The rows of the others shrink from ½ to 1/2r, so that
the squared difference of all rows is at least $(B - 1)(½ - 1/2r)^2$, and grows with B. Records have to
be clipped to a public radius instead.

Both are spent once in the paper, for thousands of fresh projections of which each may exceed w; T of
them need w at δ/T. So neither calibration, as published, proves what it claims; `SlicedAccounting`
averages over the law of H instead, spends no δ on it, and needs less noise than either.
"""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import MOST_DIMENSIONS, MOST_PROJECTIONS, PrivotError, require_count
from privot.privacy.rounding import require_delta
from privot.privacy.slice_accounting import SlicedAccounting


def published_bernstein(dim: int, num_projections: int, delta: float) -> float:
    """Return w of Lemma 2: ‖Uᵀz‖² ≤ w for a unit vector z with probability at least 1 − δ.

    >>> round(published_bernstein(dim=784, num_projections=1000, delta=5e-6), 3)
    9.694
    """
    _check(dim, num_projections, delta)
    log_odds = math.log(1 / delta)
    spread = math.sqrt(num_projections * (dim - 1) / (dim + 2) * log_odds)
    return num_projections / dim + 2 / 3 * log_odds + 2 / dim * spread


def published_clt(dim: int, num_projections: int, delta: float) -> float:
    """Return w of the normal approximation: exceeded more often than δ, so no bound.

    >>> round(published_clt(dim=784, num_projections=1000, delta=5e-6), 3)
    1.527
    """
    _check(dim, num_projections, delta)
    quantile = -float(scipy.special.ndtri(delta))
    spread = math.sqrt(2 * num_projections * (dim - 1) / (dim + 2))
    return num_projections / dim + quantile / dim * spread


def normalized_difference(batch: NDArray[np.float64], replaced: NDArray[np.float64]) -> float:
    """Return the squared difference of all rows of two batches, each divided by twice its largest norm.

    >>> rows = np.eye(4)
    >>> normalized_difference(rows, np.vstack([100 * rows[:1], rows[1:]])) > 0.7
    True
    """
    first, second = (x / (2 * np.linalg.norm(x, axis=1).max()) for x in (batch, replaced))
    return float(((first - second) ** 2).sum())


def published_stddev(
    accounting: SlicedAccounting,
    bound: Literal["bernstein", "clt"],
    epsilon: float,
    delta: float,
    steps: int,
) -> float:
    """Return the noise that the published recipe asks for: δ/2 for w, once, and δ/2 for the rest.

    With Privot's Rényi accountant for the rest. Not a guarantee: see above.

    Raises:
        PrivotError: if the directions are orthonormal or rounded, which the recipe does not know.
    """
    if accounting.orthonormal or accounting.grid:
        raise PrivotError(
            "orthonormal or grid is set: the published bounds are for independent directions "
            "without rounding; leave both out to compare"
        )
    squared = {"bernstein": published_bernstein, "clt": published_clt}[bound](
        accounting.dim, accounting.num_projections, delta / 2
    )
    # One direction in one dimension projects onto itself: a plain Gaussian mechanism.
    plain = replace(
        accounting, dim=1, num_projections=1, radius=accounting.radius * math.sqrt(squared)
    )
    return plain.calibrate(epsilon, delta / 2, steps)


def _check(dim: int, num_projections: int, delta: float) -> None:
    require_count("dim", dim, MOST_DIMENSIONS)
    require_count("num_projections", num_projections, MOST_PROJECTIONS)
    require_delta(delta, positive=True)
