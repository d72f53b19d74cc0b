"""Rounding a random real exactly: floats decide where their error cannot matter, else more bits do.

The samplers of this package give a sign and the integer nearest to a real magnitude
$h(|U_1|, …) ≥ −½$ of real uniforms on $(−1, 1)$, $h$ proportional to a public ratio $t$.

**Words.** A 64-bit word read as a signed integer $a$ gives the sign of $U ∈ [a, a+1) 2^{−63}$ and
the first 63 bits of $|U| ∈ [m, m+1) 2^{−63}$: $m = a$, or $−a−1$ (`~a`) where $a$ is negative.

**Why floats do no harm.** A sampler computes $h$ in float64 at the middle of the cell and proves
that this is within $t · 2^{−39}$ of $h$ everywhere in the cell; where it has no proof it says NaN.
The nearest integer is accepted only if a half-integer is farther away than that: then every continuation
of the bits has this nearest integer. ($h$ minus its nearest integer is exact in floats. The limit
½ − $t · 2^{−39}$ is itself rounded, which matters only for $t < 2^{−15}$, where every $h$ with a
proof rounds to 0.) Otherwise more bits are drawn, and bounds of $h$ by directed and correctly
rounded arithmetic decide once they have the same nearest integer: with probability 1 after finitely
many bits. Bits drawn are never changed, so the result is the one for full real $U$, tails included.

**Rejection.** A draw that has no magnitude has $h = ∞$. Laws that reject drop such draws; what is left
keeps its order, so that stopping after a count of values tells nothing about the values.

**Who sees what.** The time of a draw depends on the noise (rejections, and about one draw in $10^5$
that takes the exact path, a hundred microseconds) and on the public ratio, never on a record.

**Logarithms.** The proven bounds assume that float64 logarithms are within 4 units in the last place,
array and scalar code alike (NumPy's vector code and the C libraries in use claim 4 or better).
`LOG_ERROR_OK` is the result of checking this against `decimal`, whose `ln` and `sqrt` are correctly
rounded, at import; where it fails, every draw takes the exact path: slow, but right.

References:
    Mironov, *On significance of the least significant bits for differential privacy* (2012);
    Brisebarre et al., *Table maker's dilemma* (2010): why more digits always decide in the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms.samplers.entropy import random_bits, random_words, upcoming

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Size = int | tuple[int, ...]
Enclose = Callable[[list[int], int, Decimal, Context], list[Decimal]]

MAX_RATIO = 2.0**40
_BLOCK = 2**15
_PREFIX_BITS = 63
_UNIT = 2.0**-_PREFIX_BITS
_FLOAT_ERROR = 2.0**-39
_CHECK_POINTS = 96
_CHECK_CONTEXT = Context(prec=24)


def directed_contexts(bits: int) -> tuple[Context, Context]:
    """Contexts that round down and up, with digits to spare for `bits` bits."""
    digits = 30 + bits * 302 // 1000
    return Context(prec=digits, rounding=ROUND_FLOOR), Context(prec=digits, rounding=ROUND_CEILING)


def dyadic(numerator: int, bits: int) -> Decimal:
    """numerator/2^bits, exactly: it is numerator·5^bits / 10^bits."""
    return Decimal(f"{numerator * 5**bits}e-{bits}")


def outward(nearest: Decimal, context: Context) -> Decimal:
    """A bound, on the side to which `context` rounds, of what was rounded to nearest."""
    if context.rounding == ROUND_FLOOR:
        return context.next_minus(nearest)
    return context.next_plus(nearest)


def negative_log(numerator: int, bits: int, context: Context) -> Decimal:
    r"""$−\ln(\text{numerator}/2^{\text{bits}})$, at least 0, rounded outward as `context` rounds.

    From above, a numerator of 0 gives infinity.
    """
    # `ln` rounds to nearest whatever the context says, and the change of sign is exact.
    return max(Decimal(0), outward(context.minus(context.ln(dyadic(numerator, bits))), context))


def _log_error_ok() -> bool:
    """Test that float64 logarithms on [2^−24, 1) are within 4 ulp, array and scalar code alike."""
    steps = np.arange(_CHECK_POINTS)
    small = np.exp2(-24.0 * (steps + 0.37) / _CHECK_POINTS)
    # Near 1 the logarithm is small itself, and its relative error is what counts.
    near_one = 1.0 - small[: _CHECK_POINTS // 4] * 2.0 ** -(steps[: _CHECK_POINTS // 4] % 20)
    points = np.concatenate([small, near_one[near_one < 1.0]])
    for point, array_log in zip(points.tolist(), np.log(points).tolist(), strict=True):
        exact = _CHECK_CONTEXT.ln(Decimal(point))
        limit = 4 * Decimal(math.ulp(array_log))
        if abs(Decimal(array_log) - exact) > limit or abs(Decimal(math.log(point)) - exact) > limit:
            return False
    return True


LOG_ERROR_OK = _log_error_ok()


def check_ratio(ratio: float) -> float:
    """The ratio of noise to grid as a float in (0, 2^40], or a refusal."""
    if not 0 < ratio <= MAX_RATIO:
        raise PrivotError(
            f"ratio of noise scale to grid is {ratio}: it must lie in (0, 2^40]; choose a coarser grid"
        )
    return float(ratio)


def middles(words: Integers) -> Floats:
    """The middle of every word's cell: a number in (−1, 1), never 0, off by two roundings."""
    return np.multiply(words + 0.5, _UNIT, dtype=np.float64)


