r"""How wide a window is, and on what grid: one public rule of ε and the number of coordinates.

**One coordinate.** Of a uniform record, a window that is a share τ of all reports tells, edges aside,

$$ I(τ) = \frac{ε τ e^ε}{1 + τ(e^ε − 1)} − \ln(1 + τ(e^ε − 1)), \qquad
τ^* = \frac{ε e^ε − e^ε + 1}{(e^ε − 1)^2} \text{ being the best,} $$

which is the square wave's width. Beyond ε = 5 it stays what it is there: narrower windows tell no more
of where people are than their number can.

**A disk, a ball.** W₂ of what is learned weighs a frequency k by $|k|^{−2}$, which information does not.
Of public synthetic clusters and filaments, not of any data (`python -m studies reports.windows`), the
radius that is best for W₂, in unit coordinates, is about $0.9 / ε$ in the plane and $1.6 / ε$ in space,
over ε from 1 to 8 and 10⁴ to 2·10⁶ people; a third less or more costs up to 12 %. A window a coordinate
at ε/d each has 1.3 to 1.6 times the error, at any width, and a mixture of radii is no better than one.

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
_WIDEST = 2.0
_NARROWEST = 5.0  # ε, of one coordinate
_RADIUS_TIMES_EPSILON = {2: 0.9, 3: 1.6}


@dataclass(frozen=True)
class WindowPlan:
    """A window of `radius` cells, on a grid of `steps` cells a unit domain's width."""

    shape: Shape
    steps: int
    radius: int


def window_plan(dimension: int, epsilon: float) -> WindowPlan:
    """The window for reports of ε, by the rule of the module.

    >>> window_plan(1, 1.0)
    WindowPlan(shape='ball', steps=1024, radius=262)
    >>> window_plan(2, 4.0)
    WindowPlan(shape='ball', steps=256, radius=29)
    """
    if dimension == 1:
        return on_grid("ball", dimension, most_telling_radius(min(epsilon, _NARROWEST)))
    return on_grid("ball", dimension, min(_WIDEST, _RADIUS_TIMES_EPSILON[dimension] / epsilon))


def on_grid(shape: Shape, dimension: int, radius: float) -> WindowPlan:
    """The plan of a radius in unit coordinates: the coarsest grid that is fine enough for it."""
    steps, finest = _STEPS[dimension]
    while steps < finest and radius * steps < 2 * _HALF_CELLS:
        steps *= 2
    return WindowPlan(shape, steps, round(radius * steps / 2))


def most_telling_radius(epsilon: float) -> float:
    """The radius of greatest information of one coordinate, in unit coordinates."""
    share = best_share(epsilon)
    return share / (1 - share)


def best_share(epsilon: float) -> float:
    """τ*, which is ½ − ε/6 + … for small ε.

    >>> round(best_share(1.0), 3)
    0.339
    """
    if epsilon < 2.0**-12:  # where digits cancel
        return 0.5 - epsilon / 6
    power = math.expm1(epsilon)
    return ((epsilon - 1) * (power + 1) + 1) / power**2
