r"""The best that a mollifier can do when the density is known: a floor, not a method.

Densities $q$ with $b q_0 ≤ q ≤ e^ε b q_0$ differ by at most a factor $e^ε$ from one another, so one draw
from any of them is ε-integrally private. Of all of them

$$ q = \mathrm{clip}(p/r,\; b q_0,\; e^ε b q_0), \qquad r \text{ such that } ∫ q = 1, $$

is the nearest to $p$ in every f-divergence at once: wherever it is not at a bound, $q/p$ is the same
constant. If all that is known of $p$ is $p ≤ c\, q_0$, the constant that is best in the worst case is

$$ b = \frac{c}{e^ε − 1 + c} . $$

$r$ is found by bisection on a grid, so that what it says is exact up to quadrature. It needs the
density itself, which nobody has: learned methods are compared with it to see what is left to gain.

References:
    Park, Asoodeh, Lee, *Exactly minimax-optimal locally differentially private sampling* (2024).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from privot.core.errors import PrivotError

Array = NDArray[np.float64]


def minimax_floor(epsilon: float, bound: float) -> float:
    """The public constant b for all densities with p ≤ `bound` · q₀.

    Raises:
        PrivotError: if epsilon is not positive or the bound is below 1 (no density fits).

    Examples:
        >>> minimax_floor(math.log(3.0), 2.0)
        0.5
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise PrivotError(f"epsilon is {epsilon}: it has to be positive and finite")
    if not (bound >= 1 and math.isfinite(bound)):
        raise PrivotError(f"bound is {bound}: p ≤ bound · q0 integrates to 1 only from 1 on")
    return bound / (math.expm1(epsilon) + bound)


def optimal_density(p: Array, q0: Array, cell_volume: float, epsilon: float, floor: float) -> Array:
    """The nearest density to p between `floor` · q₀ and e^ε · `floor` · q₀, at the grid's nodes.

    Args:
        p: the target at the nodes of a grid.
        q0: the public density at the nodes; its integral on the grid is 1.
        cell_volume: the weight of every node.
        epsilon: width of the mollifier.
        floor: the public constant b, between e^(−ε) and 1.

    Raises:
        PrivotError: if the mollifier has no density: b > 1 or e^ε b < 1.
    """
    lower, upper = floor * q0, math.exp(epsilon) * floor * q0
    if not lower.sum() * cell_volume < 1 < upper.sum() * cell_volume:
        raise PrivotError(
            f"floor is {floor} at epsilon {epsilon}: between exp(-epsilon) and 1 there are "
            "densities to choose from, elsewhere none"
        )

    def excess(log_ratio: float) -> float:
        return float(np.clip(p * math.exp(-log_ratio), lower, upper).sum()) * cell_volume - 1

    # For small r, p/r is at the upper bound wherever p > 0, and at the lower one where p = 0.
    reach = 50.0
    most = excess(-reach)
    if most < -1e-9:
        raise PrivotError(
            "p is zero on too much of the grid: no multiple of it, clipped, has mass one"
        )
    root = -reach if most <= 0 else float(brentq(excess, -reach, reach, xtol=1e-13))
    return np.clip(p * math.exp(-root), lower, upper)
