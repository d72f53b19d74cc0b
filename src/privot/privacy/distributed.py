"""The guarantee of a batch of reports in the shuffle model, or summed by two servers.

It depends on whom to trust: (ε, δ) between batches holds if a named party is honest. The noise that it
needs is computed by `privot.privacy.shuffling` and `privot.aggregated`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from privot.core.errors import PrivotError, require_choice, require_finite
from privot.privacy.guarantees import ApproximateDP, Guarantee, Neighboring
from privot.privacy.rounding import at_most, odds_factor, require_delta, sum_up

EPSILON0_MAX = 40.0
_TRUST_ASSUMPTION = {
    "shuffled": "the shuffler and {} are honest",
    "aggregated": "one of the two servers is honest",
}
_TRUST_SENTENCE = {
    "shuffled": (
        "If the shuffler is honest (it removes the senders' names, opens the batch only when it is "
        "complete, and shows its reports in random order only), "
    ),
    "aggregated": (
        "If one of the two servers is honest (it adds its noise, sums the shares of the whole batch, "
        "and shows no single share to anybody), "
    ),
}


@dataclass(frozen=True)
class DistributedDP(Guarantee):
    r"""(ε, δ)-privacy of a batch if a named party is honest, and the weaker guarantee if it is not.

    Adjacency `replace_one`: batches of equal size that differ in one unit's record; of several batches,
    in that unit's record of each, so in its whole sequence of values. No curator holds records.
    `"shuffled"`: each report is ε₀-locally private by itself, and a shuffler, which cannot read reports,
    permutes them (`privot.privacy.shuffling`); if it lies, ε₀ remains.
    `"aggregated"`: each of two servers receives a secret share of every record's counts, uniform by
    itself, and adds noise that suffices alone; if both collude, no guarantee remains.

    Arguments:
        epsilon: ε of the batch.
        delta: δ of the batch.
        where: `"shuffled"` or `"aggregated"`.
        people: Number of reports in the batch, all of which must be of honest senders if it is shuffled:
            what k reports of others leave is the ε of n − k. Of several batches, in the smallest.
        floor: ε₀ that holds even if all other parties collude; None if nothing does.
        unit: Whom one record belongs to.
        batches: Number of batches, all of which have a report of the same unit.
        unequal: Whether the guarantee covers batches of several sizes or randomizers. Honest senders in
            the number of the smallest would not suffice for the others: all of each batch must be.

    >>> print(DistributedDP(1.0, 1e-6, "shuffled", 5000, floor=8.5).losses_text())
    ε = 1, δ = 1e-06 if the shuffler and 5,000 senders are honest, else ε = 8.5 (pure, local)
    """

    losses = ("epsilon", "delta")
    epsilon: float
    delta: float
    where: Literal["shuffled", "aggregated"]
    people: int
    floor: float | None = None
    unit: str = "person"
    neighboring: Neighboring = "replace_one"
    batches: int = 1
    unequal: bool = False

    def __post_init__(self) -> None:
        require_delta(self.delta)
        require_choice("where", self.where, tuple(_TRUST_ASSUMPTION))
        if self.neighboring != "replace_one":
            raise PrivotError(
                f"neighboring is {self.neighboring!r}: a batch has a public size; use 'replace_one'"
            )
        if self.floor is not None:
            require_finite("floor", self.floor)
        super().__post_init__()

    def losses_text(self) -> str:
        without = "nothing" if self.floor is None else f"ε = {at_most(self.floor)} (pure, local)"
        trusted = f"ε = {at_most(self.epsilon)}, δ = {at_most(self.delta, 3)}"
        trusted += f" of {self.batches:,} batches" if self.batches > 1 else ""
        senders = f"{self.people:,} senders" + (" of each" if self.batches > 1 else "")
        if self.unequal:
            senders = f"all senders of each batch, {self.people:,} or more,"
        return f"{trusted} if {_TRUST_ASSUMPTION[self.where].format(senders)}, else {without}"

    def describe(self) -> str:
        """Return, in plain words, the trust assumption, the guarantee, and the one without trust."""
        if self.floor is None:
            left = "If both servers work together, they can read every record: nothing is promised then."
        else:
            left = (
                "This counts all senders as honest: reports made or known by whoever sees the batch, or "
                "what is computed from it, hide nobody. If they are all but one, or the shuffler lies, "
                "the noise of each report is left: odds change by a factor of at most "
                f"{odds_factor(self.floor)}."
            )
        subject = f"the batch of {self.people:,} reports has this promise."
        if self.unequal:
            subject = f"each batch, of {self.people:,} reports or more, has this promise."
        if self.batches > 1:
            each = f"{self.people:,} reports or more, with one of the same {self.unit} in each"
            subject = f"{self.batches:,} batches of {each}, have this promise together."
        return (
            f"{_TRUST_SENTENCE[self.where]}{subject} "
            f"{self.to_approximate().describe_bound()} {left} Another batch with a report of the same "
            f"{self.unit} is not covered: the ε and δ of both add up."
        )

    def plus(self, other: Self) -> Self:
        """Return the guarantee of both batches: losses add up, and so do floors where both have one."""
        floor = None
        if self.floor is not None and other.floor is not None:
            floor = sum_up([self.floor, other.floor])
        batches = self.batches + other.batches
        return self._combined(other, sum_up, floor=floor, batches=batches, **self._sizes(other))

    def weaker(self, other: Self) -> Self:
        """Return what both imply: the larger losses, floor and number of batches, the fewer people."""
        floors = (self.floor, other.floor)
        floor = None if None in floors else max(each for each in floors if each is not None)
        batches = max(self.batches, other.batches)
        return self._combined(other, max, floor=floor, batches=batches, **self._sizes(other))

    def _sizes(self, other: Self) -> dict[str, Any]:
        """Return the fields about the sizes of both guarantees' batches."""
        unequal = self.unequal or other.unequal or self.people != other.people
        return {"people": min(self.people, other.people), "unequal": unequal}

    def to_approximate(self) -> ApproximateDP:
        """Return (ε, δ) between neighboring batches, if the trusted party is honest."""
        return ApproximateDP(self.epsilon, self.delta, "replace_one", self.unit)


