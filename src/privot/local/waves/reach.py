"""How far in time waves are learned from each other: reaches to try, and the rule that chooses one.

Privacy: a function of reports, hence post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privot.schema import Array

REACHES = (0.0, 0.7, 1.5, 3.0, 5.0, 8.0, 14.0, 25.0, np.inf)  # h, in waves


def farthest(logs: Sequence[Array], people: Array) -> int:
    """The last of some densities under which reports are as likely as under the best, or nearly.

    Nearly is by no more than a standard error of the mean difference, each person told once.

    Examples:
        >>> likely = np.log([0.5, 0.5])
        >>> farthest([likely - 1.0, likely, likely - [0.1, -0.09]], np.array([10.0, 10.0]))
        2
        >>> farthest([likely - 1.0, likely, likely - [0.1, -0.09]], np.array([9000.0, 9000.0]))
        1

    Arguments:
        logs: Under each density, log-likelihoods of distinct reports (reports,).
        people: How often each came (reports,).
    """
    best = logs[int(np.argmax([people @ each for each in logs]))]
    gains = [each - best for each in logs]
    means = [people @ gain / people.sum() for gain in gains]
    errors = [
        (people @ (gain - mean) ** 2) ** 0.5 / people.sum()
        for gain, mean in zip(gains, means, strict=True)
    ]
    return max(i for i, mean in enumerate(means) if -mean <= errors[i])
