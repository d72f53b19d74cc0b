"""What is promised: privacy guarantees as types.

A mechanism M maps private data D to something that others see. A guarantee bounds, for every
pair of *neighboring* inputs D, D′, how far apart the laws of M(D) and M(D′) can be:

- `PureDP`: P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) for every event S (Dwork, McSherry, Nissim, Smith 2006).
- `ApproximateDP`: P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) + δ for every event S.
- `RenyiDP`: D_α(M(D) ‖ M(D′)) ≤ ε(α) at each listed order α > 1 (Mironov 2017), where
  D_α(P ‖ Q) = log E_Q (dP/dQ)^α / (α−1).
- `ZeroConcentratedDP`: D_α ≤ ρ α for all α > 1 (Bun, Steinke 2016).
- `IntegralPrivacy`: `PureDP` between *any* two data sets, of any sizes (Husain et al. 2020).
- `GeoIndistinguishability`, in `privot.privacy.guarantees.geo`: `PureDP` with ε in proportion to the
  distance of two places (Andrés et al. 2013).

**Who may differ** (`neighboring`) is part of the promise:

- `local`: D and D′ are any two values of one unit's own record; the report itself is what
  others see, the curator included.
- `replace_one`: data sets of equal size that differ in one unit's record; a curator is trusted.
- `zero_out`: one unit's record is replaced by a blank; a curator is trusted.
- `any`: any two data sets.

`unit` says whom one record belongs to. A guarantee covers one use: a second report of the same
person is a second budget, and `privot.privacy.compose` adds the two.

Conversions between the kinds are methods; what each rests on stands in `renyi` and below.
Every number is rounded up.
"""

from dataclasses import dataclass

from privot.errors import PrivotError
from privot.privacy.guarantees.approximate import ApproximateDP, Guarantee, Neighboring
from privot.privacy.guarantees.figures import at_most
from privot.privacy.guarantees.renyi import RenyiDP, ZeroConcentratedDP
from privot.privacy.guarantees.wording import odds_sentence
from privot.privacy.rounding import multiply_up, require_finite

__all__ = [
    "ApproximateDP",
    "Guarantee",
    "IntegralPrivacy",
    "Neighboring",
    "PureDP",
    "RenyiDP",
    "ZeroConcentratedDP",
]


@dataclass(frozen=True)
class PureDP(Guarantee):
    """P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) for all neighboring D, D′ and all events S.

    >>> print(PureDP(4.0))
    ε = 4 (pure), local, per person
    """

    epsilon: float
    neighboring: Neighboring = "local"
    unit: str = "person"

    def __post_init__(self) -> None:
        require_finite("epsilon", self.epsilon)
        self._check(self.neighboring, self.unit)

    def __str__(self) -> str:
        return f"ε = {at_most(self.epsilon)} (pure), {self.neighboring}, per {self.unit}"

    def describe(self) -> str:
        """Return the promise in plain words."""
        return odds_sentence(self.epsilon, self.neighboring, self.unit)

    def to_approximate(self, delta: float = 0.0) -> "ApproximateDP":
        """Return the same promise as (ε, δ); a pure promise needs no δ."""
        return ApproximateDP(self.epsilon, delta, self.neighboring, self.unit)

    def to_zero_concentrated(self) -> "ZeroConcentratedDP":
        """Return zCDP with ρ = min(ε, ε²/2) (Bun, Steinke 2016, Proposition 3.3)."""
        rho = min(self.epsilon, multiply_up(0.5, self.epsilon, self.epsilon))
        return ZeroConcentratedDP(rho, self.neighboring, self.unit)

    def to_renyi(self, orders: tuple[float, ...]) -> "RenyiDP":
        """Return the Rényi curve ε(α) = min(ε, α ε²/2) at `orders`."""
        epsilons = tuple(
            min(self.epsilon, multiply_up(order, 0.5, self.epsilon, self.epsilon))
            for order in orders
        )
        return RenyiDP(orders, epsilons, self.neighboring, self.unit)


@dataclass(frozen=True)
class IntegralPrivacy(Guarantee):
    """P(A(D) ∈ S) ≤ e^ε P(A(D′) ∈ S) for all events S and any data sets D, D′, of any sizes.

    What is covered are the draws: never the density, its parameters or plots of it.

    >>> print(IntegralPrivacy(2.0))
    ε = 2 (integral), any, per person
    """

    epsilon: float
    neighboring: Neighboring = "any"
    unit: str = "person"

    def __post_init__(self) -> None:
        require_finite("epsilon", self.epsilon)
        self._check(self.neighboring, self.unit)
        if self.neighboring != "any":
            raise PrivotError(
                f"neighboring is {self.neighboring!r}: integral privacy holds between any two "
                "data sets; leave it 'any', or use to_pure(neighboring) for the weaker promise"
            )

    def __str__(self) -> str:
        return f"ε = {at_most(self.epsilon)} (integral), {self.neighboring}, per {self.unit}"

    def describe(self) -> str:
        """Return the promise in plain words."""
        return (
            f"{odds_sentence(self.epsilon, self.neighboring, self.unit)} These releases are draws: the "
            "density, its weights and plots of it are not among them."
        )

    def to_approximate(self, delta: float = 0.0) -> "ApproximateDP":
        """Return the same promise of the draws as (ε, δ) between any two data sets."""
        return ApproximateDP(self.epsilon, delta, self.neighboring, self.unit)

    def to_pure(self, neighboring: Neighboring) -> PureDP:
        """Return the weaker promise between neighboring data sets of one kind.

        Raises:
            PrivotError: for `"local"`: the curator of integral privacy holds the raw records.
        """
        if neighboring == "local":
            raise PrivotError(
                "neighboring is 'local': integral privacy trusts a curator with raw records; "
                "use 'replace_one' or 'zero_out'"
            )
        return PureDP(self.epsilon, neighboring, self.unit)
