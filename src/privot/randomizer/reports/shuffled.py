"""Shuffled reports: the local ε₀ that a promise allows, and the guarantee of shuffled batches.

A promise (`privot.schema.schema`) declares ε, δ and the least number of people of a batch, and possibly
a *floor*: the largest ε₀ of one report.

**Privacy review.** Adjacency: batches of equal size that differ in the record of one unit; if there are
several batches, in the unit's record in each. The analyst sees the set of accepted reports, in random
order and without senders. ε is computed from the number of *accepted* reports, so it is larger if
reports are dropped or delayed. Batches with fewer reports than the promise's number of people are
refused. That number is of honest people: other reports give no protection. All inputs are public.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from privot.core.errors import PrivotError
from privot.privacy import ApproximateDP, DistributedDP, PureDP
from privot.privacy.distributed import EPSILON0_MAX, ReportLaw
from privot.privacy.rounding import at_most, multiply_up
from privot.privacy.shuffling import calibrate_shuffling, composed_shuffled_epsilon, shuffled_delta
from privot.schema.schema import Promise

Calibrated = TypeVar("Calibrated")  # a randomizer
_PRECISION = 1e-3  # relative precision of ε₀


def require_promised(promise: Promise | None, local: PureDP | ApproximateDP) -> None:
    """Raise PrivotError if one report, with the guarantee `local`, cannot satisfy the schema's promise.

    If the promise is of shuffled reports, ε is compared with the floor, and δ must be 0.
    """
    if promise is None:
        return
    require_randomized(promise)
    most, delta = promise.floor or math.inf, 0.0
    if promise.where == "local":
        most, delta = promise.epsilon, promise.delta
    # Machines may round a logarithm differently.
    if local.epsilon > most * (1 + 1e-9) or getattr(local, "delta", 0.0) > delta:
        raise PrivotError(
            f"one report has {local}, and the schema promises {promise}: calibrate by the schema, or "
            "leave [promise] out"
        )


def require_batch_promised(promise: Promise, law: ReportLaw) -> None:
    """Raise PrivotError if the least batch of shuffled reports of a law does not satisfy a promise."""
    people, delta = promise.people or 1, promise.delta
    if shuffled_delta(law, people, promise.epsilon, delta) > delta:
        raise PrivotError(
            f"the schema promises {promise}, and reports of ε₀ = {at_most(law.epsilon0)} do not keep "
            "it: calibrate by the schema"
        )


def require_randomized(promise: Promise) -> None:
    """Raise PrivotError for a promise of sums, for which no record is randomized by itself."""
    if promise.where not in ("local", "shuffled"):
        raise PrivotError(
            f"where is {promise.where!r}, where no record is randomized by itself: use "
            f"privot.{promise.where}, or promise 'local' or 'shuffled'"
        )


def most_accurate_shuffled(
    promise: Promise, calibrate: Callable[[float], Calibrated]
) -> Calibrated:
    """Return the randomizer with the largest ε₀, to 0.1 %, whose shuffled reports satisfy a promise.

    Arguments:
        promise: ε and δ of the batch, its least number of people, and the largest ε₀.
        calibrate: Function from ε₀ to a randomizer.
    """
    people, most = promise.people or 1, min(promise.floor or EPSILON0_MAX, EPSILON0_MAX)
    # The margin ensures that the ε of the batch, which is rounded up, does not exceed the promise's.
    epsilon = promise.epsilon * (1 - 1e-6)

    def satisfies(randomizer: Any) -> bool:
        law = randomizer.report_law
        return shuffled_delta(law, people, epsilon, promise.delta) <= promise.delta

    # This ε₀ suffices for every mechanism. No more than twice as much, or 3 more, is tried.
    low = min(calibrate_shuffling(epsilon, people, promise.delta), most)
    best = calibrate(low)
    if low == most:
        return best
    high = min(2 * low, low + 3, most)
    if satisfies(largest := calibrate(high)):
        return largest
    while high - low > _PRECISION * low:
        middle = (low + high) / 2
        randomizer = calibrate(middle)
        if satisfies(randomizer):
            low, best = middle, randomizer
        else:
            high = middle
    return best


@lru_cache(maxsize=256)
def shuffled_guarantee(
    promise: Promise, law: ReportLaw, num_reports: int, batches: int, unit: str
) -> DistributedDP:
    """Return the guarantee of honestly shuffled batches of at least `num_reports` accepted reports.

    Raises:
        PrivotError: if there are fewer reports than the promise's number of people.
    """
    least = promise.people or 1
    if num_reports < least:
        raise PrivotError(
            f"{num_reports:,} reports were accepted, and the promise is of a batch of {least:,} or "
            "more: fewer are not opened, nor added to another batch; leave them out"
        )
    epsilon = composed_shuffled_epsilon(law, num_reports, promise.delta, batches)
    batch = DistributedDP(epsilon, promise.delta, "shuffled", num_reports, unit=unit)
    return replace(batch, floor=multiply_up(law.epsilon0, batches), batches=batches)
