r"""Exact integer noise from words that nobody can predict.

**Entropy.** Words of 64 bits come from AES-256 in counter mode, keyed by the operating system's
generator, fast enough for billions of records. To distinguish these words from uniform ones is to break
AES; that computational assumption is the only one between the samplers of `privot.mechanisms` and their
information-theoretic guarantees.

There is no seed: nothing here can be repeated, stored or logged. Each thread owns one stream, so
that no word is used twice. A stream takes a new key every $2^{32}$ bytes, far below the
$2^{68}$ bytes at which counter mode departs from random by the birthday bound.

**Forks.** A child's copy of its parent's stream would repeat the parent's noise, and the difference of
two people's reports would then be that of their records. So before each use a stream compares its
process with the one that it was keyed in (`privot.core.processes`).

**Stocks.** Single records take words and noise from stocks that the array code has drawn ahead: one law,
one proof, and no array for one number. A stock belongs to its thread, yields each number once, depends
on no record, and is discarded with the key.

**Rounding a random real exactly.** Floats decide where their error cannot matter, else more bits do. The
samplers of `laplace` and `gaussian` return a sign and the integer nearest to a real magnitude
$h(|U_1|, …) ≥ −½$ of real uniforms on $(−1, 1)$, $h$ proportional to a public ratio $t$. A 64-bit word
read as a signed integer $a$ gives the sign of $U ∈ [a, a+1) 2^{−63}$ and the first 63 bits of
$|U| ∈ [m, m+1) 2^{−63}$: $m = a$, or $−a−1$ (`~a`) where $a$ is negative.

**Why floats do no harm.** A sampler computes $h$ in float64 at the middle of the cell and proves
that this is within $t · 2^{−39}$ of $h$ everywhere in the cell; where it has no proof it returns NaN.
The nearest integer is accepted only if a half-integer is farther away than that: then every continuation
of the bits has this nearest integer. ($h$ minus its nearest integer is exact in floats. The limit
½ − $t · 2^{−39}$ is itself rounded, which matters only for $t < 2^{−15}$, where every $h$ with a
proof rounds to 0.) Otherwise more bits are drawn, and bounds of $h$ by directed and correctly
rounded arithmetic decide once they have the same nearest integer: with probability 1 after finitely
many bits. Bits drawn are never changed, so the result is the one for full real $U$, tails included.

**Rejection.** A rejected draw has $h = ∞$ and is dropped; the others keep their order, so that stopping
after a count of values is independent of the values.

**Timing.** The time of a draw depends on the noise (rejections, and about one draw in $10^5$
that takes the exact path, a hundred microseconds) and on the public ratio, never on a record.

**Logarithms.** The proven bounds assume that float64 logarithms are within 4 units in the last place,
array and scalar code alike (NumPy's vector code and the C libraries in use claim 4 or better).
`LOG_ERROR_OK` is the result of checking this against `decimal`, whose `ln` and `sqrt` are correctly
rounded, at import; where it fails, every draw takes the exact path: slow, but right.

References:
    NIST SP 800-38A (counter mode); Garfinkel, Leclerc, *Randomness concerns when deploying
    differential privacy* (2020);
    Mironov, *On significance of the least significant bits for differential privacy* (2012);
    Brisebarre et al., *Table maker's dilemma* (2010): why more digits always decide in the end.
"""

from __future__ import annotations

import math
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.core.processes import OwnProcess

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Size = int | tuple[int, ...]
Enclose = Callable[[list[int], int, Decimal, Context], list[Decimal]]

WORDS = 2**64
MAX_RATIO = 2.0**40
EXACT = Context(prec=80)  # operators of Decimal would round by the caller's own context

_REKEY_BYTES = 2**32
_CHUNK_BYTES = 2**17
_ZEROS = memoryview(bytes(_CHUNK_BYTES))
_AHEAD = 128  # numbers a stock draws at once
_MAX_STOCKS = 1024  # a few MB; beyond, all are forgotten
_BLOCK = 2**15
_PREFIX_BITS = 63
_UNIT = 2.0**-_PREFIX_BITS
_FLOAT_ERROR = 2.0**-39
_CHECK_POINTS = 96
_CHECK_CONTEXT = Context(prec=24)


class _Stream(OwnProcess):
    """The key stream of one thread, and the stocks drawn ahead from it."""

    def __init__(self) -> None:
        super().__init__()
        self.rekey()

    def rekey(self) -> None:
        """Discard the key and all stocks; take a fresh key."""
        key, counter = os.urandom(32), os.urandom(16)
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
        self._bytes_left = _REKEY_BYTES
        self.stocks: defaultdict[Hashable, list[int]] = defaultdict(list)
        self.belong_here()

    def fill(self, target: memoryview) -> None:
        """Overwrite `target` (bytes) with key stream."""
        for start in range(0, len(target), _CHUNK_BYTES):
            part = target[start : start + _CHUNK_BYTES]
            if self._bytes_left < len(part):
                self.rekey()
            self._encryptor.update_into(_ZEROS[: len(part)], part)
            self._bytes_left -= len(part)


class _Own(threading.local):
    """One stream a thread: `threading.local` runs `__init__` once in every thread."""

    def __init__(self) -> None:
        self.stream = _Stream()


_own = _Own()


def _stream() -> _Stream:
    """Return the stream of this thread in this process."""
    stream = _own.stream
    if stream.is_copy:
        stream.rekey()
    return stream


def random_words(count: int, out: Words | None = None) -> Words:
    """Draw uniform 64-bit words, shape (count,); into `out` (contiguous uint64) when given.

    Examples:
        >>> words = random_words(3)
        >>> words.shape, words.dtype
        ((3,), dtype('uint64'))
    """
    if out is None:
        out = np.empty(count, np.uint64)
    if count:
        _stream().fill(out.data.cast("B"))
    return out


