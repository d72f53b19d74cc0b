r"""Discrete Laplace noise, drawn exactly: $P(k) ∝ e^{−|k|/t}$ on the integers, $t$ = scale/grid.

**Why it is right.** For a real uniform $|U|$, $G = ⌊−t \ln |U|⌋$ has $P(G ≥ k) = P(|U| ≤ e^{−k/t})
= e^{−k/t}$: geometric. The sign of $U$, with −0 drawn again, gives $P(±k) ∝ ½ (1 − e^{−1/t})
e^{−k/t}$ and, at 0, the same formula: the discrete Laplace law. $G$ is the integer nearest to
$h = −t \ln |U| − ½$, which `exact_rounding` decides for full real $U$: pure ε survives.

**Why floats do no harm.** For $|U| ≥ 2^{−19}$, $t \ln |U|$ in float64 at the cell's middle differs
from the truth anywhere in the cell by at most $t$ times: $2^{−45}$ (bits not drawn), $2^{−52}$ (the
middle's two roundings), $4 · 2^{−49}$ (4 ulp of a logarithm below 16, checked at import) and
$2^{−49}$ (the product): below $t · 2^{−44}$, while $t · 2^{−39}$ is allowed. Taking off ½ is exact from
¼ on, and below ¼ the nearest integer is 0 with or without its rounding.

**In the plane**, $P(k) ∝ e^{−‖k‖_2/t}$, $k ∈ ℤ^2$. Two independent integers as above, of ratio $s ≥
\sqrt 2\, t$, propose $k$ with $P ∝ e^{−‖k‖_1/s}$. Since $‖k‖_1 ≤ \sqrt 2 ‖k‖_2$,

$$ a(k) = ‖k‖_2/t − ‖k‖_1/s ≥ 0, $$

so $e^{−a}$ is a probability, and keeping $k$ when $−\ln U ≥ a(k)$, $U$ a real uniform, leaves
$P(k) ∝ e^{−‖k‖_1/s − a(k)} = e^{−‖k‖_2/t}$. That $s$ is a float, not below $\sqrt 2\, t$ in exact
arithmetic, changes how often a proposal is kept (π/4 of them for large t), never the result.

Nor do floats here: one word gives the first 63 bits $r$ of $U ∈ [r, r+1) 2^{−63}$. For $r ≥ 2^{44}$
the float $−\ln U$ is within $2^{−43}$, as above. While $‖k‖_2/t ≤ 2^7$, so that $‖k‖_1/s ≤ 2^7$ as
well, $a$ takes a dozen roundings of relative size $2^{−53}$ (integers to floats, squares, sum, root,
quotients, difference) of numbers below $2^7$: it is within $2^{−42}$. The comparison is kept only if
both sides differ by more than $2^{−40}$; for $r < 2^{44}$, $U ≤ 2^{−19}$ and $−\ln U$ may only be taken
for larger than what $2^{−19}$ gives. Otherwise more bits of $U$ are drawn and intervals of correctly
rounded logarithms, roots and quotients decide: with probability 1 after finitely many.

**Who sees what.** The time of a draw depends on the noise (proposals not kept) and on the public
ratio, never on a record.

References:
    Ghosh, Roughgarden, Sundararajan, *Universally utility-maximizing privacy mechanisms* (2012);
    Mironov, *On significance of the least significant bits for differential privacy* (2012);
    Andrés, Bordenabe, Chatzikokolakis, Palamidessi, *Geo-indistinguishability: differential privacy
    for location-based systems* (2013), for the continuous law in the plane; von Neumann, *Various
    techniques used in connection with random digits* (1951), for rejection.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privot.mechanisms.samplers.entropy import random_bits, random_word, random_words, upcoming
from privot.mechanisms.samplers.rounding import (
    LOG_ERROR_OK,
    Floats,
    Integers,
    Size,
    check_ratio,
    directed_contexts,
    middles,
    negative_log,
    sample,
    settle,
)

_UNIFORM_MIN = 2.0**-19
_NEGATIVE_ZERO = np.iinfo(np.int64).min  # bits of the float −0.0
# Of points in the plane.
_SMALL = 6  # up to here, one point at a time is faster than arrays
_BLOCK = 2**14
_PREFIX_BITS = 63
_PREFIX_MIN = 2**44
_UNIT = 2.0**-_PREFIX_BITS
_MARGIN = 2.0**-40 if LOG_ERROR_OK else math.inf
_FAR = 2.0**7


def enclose(prefixes: list[int], bits: int, ratio: Decimal, context: Context) -> list[Decimal]:
    """A bound of h in the cell, as `context` rounds: h falls with |U|; infinite for prefix 0."""
    edge = prefixes[0] + (context.rounding == ROUND_FLOOR)
    value = context.multiply(ratio, negative_log(edge, bits, context))
    return [context.subtract(value, Decimal("0.5"))]


def _draw(count: int, ratio: float) -> Floats:
    words = random_words(count).view(np.int64).reshape(1, count)
    value = middles(words)
    np.abs(value, out=value)
    value[value < _UNIFORM_MIN] = np.nan
    np.log(value, out=value)
    value *= -ratio
    value -= 0.5
    noise = settle(words, value, ratio, enclose)[0]
    kept = noise.view(np.int64) != _NEGATIVE_ZERO
    return noise if kept.all() else noise[kept]


def sample_discrete_laplace(size: Size, ratio: float) -> Integers:
    r"""Independent integers of law $P(k) ∝ e^{−|k|/\text{ratio}}$, exactly; int64 of shape `size`.

    Fast up to ratio $2^{26}$; beyond, more and more draws take the exact path. Raises `PrivotError`
    for a ratio outside $(0, 2^{40}]$.

    Examples:
        >>> noise = sample_discrete_laplace((2, 3), ratio=100.0)
        >>> noise.shape, noise.dtype
        ((2, 3), dtype('int64'))
    """
    return sample(size, ratio, _draw)


def draw_discrete_laplace(count: int, ratio: float) -> list[int]:
    """As `sample_discrete_laplace`, for single records: a list, from noise drawn ahead."""
    return upcoming(count, sample_discrete_laplace, ratio)


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

    Examples:
        >>> sample_planar_laplace(5, ratio=100.0).shape
        (5, 2)
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
