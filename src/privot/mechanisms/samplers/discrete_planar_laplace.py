r"""Planar Laplace noise on the integer lattice, drawn exactly: $P(k) ∝ e^{−‖k‖_2/t}$, $k ∈ ℤ^2$.

**Why it is right.** Two independent discrete Laplace integers of ratio $s ≥ \sqrt 2\, t$ propose
$k$ with $P ∝ e^{−‖k‖_1/s}$. Since $‖k‖_1 ≤ \sqrt 2 ‖k‖_2$,

$$ a(k) = ‖k‖_2/t − ‖k‖_1/s ≥ 0, $$

so $e^{−a}$ is a probability, and keeping $k$ when $−\ln U ≥ a(k)$, $U$ a real uniform, leaves
$P(k) ∝ e^{−‖k‖_1/s − a(k)} = e^{−‖k‖_2/t}$. That $s$ is a float, not below $\sqrt 2\, t$ in exact
arithmetic, changes how often a proposal is kept (π/4 of them for large t), never the result.

**Why floats do no harm.** One word gives the first 63 bits $r$ of $U ∈ [r, r+1) 2^{−63}$. For $r ≥
2^{44}$ the float $−\ln U$ is within $2^{−43}$ (see `discrete_laplace`). While $‖k‖_2/t ≤ 2^7$, so that
$‖k‖_1/s ≤ 2^7$ as well, $a$ takes a dozen roundings of relative size $2^{−53}$ (integers to floats,
squares, sum, root, quotients, difference) of numbers below $2^7$: it is within $2^{−42}$. The
comparison is kept only if both sides differ by more than $2^{−40}$; for $r < 2^{44}$, $U ≤ 2^{−19}$
and $−\ln U$ may only be taken for larger than what $2^{−19}$ gives. Otherwise more bits of $U$ are
drawn and intervals of correctly rounded logarithms, roots and quotients decide: with probability 1
after finitely many.

**Who sees what.** The time of a draw depends on the noise (proposals not kept) and on the public
ratio, never on a record.

References:
    Andrés, Bordenabe, Chatzikokolakis, Palamidessi, *Geo-indistinguishability: differential privacy
    for location-based systems* (2013), for the continuous law; von Neumann, *Various techniques used
    in connection with random digits* (1951), for rejection.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privot.mechanisms.samplers.discrete_laplace import (
    draw_discrete_laplace,
    sample_discrete_laplace,
)
from privot.mechanisms.samplers.entropy import random_bits, random_word, random_words
from privot.mechanisms.samplers.exact_rounding import (
    LOG_ERROR_OK,
    check_ratio,
    directed_contexts,
    negative_log,
)

Integers = NDArray[np.int64]

_SMALL = 6  # up to here, one point at a time is faster than arrays
_BLOCK = 2**14
_PREFIX_BITS = 63
_PREFIX_MIN = 2**44
_UNIT = 2.0**-_PREFIX_BITS
_MARGIN = 2.0**-40 if LOG_ERROR_OK else math.inf
_FAR = 2.0**7


@lru_cache(maxsize=256)
def proposal_ratio(ratio: float) -> float:
    """A float s ≥ √2·ratio, next to it."""
    proposal = math.sqrt(2.0) * check_ratio(ratio)
    while Fraction(proposal) ** 2 < 2 * Fraction(ratio) ** 2:
        proposal = math.nextafter(proposal, math.inf)
    return check_ratio(proposal)


def exact_keep(prefix: int, x: int, y: int, ratio: float) -> bool:
    r"""Whether $−\ln U ≥ a(x, y)$, for a uniform $U$ whose first 63 bits are `prefix`."""
    scale, proposal = Decimal(ratio), Decimal(proposal_ratio(ratio))
    square, manhattan, bits = Decimal(x * x + y * y), Decimal(abs(x) + abs(y)), _PREFIX_BITS
    while True:
        prefix, bits = prefix << 64 | random_bits(64), bits + 64
        if prefix == 0:
            continue
        down, up = directed_contexts(bits)
        root = down.sqrt(square)  # rounded to nearest, whatever the context says
        low_root, high_root = max(Decimal(0), down.next_minus(root)), up.next_plus(root)
        least = down.subtract(down.divide(low_root, scale), up.divide(manhattan, proposal))
        most = up.subtract(up.divide(high_root, scale), down.divide(manhattan, proposal))
        if negative_log(prefix + 1, bits, down) >= most:
            return True
        if negative_log(prefix, bits, up) < least:
            return False


def draw_planar_laplace(count: int, ratio: float) -> list[int]:
    """As `sample_planar_laplace`, for few points: x₁, y₁, x₂, y₂ and so on."""
    return [coordinate for _ in range(count) for coordinate in _draw_one(ratio)]


def _draw_one(ratio: float) -> list[int]:
    proposal = proposal_ratio(ratio)
    while True:
        point = draw_discrete_laplace(2, proposal)
        x, y = point
        prefix = random_word() >> 1
        distance = math.sqrt(float(x) * x + float(y) * y) / ratio
        excess = distance - (abs(x) + abs(y)) / proposal
        slack = -math.log(max(prefix, _PREFIX_MIN) * _UNIT) - excess
        if distance > _FAR or slack <= _MARGIN:
            if distance <= _FAR and slack < -_MARGIN and prefix >= _PREFIX_MIN:
                continue
            if not exact_keep(prefix, x, y, ratio):
                continue
        return point


def _keep(points: Integers, ratio: float) -> NDArray[np.bool_]:
    """Which of the proposals (n, 2) to keep."""
    prefix = (random_words(len(points)) >> np.uint64(1)).view(np.int64)
    x, y = np.abs(points.T.astype(np.float64))
    slack = np.maximum(prefix, _PREFIX_MIN) * _UNIT
    np.log(slack, out=slack)
    distance = np.sqrt(x * x + y * y) / ratio
    slack += distance
    slack -= (x + y) / proposal_ratio(ratio)
    np.negative(slack, out=slack)
    keep = slack > _MARGIN
    open_cases = ~keep & ((slack >= -_MARGIN) | (prefix < _PREFIX_MIN)) | (distance > _FAR)
    for i in np.flatnonzero(open_cases):
        keep[i] = exact_keep(int(prefix[i]), int(points[i, 0]), int(points[i, 1]), ratio)
    return keep


def sample_planar_laplace(count: int, ratio: float) -> Integers:
    r"""Independent points of law $P(k) ∝ e^{−‖k‖_2/\text{ratio}}$, exactly; int64, shape (count, 2).

    Raises:
        PrivotError: for a ratio outside $(0, 2^{39}]$ or so.
    """
    proposal = proposal_ratio(ratio)
    if count <= _SMALL:
        return np.array(draw_planar_laplace(count, ratio), np.int64).reshape(count, 2)
    out = np.empty((count, 2), np.int64)
    filled = 0
    while filled < count:
        wanted = min(_BLOCK, int(1.3 * (count - filled)) + 16)
        points = sample_discrete_laplace((wanted, 2), proposal)
        # In the order of drawing: the count wanted decides nothing about the points.
        kept = points[_keep(points, ratio)][: count - filled]
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out