def upcoming(count: int, draw: Callable[..., NDArray[Any]], *arguments: float) -> list[int]:
    """Take `count` numbers of the stock that draw(number, *arguments) refills: 0.3 µs each."""
    stocks = _stream().stocks
    stock = stocks[draw, arguments]
    while len(stock) < count:
        if len(stocks) > _MAX_STOCKS:
            stocks.clear()
        stock.extend(draw(_AHEAD, *arguments).tolist())
    return [stock.pop() for _ in range(count)]


def random_word() -> int:
    """Take one uniform 64-bit word from a stock, for single records."""
    return upcoming(1, random_words)[0]


def random_bits(count: int) -> int:
    """Draw a uniform integer of `count` bits, straight from the operating system.

    Examples:
        >>> 0 <= random_bits(10) < 1024
        True
    """
    return int.from_bytes(os.urandom((count + 7) // 8), "big") >> (-count % 8)


def uniform_below(bound: int) -> int:
    """Draw a uniform integer 0 … bound−1; words beyond the last full multiple are drawn again."""
    limit = WORDS - WORDS % bound
    while (word := random_word()) >= limit:
        pass
    return word % bound


def uniforms_below(bound: int, count: int) -> NDArray[np.int64]:
    """Draw uniform integers 0 … bound−1, shape (count,)."""
    words = random_words(count)
    limit = WORDS - WORDS % bound
    if limit < WORDS:
        while (again := np.flatnonzero(words >= np.uint64(limit))).size:
            words[again] = random_words(again.size)
    return (words % np.uint64(bound)).astype(np.int64)


def words_outside(epsilon: float, inside: int, outside: int, share: int) -> int:
    r"""Return $L = ⌊2^{64} s / (e^ε i + o)⌋ + 1$, the number of 64-bit words for `share` of the outside.

    $L ≥ 2^{64} s / (e^ε i + o)$, so where the outside takes o/s times L words, at most $e^ε i L / s$
    remain for the inside: the likelihood ratio is at most $e^ε$, with rounding against ε.

    Arguments:
        epsilon: ε.
        inside: Number i of outcomes whose likelihood is e^ε times as large.
        outside: Number o of all other outcomes.
        share: Number s of outside outcomes that share L words.
    """
    power = EXACT.next_minus(EXACT.exp(Decimal(epsilon)))
    total = EXACT.next_minus(EXACT.add(EXACT.multiply(power, inside), outside))
    words = EXACT.next_plus(EXACT.divide(Decimal(WORDS * share), total))
    return int(words.to_integral_value(ROUND_FLOOR)) + 1


def directed_contexts(bits: int) -> tuple[Context, Context]:
    """Return contexts that round down and up, with digits to spare for `bits` bits."""
    digits = 30 + bits * 302 // 1000
    return Context(prec=digits, rounding=ROUND_FLOOR), Context(prec=digits, rounding=ROUND_CEILING)


def dyadic(numerator: int, bits: int) -> Decimal:
    """Return numerator/2^bits, exactly: it is numerator·5^bits / 10^bits."""
    return Decimal(f"{numerator * 5**bits}e-{bits}")


def outward(nearest: Decimal, context: Context) -> Decimal:
    """Return a bound, on the side to which `context` rounds, of a number rounded to nearest."""
    if context.rounding == ROUND_FLOOR:
        return context.next_minus(nearest)
    return context.next_plus(nearest)


def negative_log(numerator: int, bits: int, context: Context) -> Decimal:
    r"""$−\ln(\text{numerator}/2^{\text{bits}})$, at least 0, rounded outward as `context` rounds.

    From above, a numerator of 0 gives infinity.
    """
    # `ln` rounds to nearest in every context, and the change of sign is exact.
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
    """Return the ratio of noise to grid as a float, or refuse it outside (0, 2^40]."""
    if not 0 < ratio <= MAX_RATIO:
        raise PrivotError(
            f"ratio of noise scale to grid is {ratio}: it must lie in (0, 2^40]; choose a coarser grid"
        )
    return float(ratio)


def middles(words: Integers) -> Floats:
    """Return the middle of every word's cell: in (−1, 1), never 0, off by two roundings."""
    return np.multiply(words + 0.5, _UNIT, dtype=np.float64)


def decide(prefixes: list[int], ratio: float, enclose: Enclose) -> list[float]:
    """Draw more bits of uniforms, of which the first 63 are given, until they fix the nearest integers.

    `enclose(prefixes, bits, ratio, context)` bounds the magnitudes for every uniform in the cells
    [prefix, prefix + 1)/2^bits, from below or above as `context` rounds.
    """
    scale, bits = Decimal(ratio), _PREFIX_BITS
    while True:
        prefixes, bits = [prefix << 64 | random_bits(64) for prefix in prefixes], bits + 64
        low, high = (
            [float(b.to_integral_value(ROUND_HALF_EVEN)) for b in enclose(prefixes, bits, scale, c)]
            for c in directed_contexts(2 * bits)
        )
        if low == high:
            return low


def settle(words: Integers, value: Floats, ratio: float, enclose: Enclose) -> Floats:
    """Return signed integers (as floats) of the magnitudes `value`, which are overwritten.

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
    """Fill an array of shape `size` by blocks of draw(count, ratio), which may be longer or shorter."""
    ratio, out = check_ratio(ratio), np.empty(size, np.int64)
    flat, filled = out.reshape(-1), 0
    while filled < flat.size:
        block = draw(min(_BLOCK, flat.size - filled), ratio)[: flat.size - filled]
        flat[filled : filled + block.size] = block
        filled += block.size
    return out
