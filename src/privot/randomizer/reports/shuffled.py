"""Shuffled reports: the ε₀ that a promise allows each of them, and the guarantee of a batch.

**Privacy review.** Adjacency: batches of equal size that differ in one unit's record. What the analyst
sees is the set of accepted reports, in random order, without senders. ε is computed from how many were
*accepted*: whoever drops, duplicates or delays reports makes the batch smaller, and its ε larger. A
batch of fewer than the promise's people is refused. Reports of dishonest people count for nothing: the
number of people is one of honest ones. Everything here is a function of public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from privot.core.errors import PrivotError
from privot.privacy import ApproximateDP, DistributedDP, PureDP
from privot.privacy.shuffling import (
    EPSILON0_MAX,
    ReportLaw,
    calibrate_shuffling,
    shuffled_delta,
    shuffled_epsilon,
)
from privot.schema import Schema
from privot.schema.promise import Promise

_PRECISION = 1e-3  # of ε₀, relative


def promised(schema: Schema, epsilon: float | None) -> Promise | None:
    """Return the promise of a schema, or None if ε is given instead; refused if both are, or none.

    Raises:
        PrivotError: also if the promise is one that no randomizer of records keeps.
    """
    promise = schema.promise
    if promise is None:
        if epsilon is None:
            raise PrivotError(
                "epsilon is missing, and the schema promises nothing: give it, or declare [promise] "
                "with an epsilon"
            )
        return None
    if epsilon is not None:
        raise PrivotError(
            f"epsilon is {epsilon!r}, and the schema promises {promise}: leave one of them out"
        )
    _require_randomized(promise)
    return promise


def require_promised(promise: Promise | None, local: PureDP | ApproximateDP) -> None:
    """Refuse reports of this guarantee where the schema promises less ε or δ, or another place of trust.

    Of shuffled reports this is the floor: ε of a batch is stated by how many are accepted.

    Raises:
        PrivotError: naming both.
    """
    if promise is None:
        return
    _require_randomized(promise)
    most = promise.epsilon if promise.where == "local" else promise.floor or math.inf
    delta = promise.delta if promise.where == "local" else 0.0
    # Another machine may round a logarithm otherwise.
    if local.epsilon > most * (1 + 1e-9) or getattr(local, "delta", 0.0) > delta:
        raise PrivotError(
            f"one report has {local}, and the schema promises {promise}: calibrate by the schema, or "
            "leave [promise] out"
        )


def _require_randomized(promise: Promise) -> None:
    if promise.where not in ("local", "shuffled"):
        raise PrivotError(
            f"where is {promise.where!r}, where no record is randomized by itself: use "
            f"privot.{promise.where}, or promise 'local' or 'shuffled'"
        )


def most_accurate_shuffled(promise: Promise, local: Callable[[float], Any]) -> Any:
    """Return the randomizer of the largest ε₀ whose shuffled reports keep the promise, to .1 %.

    Arguments:
        promise: ε and δ of the batch, its least number of people, and the largest ε₀.
        local: Makes the randomizer of an ε₀.
    """
    people, most = promise.people or 1, min(promise.floor or EPSILON0_MAX, EPSILON0_MAX)

    # A little less, so that the ε of the batch, which is rounded up, is not above the promise's.
    epsilon = promise.epsilon * (1 - 1e-6)

    def keeps(randomizer: Any) -> bool:
        law = randomizer.report_law
        return shuffled_delta(law, people, epsilon, promise.delta) <= promise.delta

    low = min(calibrate_shuffling(epsilon, people, promise.delta), most)
    found = local(low)  # of any mechanism: no law of its own is needed
    if low == most:
        return found
    high = min(2 * low, low + 3, most)
    if keeps(best := local(high)):
        return best  # at the floor, or so near the largest ε₀ that shuffling decides nothing
    while high - low > _PRECISION * low:
        middle = (low + high) / 2
        if keeps(tried := local(middle)):
            low, found = middle, tried
        else:
            high = middle
    return found


@lru_cache(maxsize=256)
def shuffled_guarantee(
    promise: Promise, law: ReportLaw, num_reports: int, unit: str
) -> DistributedDP:
    """Return the guarantee of so many accepted reports, for whoever trusts the shuffler.

    Raises:
        PrivotError: if they are fewer than the promise's people.
    """
    least = promise.people or 1
    if num_reports < least:
        raise PrivotError(
            f"{num_reports:,} reports were accepted, and the promise is of a batch of {least:,} or "
            "more: wait for more; fewer are not opened"
        )
    epsilon = shuffled_epsilon(law, num_reports, promise.delta).epsilon
    return DistributedDP(
        epsilon, promise.delta, "shuffled", num_reports, floor=law.epsilon0, unit=unit
    )
