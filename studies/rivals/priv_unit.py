r"""PrivUnit: reports of unit vectors that are uniform on a cap around the record, or on the rest.

Of a unit vector v in d dimensions the report is $U/m$, U being uniform on the cap $\{⟨v, u⟩ ≥ γ\}$ with
probability p, and on the rest of the sphere otherwise. With Q(γ) the cap's share of the sphere,

$$ \frac{p}{Q} = e^ε \frac{1 − p}{1 − Q}, \qquad
m = \mathbb E ⟨v, U⟩ = \Big( \frac pQ − \frac{1−p}{1−Q} \Big) \mathbb E[⟨v, u⟩; ⟨v, u⟩ ≥ γ] , $$

the last factor being $c (1 − γ^2)^{(d−1)/2} / (d − 1)$. It is unbiased, of variance $1/m^2 − 1$ in all,
and the γ of the largest m is as good as any ε-private report of unit vectors can be (Asi, Feldman,
Talwar 2022), who choose it so; the first version spent part of ε on p and the rest on γ.

Floating point, as its authors have it: no noise for real people. A report is d numbers.

References:
    Bhowmick, Duchi, Freudiger, Kapoor, Rogers, *Protection against reconstruction and its applications
    in private federated learning* (2018); Asi, Feldman, Talwar, *Optimal algorithms for mean estimation
    under local differential privacy* (2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PrivUnit:
    """The best one for a dimension and ε."""

    dimension: int
    epsilon: float

    @cached_property
    def threshold(self) -> float:
        """γ, of the largest m."""
        root = math.sqrt(self.dimension)
        found = optimize.minimize_scalar(
            lambda t: -self._scale(t / root), bounds=(0.0, min(8.0, 0.99 * root)), method="bounded"
        )
        return float(found.x) / root

    @property
    def scale(self) -> float:
        """m: the mean of a report before it is divided by it, along the record."""
        return self._scale(self.threshold)

    @property
    def stddev(self) -> float:
        """Of one coordinate of one report, on average over coordinates."""
        return math.sqrt((1 / self.scale**2 - 1) / self.dimension)

    def privatize(self, x: Array, rng: np.random.Generator) -> Array:
        """Reports (n, d) of unit vectors (n, d)."""
        share = float(self._beyond(self.threshold))
        inside = rng.random(len(x)) < self._inside(share)
        # The cosine by its quantiles, the rest uniform among directions orthogonal to the record.
        level = np.where(
            inside, share * rng.random(len(x)), share + (1 - share) * rng.random(len(x))
        )
        half = (self.dimension - 1) / 2
        cosine = 1 - 2 * special.betaincinv(half, half, np.clip(level, 1e-300, 1.0))
        rest = rng.standard_normal(x.shape)
        rest -= (rest * x).sum(axis=1, keepdims=True) * x
        rest /= np.linalg.norm(rest, axis=1, keepdims=True)
        sine = np.sqrt(np.maximum(0.0, 1 - cosine**2))
        return np.asarray((cosine[:, None] * x + sine[:, None] * rest) / self.scale)

    def _scale(self, threshold: float) -> float:
        share = float(self._beyond(threshold))
        inside, d = self._inside(share), self.dimension
        ratio = special.gammaln(d / 2) - special.gammaln((d - 1) / 2)
        area = math.exp(ratio) / math.sqrt(math.pi)
        partial = area * (1 - threshold**2) ** ((d - 1) / 2) / (d - 1)
        return (inside / share - (1 - inside) / (1 - share)) * partial

    def _inside(self, share: float) -> float:
        """P of a cap of this share."""
        return share / (share + (1 - share) * math.exp(-self.epsilon))

    def _beyond(self, threshold: float) -> float:
        """Q: the share of the sphere beyond a threshold."""
        half = (self.dimension - 1) / 2
        return float(special.betainc(half, half, (1 - threshold) / 2))
