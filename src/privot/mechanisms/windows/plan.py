r"""How wide a window is, and on what grid: one public rule of ε and the domain's shape.

Of a uniform record, a window that is a share τ of all reports tells, the edges aside,

$$ I(τ) = \frac{ε τ e^ε}{1 + τ(e^ε − 1)} − \ln(1 + τ(e^ε − 1)), \qquad
τ^* = \frac{ε e^ε − e^ε + 1}{(e^ε − 1)^2} \text{ being the best.} $$

In one dimension that is the square wave's width. A disk or a ball of radius r (the unit domain being
$[−1, 1]^d$ or the unit ball) has the share $v_d r^d / (2 + 2r)^d$ of a padded box, and $r^d / (1 + r)^d$
of a padded ball.

References:
    Li, Wang, Lopuhaä-Zwakenberg, Škorić, Li, *Estimating numerical distributions under local
    differential privacy* (2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Shape = Literal["ball", "product"]
Area = Literal["box", "l1_ball", "l2_ball", "curve"]

_HALF_CELLS = 8  # of a window, where the finest grid allows it
# Coarsest and finest number of steps of the grid, by dimension.
_STEPS = {1: (2**10, 2**14), 2: (2**8, 2**9), 3: (2**6, 2**7)}
_WIDEST = 1.0


@dataclass(frozen=True)
class WindowPlan:
    """A window of `radius` cells, on a grid of `steps` cells a unit domain's width."""

    shape: Shape
    steps: int
    radius: int


def window_plan(dimension: int, epsilon: float, area: Area = "box") -> WindowPlan:
    """The window for reports of ε, by the rule of the module.

    >>> window_plan(1, 1.0)
    WindowPlan(shape='ball', steps=1024, radius=262)
    >>> window_plan(2, 4.0)
    WindowPlan(shape='ball', steps=256, radius=47)
    """
    return on_grid("ball", dimension, most_telling_radius(dimension, epsilon, area))


def on_grid(shape: Shape, dimension: int, radius: float) -> WindowPlan:
    """The plan of a radius in unit coordinates: the coarsest grid that is fine enough for it."""
    steps, finest = _STEPS[dimension]
    while steps < finest and radius * steps < 2 * _HALF_CELLS:
        steps *= 2
    return WindowPlan(shape, steps, round(radius * steps / 2))


def most_telling_radius(dimension: int, epsilon: float, area: Area = "box") -> float:
    """The radius of greatest information, in unit coordinates, at most 1 in several dimensions."""
    share = best_share(epsilon)
    if area in ("box", "curve"):
        half_gamma = math.gamma(dimension / 2 + 1)
        share *= 2**dimension * half_gamma / math.pi ** (dimension / 2)
    root = share ** (1 / dimension)
    widest = _WIDEST if dimension > 1 else math.inf
    return min(widest, root / (1 - root)) if root < 1 else widest


def best_share(epsilon: float) -> float:
    """τ*, which is ½ − ε/6 + … for small ε.

    >>> round(best_share(1.0), 3)
    0.339
    """
    if epsilon < 2.0**-12:  # where digits cancel
        return 0.5 - epsilon / 6
    power = math.expm1(epsilon)
    return ((epsilon - 1) * (power + 1) + 1) / power**2
