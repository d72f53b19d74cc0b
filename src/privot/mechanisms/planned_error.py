r"""What a mechanism of points is expected to cost, from public inputs alone: a distance.

Of people $x$ in $[−1, 1]^d$, what reports tell of a wave $E \cos ⟨ω, x⟩$ is dampened: a mechanism keeps
the share $g(ω)$ of it (its `kept`), so that n reports tell the wave up to a variance of about
$κ / (2 n g(ω)^2)$, or it is known no better than before, which we take to be $s/(1 + ‖ω‖^2)$, as of
people who live in towns: s = .3, and half of it in space. In the dual Sobolev norm, which for small
differences of densities is the Wasserstein distance,

$$ \mathrm{error}^2 = \sum_ω \min\Big( \frac{s}{1 + ‖ω‖^2}, \frac{κ}{2 n g(ω)^2} \Big)
   \frac1{‖ω‖^2} $$

over the waves $ω ∈ \frac π2 ℤ_{≥0}^d$, ω ≠ 0, of the box.

**κ** is what a fit pays for not knowing which waves to believe: 1 of the best that is linear, and of
`privot.fit` on public synthetic people (clusters and filaments, `python -m studies reports.windows`)
6 in the plane and in space, where W₂ is meant, and 3 of numbers, where W₁ is: the error of a former fit
up to 20 % in the plane, from ε = 1 to 8 and 10⁴ to 2·10⁵ people, and up to 40 % elsewhere. Today's is as
near by windows in the plane, and nearer elsewhere (docs/results/best_report.md).
"""

from __future__ import annotations

import math

import numpy as np

from privot.mechanisms.mechanism import Mechanism
from privot.schema import Array, Domain

PEOPLE = 100_000
# s and κ, by coordinates.
_PRIOR = {1: 0.3, 2: 0.3, 3: 0.15}
_PAID = {1: 3.0, 2: 6.0, 3: 6.0}
_WAVES = {1: 256, 2: 48, 3: 16}  # a coordinate


def planned_error(mechanism: Mechanism, domain: Domain, people: int = PEOPLE) -> float:
    """The error in unit coordinates (of a curve, in halves of its length); NaN beyond three of them.

    >>> from privot.mechanisms import Laplace, Window
    >>> from privot.schema import Box
    >>> place = Box((0.0, 0.0), (1.0, 1.0))
    >>> laplace, window = Laplace.calibrate(place, 4.0), Window.for_domain(place, 4.0)
    >>> planned_error(window, place) < planned_error(laplace, place) / 2
    True
    """
    dimension = 1 if domain.area == "curve" else domain.dimension
    if dimension not in _WAVES:
        return math.nan
    waves = _waves(dimension)
    share = mechanism.kept(_seen(waves, mechanism, domain))
    square = (waves**2).sum(axis=1)
    known = _PAID[dimension] / (2 * people * np.maximum(share**2, 1e-30))
    return math.sqrt(float((np.minimum(_PRIOR[dimension] / (1 + square), known) / square).sum()))


def _waves(dimension: int) -> Array:
    axis = np.arange(_WAVES[dimension]) * math.pi / 2
    grid = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1)
    return grid.reshape(-1, dimension)[1:]


def _seen(waves: Array, mechanism: Mechanism, domain: Domain) -> Array:
    """Waves in the coordinates of reports: noise is added to a curve's points, in all of them."""
    line = mechanism.report_domain(domain).dimension
    if waves.shape[1] == line:
        return waves
    half = float(domain.unit.diameter(2)) / 2
    return np.pad(waves / half, ((0, 0), (0, line - waves.shape[1])))
