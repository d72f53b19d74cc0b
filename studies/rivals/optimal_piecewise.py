r"""The optimal piecewise mechanism of one number, and expectation maximization of its reports.

A number x in [0, 1) is reported as y in [0, 1), with the density $e^{ε/2}$ within an interval of length
$C = (e^{ε/2} − 1)/(e^ε − 1)$, and $e^{−ε/2}$ elsewhere. The interval is centered at x, and shifted into
[0, 1) near an end: reports do not leave the domain. The estimate is that of the square wave.

References:
    Zheng, Mishra, Hu, *Optimal piecewise-based mechanism for collecting bounded numerical data under
    local differential privacy* (2025).
"""

from __future__ import annotations

import math

import numpy as np

from privot.schema.domains import Array
from studies.rivals.disk_area import expect

_POINTS = 8  # of a bin, over which its likelihood is averaged


def piecewise_reports(numbers: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Reports (n,) in [0, 1) of numbers (n,) in [0, 1]."""
    length = _length(epsilon)
    start = np.clip(numbers - length / 2, 0, 1 - length)
    near = rng.random(len(numbers)) < length * math.exp(epsilon / 2)
    # A point outside is uniform on the circle beyond the interval, cut at its start.
    beyond = length + (1 - length) * rng.random(len(numbers))
    return np.asarray((start + np.where(near, length * rng.random(len(numbers)), beyond)) % 1)


def piecewise_em(reports: Array, epsilon: float, bins: int, *, smooth: bool) -> Array:
    """Shares (bins,) of equal bins of [0, 1], of reports (n,)."""
    length, edges = _length(epsilon), np.linspace(0, 1, bins + 1)
    middles = (np.arange(bins * _POINTS) + 0.5) / (bins * _POINTS)
    start = np.clip(middles - length / 2, 0, 1 - length)
    inside = np.diff(np.clip(edges[:, None] - start, 0, length), axis=0)
    inside = inside.reshape(bins, bins, _POINTS).mean(axis=2)
    high, low = math.exp(epsilon / 2), math.exp(-epsilon / 2)
    law = low / bins + (high - low) * inside
    counts = np.histogram(reports, edges)[0]
    uniform = np.full(bins, 1 / bins)
    return expect(law.__matmul__, law.T.__matmul__, counts, uniform, epsilon, smooth=smooth)


def _length(epsilon: float) -> float:
    return math.expm1(epsilon / 2) / math.expm1(epsilon)
