r"""What a mechanism of points is expected to cost, from public inputs alone: a distance.

Of people $x$ in $[−1, 1]^d$, what reports tell of a wave $E \cos ⟨ω, x⟩$ is dampened: a mechanism keeps
the share $g(ω)$ of it (its `kept`), so that from n reports the wave is known up to a variance of about
$1 / (2 n g(ω)^2)$, or not better than it was known before, which we take to be $s/(1 + ‖ω‖^2)$, s = 0.3,
as of people who live in towns. In the dual Sobolev norm, which for small differences of densities is
the Wasserstein distance,

$$ \mathrm{error}^2 = \sum_ω \min\Big( \frac{s}{1 + ‖ω‖^2}, \frac{1}{2 n g(ω)^2} \Big) \frac1{‖ω‖^2} $$

over the waves $ω ∈ \frac π2 ℤ_{≥0}^d$, ω ≠ 0, of the box. What a fit makes of the reports is better here
and worse there; it is the comparison of mechanisms that counts, not the number.
"""

from __future__ import annotations

import math

import numpy as np

from privot.mechanisms.mechanism import Mechanism
from privot.schema import Array, Domain

PEOPLE = 100_000
_PRIOR = 0.3
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
    known = 0.5 / (people * np.maximum(share**2, 1e-30))
    return math.sqrt(float((np.minimum(_PRIOR / (1 + square), known) / square).sum()))


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
