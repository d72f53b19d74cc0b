"""How far apart two records can be: from who may differ, and how batches are drawn, to Δ.

Records are clipped to ‖x‖ ≤ R, a public radius. What enters an accountant is the largest distance
between two rows that can stand in the same slot of two neighboring runs.

- `replace_one`, full batch or fixed-size sampling without replacement: x against x′, so Δ = 2R; for
  records without negative entries ⟨x, x′⟩ ≥ 0, so Δ = √2 R.
- `zero_out` with *padded* Poisson sampling (or the full batch): x against a row of zeros, so Δ = R.
- `zero_out` with fixed-size sampling: when the record is not drawn, another record x_j has its slot,
  so that rows x, 0 and x_j are compared pairwise, and Δ is 2R (√2 R) again.
- `replace_one` with Poisson sampling: the formulas compare a row with a blank, not two rows. Refused.
"""

import math
from typing import Literal, get_args

from privot.errors import PrivotError
from privot.privacy.rounding import require_finite

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

    Raises:
        PrivotError: if the radius is not positive, or no proof covers the combination.
    """
    require_finite("radius", radius, positive=True)
    if sampling not in get_args(Sampling):
        choices = ", ".join(get_args(Sampling))
        raise PrivotError(f"sampling is {sampling!r}: choose one of {choices}")
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
