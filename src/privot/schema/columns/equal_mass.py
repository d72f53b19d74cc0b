r"""Bins that hold as many people each as another: what a pilot's model says of a column, made public.

Of values drawn from a model, the ones that more people share than a bin should hold become **spikes**;
the rest is cut at its quantiles, each moved to the roundest number within a fifth of a bin's mass of it,
since people read them. The two outer bins reach to the bounds, which may be far: they hold a hundredth
each, or less, so that tails are told from what they are the tails of, and correlations from tails.

**Privacy review.** A function of a model's draws: whatever is learned from private reports is as private
as they are, and so are bins made of it. Of raw values it must not be asked: bins would tell of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privot.schema.domains.domain import Array

_NEAR = 0.2  # of a bin's mass, to either side of a quantile
_TAIL, _FEWEST_WITH_TAILS = 0.01, 6


def equal_mass(
    values: Array, num_bins: int, integer: bool, round_between: Callable[[float, float], float]
) -> tuple[list[float], list[float]]:
    """Inner edges and spikes of about so many codes.

    Arguments:
        values: Drawn from a model (n,), none missing.
        num_bins: Codes wanted, two at least.
        integer: Whether they are integers; then an edge is the first one of its bin.
        round_between: The roundest number of an interval.

    Examples:
        >>> hours = np.concatenate([np.full(500, 40.0), np.arange(1, 100), np.arange(20, 60)])
        >>> equal_mass(hours, 5, True, roundest)
        ([30.0, 45.0, 70.0], [40.0])
    """
    distinct, counts = np.unique(values, return_counts=True)
    spikes = distinct[counts * num_bins > len(values)]
    rest = np.sort(values[~np.isin(values, spikes)])
    num_rest = max(2, num_bins - len(spikes))
    edges: list[float] = []
    for level, mass in _levels(num_rest) if len(rest) else ():
        low, high = np.quantile(rest, [level - _NEAR * mass, level + _NEAR * mass])
        edge = round_between(float(low), float(high)) if low < high else float(low)
        edge = math.ceil(edge) if integer else edge
        last = edges[-1] if edges else -math.inf
        # Between the bounds, and with a value of its own on either side.
        if max(last, rest[0]) < edge <= rest[-1] and ((rest >= last) & (rest < edge)).any():
            edges.append(float(edge))
    return edges, [float(spike) for spike in spikes]


def _levels(num_bins: int) -> list[tuple[float, float]]:
    """Shares of people below every inner edge, and the mass of the bin beside it."""
    tails = 2 * (num_bins >= _FEWEST_WITH_TAILS)
    each = 1 / (num_bins - tails)
    inner = [(place * each, each) for place in range(1, num_bins - tails)]
    return [(_TAIL, _TAIL), *inner, (1 - _TAIL, _TAIL)] if tails else inner


def roundest(low: float, high: float) -> float:
    """The number of fewest digits from `low` to `high`, the nearest to their middle of several.

    Examples:
        >>> [roundest(0.43, 0.58), roundest(1180.0, 1240.0), roundest(-3.1, 2.0)]
        [0.5, 1200.0, 0.0]
    """
    if low <= 0 <= high:
        return 0.0
    middle = (low + high) / 2
    step = 10.0 ** math.floor(math.log10(max(abs(low), abs(high))))
    while True:
        for part in (1.0, 2.0, 5.0):  # steps of 10, 5 and 2
            found = round(middle / step * part) * (step / part)
            if low <= found <= high:
                return float(f"{found:.15g}")
        step /= 10
        if step < (high - low) * 1e-3 or step == 0:
            return middle
