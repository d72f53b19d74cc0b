r"""Rounded Gaussian noise, drawn exactly: $k = ⌊tZ + ½⌋$ with $Z ∼ N(0, 1)$, $t$ = stddev/grid.

**Why it is right.** Marsaglia's polar method: for real $U, V$ uniform on $(−1, 1)$, given that $S =
U^2 + V^2 < 1$, the two numbers $U f, V f$ with $f = \sqrt{−2 \ln S / S}$ are independent standard
Gaussians. Rounding one to the grid is post-processing of the continuous Gaussian mechanism, so
every bound for that mechanism holds as it stands (the discrete Gaussian would need its own).

**Why floats do no harm.** A 64-bit word read as a signed integer $a$ gives $U ∈ [a, a+1) 2^{−63}$.
Let $η = 2^{−53}$. For $S ≥ 2^{−20}$, float64 gives $S$ to the relative error $4η + 2^{−51.5} <
2^{−50}$ ($U$ and $V$ to $η$ each and $2^{−63}$ for bits not drawn, a rounding for each square and
the sum). With $R = \sqrt{−2 \ln S}$, the error of $Z = U f$ is at most $2^{−50}/R$ (from $S$) plus
$12 η R$ (4 ulp of the logarithm, checked by `exact_log`, halved by the root; four roundings of half
an ulp; and $U$), plus $2^{−63} f$. For $2^{−20} ≤ S ≤ 1 − 2^{−20}$, $2^{−9.5} ≤ R < 5.3$ and $f ≤
2^{12.4}$, so this is below $2^{−40.4}$. The rounding is kept only if $tZ$ is farther than $t ·
2^{−39}$ from a half-integer. Otherwise, and for $S$ outside these limits, more bits of $U$ and $V$
are drawn and intervals of correctly rounded logarithms and roots decide **the pair**: acceptance
and both roundings come from the same real $U$ and $V$, so they stay independent. Pairs keep their
order, so that stopping after a count of values tells nothing about the values.

**Who sees what.** The time of a draw depends on the noise (rejections, and about one pair in
$10^5$ that takes the exact path) and on the public ratio, never on a record.

References:
    Marsaglia, Bray, *A convenient method for generating normal variables* (1964);
    Mironov, *On significance of the least significant bits for differential privacy* (2012).
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from privot.mechanisms.discrete_laplace import check_ratio
from privot.mechanisms.entropy import random_bits, random_word, random_words
from privot.mechanisms.exact_log import LOG_ERROR_OK, directed_contexts, dyadic, negative_log

Integers = NDArray[np.int64]

_SMALL = 12  # up to here, one pair at a time is faster than arrays
_BLOCK = 2**14
_WORD_BITS = 64
_UNIT = 2.0**-63
_SQUARE_MIN = 2.0**-20
_SQUARE_MAX = 1.0 - 2.0**-20
_SQUARE_REJECT = 1.0 + 2.0**-40  # beyond, S ≥ 1 for every continuation of the bits
_NORMAL_ERROR = 2.0**-39


def _magnitudes(prefix: int) -> tuple[int, int]:
    """Bounds on |U| in units of the last bit drawn, for U in [prefix, prefix + 1)."""
    return (prefix, prefix + 1) if prefix >= 0 else (-prefix - 1, -prefix)


def _bound_factor(square: int, bits: int, context: Context) -> Decimal:
    """$√(−2 ln S / S)$ for S = square/2^bits, rounded outward as `context` rounds."""
    twice = context.multiply(Decimal(2), negative_log(square, bits, context))
    root = context.sqrt(context.divide(twice, dyadic(square, bits)))  # rounded to nearest
    return context.next_minus(root) if context.rounding == ROUND_FLOOR else context.next_plus(root)


def exact_pair(first: int, second: int, ratio: float) -> tuple[int, int] | None:
    """Two rounded Gaussians from U and V, whose first 64 bits are given; None where S ≥ 1."""
    scale, bits = Decimal(ratio), _WORD_BITS - 1
    prefixes = [first, second]
    half = Decimal("0.5")
    while True:
        prefixes = [prefix << 64 | random_bits(64) for prefix in prefixes]
        bits += 64
        ranges = [_magnitudes(prefix) for prefix in prefixes]
        least, most = (sum(bound[side] ** 2 for bound in ranges) for side in (0, 1))
        if least >= 4**bits:
            return None
        if most > 4**bits or least == 0:
            continue
        down, up = directed_contexts(2 * bits)
        # The factor falls with S: the largest S gives its lower bound.
        low_factor = down.multiply(scale, _bound_factor(most, 2 * bits, down))
        high_factor = up.multiply(scale, _bound_factor(least, 2 * bits, up))
        rounded = []
        for prefix, (low, high) in zip(prefixes, ranges, strict=True):
            lower = down.multiply(low_factor, dyadic(low, bits))
            upper = up.multiply(high_factor, dyadic(high, bits))
            magnitude = int(down.add(lower, half).to_integral_value(ROUND_FLOOR))
            if magnitude != int(up.add(upper, half).to_integral_value(ROUND_FLOOR)):
                break
            rounded.append(magnitude if prefix >= 0 else -magnitude)
        else:
            return rounded[0], rounded[1]


def _margin(ratio: float) -> float:
    """Largest distance from an integer that floating point may round."""
    return 0.5 - ratio * _NORMAL_ERROR if LOG_ERROR_OK else -1.0


def draw_rounded_gaussian(count: int, ratio: float) -> list[int]:
    """As `sample_rounded_gaussian`, for few values: a list, without arrays."""
    margin = _margin(check_ratio(ratio))
    values = [value for _ in range((count + 1) // 2) for value in _draw_pair(ratio, margin)]
    return values[:count]


def _draw_pair(ratio: float, margin: float) -> tuple[int, int]:
    while True:
        first, second = random_word() - 2**63, random_word() - 2**63
        u, v = first * _UNIT, second * _UNIT
        square = u * u + v * v
        if square > _SQUARE_REJECT:
            continue
        if _SQUARE_MIN <= square <= _SQUARE_MAX:
            factor = math.sqrt(-2.0 * math.log(square) / square) * ratio
            x, y = u * factor, v * factor
            left, right = round(x), round(y)
            if abs(x - left) < margin and abs(y - right) < margin:
                return left, right
        pair = exact_pair(first, second, ratio)
        if pair is not None:
            return pair


def _draw_pairs(count: int, ratio: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """About 0.78·count pairs of rounded Gaussians (as floats) from `count` pairs of words."""
    margin = _margin(ratio)
    words = random_words(2 * count).view(np.int64)
    uv = np.multiply(words, _UNIT).reshape(2, count)
    square = np.square(uv[0])
    square += np.square(uv[1])
    kept = np.flatnonzero(square <= _SQUARE_REJECT)
    square, uv = square[kept], uv[:, kept]
    edge = square.size > 0 and not _SQUARE_MIN <= square.min() <= square.max() <= _SQUARE_MAX
    with np.errstate(divide="ignore", invalid="ignore"):  # S = 0 or S ≥ 1: decided below
        factor = np.log(square)
        factor *= -2.0
        factor /= square
        np.sqrt(factor, out=factor)
        factor *= ratio
        uv *= factor
        rounded = np.rint(uv)
        uv -= rounded
    np.abs(uv, out=uv)
    if edge or (uv.size and uv.max() >= margin):
        decided = (uv < margin).all(axis=0) & (square >= _SQUARE_MIN) & (square <= _SQUARE_MAX)
        rejected = []
        for i in np.flatnonzero(~decided):
            pair = exact_pair(int(words[kept[i]]), int(words[count + kept[i]]), ratio)
            if pair is None:
                rejected.append(i)
            else:
                rounded[:, i] = pair
        rounded = np.delete(rounded, rejected, axis=1)
    return rounded[0], rounded[1]


def sample_rounded_gaussian(size: int | tuple[int, ...], ratio: float) -> Integers:
    r"""Independent integers $⌊\text{ratio}·Z + ½⌋$, $Z ∼ N(0,1)$, exactly; int64 of shape `size`.

    Fast up to ratio $2^{26}$; beyond, more and more draws take the exact path. Raises `PrivotError`
    for a ratio outside $(0, 2^{40}]$.
    """
    ratio = check_ratio(ratio)
    shape = (size,) if isinstance(size, int) else size
    count = math.prod(shape)
    if count <= _SMALL:
        return np.array(draw_rounded_gaussian(count, ratio), np.int64).reshape(shape)
    out = np.empty(count, np.int64)
    filled = 0
    while filled < count:
        pairs_needed = (count - filled + 1) // 2
        left, right = _draw_pairs(min(_BLOCK, int(1.28 * pairs_needed) + 16), ratio)
        left = left[:pairs_needed]
        out[filled : filled + left.size] = left
        filled += left.size
        right = right[: min(left.size, count - filled)]
        out[filled : filled + right.size] = right
        filled += right.size
    return out.reshape(shape)
