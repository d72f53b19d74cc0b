"""Privacy guarantees as types: what is promised.

A mechanism M maps private data D to something that others see. A guarantee bounds, for every
pair of *neighboring* inputs D, D′, how far apart the laws of M(D) and M(D′) can be:

- `PureDP`: P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) for every event S (Dwork, McSherry, Nissim, Smith 2006).
- `ApproximateDP`: P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) + δ for every event S (Dwork, Kenthapadi, McSherry,
  Mironov, Naor 2006), the weakest kind, to which every other converts.
- `IntegralPrivacy`: `PureDP` between *any* two data sets, of any sizes (Husain et al. 2020).
- `RenyiDP` and `ZeroConcentratedDP`: bounds on Rényi divergences, below.
- `GeoIndistinguishability`: `PureDP` with ε in proportion to the distance of two places.

**Who may differ** (`neighboring`) is part of the promise:

- `local`: D and D′ are any two values of one unit's own record; the report itself is what
  others see, the curator included.
- `replace_one`: data sets of equal size that differ in one unit's record; a curator is trusted.
- `zero_out`: one unit's record is replaced by a blank; a curator is trusted.
- `any`: any two data sets.

`unit` says whom one record belongs to. A guarantee covers one use: a second report of the same
person is a second budget, and `composition` adds the two. Every number is rounded up.

**In words** a pure promise bounds odds: whoever sees the output can multiply their odds between two
values of what is protected by at most e^ε (Bayes' rule: posterior odds are prior odds times the
likelihood ratio, and the ratio is bounded). A local report is drawn from one record alone, and what
is computed from a report tells no more of the record than the report. What a curator computes
depends on all records: there the ratio is bounded between two data sets that differ in one of them,
and so the odds are of somebody who knows all others. What other people's records tell about a
person, as by a correlation, is not bounded.

A δ > 0 does **not** mean "the promise fails with probability δ": it is the slack added to the
probability of every set of outcomes. A mechanism that publishes each record outright with chance δ
satisfies it, and so does one in which nothing as bad ever happens; the sentence must fit both.

**What is covered** are the releases that the guarantee was computed for, and whatever is made of
them: nothing else that a curator publishes. Two runs on the same records are two sets of releases,
and compose.

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
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, get_args

from privot.core.errors import PrivotError
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

Neighboring = Literal["local", "replace_one", "zero_out", "any"]

_EVERYTHING = "whoever sees everything computed from these releases"
_WHO_SEES = {
    "local": "whoever sees one {unit}'s report",
    "replace_one": f"{_EVERYTHING}, and knows every other record,",
    "zero_out": f"{_EVERYTHING}, and knows every other record,",
    "any": _EVERYTHING,
}
_COMPARED = {
    "local": "any two values of that {unit}'s record",
    "replace_one": "any two values of one {unit}'s record",
    "zero_out": "one {unit}'s record and a blank in its place",
    "any": "any two data sets of any sizes",
}


class Guarantee(ABC):
    """The promise common to all kinds: who may differ, and whom one record belongs to.

    A kind is a frozen dataclass of plain values; `losses` names those that add up under composition.

    Examples:
        >>> isinstance(PureDP(1.0), Guarantee)
        True
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    losses: ClassVar[tuple[str, ...]] = ("epsilon",)
    neighboring: Neighboring
    unit: str

    def __post_init__(self) -> None:
        for name in self.losses:
            loss = getattr(self, name)
            for number in loss if isinstance(loss, tuple) else (loss,):
                require_finite(name, number)
        if self.neighboring not in get_args(Neighboring):
            choices = ", ".join(get_args(Neighboring))
            raise PrivotError(f"neighboring is {self.neighboring!r}: choose one of {choices}")
        if not self.unit:
            raise PrivotError("unit is empty: say whom one record belongs to, such as 'person'")

    def __str__(self) -> str:
        return f"{self._loss()}, {self.neighboring}, per {self.unit}"

    @abstractmethod
    def _loss(self) -> str:
        """The losses in figures."""

    @abstractmethod
    def describe(self) -> str:
        """Return the promise in plain words."""

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, with the type's name under "kind"."""
        return {"kind": type(self).__name__, **asdict(self)}

    def plus(self, other: Self) -> Self:
        """The promise of both uses together, of one kind: losses add up, rounded up.

        Raises:
            PrivotError: if the two differ in anything but their losses.
        """
        require_same(self, other, [f.name for f in fields(self) if f.name not in self.losses])
        return replace(self, **{name: self._sum(other, name) for name in self.losses})

    def _sum(self, other: Self, name: str) -> Any:
        return sum_up((getattr(self, name), getattr(other, name)))

    def _coverage(self, losses: str = "ε") -> str:
        """Say who is trusted, what is covered, and that anything else of the same unit adds up."""
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
        """Name who sees something, and what they compare."""
        kinds = (_WHO_SEES[self.neighboring], _COMPARED[self.neighboring])
        who, compared = (words.format(unit=self.unit) for words in kinds)
        return who, compared


