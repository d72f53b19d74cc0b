r"""Expectation maximization for the square wave, as published: a number's shares of equal bins.

With $M_{yi}$ the probability of the report y of a number that is uniform in bin i, a step is

$$ p_i ← p_i \sum_y \frac{n_y}{n} \frac{M_{yi}}{\sum_j M_{yj} p_j} , $$

until the log-likelihood grows by less than $10^{−3} e^ε$; with smoothing, each step ends with weights
(1, 2, 1)/4 over neighbors. Reports are counted in as many bins as numbers are.

References:
    Li, Wang, Lopuhaä-Zwakenberg, Škorić, Li, *Estimating numerical distributions under local
    differential privacy* (2020), algorithm 1.
"""

from __future__ import annotations

import math

import numpy as np

from privot.core.errors import PrivotError
from privot.mechanisms import Window
from privot.randomizer import Release
from privot.schema.domains import Array

_MOST_STEPS = 10_000


def square_wave_em(release: Release, name: str, bins: int, smooth: bool) -> Array:
    """Shares (bins,) of equal bins between a number's bounds.

    Raises:
        PrivotError: if the column was not reported by a window of one coordinate.
    """
    mechanism = release.randomizer.mechanisms[name]
    if not isinstance(mechanism, Window) or mechanism.dimension != 1:
        raise PrivotError(
            f"column {name!r} was reported by {mechanism.kind}: give a window's numbers"
        )
    reports = release.reports(name)[0][:, 0]
    half = 2 * mechanism.radius / mechanism.steps  # of the window, beside [−1, 1]
    edges = np.linspace(-1 - half, 1 + half, bins + 1)
    counts = np.histogram(reports, edges)[0]
    likelihood = _likelihood(edges, np.linspace(-1, 1, bins + 1), half, mechanism.epsilon)
    shares = np.full(bins, 1 / bins)
    last, tolerance = -math.inf, 1e-3 * math.exp(mechanism.epsilon)
    for _ in range(_MOST_STEPS):
        mixed = likelihood @ shares
        shares *= likelihood.T @ (counts / mixed)
        shares /= shares.sum()
        if smooth:
            padded = np.pad(shares, 1, mode="edge")
            shares = (padded[:-2] + 2 * shares + padded[2:]) / 4
            shares /= shares.sum()
        reached = float(counts @ np.log(mixed))
        if reached - last < tolerance:
            break
        last = reached
    return shares


def _likelihood(reports: Array, numbers: Array, half: float, epsilon: float) -> Array:
    """P(report in a bin | number uniform in a bin), of bins between edges."""
    power = math.exp(epsilon)
    low = 1 / (2 * half * power + 2)

    def overlap(edge: Array) -> Array:
        """∫∫ 1[x ≤ edge] over a bin's numbers, of reports' edges against windows' ends."""
        gap = edge[:, None] - numbers[None, :]
        return np.maximum(gap, 0.0) ** 2 / 2

    def below(shift: float) -> Array:
        # The mean over a bin's numbers x of the length of [−∞, edge] below x + shift.
        second = overlap(reports - shift)
        return (second[:, :-1] - second[:, 1:]) / np.diff(numbers)

    # Length of the window that lies below each edge, averaged over the bin's numbers.
    inside = np.diff(below(-half) - below(half), axis=0)
    width = np.diff(reports)[:, None]
    return np.asarray(low * width + low * (power - 1) * inside)
