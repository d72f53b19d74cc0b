"""The guarantee of a batch where no curator holds records: by a shuffler, or by two servers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from privot.core.errors import PrivotError
from privot.privacy.guarantees import ApproximateDP, Guarantee, Neighboring, PureDP, require_same
from privot.privacy.rounding import at_most, odds_factor, require_delta, require_finite, sum_up

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

    def weaker(self, other: Self) -> Self:
        """Return what both batches imply: the larger losses and floor, the fewer people."""
        require_same(self, other, ("where", "unit"))
        floors = (self.floor, other.floor)
        floor = None if None in floors else max(each for each in floors if each is not None)
        larger = super().weaker(other)
        return replace(larger, people=min(self.people, other.people), floor=floor)

    def to_approximate(self) -> ApproximateDP:
        """Return (ε, δ) between batches, for whoever trusts the party."""
        return ApproximateDP(self.epsilon, self.delta, "replace_one", self.unit)
