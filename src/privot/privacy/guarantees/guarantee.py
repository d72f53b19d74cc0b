"""What is promised: privacy guarantees as types.

A mechanism M maps private data D to something that others see. A guarantee bounds, for every
pair of *neighboring* inputs D, D′, how far apart the laws of M(D) and M(D′) can be:

- `PureDP`: P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) for every event S (Dwork, McSherry, Nissim, Smith 2006).
- `ApproximateDP`: P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) + δ for every event S (Dwork, Kenthapadi, McSherry,
  Mironov, Naor 2006), the weakest kind, to which every other converts.
- `IntegralPrivacy`: `PureDP` between *any* two data sets, of any sizes (Husain et al. 2020).
- `RenyiDP` and `ZeroConcentratedDP`, in `graded`: bounds on Rényi divergences.
- `GeoIndistinguishability`, there, too: `PureDP` with ε in proportion to the distance of two places.

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
likelihood ratio, and the ratio is bounded). A local report is drawn from one record alone, and what is
computed from a report tells no more of the record than the report. What a curator computes depends on
all records: there the ratio is bounded between two data sets that differ in one of them, and so the
odds are of somebody who knows all others. What other people's records tell about a person, as by a
correlation, is not bounded.

A δ > 0 does **not** mean "the promise fails with probability δ": it is the slack added to the
probability of every set of outcomes. A mechanism that publishes each record outright with chance δ
satisfies it, and so does one in which nothing as bad ever happens; the sentence must fit both.

**What is covered** are the releases that the guarantee was computed for, and whatever is made of them:
nothing else that a curator publishes. Two runs on the same records are two sets of releases, and
compose.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self, get_args

from privot.errors import PrivotError
from privot.privacy.rounding import at_most, odds_factor, require_delta, require_finite, sum_up

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
        """Who is trusted, what is covered, and that anything else of the same unit adds up."""
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
        """Who sees something, and what they compare."""
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
