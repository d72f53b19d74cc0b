"""Privacy guarantees as types, their conversions and their composition.

A mechanism M maps private data D to an output that others see. A guarantee bounds, for every
pair of *neighboring* inputs D, D′, how much the distributions of M(D) and M(D′) differ:

- `PureDP`: probabilities differ by a factor of at most e^ε (Dwork, McSherry, Nissim, Smith 2006).
- `ApproximateDP`: a factor e^ε plus δ (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006), the weakest
  kind, to which every other kind can be converted.
- `IntegralPrivacy`: `PureDP` between *any* two data sets, of any sizes (Husain et al. 2020).
- `RenyiDP` and `ZeroConcentratedDP`: bounds on Rényi divergences, below.
- `GeoIndistinguishability`: `PureDP` with an ε proportional to the distance of two places.

**Adjacency** (`neighboring`) is part of the guarantee:

- `local`: D and D′ are any two values of one unit's record; everybody else, the curator included, sees
  only the noised report.
- `replace_one`: data sets of equal size that differ in one unit's record; a curator is trusted.
- `zero_out`: one unit's record is replaced by a blank; a curator is trusted.
- `any`: any two data sets.

`unit` names the owner of one record, such as a person. Every number is rounded up.

**In words**, a pure guarantee bounds odds: whoever sees the output can multiply their odds between two
values of the protected record by at most e^ε (Bayes' rule: posterior odds are prior odds times the
likelihood ratio). A local report is drawn from one record alone, and nothing computed from it reveals
more about the record (post-processing). A curator's output depends on all records, and its guarantee
bounds the odds of an adversary who knows all other records. It does not bound what other people's
records reveal about a person, for example by a correlation.

A δ > 0 is **not** the probability that the guarantee fails, but slack added to the probability of every
set of outcomes: one mechanism publishes each record with probability δ, another never publishes one.

**Coverage.** A guarantee covers the releases for which it was computed, and their post-processing. A
second report of the same person, or a second run on the same records, spends a second budget.

**Composition** (`compose`) of guarantees for the *same* unit. Adaptive composition adds losses of one
kind: ε for pure, ε and δ for approximate (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006), ε(α) of each
order for Rényi, ρ for zero-concentrated, ε for integral draws, and ε per unit of distance for places.
Different kinds are first converted to one that all of them imply: pure → approximate, pure →
zero-concentrated → Rényi, integral → approximate. A guarantee between *any* two data sets is converted
to the weaker one with the other guarantee's adjacency. Any other difference in adjacency or unit is
refused.

**Rényi orders.** With the Rényi divergence D_α(P ‖ Q) = log E_Q (dP/dQ)^α / (α−1), a mechanism is (α,
ε(α))-RDP if D_α(M(D) ‖ M(D′)) ≤ ε(α) for all neighboring D, D′ (Mironov 2017), and ρ-zCDP if ε(α) = ρ α
for all α > 1 (Bun, Steinke 2016). For every α > 1, D_α ≤ ε(α) implies (ε, δ)-DP with

    ε = ε(α) + log((α−1)/α) − (log δ + log α)/(α−1)

(Canonne, Kamath, Steinke 2020, Proposition 12). The least ε over the orders is used.

**Geo-indistinguishability** bounds the loss between two places, values of one person's record, by ε
times their distance. It suits data of which only the exact place is sensitive. On a domain of ℓ2
diameter Δ it implies local privacy at εΔ (`to_pure`). Records are rounded to a public grid before the
noise, which changes their distance by at most a constant; `epsilon_rounding` is the loss due to this
constant. Reports of one person compose by adding the two numbers for the same unit of distance, and with
other kinds after `to_pure`.

References:
    Andrés, Bordenabe, Chatzikokolakis, Palamidessi, *Geo-indistinguishability: differential privacy
    for location-based systems* (2013).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import reduce
from typing import Any, ClassVar, Literal, Self, get_args

from privot.core.errors import (
    MOST_STEPS,
    PrivotError,
    require_choice,
    require_count,
    require_finite,
)
from privot.privacy.rounding import (
    at_least,
    at_most,
    multiply_up,
    odds_factor,
    require_delta,
    round_up,
    sum_up,
)

Neighboring = Literal["local", "replace_one", "zero_out", "any"]

_CONVERSION_ERROR = 1e-14  # bound on the relative rounding error of a sum of a few logarithms
_SEES_RELEASES = "whoever sees everything computed from these releases"
_ADVERSARY = {
    "local": "whoever sees one {unit}'s report",
    "replace_one": f"{_SEES_RELEASES}, and knows every other record,",
    "zero_out": f"{_SEES_RELEASES}, and knows every other record,",
    "any": _SEES_RELEASES,
}
_COMPARED_INPUTS = {
    "local": "any two values of that {unit}'s record",
    "replace_one": "any two values of one {unit}'s record",
    "zero_out": "one {unit}'s record and a blank in its place",
    "any": "any two data sets of any sizes",
}


class Guarantee(ABC):
    """A privacy guarantee with its adjacency (`neighboring`) and the `unit` that a record belongs to.

    A kind is a frozen dataclass of plain values; `losses` names the fields that `compose` adds up.

    >>> isinstance(PureDP(1.0), Guarantee)
    True
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    kinds: ClassVar[dict[str, Any]] = {}
    losses: ClassVar[tuple[str, ...]] = ("epsilon",)
    neighboring: Neighboring
    unit: str

    def __init_subclass__(cls) -> None:
        cls.kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        for name in self.losses:
            loss = getattr(self, name)
            for number in loss if isinstance(loss, tuple) else (loss,):
                require_finite(name, number)
        require_choice("neighboring", self.neighboring, get_args(Neighboring))
        if not self.unit:
            raise PrivotError("unit is empty: say whom one record belongs to, such as 'person'")

    def __str__(self) -> str:
        return f"{self.losses_text()}, {self.neighboring}, per {self.unit}"

    @abstractmethod
    def losses_text(self) -> str:
        """Return the losses as text, rounded up."""

    @abstractmethod
    def describe(self) -> str:
        """Return the guarantee in plain words."""

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, with the type's name under "kind"."""
        return {"kind": type(self).__name__, **asdict(self)}

    def plus(self, other: Self) -> Self:
        """Return the guarantee of two uses together, of the same kind: losses add up, rounded up.

        Raises:
            PrivotError: if the two differ in anything but their losses.
        """
        return self._combined(other, sum_up)

    def times(self, count: int) -> Self:
        """Return the guarantee of `count` uses together."""
        if require_count("count", count, MOST_STEPS) == 1:
            return self
        half = self.times(count // 2)
        return half.plus(half).plus(self) if count % 2 else half.plus(half)

    def weaker(self, other: Self) -> Self:
        """Return the guarantee that two imply: the larger of each loss; raise as `plus` does."""
        return self._combined(other, max)

    def _combined(self, other: Self, combine: Callable[[Any], float], **changed: Any) -> Self:
        """Combine each loss, of a curve at each order; refuse other differences outside `changed`."""
        names = [f.name for f in fields(self) if f.name not in {*self.losses, *changed}]
        require_same(self, other, names)
        for name in self.losses:
            pair = getattr(self, name), getattr(other, name)
            if isinstance(pair[0], tuple):
                changed[name] = tuple(map(combine, zip(*pair, strict=True)))
            else:
                changed[name] = combine(pair)
        return replace(self, **changed)

    def _coverage(self, losses: str = "ε") -> str:
        """Return sentences that state who is trusted, what is covered, and that losses add up."""
        if self.neighboring == "local":
            return (
                "What is computed from the report tells no more than the report, and this holds against "
                "the curator too, who only ever sees that. Another report of the same "
                f"{self.unit} is not covered: the {losses} of both add up."
            )
        return (
            "The curator, who holds the records, is trusted. Other releases from the same records, such "
            f"as those of a second run, are not covered: the {losses} of both add up."
        )

    def _parties(self) -> tuple[str, str]:
        """Return the adversary, and the two inputs that the adversary compares, in words."""
        adversary, compared = _ADVERSARY[self.neighboring], _COMPARED_INPUTS[self.neighboring]
        return adversary.format(unit=self.unit), compared.format(unit=self.unit)


def require_same(first: Guarantee, second: Guarantee, names: Sequence[str]) -> None:
    """Raise PrivotError if two guarantees differ in one of these fields."""
    for name in names:
        values = getattr(first, name), getattr(second, name)
        if values[0] != values[1]:
            raise PrivotError(
                f"{name} is {values[0]!r} in one guarantee and {values[1]!r} in another: "
                f"state both promises for the same {name} before composing them"
            )


@dataclass(frozen=True)
class ApproximateDP(Guarantee):
    """P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) + δ for all neighboring D, D′ and all events S.

    >>> print(ApproximateDP(1.0, 1e-6, "replace_one"))
    ε = 1, δ = 1e-06, replace_one, per person
    """

    losses = ("epsilon", "delta")
    epsilon: float
    delta: float
    neighboring: Neighboring = "local"
    unit: str = "person"

    def __post_init__(self) -> None:
        require_delta(self.delta)
        super().__post_init__()

    def losses_text(self) -> str:
        return f"ε = {at_most(self.epsilon)}, δ = {at_most(self.delta, 3)}"

    def describe(self) -> str:
        return f"{self.describe_bound()} {self._coverage('ε and δ' if self.delta else 'ε')}"

    def describe_bound(self) -> str:
        """Return the first sentences of `describe`, which state the bound only."""
        if self.delta == 0:
            return PureDP(self.epsilon, self.neighboring, self.unit).describe_bound()
        adversary, compared = self._parties()
        added = at_most(self.delta, 3)
        return (
            f"For {adversary.removesuffix(',')}: between {compared}, the probability of any set of "
            f"outcomes changes by a factor of at most {odds_factor(self.epsilon)} plus {added}. The "
            f"added {added} bounds how much probability exceeds the factor, over all outcomes together, "
            "and says nothing about how bad those are."
        )


@dataclass(frozen=True)
class PureDP(Guarantee):
    """P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) for all neighboring D, D′ and all events S.

    >>> print(PureDP(4.0))
    ε = 4 (pure), local, per person
    """

    epsilon: float
    neighboring: Neighboring = "local"
    unit: str = "person"

    def losses_text(self) -> str:
        return f"ε = {at_most(self.epsilon)} (pure)"

    def describe(self) -> str:
        return f"{self.describe_bound()} {self._coverage()}"

    def describe_bound(self) -> str:
        """Return the first sentence of `describe`, which states the bound only."""
        adversary, compared = self._parties()
        return (
            f"{adversary[0].upper()}{adversary[1:]} can change their odds between {compared} by a "
            f"factor of at most {odds_factor(self.epsilon)}."
        )

    def to_approximate(self) -> ApproximateDP:
        """Return the same guarantee as (ε, δ), with δ = 0."""
        return ApproximateDP(self.epsilon, 0.0, self.neighboring, self.unit)


@dataclass(frozen=True)
class IntegralPrivacy(Guarantee):
    """P(A(D) ∈ S) ≤ e^ε P(A(D′) ∈ S) for all events S and any data sets D, D′, of any sizes.

    It covers the draws, but not the density, its parameters or plots of it.

    >>> print(IntegralPrivacy(2.0))
    ε = 2 (integral), any, per person
    """

    epsilon: float
    neighboring: Neighboring = "any"
    unit: str = "person"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighboring != "any":
            raise PrivotError(
                f"neighboring is {self.neighboring!r}: integral privacy holds between any two "
                "data sets; leave it 'any', or use to_pure(neighboring) for the weaker promise"
            )

    def losses_text(self) -> str:
        return f"ε = {at_most(self.epsilon)} (integral)"

    def describe(self) -> str:
        return (
            f"{PureDP(self.epsilon, 'any', self.unit).describe()} These releases are draws: the "
            "density, its weights and plots of it are not among them."
        )

    def to_approximate(self) -> ApproximateDP:
        """Return the same guarantee as (ε, δ) between any two data sets, with δ = 0."""
        return ApproximateDP(self.epsilon, 0.0, self.neighboring, self.unit)

    def to_pure(self, neighboring: Neighboring) -> PureDP:
        """Return the weaker guarantee between neighboring data sets of one kind.

        Raises:
            PrivotError: for `"local"`, because the curator of integral privacy holds the raw records.
        """
        if neighboring == "local":
            raise PrivotError(
                "neighboring is 'local': integral privacy trusts a curator with raw records; "
                "use 'replace_one' or 'zero_out'"
            )
        return PureDP(self.epsilon, neighboring, self.unit)


@dataclass(frozen=True)
class RenyiDP(Guarantee):
    """D_α(M(D) ‖ M(D′)) ≤ ε(α) for all neighboring D, D′ at each listed order α > 1.

    >>> print(RenyiDP.of_pure(PureDP(1.0), orders=(2.0, 8.0)))
    Rényi ε(2) = 1 and 1 more orders, local, per person
    """

    losses = ("epsilons",)
    orders: tuple[float, ...]
    epsilons: tuple[float, ...]
    neighboring: Neighboring = "local"
    unit: str = "person"

    def __post_init__(self) -> None:
        # JSON has no tuples, but a guarantee that is read must equal the one that was written.
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
        """Return the curve ε(α) = min(ε, α ε²/2) of a pure guarantee (Bun, Steinke 2016)."""
        epsilon = pure.epsilon
        curve = (min(epsilon, multiply_up(order, 0.5, epsilon, epsilon)) for order in orders)
        return cls(orders, tuple(curve), pure.neighboring, pure.unit)

    def losses_text(self) -> str:
        # `min` compares pairs by their order first.
        smallest_order, epsilon = min(zip(self.orders, self.epsilons, strict=True))
        more = len(self.orders) - 1
        return f"Rényi ε({at_least(smallest_order)}) = {at_most(epsilon)} and {more} more orders"

    def describe(self) -> str:
        return f"At δ = 1e-6: {self.to_approximate(1e-6).describe()}"

    def to_approximate(self, delta: float) -> ApproximateDP:
        """Return the implied (ε, δ), the best over the orders; δ must be in (0, 1)."""
        require_delta(delta, positive=True)
        curve = zip(self.orders, self.epsilons, strict=True)
        epsilon = min(_renyi_to_epsilon(order, at_order, delta) for order, at_order in curve)
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
        """Return ρ = min(ε, ε²/2) of a pure guarantee (Bun, Steinke 2016, Proposition 3.3)."""
        rho = min(pure.epsilon, multiply_up(0.5, pure.epsilon, pure.epsilon))
        return cls(rho, pure.neighboring, pure.unit)

    def losses_text(self) -> str:
        return f"ρ = {at_most(self.rho)} (zero-concentrated)"

    def describe(self) -> str:
        return f"At δ = 1e-6: {self.to_approximate(1e-6).describe()}"

    def to_renyi(self, orders: tuple[float, ...]) -> RenyiDP:
        """Return the Rényi curve ε(α) = ρ α at `orders`."""
        epsilons = tuple(multiply_up(self.rho, order) for order in orders)
        return RenyiDP(orders, epsilons, self.neighboring, self.unit)

    def to_approximate(self, delta: float) -> ApproximateDP:
        """Return the implied (ε, δ) with the best order; δ must be in (0, 1).

        The derivative of the conversion in α is ρ + log(δα)/(α−1)², whose only root lies between
        1 and 1/δ. Any α gives a valid ε, so the root need not be exact.
        """
        require_delta(delta, positive=True)
        if self.rho == 0:
            return ApproximateDP(0.0, delta, self.neighboring, self.unit)
        # Bisection for t = α − 1 on a logarithmic scale.
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
    """Return the ε at δ that D_α ≤ ε(α) implies, rounded up and at least 0."""
    parts = (
        epsilon,
        math.log1p(-1 / order),
        -math.log(delta) / (order - 1),
        -math.log(order) / (order - 1),
    )
    # Parts may cancel, so their rounding errors are bounded separately.
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

    def losses_text(self) -> str:
        rounding = f" plus {at_most(self.epsilon_rounding, 2)}" if self.epsilon_rounding else ""
        figures = f"{at_most(self.epsilon_per_unit)} per {self.distance_unit}{rounding}"
        return f"ε = {figures} (geo-indistinguishability)"

    def describe(self) -> str:
        at_one, at_two = self.epsilon_at(1.0), self.epsilon_at(2.0)
        return (
            f"Whoever sees one {self.unit}'s report can change their odds between two places of that "
            f"{self.unit} that are one {self.distance_unit} apart by a factor of at most "
            f"{odds_factor(at_one)}, at twice that distance {odds_factor(at_two)}, and so on: places "
            f"far apart can be distinguished. {self._coverage()}"
        )

    def epsilon_at(self, distance: float) -> float:
        """Return ε between two places at `distance`, rounded up."""
        require_finite("distance", distance)
        exact = Fraction(self.epsilon_per_unit) * Fraction(distance)
        return round_up(exact + Fraction(self.epsilon_rounding))

    def to_pure(self, diameter: float) -> PureDP:
        """Return ε-local privacy on a domain of ℓ2 `diameter`, in the same unit of distance."""
        return PureDP(self.epsilon_at(diameter), self.neighboring, self.unit)


# Conversions of a guarantee of the first kind, to be composed with one of the second.
_CONVERSIONS: dict[tuple[type, type], Callable[[Any, Any], Guarantee]] = {
    (PureDP, ApproximateDP): lambda pure, _: pure.to_approximate(),
    (IntegralPrivacy, ApproximateDP): lambda integral, _: integral.to_approximate(),
    (PureDP, ZeroConcentratedDP): lambda pure, _: ZeroConcentratedDP.of_pure(pure),
    (PureDP, RenyiDP): lambda pure, curve: RenyiDP.of_pure(pure, curve.orders),
    (ZeroConcentratedDP, RenyiDP): lambda concentrated, curve: concentrated.to_renyi(curve.orders),
}


def compose(*guarantees: Guarantee) -> Any:
    """Return the guarantee of publishing several outputs about the same unit, rounded up.

    >>> print(compose(PureDP(1.0), ApproximateDP(0.5, 1e-6)))
    ε = 1.5, δ = 1e-06, local, per person

    Raises:
        PrivotError: if no guarantee is given, or if neighboring, unit or kinds cannot be combined.
    """
    if not guarantees:
        raise PrivotError("compose was given no guarantees: give at least one")
    return reduce(_compose_two, guarantees)


def weakest(*guarantees: Any) -> Any:
    """Return the weakest guarantee, which holds for everybody if each person has one of those given.

    >>> print(weakest(PureDP(1.0), PureDP(4.0)))
    ε = 4 (pure), local, per person

    Raises:
        PrivotError: if kinds (but pure and approximate), `neighboring`, `unit` or trusted party differ.
    """
    if {*map(type, guarantees)} == {PureDP, ApproximateDP}:
        guarantees = tuple(g.to_approximate() if isinstance(g, PureDP) else g for g in guarantees)
    return reduce(_weaker, guarantees)


def _weaker(first: Any, second: Any) -> Any:
    """Return the weaker of two guarantees of one kind."""
    if type(first) is not type(second):
        raise PrivotError(
            f"one guarantee is {first}, another {second}: fit releases of one place of trust together"
        )
    return first.weaker(second)


def guarantee_from_dict(values: dict[str, Any]) -> Any:
    """Return the guarantee that `to_dict` wrote; raise PrivotError for an unknown kind or field.

    >>> guarantee_from_dict(PureDP(1.0).to_dict()) == PureDP(1.0)
    True
    """
    kind: Any = values.get("kind")
    require_choice("kind", kind, tuple(Guarantee.kinds))
    given = {name: value for name, value in values.items() if name != "kind"}
    known = [field.name for field in fields(Guarantee.kinds[kind])]
    if unknown := sorted(set(given) - set(known)):
        raise PrivotError(f"{kind} has no field {unknown[0]!r}: its fields are {', '.join(known)}")
    try:
        return Guarantee.kinds[kind](**given)
    except TypeError as error:
        raise PrivotError(f"{kind} cannot be read from {given!r}: {error}") from error


def _compose_two(first: Any, second: Any) -> Guarantee:
    """Return the sum of two guarantees, after a conversion to one adjacency and one kind."""
    first, second = _weakened(first, second.neighboring), _weakened(second, first.neighboring)
    require_same(first, second, ("neighboring", "unit"))
    for stronger, weaker in ((first, second), (second, first)):
        if convert := _CONVERSIONS.get((type(stronger), type(weaker))):
            return weaker.plus(convert(stronger, weaker))
    if type(first) is not type(second):
        raise PrivotError(
            f"{type(first).__name__} and {type(second).__name__} cannot be composed: bring both to "
            "one kind first, with to_pure(…) or to_approximate(delta)"
        )
    return first.plus(second)


def _weakened(guarantee: Any, neighboring: Neighboring) -> Guarantee:
    """Weaken a guarantee between any two data sets to a trusted curator's adjacency."""
    if guarantee.neighboring != "any" or neighboring in ("any", "local"):
        return guarantee
    if isinstance(guarantee, IntegralPrivacy):
        return guarantee.to_pure(neighboring)
    return replace(guarantee, neighboring=neighboring)
