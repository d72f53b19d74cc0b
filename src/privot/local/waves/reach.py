r"""How far in time waves are learned from each other: what is tried, and the rule that chooses.

A **local likelihood** weighs waves by $e^{−|t − s| / h}$ and takes what it learns, near t, for a
polynomial in s of degree 0, which stands, or 1, which moves evenly. A course that moves evenly may be
learned from waves farther away, but leaves more to chance at its ends: noise there is that of
$1 / \sum_s ℓ_s^2$ **equivalent waves**, ℓ the weights of the least-squares line at t, 1 in sum.

Privacy: functions of reports, hence post-processing.

References:
    Tibshirani, Hastie, *Local likelihood estimation* (1987); Loader, *Local regression and likelihood*
    (1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privot.schema import Array

_LEAST = 1e-3  # weight of a wave that counts


@dataclass(frozen=True)
class Reach:
    """How waves are weighed, and what is learned of them.

    Arguments:
        waves: h, in units of time.
        degree: Of the polynomial: 0 or 1.
    """

    waves: float
    degree: int = 0

    def weights(self, ages: Array) -> Array:
        """Of waves so long ago, 1 of the nearest, 0 of later ones; of the nearest alone where h is 0.

        Examples:
            >>> Reach(2.0).weights(np.array([5.0, 3.0, 1.0])).round(3)
            array([0.135, 0.368, 1.   ])
            >>> Reach(0.0).weights(np.array([4.0, 2.5, 0.5, -0.1]))
            array([0., 0., 1., 0.])
        """
        nearest = ages[ages >= 0].min()
        if self.waves == 0.0:
            return np.asarray(ages == nearest, np.float64)
        found = np.exp(-np.maximum(ages - nearest, 0.0) / self.waves)
        return np.where((ages < 0) | (found < _LEAST), 0.0, found)

    def basis(self, times: Array, weights: Array) -> Polynomials:
        """Polynomials that are orthonormal under weights."""
        if self.degree == 0:
            return Polynomials(0.0, np.inf, 0)
        middle = float(np.average(times, weights=weights))
        spread = float(np.average((times - middle) ** 2, weights=weights) ** 0.5)
        return Polynomials(middle, spread or 1.0, self.degree)

    def equivalent(self, times: Array) -> float:
        """Waves that the noise at the last of some times is worth.

        Examples:
            >>> Reach(np.inf).equivalent(np.arange(24.0))
            24.0
            >>> round(Reach(np.inf, 1).equivalent(np.arange(24.0)), 1)
            6.4
        """
        weights = self.weights(times[-1] - times)
        basis = self.basis(times, weights)
        line = weights * (basis(times) @ basis(times[-1:])[0])
        return float(line.sum() ** 2 / (line @ line))


@dataclass(frozen=True)
class Polynomials:
    """1, and a line through 0 in the middle.

    Arguments:
        middle: Time.
        spread: Time in which the line rises by 1.
        degree: 0 or 1.
    """

    middle: float
    spread: float
    degree: int

    def __call__(self, times: Array) -> Array:
        """Values (times, degree + 1)."""
        return np.vander((times - self.middle) / self.spread, self.degree + 1, increasing=True)

    def turned(self, course: Array, others: Polynomials) -> Array:
        """Coefficients (2, k) of the same lines by others.

        Examples:
            >>> ours, others = Polynomials(2.0, 4.0, 1), Polynomials(3.0, 1.0, 1)
            >>> course, times = np.array([[5.0], [8.0]]), np.array([0.0, 7.0])
            >>> (ours(times) @ course).T, (others(times) @ ours.turned(course, others)).T
            (array([[ 1., 15.]]), array([[ 1., 15.]]))
        """
        middle = self(np.array([others.middle]))[0] @ course
        return np.stack([middle, course[1] * (others.spread / self.spread)])


# What is tried, in waves: of each degree, one after the other.
STANDING = tuple(map(Reach, (0.0, 0.7, 1.5, 3.0, 5.0, 8.0, 14.0, 25.0, np.inf)))
MOVING = tuple(Reach(waves, 1) for waves in (4.0, 12.0, np.inf))


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
