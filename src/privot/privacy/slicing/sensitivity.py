r"""How far apart two records can be, before and after projection: Δ, and the law of H.

Records are clipped to ‖x‖ ≤ R, a public radius. **Δ** is the largest distance between two rows that can
stand in the same slot of two neighboring runs.

- `replace_one`, full batch or fixed-size sampling without replacement: x against x′, so Δ = 2R; for
  records without negative entries ⟨x, x′⟩ ≥ 0, so Δ = √2 R.
- `zero_out` with *padded* Poisson sampling (or the full batch): x against a row of zeros, so Δ = R.
- `zero_out` with fixed-size sampling: when the record is not drawn, another record x_j has its slot,
  so that rows x, 0 and x_j are compared pairwise, and Δ is 2R (√2 R) again.
- `replace_one` with Poisson sampling: the formulas compare a row with a blank, not two rows. Refused.

Rows that differ by $z$, $‖z‖ ≤ Δ$, differ by $Uᵀz$ after projection. **H** $= ‖Uᵀz‖²$ has a law that
depends on $‖z‖$ only, as the law of U does not change under rotations:

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
from typing import Literal, get_args

import numpy as np

from privot.errors import PrivotError
from privot.limits import require_choice
from privot.privacy.rounding import require_finite
from privot.privacy.slicing.kummer import Floats, log_kummer

Sampling = Literal["without_replacement", "padded_poisson", "none"]
CentralNeighboring = Literal["replace_one", "zero_out"]


def record_sensitivity(
    radius: float, neighboring: str, sampling: str, non_negative: bool = False
) -> float:
    """Return Δ, the largest ℓ2 distance of rows between neighbors, rounded up; see above.

    >>> record_sensitivity(0.5, "replace_one", "without_replacement")
    1.0
    >>> record_sensitivity(1.0, "zero_out", "padded_poisson")
    1.0
    """
    require_finite("radius", radius, positive=True)
    require_choice("sampling", sampling, get_args(Sampling))
    if neighboring not in get_args(CentralNeighboring):
        raise PrivotError(
            f"neighboring is {neighboring!r}: a trusted curator's slices are accounted for "
            "'replace_one' or 'zero_out'"
        )
    if neighboring == "zero_out" and sampling != "without_replacement":
        return radius
    if sampling == "padded_poisson":
        raise PrivotError(
            "neighboring is 'replace_one' with sampling 'padded_poisson': no formula here covers it; "
            "use neighboring 'zero_out', or sampling 'without_replacement'"
        )
    if non_negative:
        return math.nextafter(math.sqrt(2) * radius, math.inf)
    return 2 * radius


@dataclass(frozen=True)
class ProjectedLength:
    """H = ‖Uᵀz‖² at ‖z‖ = Δ, and (√H + √k·g)² where projections are rounded to a grid g."""

    dim: int
    num_projections: int
    sensitivity: float
    orthonormal: bool = False
    grid: float = 0.0

    def __post_init__(self) -> None:
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

    def log_moment(self, scale: Floats) -> Floats:
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