def require_same(first: Guarantee, second: Guarantee, names: Sequence[str]) -> None:
    """Refuse two promises that differ in one of these fields."""
    for name in names:
        mine, other = getattr(first, name), getattr(second, name)
        if mine != other:
            raise PrivotError(
                f"{name} is {mine!r} in one guarantee and {other!r} in another: "
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

    def _loss(self) -> str:
        return f"ε = {at_most(self.epsilon)}, δ = {at_most(self.delta, 3)}"

    def describe(self) -> str:
        """Return the promise in plain words; δ is added to probabilities, not a failure rate."""
        if self.delta == 0:
            return PureDP(self.epsilon, self.neighboring, self.unit).describe()
        who, compared = self._parties()
        added = at_most(self.delta, 3)
        return (
            f"For {who.removesuffix(',')}: between {compared}, the probability of any set of outcomes "
            f"changes by a factor of at most {odds_factor(self.epsilon)} plus {added}. The added "
            f"{added} bounds how much probability exceeds the factor, over all outcomes together, and "
            f"says nothing about how bad those are. {self._coverage('ε and δ')}"
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

    def _loss(self) -> str:
        return f"ε = {at_most(self.epsilon)} (pure)"

    def describe(self) -> str:
        """Return the promise in plain words."""
        who, compared = self._parties()
        return (
            f"{who[0].upper()}{who[1:]} can change their odds between {compared} by a factor of at most "
            f"{odds_factor(self.epsilon)}. {self._coverage()}"
        )

    def to_approximate(self) -> ApproximateDP:
        """Return the same promise as (ε, δ), with δ = 0."""
        return ApproximateDP(self.epsilon, 0.0, self.neighboring, self.unit)


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
        super().__post_init__()
        if self.neighboring != "any":
            raise PrivotError(
                f"neighboring is {self.neighboring!r}: integral privacy holds between any two "
                "data sets; leave it 'any', or use to_pure(neighboring) for the weaker promise"
            )

    def _loss(self) -> str:
        return f"ε = {at_most(self.epsilon)} (integral)"

    def describe(self) -> str:
        """Return the promise in plain words."""
        return (
            f"{PureDP(self.epsilon, 'any', self.unit).describe()} These releases are draws: the "
            "density, its weights and plots of it are not among them."
        )

    def to_approximate(self) -> ApproximateDP:
        """Return the same promise of the draws as (ε, δ) between any two data sets, with δ = 0."""
        return ApproximateDP(self.epsilon, 0.0, self.neighboring, self.unit)

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
        """Return what a pure promise implies: ρ = min(ε, ε²/2) (Bun, Steinke 2016, Proposition 3.3)."""
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
            f"apart can be distinguished. {self._coverage()}"
        )

    def epsilon_at(self, distance: float) -> float:
        """Return ε between two places at `distance`, rounded up."""
        require_finite("distance", distance)
        exact = Fraction(self.epsilon_per_unit) * Fraction(distance)
        return round_up(exact + Fraction(self.epsilon_rounding))

    def to_pure(self, diameter: float) -> PureDP:
        """Return ε-local privacy on a domain of ℓ2 `diameter`, in the same unit of distance."""
        return PureDP(self.epsilon_at(diameter), self.neighboring, self.unit)


_TRUSTED = {
    "shuffled": "the shuffler is honest",
    "aggregated": "one of the two servers is honest",
}
_HONEST = {
    "shuffled": (
        "If the shuffler is honest (it drops who sent what, opens no fewer reports, shows them to "
        "nobody before, and then in random order), "
    ),
    "aggregated": (
        "If one of the two servers is honest (it adds its noise, sums the shares of no fewer people, "
        "and shows its shares to nobody), "
    ),
}


@dataclass(frozen=True)
class DistributedDP(Guarantee):
    r"""(ε, δ) of a whole batch if a named party is honest, and what is left if it is not.

    Adjacency `replace_one`: batches of equal size that differ in one unit's record. No curator holds
    records. `"shuffled"`: each report is ε₀-locally private by itself, and a shuffler, which cannot read
    reports, mixes them (`privot.privacy.shuffling`); if it and the analyst work together, ε₀ is left.
    `"aggregated"`: each of two servers gets a share of every record's counts, uniform by itself, and
    adds noise that is enough alone; if both work together, nothing is left.

    Arguments:
        epsilon: ε of the batch.
        delta: δ of the batch.
        where: `"shuffled"` or `"aggregated"`.
        people: How many reports the batch has, of honest people: whoever works with the analyst does
            not count.
        floor: ε₀ that holds against everybody together; None if nothing does.
        unit: Whom one record belongs to.

    Examples:
        >>> print(DistributedDP(1.0, 1e-6, "shuffled", 200_000, floor=8.5))
        ε = 1, δ = 1e-06 if the shuffler is honest, else ε = 8.5 (pure, local), replace_one, per person
    """

    losses = ("epsilon", "delta")
    epsilon: float
    delta: float
    where: Literal["shuffled", "aggregated"]
    people: int
    floor: float | None = None
    unit: str = "person"
    neighboring: Neighboring = "replace_one"

    def __post_init__(self) -> None:
        require_delta(self.delta)
        if self.where not in _TRUSTED:
            raise PrivotError(f"where is {self.where!r}: choose one of {', '.join(_TRUSTED)}")
        if self.neighboring != "replace_one":
            raise PrivotError(
                f"neighboring is {self.neighboring!r}: a batch has a public size; use 'replace_one'"
            )
        if self.floor is not None:
            require_finite("floor", self.floor)
        super().__post_init__()

    def _loss(self) -> str:
        left = "nothing" if self.floor is None else f"ε = {at_most(self.floor)} (pure, local)"
        held = f"ε = {at_most(self.epsilon)}, δ = {at_most(self.delta, 3)}"
        return f"{held} if {_TRUSTED[self.where]}, else {left}"

    def describe(self) -> str:
        """Return who is trusted with what, the promise in plain words, and what is left of it."""
        promise = self.to_approximate().describe().split(" The curator, who")[0]
        if self.floor is None:
            left = "If both servers work together, they can read every record: nothing is promised then."
        else:
            alone = PureDP(self.floor, "local", self.unit)
            left = (
                "If the shuffler and the analyst work together, what is left is the noise of each "
                f"report: odds change by a factor of at most {odds_factor(alone.epsilon)}."
            )
        return (
            f"{_HONEST[self.where]}the batch of {self.people:,} reports has this promise. {promise} "
            f"{left} Another batch with a report of the same {self.unit} is not covered: the ε and δ of "
            "both add up."
        )

    def plus(self, other: Self) -> Self:
        """The promise of both batches together: losses and floors add up, no floor stays none."""
        require_same(self, other, ("where", "unit"))
        floors = (self.floor, other.floor)
        floor = None if None in floors else sum_up([each for each in floors if each is not None])
        both = {name: self._sum(other, name) for name in self.losses}
        return replace(self, **both, people=min(self.people, other.people), floor=floor)

    def to_approximate(self) -> ApproximateDP:
        """Return (ε, δ) between batches, for whoever trusts the party."""
        return ApproximateDP(self.epsilon, self.delta, "replace_one", self.unit)
