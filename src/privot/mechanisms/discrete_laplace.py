r"""Discrete Laplace noise, drawn exactly: $P(k) ∝ e^{−|k|/t}$ on the integers, $t$ = scale/grid.

**Why it is right.** For a real uniform $U$, $G = ⌊−t \ln U⌋$ has $P(G ≥ k) = P(U ≤ e^{−k/t})
= e^{−k/t}$: geometric. A fair sign, with −0 drawn again, gives $P(±k) ∝ ½ (1 − e^{−1/t}) e^{−k/t}$
and, at 0, the same formula: the discrete Laplace law.

**Why floats do no harm.** One 64-bit word gives the sign and the first 63 bits $r$ of $U ∈ [r, r+1)
2^{−63}$. If $r ≥ 2^{44}$, then $t \ln(r 2^{−63})$ in float64 differs from $t \ln U$ by at most $t$
times: $2^{−44}$ (bits of $U$ not drawn), $2^{−53}$ (conversion of $r$), $4 · 2^{−49}$ (4 ulp of a
logarithm below 16, checked by `exact_log`) and $2^{−49}$ (the product): below $t · 2^{−43}$. The
floor is kept only if the product is farther than $t · 2^{−42}$ from an integer; then every
continuation of the bits has this floor. Otherwise more bits are drawn and intervals of correctly
rounded logarithms decide: with probability 1 after finitely many. The bits decided so far are never
changed, so the result is the floor for a full real $U$, tails included: pure ε survives.

**Who sees what.** The time of a draw depends on the noise (about one in $10^6$ draws takes a hundred
microseconds more) and on the public ratio, never on a record.

References:
    Ghosh, Roughgarden, Sundararajan, *Universally utility-maximizing privacy mechanisms* (2012);
    Mironov, *On significance of the least significant bits for differential privacy* (2012).
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms.entropy import random_bits, random_word, random_words
from privot.mechanisms.exact_log import LOG_ERROR_OK, directed_contexts, negative_log

Integers = NDArray[np.int64]

MAX_RATIO = 2.0**40
_SMALL = 12  # up to here, one value at a time is faster than arrays
_BLOCK = 2**14
_PREFIX_BITS = 63
_PREFIX_MASK = 2**_PREFIX_BITS - 1
_PREFIX_MIN = 2**44
_UNIT = 2.0**-_PREFIX_BITS
_LOG_ERROR = 2.0**-42
_LOG_MAX = -math.log(_PREFIX_MIN * _UNIT) * (1 - 2.0**-40)
_NEGATIVE_ZERO = np.iinfo(np.int64).min  # bits of the float −0.0


def check_ratio(ratio: float) -> float:
    """The ratio of noise to grid as a float in (0, 2^40], or a refusal."""
    if not 0 < ratio <= MAX_RATIO:
        raise PrivotError(
            f"ratio of noise scale to grid is {ratio}: it must lie in (0, 2^40]; choose a coarser grid"
        )
    return float(ratio)


def exact_geometric(prefix: int, ratio: float) -> int:
    r"""$⌊−t \ln U⌋$ for a uniform $U$ whose first 63 bits are `prefix`; draws bits until decided."""
    scale, bits = Decimal(ratio), _PREFIX_BITS
    while True:
        prefix, bits = prefix << 64 | random_bits(64), bits + 64
        if prefix == 0:
            continue
        down, up = directed_contexts(bits)
        lower = down.multiply(scale, negative_log(prefix + 1, bits, down))
        upper = up.multiply(scale, negative_log(prefix, bits, up))
        magnitude = int(lower.to_integral_value(ROUND_FLOOR))
        if magnitude == int(upper.to_integral_value(ROUND_FLOOR)):
            return magnitude


def _margin(ratio: float) -> float:
    """Largest distance of a fractional part from ½ that floating point may decide."""
    return 0.5 - ratio * _LOG_ERROR if LOG_ERROR_OK else -1.0


def draw_discrete_laplace(count: int, ratio: float) -> list[int]:
    """As `sample_discrete_laplace`, for few values: a list, without arrays."""
    margin = _margin(check_ratio(ratio))
    return [_draw_one(ratio, margin) for _ in range(count)]


def _draw_one(ratio: float, margin: float) -> int:
    while True:
        word = random_word()
        prefix = word & _PREFIX_MASK
        if prefix < _PREFIX_MIN:
            magnitude = exact_geometric(prefix, ratio)
        else:
            value = -ratio * math.log(prefix * _UNIT)
            magnitude = int(value)
            if abs(value - magnitude - 0.5) >= margin:
                magnitude = exact_geometric(prefix, ratio)
        if word == prefix:
            return magnitude
        if magnitude:
            return -magnitude


def _draw_block(words: NDArray[np.uint64], value: NDArray[np.float64], ratio: float) -> None:
    """Replace `value` by signed magnitudes from the words; −0.0 marks the draws to repeat."""
    margin = _margin(ratio)
    prefix = (words & np.uint64(_PREFIX_MASK)).view(np.int64)
    np.multiply(prefix, _UNIT, out=value)
    with np.errstate(divide="ignore", invalid="ignore"):  # an all-zero prefix: decided below
        np.log(value, out=value)
        few_bits = value.min() <= -_LOG_MAX
        value *= -ratio
        floor = np.floor(value)
        value -= floor
    value -= 0.5
    np.abs(value, out=value)
    if few_bits or value.max() >= margin:
        decided = (value < margin) & (prefix >= _PREFIX_MIN)
        for i in np.flatnonzero(~decided):
            floor[i] = exact_geometric(int(prefix[i]), ratio)
    # The word's top bit is its sign bit when read as a float.
    np.copysign(floor, words.view(np.float64), out=value)


def sample_discrete_laplace(size: int | tuple[int, ...], ratio: float) -> Integers:
    r"""Independent integers of law $P(k) ∝ e^{−|k|/\text{ratio}}$, exactly; int64 of shape `size`.

    Fast up to ratio $2^{26}$; beyond, more and more draws take the exact path. Raises `PrivotError`
    for a ratio outside $(0, 2^{40}]$.
    """
    ratio = check_ratio(ratio)
    shape = (size,) if isinstance(size, int) else size
    count = math.prod(shape)
    if count <= _SMALL:
        return np.array(draw_discrete_laplace(count, ratio), np.int64).reshape(shape)
    out = np.empty(count, np.int64)
    block = min(_BLOCK, count)
    words, values = np.empty(block, np.uint64), np.empty(block, np.float64)
    for start in range(0, count, block):
        part = out[start : start + block]
        value = values[: part.size]
        _draw_block(random_words(part.size, words[: part.size]), value, ratio)
        part[...] = value
        if value.view(np.int64).min() == _NEGATIVE_ZERO:
            again = np.flatnonzero(value.view(np.int64) == _NEGATIVE_ZERO)
            part[again] = sample_discrete_laplace(again.size, ratio)
    return out.reshape(shape)
