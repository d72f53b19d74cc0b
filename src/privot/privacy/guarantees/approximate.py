"""(ε, δ)-differential privacy, and what every kind of guarantee has in common.

P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) + δ for all neighboring D, D′ and all events S (Dwork,
Kenthapadi, McSherry, Mironov, Naor 2006). It is the weakest kind, and every other converts to
it. Who may differ (`neighboring`) and whom one record belongs to (`unit`) are part of every
promise: see `privot.privacy.guarantees.guarantee`.
"""

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from privot.errors import PrivotError
from privot.privacy.guarantees.figures import at_most
from privot.privacy.guarantees.wording import additive_sentence, odds_sentence
from privot.privacy.rounding import require_delta, require_finite

Neighboring = Literal["local", "replace_one", "zero_out", "any"]


@dataclass(frozen=True)
class Guarantee:
    """The promise common to all kinds: who may differ, and whom one record belongs to."""

    def _check(self, neighboring: str, unit: str) -> None:
        if neighboring not in get_args(Neighboring):
            choices = ", ".join(get_args(Neighboring))
            raise PrivotError(f"neighboring is {neighboring!r}: choose one of {choices}")
        if not unit:
            raise PrivotError("unit is empty: say whom one record belongs to, such as 'person'")

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, with the type's name under "kind"."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class ApproximateDP(Guarantee):
    """P(M(D) ∈ S) ≤ e^ε P(M(D′) ∈ S) + δ for all neighboring D, D′ and all events S.

    >>> print(ApproximateDP(1.0, 1e-6, "replace_one"))
    ε = 1, δ = 1e-06, replace_one, per person
    """

    epsilon: float
    delta: float
    neighboring: Neighboring = "local"
    unit: str = "person"

    def __post_init__(self) -> None:
        require_finite("epsilon", self.epsilon)
        require_delta(self.delta)
        self._check(self.neighboring, self.unit)

    def __str__(self) -> str:
        loss = f"ε = {at_most(self.epsilon)}, δ = {at_most(self.delta, 3)}"
        return f"{loss}, {self.neighboring}, per {self.unit}"

    def describe(self) -> str:
        """Return the promise in plain words; δ is added to probabilities, not a failure rate."""
        if self.delta == 0:
            return odds_sentence(self.epsilon, self.neighboring, self.unit)
        return additive_sentence(self.epsilon, self.delta, self.neighboring, self.unit)

    def to_approximate(self, delta: float) -> "ApproximateDP":
        """Return the promise at a larger δ.

        Raises:
            PrivotError: if `delta` is smaller than this guarantee's.
        """
        if not delta >= self.delta:
            raise PrivotError(
                f"delta is {delta!r}, below the guarantee's own {self.delta!r}: "
                "calibrate the mechanism again for the smaller delta"
            )
        return ApproximateDP(self.epsilon, delta, self.neighboring, self.unit)
