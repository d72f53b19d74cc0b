"""The promised guarantee: ε, δ and the trust model, declared in a schema.

```toml
[promise]
epsilon = 1
where = "shuffled"
delta = 1e-8
people = 200_000
floor = 8
```

- `"local"`: nobody is trusted; the noise of each report suffices.
- `"shuffled"`: a shuffler permutes batches of at least `people` reports, which it cannot read. If the
  shuffler is dishonest, each report still has the ε₀ of its own noise, at most `floor`.
- `"aggregated"`: two servers, one of which is honest, sum secret shares of counts.
- `"central"`: a trusted curator holds the records (`privot.central`).

All but `"local"` need a δ. The promise is public, and chosen before anybody reports.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from pydantic import ConfigDict

from privot.core.errors import PrivotError, require_choice, require_finite, require_people
from privot.privacy.rounding import at_most, require_delta

TrustModel = Literal["local", "shuffled", "aggregated", "central"]


@dataclass(frozen=True)
class Promise:
    """Promised ε and δ, and the trust model.

    Arguments:
        epsilon: ε of one unit's record, > 0.
        where: Trust model: `"local"`, `"shuffled"`, `"aggregated"` or `"central"`.
        delta: δ; it may be 0 for `"local"` alone, and is below 1/`people` for the others.
        people: Least number of records in a batch, for all but `"local"`; no smaller one is opened.
        floor: Largest ε₀ of one report by itself, at least ε; optional, for `"shuffled"` only.

    Raises:
        PrivotError: if a number does not suit the trust model.

    Examples:
        >>> print(Promise(epsilon=1, where="shuffled", delta=1e-6, people=200_000))
        ε = 1, δ = 1e-06, shuffled, at least 200,000 people
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    epsilon: float
    where: str = "local"
    delta: float = 0.0
    people: int | None = None
    floor: float | None = None

    def __post_init__(self) -> None:
        require_finite("epsilon", self.epsilon, positive=True)
        require_choice("where", self.where, get_args(TrustModel))
        if self.where == "local":
            require_delta(self.delta)
            self._require_none("people", "floor")
            return
        if not self.delta:
            raise PrivotError(
                f"delta is 0, and where is {self.where!r}: give a δ far below one over the number of "
                "people, such as 1e-8"
            )
        require_delta(self.delta, positive=True)
        if self.people is None:
            raise PrivotError(
                f"people is missing, and where is {self.where!r}: give the least number of records in a "
                "batch, which is not opened before"
            )
        require_people(self.people)
        if self.delta >= 1 / self.people:
            raise PrivotError(
                f"delta is {self.delta!r}: with {self.people:,} people, publishing one whole record has "
                f"that δ; give less than {0.1 / self.people:.1g}"
            )
        if self.where != "shuffled":
            self._require_none("floor")
        elif self.floor is not None and self.floor < self.epsilon:
            raise PrivotError(
                f"floor is {self.floor!r}, below epsilon {self.epsilon!r}: the noise of a report is "
                "never more than local privacy needs; give a larger floor, or where = 'local'"
            )

    def _require_none(self, *names: str) -> None:
        """Raise PrivotError if a field that the trust model does not use is given."""
        for name in names:
            if getattr(self, name) is not None:
                raise PrivotError(
                    f"{name} is {getattr(self, name)!r}, which {self.where!r} has no use for: leave it "
                    "out"
                )

    def __str__(self) -> str:
        delta = f", δ = {at_most(self.delta, 3)}" if self.delta else ""
        people = f", at least {self.people:,} people" if self.people else ""
        floor = f", ε = {at_most(self.floor)} by itself" if self.floor else ""
        return f"ε = {at_most(self.epsilon)}{delta}, {self.where}{people}{floor}"


def promise_or_epsilon(
    promise: Promise | None, epsilon: float | None, delta: float | None, remedy: str = ""
) -> Promise | None:
    """Return the promise to calibrate by; None if ε is given instead, with or without a δ.

    Raises:
        PrivotError: if both or neither are given; the error ends with `remedy`.
    """
    if promise is None:
        if epsilon is None:
            raise PrivotError(
                "epsilon is missing, and the schema promises nothing: give it, or declare [promise] "
                f"with an epsilon{remedy}"
            )
        return None
    for name, given in (("epsilon", epsilon), ("delta", delta)):
        if given is not None:
            raise PrivotError(
                f"{name} is {given!r}, and the schema promises {promise}: leave one of them out"
            )
    return promise
