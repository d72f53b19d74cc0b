r"""How many reports it takes until they say more than nothing.

**Columns of codes.** Without reports the best guess is uniform: if every distribution on K values is
equally likely, it errs by $(1 − 1/K)^K$ in total variation. Reports of n people err by a mean total
variation that falls like $1/\sqrt n$ (`privot.release.budget.information`), so they say more from
$n\,(\mathrm{error}_n / \mathrm{guess})^2$ reports on.

**Points of few coordinates.** Reports of n people improve on what is known of a wave without them once
their variance is below it (`privot.mechanisms.planned_error`): more is said once any wave improves.

A function of the randomizer and the number of reports, which are public.
"""

from __future__ import annotations

import math

import numpy as np

from privot.errors import MOST_PEOPLE
from privot.mechanisms import Mechanism
from privot.mechanisms.planned_error import planned_error
from privot.release.budget.information import joint_errors, split_errors
from privot.release.randomizer import Randomizer
from privot.schema import Domain


def reports_that_tell(randomizer: Randomizer) -> int | None:
    """The least number of reports that say more than nothing; None where nothing is planned.

    That is of long vectors, images and candidates, and where no number would.

    Examples:
        >>> from privot.schema import Schema
        >>> schema = Schema.from_dict({"columns": {"sick": {"kind": "boolean"}}})
        >>> [reports_that_tell(Randomizer.calibrate(schema, epsilon)) for epsilon in (0.1, 1.0)]
        [1021, 12]
    """
    if (joint := randomizer.joint) is not None:
        sizes = [max(each) for each in joint.asked.codings.values()]
        return _beyond_a_guess(joint_errors(joint.asked, joint.epsilon, 1)[0], sizes)
    splits = randomizer.splits
    if splits and all(split.mechanism.takes_codes for split in splits.values()):
        sizes = [randomizer.schema.coded[name].alphabet.size for name in splits]
        epsilon = randomizer.guarantee.epsilon
        return _beyond_a_guess(split_errors(sizes, randomizer.num_reported, epsilon, 1)[0], sizes)
    if len(splits) != 1:
        return None
    ((name, split),) = splits.items()
    return _beyond_the_known(split.mechanism, randomizer.schema.point_column(name).domain)


def _beyond_the_known(mechanism: Mechanism, domain: Domain) -> int | None:
    """By doubling, and then halving the gap: the planned error is constant until a wave improves."""
    nothing = planned_error(mechanism, domain, 1) if domain.dimension <= 3 else math.nan
    most = next((2**k for k in range(40) if planned_error(mechanism, domain, 2**k) < nothing), None)
    if most is None:
        return None
    least = most // 2
    while most - least > max(1, most // 100):
        middle = (least + most) // 2
        improved = planned_error(mechanism, domain, middle) < nothing
        least, most = (least, middle) if improved else (middle, most)
    return most


def _beyond_a_guess(errors: np.ndarray, sizes: list[int]) -> int | None:
    guess = np.mean([(1 - 1 / size) ** size for size in sizes])
    needed = float(np.mean(errors) / guess) ** 2
    return math.ceil(needed) if needed <= MOST_PEOPLE else None