@dataclass(frozen=True)
class ReportLaw:
    """Overlap of the laws of one report under two records, for the worst pair of records.

    Masses are those of ω, the largest measure below the laws of all records: a law is in [ω, e^ε₀ ω].

    Arguments:
        epsilon0: ε₀ of the report (pure, local).
        one: Mass a of ω on reports that the first record supports and the second does not.
        both: Mass c of ω on reports that both records support.
        third: Part of a on reports that a third record does not support, for lower bounds; None if it
            is unknown.
        shared: Part π a of a on reports that each third record supports; a/2 if there is no third.
        most: The largest π of a report's forms.
        one_form: Whether each report is a set of one size of one set of codes: no coin chooses a form.

    >>> window = ReportLaw.of_sets(1.0, supported=100, total=1000)
    >>> round(window.one, 4), round(ReportLaw.worst(1.0).one, 4)
    (0.0853, 0.2689)
    """

    epsilon0: float
    one: float
    both: float = 0.0
    third: float | None = None
    shared: float = 0.0
    most: float = 0.0
    one_form: bool = False

    def __post_init__(self) -> None:
        require_finite("epsilon0", self.epsilon0)
        if self.epsilon0 > EPSILON0_MAX:
            raise PrivotError(
                f"epsilon0 is {self.epsilon0!r}: above 40 shuffling amplifies nothing; use epsilon0 "
                "itself"
            )
        if not (0 <= self.one <= 1 and 0 <= self.both <= 1 and self.neither >= 0):
            raise PrivotError(
                f"masses one={self.one}, both={self.both} are those of no mechanism: give its own"
            )

    @property
    def neither(self) -> float:
        """Mass d of ω on reports that neither record supports; 0 if below the rounding error."""
        odds = math.exp(self.epsilon0)
        rest = 1 - (odds + 1) * self.one - odds * self.both
        return rest if abs(rest) > 1e-12 else 0.0

    @classmethod
    def worst(cls, epsilon0: float) -> Self:
        """Return the worst law of all ε₀-DP mechanisms."""
        return cls(epsilon0, 1 / (math.exp(min(epsilon0, EPSILON0_MAX + 1)) + 1))

    @classmethod
    def of_subsets(cls, epsilon0: float, size: int, total: int) -> Self:
        """Return the law of reports that are sets of `size` of `total` codes."""
        odds, pairs = math.exp(epsilon0), total * (total - 1)
        weight = total / (size * odds + total - size)  # ω of all sets
        one, both = weight * size * (total - size) / pairs, weight * size * (size - 1) / pairs
        share = 0.5 if total == 2 else (size - 1) / (total - 2)
        third = None if total == 2 else one * (1 - share)
        return cls(epsilon0, one, both, third, one * share, share, True)

    @classmethod
    def of_sets(cls, epsilon0: float, supported: float, total: float) -> Self:
        """Return the law if each record supports `supported` = m of `total` = K possible reports.

        The supports of two records may be disjoint, unless 2m > K: then they overlap by s = 2m − K,
        and a is bounded by (m − s/(e^ε₀ + 1))/(m e^ε₀ + K − m).
        """
        odds = math.exp(epsilon0)
        overlap = max(0.0, 2 * supported - total)
        one = (supported - overlap / (odds + 1)) / (supported * odds + total - supported)
        return cls(epsilon0, one, third=one if 3 * supported <= total else None)

    @classmethod
    def mixed(cls, laws: Sequence[tuple[float, Self]]) -> Self:
        """Return the mixture of (share, law): a public coin, independent of the record, chooses the law.

        If the ε₀ differ, each law is first bounded by one of the largest ε₀ without c.
        """
        highest = max(law.epsilon0 for _, law in laws)
        if len(laws) == 1:
            return laws[0][1]
        if all(law.epsilon0 == highest for _, law in laws):
            one = sum(share * law.one for share, law in laws)
            both = sum(share * law.both for share, law in laws)
            thirds = [share * law.third for share, law in laws if law.third is not None]
            third = sum(thirds) if len(thirds) == len(laws) else None
            shared = sum(share * law.shared for share, law in laws)
            return cls(highest, one, both, third, shared, max(law.most for _, law in laws))
        # Mass at (e^ε₀, 1) is moved to (1, 1) and (e^highest, 1), mean preserved.
        up = math.expm1(highest)
        shares = (w * law._one_without_both * math.expm1(law.epsilon0) / up for w, law in laws)
        return cls(highest, sum(shares))

    @property
    def _one_without_both(self) -> float:
        """Mass a of a law with c = 0 that is above this law in the convex order."""
        return self.one + self.both / (1 + math.exp(-self.epsilon0))
