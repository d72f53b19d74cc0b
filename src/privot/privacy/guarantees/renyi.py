"""Rényi and zero-concentrated differential privacy, and their conversion to (ε, δ).

With the Rényi divergence D_α(P ‖ Q) = log E_Q (dP/dQ)^α / (α−1), a mechanism is (α, ε(α))-RDP
if D_α(M(D) ‖ M(D′)) ≤ ε(α) for all neighboring D, D′ (Mironov 2017), and ρ-zCDP if ε(α) = ρ α
for all α > 1 (Bun, Steinke 2016). Both add up under composition.

**Conversion.** D_α ≤ ε(α) implies (ε, δ) with, for every α > 1,

    ε = ε(α) + log((α−1)/α) − (log δ + log α)/(α−1)

(Canonne, Kamath, Steinke 2020, Proposition 12): any order gives a valid ε, the best is taken.
"""

import math
from dataclasses import dataclass
from typing import Self

from privot.errors import PrivotError
from privot.privacy.guarantees.guarantee import ApproximateDP, Guarantee, Neighboring, PureDP
from privot.privacy.rounding import at_least, at_most, multiply_up, require_delta, sum_up

# Conversions take a few logarithms of order-one relative error; this covers them amply.
_CONVERSION_ERROR = 1e-14


@dataclass(frozen=True)
class RenyiDP(Guarantee):
    """D_α(M(D) ‖ M(D′)) ≤ ε(α) for all neighboring D, D′ at each listed order α > 1."""

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
