r"""The gain: how far the reported candidate leans to the record, for the codebook at hand.

Given a unit vector x, the reported candidate $Y_j$ has the mean $(g / \sqrt D)\, x$: the larger the
gain g, the fewer people a mean takes. Scores $\sqrt D ⟨x, Y_j⟩$ of random directions are about normal;
if those beyond t count as close, a share Q(t) of all, and are $e^ε$ times likelier, then

$$ g(t) = \frac{φ(t) (e^ε − 1)}{Q(t) e^ε + 1 − Q(t)} , $$

and the largest g(t) is the best that ε-local privacy allows, up to terms of lower order (PrivUnit, and
its optimality: Asi, Feldman, Talwar 2022).

Of K candidates with w chosen, $g = w (a − b) m$, m being the mean of the w largest scores: one that
beats others with probability p is among them with probability $P(\mathrm{Bin}(K − 1, 1 − p) < w)$. It
is found by quadrature. Rows of one block are a rotation of the unit vectors, so that their scores are a
normal vector over its length: exact. Those of several blocks count as independent, each uniform on the
sphere.

What sign-flipped transforms lack in randomness is measured (`docs/results/candidates.md`): below 0.1 %
of the gain for records of many numbers, 0.3 to 0.7 % for those of only two.

References:
    Bhowmick, Duchi, Freudiger, Kapoor, Rogers, *Protection against reconstruction and its applications
    in private federated learning* (2018); Asi, Feldman, Talwar, *Optimal algorithms for mean estimation
    under local differential privacy* (2022).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from privot.schema import Array

_PLACES = 2**15 + 1  # of a quadrature


def best_share(epsilon: float) -> float:
    """The share Q(t) of candidates that should count as close.

    >>> round(best_share(5.0), 4)
    0.0321
    """
    odds = math.exp(-epsilon) / -math.expm1(-epsilon)
    grid = np.linspace(0.0, 9.0, 2**16 + 1)
    share = scipy.special.ndtr(-grid)
    return float(share[(np.exp(-(grid**2) / 2) / (share + odds)).argmax()])


def mean_of_closest(size: int, blocks: int, closest: int) -> float:
    """m: the mean of the `closest` largest scores of so many blocks of dimension `size`."""
    grid = np.linspace(-9.0, 9.0, _PLACES)
    if blocks == 1:
        density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
        beaten = scipy.special.ndtr(grid)
        # Over the mean length of a normal vector.
        ratio = scipy.special.gammaln(size / 2) - scipy.special.gammaln((size + 1) / 2)
        density *= math.exp(ratio) * math.sqrt(size / 2)
    else:
        density, beaten = on_sphere(size, grid)
    total = blocks * size
    mean = (grid * density * is_close(beaten, total, closest)).sum() * (grid[1] - grid[0])
    return float(mean) * total / closest


def is_close(beaten: Array, total: int, closest: int) -> Array:
    """P(a candidate is among the closest), if it beats each other with probability `beaten`."""
    return np.asarray(scipy.special.betainc(total - closest, closest, beaten))


def on_sphere(size: int, scores: Array) -> tuple[Array, Array]:
    """Density and distribution function of √D times a coordinate of a random unit vector."""
    square = np.minimum(scores**2 / size, 1.0)
    beaten = (1 + np.sign(scores) * scipy.special.betainc(0.5, (size - 1) / 2, square)) / 2
    ratio = scipy.special.gammaln(size / 2) - scipy.special.gammaln((size - 1) / 2)
    density = math.exp(ratio) * (1 - square) ** ((size - 3) / 2) / math.sqrt(math.pi * size)
    return density, beaten
