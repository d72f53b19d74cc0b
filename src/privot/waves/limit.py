r"""The owner's limit: what all campaigns together may draw on one device, and what clocks do to it.

Promises to one person add up: pure ε's, and (ε, δ) component by component. A limit is on all draws ever,
or on those of any so many days. A draw has the time of the clock, or of the draw before it if that is
later, and counts as long as the clock shows less than that time and the days.

*A clock that was set back* gives nothing back: all draws count that are not older than the days. *A
clock that was set forward and right again* gives nothing back either: earlier draws count as before, and
what was drawn meanwhile counts until that later time and the days have passed, which may be long. *While
it stands forward*, what was spent is aged by it: whenever it is set forward by the days once more, the
limit may be drawn once more. A device that has no other clock cannot know; a limit without days is the
same under any clock.

**Privacy review.** Sums of public numbers at public times; no value is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privot.errors import PrivotError
from privot.privacy import ApproximateDP, PureDP
from privot.privacy.rounding import at_most, exactly, require_delta, require_finite

_DAY = 86_400

Draws = Sequence[Mapping[str, Any]]


class LimitReached(PrivotError):  # noqa: N818 (an end, not a fault)
    """The owner of the device allows no more."""


@dataclass(frozen=True)
class Limit:
    """What the owner of a device allows all campaigns together.

    Arguments:
        epsilon: Sum of ε of all draws.
        days: In any so many days; for ever if None.
        delta: Sum of δ.

    Examples:
        >>> print(Limit(8.0, days=365))
        ε = 8 in any 365 days
    """

    epsilon: float
    days: float | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        require_finite("epsilon of a limit", self.epsilon)
        require_delta(self.delta)
        if self.days is not None:
            require_finite("days of a limit", self.days, positive=True)

    def __str__(self) -> str:
        delta = f", δ = {exactly(self.delta)}" if self.delta else ""
        when = "for ever" if self.days is None else f"in any {self.days:g} days"
        return f"ε = {exactly(self.epsilon)}{delta} {when}"

    def require(
        self, asking: str, promise: PureDP | ApproximateDP, draws: Draws, now: float
    ) -> None:
        """Refuse one more draw that would pass it.

        Arguments:
            asking: Name of the campaign; a tree's answers so far are in what it asks for.
            promise: What one more draw adds.
            draws: The ledger's lines.
            now: Seconds since 1970.

        Raises:
            LimitReached: if it would.
        """
        epsilon, delta = losses(draws, self.days, now, asking)
        more, slack = _written(promise.epsilon), _written(getattr(promise, "delta", 0.0))
        most, most_slack = _written(self.epsilon), _written(self.delta)
        if epsilon + more > most or delta + slack > most_slack:
            added = f", δ = {at_most(float(delta), 3)}" if delta else ""
            raise LimitReached(
                f"campaign {asking!r} asks for {promise}: ε = {at_most(float(epsilon))}{added} is "
                f"spent, and the limit is {self}; wait, or raise the limit"
            )


def latest(draws: Draws) -> float:
    """The time of the last draw; 0 if there is none."""
    return max((float(line["time"]) for line in draws), default=0.0)


def losses(
    draws: Draws, days: float | None, now: float, asking: str = ""
) -> tuple[Fraction, Fraction]:
    """Sums of ε and of δ, of the numbers as they are written: three times 0.1 is 0.3.

    The answers of a tree are one promise, as of the last one; none for the campaign that asks.
    """
    since = -math.inf if days is None else now - days * _DAY
    counted: dict[Any, dict[str, float]] = {}
    for number, line in enumerate(draws):
        name, tree = line["campaign"]["name"], "tree" in line["campaign"]
        if line["time"] > since and "promise" in line and not (tree and name == asking):
            counted[name if tree else number] = line["promise"]
    epsilon = sum((_written(each["epsilon"]) for each in counted.values()), Fraction(0))
    delta = sum((_written(each.get("delta", 0.0)) for each in counted.values()), Fraction(0))
    return epsilon, delta


def _written(number: float) -> Fraction:
    return Fraction(repr(float(number)))
