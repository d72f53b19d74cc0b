r"""Promises in grades: a loss for every order (Rényi, zero-concentrated), or for every distance (geo).

**By order.** With the Rényi divergence D_α(P ‖ Q) = log E_Q (dP/dQ)^α / (α−1), a mechanism is (α,
ε(α))-RDP if D_α(M(D) ‖ M(D′)) ≤ ε(α) for all neighboring D, D′ (Mironov 2017), and ρ-zCDP if ε(α) = ρ α
for all α > 1 (Bun, Steinke 2016). Both add up under composition.

**Conversion.** D_α ≤ ε(α) implies (ε, δ) with, for every α > 1,

    ε = ε(α) + log((α−1)/α) − (log δ + log α)/(α−1)

(Canonne, Kamath, Steinke 2020, Proposition 12): any order gives a valid ε, the best is taken.

**By distance**, geo-indistinguishability fades. A randomizer of locations is ε-geo-indistinguishable if
for any two places $x, x′$ and every event

$$ P(M(x) ∈ S) ≤ e^{ε ‖x − x′‖_2} P(M(x′) ∈ S) . $$

Adjacency: any two values of one person's record (`local`), but what is promised between them grows
with their distance. Places next door are well hidden from one another, far ones are not: it is weaker
than local privacy of the same ε, and fits where only the neighborhood is sensitive. Between the two
farthest places of a domain of ℓ2 diameter Δ it is ε-local privacy at $εΔ$ (`to_pure`).

Records are rounded to a public grid before the noise. That moves two of them apart by a distance
that is tiny but not proportional to theirs; `epsilon_rounding` adds what it costs, at any distance.

Reports of one person compose by adding both numbers, for the same unit of distance only. A sum with
other kinds of guarantee is no function of distance alone, and is refused: `to_pure` comes first.

References:
    Andrés, Bordenabe, Chatzikokolakis, Palamidessi, *Geo-indistinguishability: differential privacy
    for location-based systems* (2013).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from privot.errors import PrivotError
from privot.privacy.guarantees.guarantee import ApproximateDP, Guarantee, Neighboring, PureDP
from privot.privacy.rounding import (
    at_least,
    at_most,
    multiply_up,
    odds_factor,
    require_delta,
    require_finite,
    round_up,
    sum_up,
)

# Conversions take a few logarithms of order-one relative error; this covers them amply.
_CONVERSION_ERROR = 1e-14


@dataclass(frozen=True)
class RenyiDP(Guarantee):
    """D_α(M(D) ‖ M(D′)) ≤ ε(α) for all neighboring D, D′ at each listed order α > 1.

    Examples:
        >>> print(RenyiDP.of_pure(PureDP(1.0), orders=(2.0, 8.0)))
        Rényi ε(2) = 1 and 1 more orders, local, per person
    """

    losses = ("epsilons",)
    orders: tuple[float, ...]
    epsilons: tuple[float, ...]
    neighboring: Neighboring = "local"
    unit: str = "person"

    def __post_init__(self) -> None:
        # JSON has no tuples: a guarantee read back must equal the one written.
        object.__setattr__(self, "orders", tuple(self.orders))
        object.__setattr__(self, "epsilons", tuple(self.epsilons))
        if not self.orders or len(self.orders) != len(self.epsilons):
            raise PrivotError(
                f"orders has {len(self.orders)} entries and epsilons {len(self.epsilons)}: "
                "give one epsilon for each order, and at least one order"
            )
        for order in self.orders:
            if not (math.isfinite(order) and order > 1):
                raise PrivotError(f"orders holds {order!r}: every order is finite and above 1")
        super().__post_init__()

    @classmethod
    def of_pure(cls, pure: PureDP, orders: tuple[float, ...]) -> Self:
        """The curve ε(α) = min(ε, α ε²/2) at `orders` of a pure promise (Bun, Steinke 2016)."""
        most = pure.epsilon
        epsilons = (min(most, multiply_up(order, 0.5, most, most)) for order in orders)
        return cls(orders, tuple(epsilons), pure.neighboring, pure.unit)

    def _loss(self) -> str:
        # A bound at one order holds at all smaller ones.
        order, epsilon = min(zip(self.orders, self.epsilons, strict=True))
        more = len(self.orders) - 1
        return f"Rényi ε({at_least(order)}) = {at_most(epsilon)} and {more} more orders"

    def _sum(self, other: Self, name: str) -> tuple[float, ...]:
        return tuple(map(sum_up, zip(self.epsilons, other.epsilons, strict=True)))

    def describe(self) -> str:
        """Return the promise in plain words, as what it implies at δ = 1e-6."""
        return f"At δ = 1e-6: {self.to_approximate(1e-6).describe()}"

    def to_approximate(self, delta: float) -> ApproximateDP:
        """Return (ε, δ), the best over the orders (Canonne, Kamath, Steinke 2020)."""
        require_delta(delta, positive=True)
        epsilon = min(
            _renyi_to_epsilon(order, epsilon, delta)
            for order, epsilon in zip(self.orders, self.epsilons, strict=True)
        )
        return ApproximateDP(epsilon, delta, self.neighboring, self.unit)


@dataclass(frozen=True)
class ZeroConcentratedDP(Guarantee):
    """D_α(M(D) ‖ M(D′)) ≤ ρ α for all neighboring D, D′ and all α > 1.

    >>> print(ZeroConcentratedDP(0.5))
    ρ = 0.5 (zero-concentrated), local, per person
    """

    losses = ("rho",)
    rho: float
    neighboring: Neighboring = "local"
    unit: str = "person"

    @classmethod
    def of_pure(cls, pure: PureDP) -> Self:
        """What a pure promise implies: ρ = min(ε, ε²/2) (Bun, Steinke 2016, Proposition 3.3)."""
        rho = min(pure.epsilon, multiply_up(0.5, pure.epsilon, pure.epsilon))
        return cls(rho, pure.neighboring, pure.unit)

    def _loss(self) -> str:
        return f"ρ = {at_most(self.rho)} (zero-concentrated)"

    def describe(self) -> str:
        """Return the promise in plain words, as what it implies at δ = 1e-6."""
        return f"At δ = 1e-6: {self.to_approximate(1e-6).describe()}"

    def to_renyi(self, orders: tuple[float, ...]) -> RenyiDP:
        """Return the Rényi curve ε(α) = ρ α at `orders`."""
        epsilons = tuple(multiply_up(self.rho, order) for order in orders)
        return RenyiDP(orders, epsilons, self.neighboring, self.unit)

    def to_approximate(self, delta: float) -> ApproximateDP:
        """Return (ε, δ) with the best order.

        The derivative of the conversion in α is ρ + log(δα)/(α−1)², whose one root is bracketed by
        1 and 1/δ. Any α gives a valid ε, so the root need not be exact.
        """
        require_delta(delta, positive=True)
        if self.rho == 0:
            return ApproximateDP(0.0, delta, self.neighboring, self.unit)
        # In t = α − 1, bisected on a logarithmic scale.
        below, above = min(1e-9, 1e-9 / self.rho), 1.0 / delta
        for _ in range(100):
            middle = math.sqrt(below * above)
            if self.rho * middle**2 + math.log(delta) + math.log1p(middle) < 0:
                below = middle
            else:
                above = middle
        order = 1.0 + above
        epsilon = _renyi_to_epsilon(order, multiply_up(self.rho, order), delta)
        return ApproximateDP(epsilon, delta, self.neighboring, self.unit)


def _renyi_to_epsilon(order: float, epsilon: float, delta: float) -> float:
    """Return ε of (ε, δ) from D_α ≤ ε(α), rounded up and at least 0."""
    parts = (
        epsilon,
        math.log1p(-1 / order),
        -math.log(delta) / (order - 1),
        -math.log(order) / (order - 1),
    )
    # Each part carries its own rounding error: bound it before the terms cancel.
    error = _CONVERSION_ERROR * sum(abs(part) for part in parts)
    return max(0.0, math.fsum((*parts, error)))


@dataclass(frozen=True)
class GeoIndistinguishability(Guarantee):
    """P(M(x) ∈ S) ≤ e^(ε‖x−x′‖₂ + ε_rounding) P(M(x′) ∈ S) for all x, x′ of a domain, all S.

    `epsilon_per_unit` is ε for places one `distance_unit` apart.

    >>> print(GeoIndistinguishability(0.5, distance_unit="kilometer"))
    ε = 0.5 per kilometer (geo-indistinguishability), local, per person
    >>> print(GeoIndistinguishability(0.5).to_pure(diameter=8.0))
    ε = 4 (pure), local, per person
    """

    losses = ("epsilon_per_unit", "epsilon_rounding")
    epsilon_per_unit: float
    neighboring: Neighboring = "local"
    unit: str = "person"
    distance_unit: str = "unit of distance"
    epsilon_rounding: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighboring != "local":
            raise PrivotError(
                f"neighboring is {self.neighboring!r}: distance is between two values of one "
                "record; leave it 'local'"
            )
        if not self.distance_unit:
            raise PrivotError("distance_unit is empty: name it, such as 'kilometer'")

    def _loss(self) -> str:
        rounding = f" plus {at_most(self.epsilon_rounding, 2)}" if self.epsilon_rounding else ""
        figures = f"{at_most(self.epsilon_per_unit)} per {self.distance_unit}{rounding}"
        return f"ε = {figures} (geo-indistinguishability)"

    def describe(self) -> str:
        """Return the promise in plain words, odds at one unit of distance first."""
        one, two = self.epsilon_at(1.0), self.epsilon_at(2.0)
        return (
            f"Whoever sees one {self.unit}'s report can change their odds between two places of that "
            f"{self.unit} that are one {self.distance_unit} apart by a factor of at most "
            f"{odds_factor(one)}, at twice that distance {odds_factor(two)}, and so on: places far "
            f"apart are told apart. {self._coverage()}"
        )

    def epsilon_at(self, distance: float) -> float:
        """Return ε between two places at `distance`, rounded up."""
        require_finite("distance", distance)
        exact = Fraction(self.epsilon_per_unit) * Fraction(distance)
        return round_up(exact + Fraction(self.epsilon_rounding))

    def to_pure(self, diameter: float) -> PureDP:
        """Return ε-local privacy on a domain of ℓ2 `diameter`, in the same unit of distance."""
        return PureDP(self.epsilon_at(diameter), self.neighboring, self.unit)
