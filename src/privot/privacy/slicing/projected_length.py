r"""The squared length of a projected difference: the random sensitivity of slicing.

Two neighboring rows differ by $z$, $‖z‖ ≤ Δ$. After projection they differ by $Uᵀz$, and
$H = ‖Uᵀz‖²$ has a law that depends on $‖z‖$ only, as the law of U does not change under rotations:

- k independent uniform directions: $H = ‖z‖² Σ_j Y_j$ with $Y_j ∼ \mathrm{Beta}(½, (d−1)/2)$ i.i.d., so
  $\log E\,e^{cH} = k \log {}_1F_1(½; d/2; c‖z‖²)$;
- a uniform orthonormal k-frame, $k ≤ d$: $H = ‖z‖² Y$ with $Y ∼ \mathrm{Beta}(k/2, (d−k)/2)$, so that
  $H ≤ ‖z‖²$.

Both grow with $‖z‖$ (stochastically), so $‖z‖ = Δ$ is the worst case.

**Grid.** If projections are rounded to multiples of g before the noise, each of the k coordinates of two
rows moves by at most g/2, their difference by g, and H becomes at most $(\sqrt H + \sqrt k g)²$, which
is at most $(1+t) H + (1 + 1/t) k g²$ for every $t > 0$: a moment again of the same form.
"""

import math
from dataclasses import dataclass

import numpy as np

from privot.errors import PrivotError
from privot.limits import MOST_DIMENSIONS, MOST_PROJECTIONS, require_count
from privot.privacy.rounding import require_finite
from privot.privacy.slicing.kummer import Array, log_kummer


@dataclass(frozen=True)
class ProjectedLength:
    """H = ‖Uᵀz‖² at ‖z‖ = Δ, and (√H + √k·g)² where projections are rounded to a grid g.

    Raises:
        PrivotError: if dim or num_projections is not a positive integer, more orthonormal
            directions are asked for than there are dimensions, or a length is negative.
    """

    dim: int
    num_projections: int
    sensitivity: float
    orthonormal: bool = False
    grid: float = 0.0

    def __post_init__(self) -> None:
        for name, most in (("dim", MOST_DIMENSIONS), ("num_projections", MOST_PROJECTIONS)):
            object.__setattr__(self, name, require_count(name, getattr(self, name), most))
        require_finite("sensitivity", self.sensitivity, positive=True)
        require_finite("grid", self.grid)
        if self.orthonormal and self.num_projections > self.dim:
            raise PrivotError(
                f"num_projections is {self.num_projections}: at most dim = {self.dim} directions "
                "can be orthonormal; take fewer, or orthonormal=False"
            )

    @property
    def beta(self) -> tuple[float, float]:
        """(a, b) of one Beta(a, b−a) share of H/Δ²."""
        return (self.num_projections if self.orthonormal else 1) / 2, self.dim / 2

    @property
    def copies(self) -> int:
        """How many such independent shares add up to H/Δ²."""
        return 1 if self.orthonormal else self.num_projections

    @property
    def rounding(self) -> float:
        """√k·g, the most that rounding adds to √H."""
        return math.sqrt(self.num_projections) * self.grid

    def log_moment(self, scale: Array) -> Array:
        """Return log E exp(c H) for each c ≥ 0, rounded up.

        >>> length = ProjectedLength(dim=1, num_projections=4, sensitivity=1.0)
        >>> length.log_moment(np.array([0.5]))  # one dimension: H = k surely
        array([2.])
        """
        x = np.asarray(scale, dtype=np.float64) * self.sensitivity**2
        if self.rounding == 0:
            return self.copies * log_kummer(*self.beta, x)
        # Around the best t for a typical H; every t is valid, and the least of the bounds is taken.
        typical = self.sensitivity * math.sqrt(self.copies * self.beta[0] / self.beta[1])
        bounds = [
            self.copies * log_kummer(*self.beta, (1 + t) * x)
            + (1 + 1 / t) * scale * self.rounding**2
            for t in self.rounding / typical * np.geomspace(0.25, 4.0, 9)
        ]
        return np.asarray(np.min(bounds, axis=0))
