r"""What moved, and when: shares and means over the waves with bands, and sudden changes.

Both are ratios of sums over a column's shares θ, to first order linear in the coordinates u of paths,
whose posterior is Gaussian and independent from one to the next,

$$ \mathrm{Var}(a^⊤ θ) = \sum_k (B^⊤ a)_k^2\, \mathrm{Var}(u_k) . $$

A mean is of those who have a number. The band holds what reports leave open of the column, the drift
included; not how people lie within a bump, which is taken as known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from privot.errors import PrivotError
from privot.local.waves.paths import Paths
from privot.local.waves.shares import Followed
from privot.schema import Array

_SIMULATIONS = 199
_CREDIBLE = 0.9
_FEWEST = 3  # waves, in which a change can be seen


@dataclass(frozen=True, eq=False)
class Trend:
    """A share or a mean over the waves.

    Arguments:
        name: What it is of.
        times: Of the waves, as they were given.
        estimate: At each (T,).
        low: Lower end of the band (T,).
        high: Upper end (T,).
        level: Of the band, at each time on its own.
    """

    name: str
    times: tuple[str, ...]
    estimate: Array
    low: Array
    high: Array
    level: float

    def within(self, low: float, high: float) -> Trend:
        """With ends that no share is beyond."""
        return replace(self, low=np.clip(self.low, low, high), high=np.clip(self.high, low, high))


@dataclass(frozen=True)
class ChangePoint:
    """A sudden change of a column's law, if there was one.

    Arguments:
        column: Which.
        time: Of the first wave after it, most probably.
        low: The first of the waves among which it is with probability .9, if there was one.
        high: The last of them.
        p_value: How often a population that only drifts shows as much, at most.
        log_odds: Log evidence of one change, at a wave unknown, against none.
    """

    column: str
    time: str
    low: str
    high: str
    p_value: float
    log_odds: float


def trend_of(name: str, followed: Followed, times: tuple[str, ...], level: float) -> Trend:
    """Of a ratio that is followed over the waves."""
    course, part, whole = followed
    shares = np.array([course.moving.at(path) for path in course.paths.mean])
    base = (shares * whole).sum(axis=1)
    estimate = (shares * part).sum(axis=1) / base
    turned = (part - whole * estimate[:, None]) @ course.moving.basis / base[:, None]
    spread = np.diagonal(course.paths.covariance, axis1=1, axis2=2).T
    error = scipy.special.ndtri((1 + level) / 2) * np.sqrt((turned**2 * spread).sum(axis=1))
    return Trend(name, times, estimate, estimate - error, estimate + error, level)


def change_point_of(name: str, paths: Paths, times: tuple[str, ...], seed: int) -> ChangePoint:
    """Of a column's paths.

    Raises:
        PrivotError: for fewer than three waves.
    """
    if len(times) < _FEWEST:
        raise PrivotError(f"{len(times)} waves show no change: give three or more")
    logs = paths.steps()
    shares = np.exp(logs - logs.max())
    below = np.cumsum(shares / shares.sum())
    tail = (1 - _CREDIBLE) / 2
    first, last = (
        min(int(np.searchsorted(below, each)), len(logs) - 1) for each in (tail, 1 - tail)
    )
    when, low, high = (times[1 + i] for i in (int(logs.argmax()), first, last))
    odds = float(logs.max() + np.log(shares.mean()))
    return ChangePoint(name, when, low, high, paths.p_value(_SIMULATIONS, seed), odds)