def decide(prefixes: list[int], ratio: float, enclose: Enclose) -> list[float]:
    """Integers nearest to the magnitudes of uniforms whose first 63 bits are given; draws the rest.

    `enclose(prefixes, bits, ratio, context)` bounds the magnitudes for every uniform in the cells
    [prefix, prefix + 1)/2^bits, from below or above as `context` rounds.
    """
    scale, bits = Decimal(ratio), _PREFIX_BITS
    while True:
        prefixes, bits = [prefix << 64 | random_bits(64) for prefix in prefixes], bits + 64
        low, high = (
            _nearest(enclose(prefixes, bits, scale, c)) for c in directed_contexts(2 * bits)
        )
        if low == high:
            return low


def _nearest(bounds: list[Decimal]) -> list[float]:
    return [float(bound.to_integral_value(ROUND_HALF_EVEN)) for bound in bounds]


def settle(words: Integers, value: Floats, ratio: float, enclose: Enclose) -> Floats:
    """Signed integers (as floats) for the magnitudes `value`, which are overwritten.

    Column i of `value` (any number of rows) depends on the words of column i of `words`.
    """
    margin = 0.5 - ratio * _FLOAT_ERROR if LOG_ERROR_OK else -1.0
    magnitude = np.rint(value)
    value -= magnitude
    np.abs(value, out=value)
    for i in np.flatnonzero(~(value < margin).all(axis=0)):
        prefixes = [word if word >= 0 else ~word for word in words[:, i].tolist()]
        magnitude[:, i] = decide(prefixes, ratio, enclose)
    return np.copysign(magnitude, words.view(np.float64), out=magnitude)  # the word's top bit


def sample(size: Size, ratio: float, draw: Callable[[int, float], Floats]) -> Integers:
    """Integers of shape `size` from blocks of draw(count wanted, ratio), which may be more or fewer."""
    ratio, out = check_ratio(ratio), np.empty(size, np.int64)
    flat, filled = out.reshape(-1), 0
    while filled < flat.size:
        block = draw(min(_BLOCK, flat.size - filled), ratio)[: flat.size - filled]
        flat[filled : filled + block.size] = block
        filled += block.size
    return out


_SQUARE_MIN = 2.0**-20
_SQUARE_MAX = 1.0 - 2.0**-20
_SQUARE_REJECT = 1.0 + 2.0**-40


