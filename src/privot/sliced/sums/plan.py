r"""The plan of a run by noisy sums: how many rounds, and which share of the budget each has.

Round t releases a sum $s_t + N(0, σ_t^2 I)$ whose sensitivity is $Δ_t$. What is summed in a round may
depend on all earlier releases, as long as $μ_t = Δ_t/σ_t$ does not: it is fixed here, before private
data are touched. All rounds together are then as private as **one** Gaussian release with

$$ μ^2 = \sum_t μ_t^2 , \qquad δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) , $$

exactly: nothing is lost by composing (Dong, Roth, Su 2022, corollary 3.3; the curve of Balle and Wang
2018). Rounding the noisy sum to integers is post-processing.

References:
    Dong, Roth, Su, *Gaussian differential privacy* (2022).
    Balle, Wang, *Improving the Gaussian mechanism for differential privacy* (2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from privot.errors import PrivotError
from privot.privacy import ApproximateDP, calibrate_gaussian, gaussian_epsilon
from privot.privacy.rounding import require_finite

_UP = 1 + 2.0**-40  # what rounding of the sums below may cost, many times over


@dataclass(frozen=True)
class SumPlan:
    """Rounds of noisy sums, and what all of them together promise.

    Arguments:
        ratios: Of each round, μ_t = Δ_t/σ_t: sensitivity in standard deviations of its noise.
        delta: δ of the guarantee.
        records: How many records are summed; public under `replace_one`.
        unit: Whom one record belongs to.

    Examples:
        >>> plan = SumPlan.calibrate(1.0, 1e-5, [3, 1], records=60_000, unit="person")
        >>> [round(ratio, 4) for ratio in plan.ratios], str(plan.guarantee)
        ([0.2321, 0.134], 'ε = 1, δ = 1e-05, replace_one, per person')
    """

    ratios: tuple[float, ...]
    delta: float
    records: int
    unit: str = "person"

    noun: ClassVar[str] = "releases"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratios", tuple(float(ratio) for ratio in self.ratios))
        if not self.ratios or not all(0 < ratio < math.inf for ratio in self.ratios):
            raise PrivotError(f"ratios {self.ratios}: give a positive number for every round")

    @classmethod
    def calibrate(
        cls, epsilon: float, delta: float, shares: Sequence[float], records: int, unit: str
    ) -> Self:
        """The plan that spends (ε, δ) on rounds, by shares of μ².

        Raises:
            PrivotError: if ε is not positive, or δ not in (0, 1).
        """
        require_finite("epsilon", epsilon, positive=True)
        total = 1.0 / calibrate_gaussian(1.0, epsilon, delta)
        whole = math.fsum(shares)
        ratios = tuple(total / _UP**2 * math.sqrt(share / whole) for share in shares)
        return cls(ratios, delta, records, unit)

    @property
    def uses(self) -> int:
        """Rounds that are declared."""
        return len(self.ratios)

    @cached_property
    def guarantee(self) -> ApproximateDP:
        """What all rounds together promise, however many of them are made."""
        total = math.sqrt(math.fsum(ratio**2 for ratio in self.ratios)) * _UP
        epsilon = gaussian_epsilon(1.0, total, self.delta)
        return ApproximateDP(epsilon, self.delta, "replace_one", self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"ratios": list(self.ratios)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The plan of `to_dict`."""
        return cls(**fields | {"ratios": tuple(fields["ratios"])})
