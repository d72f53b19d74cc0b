r"""How far in time waves are learned from each other: what is tried, and the rule that chooses.

A **local likelihood** weighs waves by $e^{−|t − s| / h}$: where h is 0 the nearest wave counts alone,
where h is infinite all count alike.

Privacy: functions of reports, hence post-processing.

References:
    Tibshirani, Hastie, *Local likelihood estimation* (1987); Loader, *Local regression and likelihood*
    (1999).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privot.schema import Array

REACHES = (np.inf, 25.0, 12.0, 6.0, 3.0, 1.5, 0.7, 0.0)  # h in waves
_LEAST = 1e-3  # weight of a wave that counts


def weigh(ages: Array, reach: float) -> Array:
    """Weights of waves so long ago: 1 of the nearest, 0 of later ones and, where h is 0, of others.

    Examples:
        >>> weigh(np.array([5.0, 3.0, 1.0]), 2.0).round(3)
        array([0.135, 0.368, 1.   ])
        >>> weigh(np.array([4.0, 2.5, 0.5, -0.1]), 0.0)
        array([0., 0., 1., 0.])
    """
    nearest = ages[ages >= 0].min()
    if reach == 0.0:
        return np.asarray(ages == nearest, np.float64)
    found = np.exp(-np.maximum(ages - nearest, 0.0) / reach)
    return np.where((ages < 0) | (found < _LEAST), 0.0, found)


def farthest(logs: Sequence[Array], people: Array) -> int:
    """The first of some densities under which reports are as likely as under the best, or nearly.

    Nearly is by no more than a standard error of the mean difference, each person told once. Of nobody,
    all are as likely.

    Examples:
        >>> likely = np.log([0.5, 0.5])
        >>> farthest([likely - [0.1, -0.09], likely, likely - 1.0], np.array([10.0, 10.0]))
        0
        >>> farthest([likely - [0.1, -0.09], likely, likely - 1.0], np.array([9000.0, 9000.0]))
        1

    Arguments:
        logs: Log-likelihoods of distinct reports (reports,) by each density, the farthest reach first.
        people: How often each came (reports,).
    """
    best = logs[int(np.argmax([people @ each for each in logs]))]
    for number, each in enumerate(logs):
        loss = best - each
        total = people @ loss
        mean = total / max(people.sum(), 1.0)
        if total <= (people @ (loss - mean) ** 2) ** 0.5:
            return number
    raise AssertionError("the best is no less likely than itself")