def enclose(prefixes: list[int], bits: int, ratio: Decimal, context: Context) -> list[Decimal]:
    """Bounds of t|U|f and t|V|f in the cell, as `context` rounds; infinite where S ≥ 1."""
    up = context.rounding == ROUND_CEILING
    edges = [prefix + up for prefix in prefixes]
    if sum(edge**2 for edge in edges) >= 4**bits:
        return [Decimal("Infinity")] * 2
    # The factor falls with S: the largest S gives its lower bound.
    square = sum((prefix + 1 - up) ** 2 for prefix in prefixes)
    twice = context.multiply(Decimal(2), negative_log(square, 2 * bits, context))
    root = context.sqrt(context.divide(twice, dyadic(square, 2 * bits)))  # rounded to nearest
    factor = context.multiply(ratio, outward(root, context))
    return [context.multiply(factor, dyadic(edge, bits)) for edge in edges]


def _draw(count: int, ratio: float) -> Floats:
    words = (
        random_words(2 * (5 * count // 8 + 8)).view(np.int64).reshape(2, -1)
    )  # 4 of 5 are accepted
    value = middles(words)
    square = np.square(value[0])
    square += np.square(value[1])
    accepted = np.flatnonzero(square <= _SQUARE_REJECT)
    words, value, square = words.take(accepted, 1), value.take(accepted, 1), square[accepted]
    square[(square < _SQUARE_MIN) | (square > _SQUARE_MAX)] = np.nan
    value *= np.sqrt(np.log(square) * -2.0 / square) * ratio
    np.abs(value, out=value)
    noise = settle(words, value, ratio, enclose)
    accepted = np.isfinite(noise[0])
    return (noise if accepted.all() else noise[:, accepted]).ravel()


def sample_rounded_gaussian(size: Size, ratio: float) -> Integers:
    r"""Independent integers $⌊\text{ratio}·Z + ½⌋$, $Z ∼ N(0,1)$, exactly; int64 of shape `size`.

    **Why it is right.** Marsaglia's polar method: for real $U, V$ uniform on $(−1, 1)$, given that $S =
    U^2 + V^2 < 1$, the two numbers $U f, V f$ with $f = \sqrt{−2 \ln S / S}$ are independent standard
    Gaussians. Rounding one to the grid is post-processing of the continuous Gaussian mechanism, so
    every bound for that mechanism holds as it stands (the discrete Gaussian would need its own). The
    magnitudes $t |U| f, t |V| f$, and ∞ where $S ≥ 1$, go to `exact_rounding`, **the pair at once**:
    acceptance and both roundings come from the same real $U$ and $V$, so they stay independent.

    **Why floats do no harm.** Let $η = 2^{−53}$. For $S ≥ 2^{−20}$, float64 gives $S$ to the relative
    error $6η + 2^{−52.5} < 2^{−50}$ ($U$ and $V$ to $2η$ each and $2^{−64}$ for bits not drawn, a
    rounding for each square and the sum). With $R = \sqrt{−2 \ln S}$, the error of $Z = U f$ is at most
    $2^{−50}/R$ (from $\ln S$) plus $14 η R$ (4 from $S$ in the quotient; 4 ulp of the logarithm,
    checked at import, halved by the root: 4; quotient, root and two products: 3.5; and $U$: 2), plus
    $2^{−64} f$. For $2^{−20} ≤ S ≤ 1 − 2^{−20}$, $2^{−9.5} ≤ R < 5.3$ and $f ≤ 2^{12.4}$, so this is
    below $2^{−40.4}$, while $2^{−39}$ is allowed. Outside these limits floats decide nothing, except
    that for $S > 1 + 2^{−40}$ they reject: there $S ≥ 1$ whatever bits follow.

    References:
        Marsaglia, Bray, *A convenient method for generating normal variables* (1964).

    Fast up to ratio $2^{26}$; beyond, more and more draws take the exact path. Raises `PrivotError`
    for a ratio outside $(0, 2^{40}]$.

    Examples:
        >>> noise = sample_rounded_gaussian(3, ratio=100.0)
        >>> noise.shape, noise.dtype
        ((3,), dtype('int64'))
    """
    return sample(size, ratio, _draw)


def draw_rounded_gaussian(count: int, ratio: float) -> list[int]:
    """Return a list from `sample_rounded_gaussian`, for single records, of noise drawn ahead."""
    return upcoming(count, sample_rounded_gaussian, ratio)
