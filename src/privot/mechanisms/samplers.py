r"""Exact samplers of integer noise, and the cryptographic random words that they use.

**Words** of 64 bits come from AES-256 in counter mode, keyed by the operating system's generator, fast
enough for billions of records. The guarantees of the samplers of `privot.mechanisms` rest on one
computational assumption: that these words cannot be distinguished from uniform ones, which would break
AES.

There is no seed: no draw can be repeated, stored or logged. Each thread has its own stream, so that no
word is used twice. A stream takes a new key every $2^{32}$ bytes, far below the $2^{68}$ bytes after
which counter mode can be distinguished from uniform words (the birthday bound).

**Forks.** A child process's copy of its parent's stream would repeat the parent's noise, so that the
difference between two reports would be the difference between the records. So before each use a stream
checks that it is in the process in which it took its key (`privot.core.processes`).

**Buffers.** Words and noise for single records come from buffers that the array code fills, because an
array for one number would be slow; so their law has the same proof. A buffer belongs to its thread,
yields each number once, does not depend on any record, and is discarded with the key.

**Exact rounding.** The samplers of `laplace` and `gaussian` return a sign and the integer nearest to a
real magnitude $h(|U_1|, …) ≥ −½$, a function of real uniforms on $(−1, 1)$ that is proportional to a
public ratio $t$. A 64-bit word, read as a signed integer $a$, gives the sign of $U ∈ [a, a+1) 2^{−63}$
and the first 63 bits of $|U| ∈ [m, m+1) 2^{−63}$, where $m = a$, or $−a−1$ (`~a`) if $a$ is negative.

**Floating-point error.** The cell of a draw is the set of all uniforms that begin with its bits. A
sampler computes $h$ in float64 at the middle of the cell, and proves that this is within $t · 2^{−39}$
of $h$ everywhere in the cell; without a proof it returns NaN. The nearest integer is accepted only if
all half-integers are farther away than that, so that every continuation of the bits has this nearest
integer. ($h$ minus its nearest integer is exact in floats. The limit ½ − $t · 2^{−39}$ is rounded, which
matters only for $t < 2^{−15}$, where every $h$ with a proof rounds to 0.) Otherwise more bits are drawn
until a lower and an upper bound of $h$, computed by directed and correctly rounded arithmetic, have the
same nearest integer, which happens after finitely many bits with probability 1. Drawn bits are never
changed, so the result is exact for a real $U$.

**Rejection.** A rejected draw has $h = ∞$ and is dropped. The others keep their order, so the first n
accepted values are independent of the number of draws.

**Timing.** The time of a draw depends on the noise and on the public ratio, never on a record. It is
longer for rejected draws, and on the exact path, which about one draw in $10^5$ takes, for 100 µs.

**Logarithms.** The proven bounds assume that float64 logarithms of array and scalar code are within 4
units in the last place, as NumPy's vector code and the C libraries in use claim. `LOG_ERROR_OK` is the
result of a test at import against `decimal`, whose `ln` and `sqrt` are correctly rounded. If the test
fails, every draw takes the slower exact path.

References:
    NIST SP 800-38A (counter mode); Garfinkel, Leclerc, *Randomness concerns when deploying
    differential privacy* (2020);
    Mironov, *On significance of the least significant bits for differential privacy* (2012);
    Brisebarre et al., *Table maker's dilemma* (2010): why more digits always decide in the end.
"""

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
# enclose(prefixes, bits, ratio, context) bounds magnitudes of uniforms in [prefix, prefix + 1)/2^bits,
# from below if `context` rounds down, from above if it rounds up.
Enclose = Callable[[list[int], int, Decimal, Context], list[Decimal]]

WORDS = 2**64
MAX_RATIO = 2.0**40
EXACT = Context(prec=80)  # used explicitly: Decimal's operators round by the caller's context

_REKEY_BYTES = 2**32
_CHUNK_BYTES = 2**17
_ZEROS = memoryview(bytes(_CHUNK_BYTES))
_BUFFER_SIZE = 128  # numbers drawn at once
_MAX_BUFFERS = 1024  # a few MB; all are discarded when there are more
_BLOCK = 2**15  # numbers drawn at once for arrays: their temporaries fit into a cache
_PREFIX_BITS = 63  # a word has one more bit, the sign
_UNIT = 2.0**-_PREFIX_BITS
_FLOAT_ERROR = 2.0**-39  # allowed error of a magnitude, as a share of the ratio
_CHECK_POINTS = 96  # logarithms that the test at import compares
_CHECK_CONTEXT = Context(prec=24)


class _Stream(OwnProcess):
    """Key stream of one thread, and the buffers filled from it."""

    def __init__(self) -> None:
        super().__init__()
        self.rekey()

    def rekey(self) -> None:
        """Discard the key and all buffers; take a fresh key."""
        key, counter = os.urandom(32), os.urandom(16)
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
        self._bytes_left = _REKEY_BYTES
        self.buffers: defaultdict[Hashable, list[int]] = defaultdict(list)
        self.claim()

    def fill(self, target: memoryview) -> None:
        """Overwrite `target` (bytes) with key stream."""
        for start in range(0, len(target), _CHUNK_BYTES):
            part = target[start : start + _CHUNK_BYTES]
            if self._bytes_left < len(part):
                self.rekey()
            self._encryptor.update_into(_ZEROS[: len(part)], part)
            self._bytes_left -= len(part)


class _ThreadLocal(threading.local):
    """One stream for each thread: `__init__` runs once in every thread."""

    def __init__(self) -> None:
        self.stream = _Stream()


_thread_local = _ThreadLocal()


def _stream() -> _Stream:
    """Return the stream of this thread in this process."""
    stream = _thread_local.stream
    if stream.is_copy:
        stream.rekey()
    return stream


def random_words(count: int, out: Words | None = None) -> Words:
    """Draw uniform 64-bit words (count,), into `out` (contiguous uint64) if given."""
    if out is None:
        out = np.empty(count, np.uint64)
    if count:
        _stream().fill(out.data.cast("B"))
    return out


def take_buffered(count: int, draw: Callable[..., NDArray[Any]], *arguments: float) -> list[int]:
    """Take `count` numbers, 0.3 µs each, from a buffer that draw(size, *arguments) fills."""
    buffers = _stream().buffers
    buffer = buffers[draw, arguments]
    while len(buffer) < count:
        if len(buffers) > _MAX_BUFFERS:
            buffers.clear()
        buffer.extend(draw(_BUFFER_SIZE, *arguments).tolist())
    return [buffer.pop() for _ in range(count)]


def random_word() -> int:
    """Take one uniform 64-bit word from a buffer, for single records."""
    return take_buffered(1, random_words)[0]


def random_bits(count: int) -> int:
    """Draw a uniform integer of `count` bits from the operating system."""
    return int.from_bytes(os.urandom((count + 7) // 8), "big") >> (-count % 8)


def uniform_below(bound: int) -> int:
    """Draw a uniform integer 0 … bound−1; words from the largest multiple of `bound` on are rejected."""
    limit = WORDS - WORDS % bound
    word = random_word()
    while word >= limit:
        word = random_word()
    return word % bound


def uniforms_below(bound: int, count: int) -> NDArray[np.int64]:
    """Draw uniform integers 0 … bound−1, shape (count,), by the rejection of `uniform_below`."""
    words = random_words(count)
    limit = WORDS - WORDS % bound
    if limit < WORDS:
        while (again := np.flatnonzero(words >= np.uint64(limit))).size:
            words[again] = random_words(again.size)
    return (words % np.uint64(bound)).astype(np.int64)


def words_outside(epsilon: float, inside: int, outside: int, share: int) -> int:
    r"""Return the number $L = ⌊2^{64} s / (e^ε i + o)⌋ + 1$ of words for s of the unlikely outcomes.

    All o unlikely outcomes take o/s times L words. Since $L ≥ 2^{64} s / (e^ε i + o)$, at most
    $e^ε i L / s$ words remain for the i likely ones, so the likelihood ratio is at most $e^ε$.

    Arguments:
        epsilon: Privacy loss ε.
        inside: Number i of likely outcomes.
        outside: Number o of unlikely outcomes.
        share: Number s of unlikely outcomes that share L words.
    """
    power = EXACT.next_minus(EXACT.exp(Decimal(epsilon)))
    total = EXACT.next_minus(EXACT.add(EXACT.multiply(power, inside), outside))
    words = EXACT.next_plus(EXACT.divide(Decimal(WORDS * share), total))
    return int(words.to_integral_value(ROUND_FLOOR)) + 1


def skip_taken(ranks: Integers, taken: Integers) -> Integers:
    """Return (n,) the integers ≥ 0 of rank `ranks` (n,), from 0, among those not in a row of `taken`.

    The rows of `taken` (n, w) increase.
    """
    before = taken - np.arange(taken.shape[1])  # number of untaken integers below each taken one
    return ranks + (before <= ranks[:, None]).sum(axis=1)


def directed_contexts(bits: int) -> tuple[Context, Context]:
    """Return contexts that round down and up, with digits to spare for `bits` bits."""
    digits = 30 + bits * 302 // 1000
    return Context(prec=digits, rounding=ROUND_FLOOR), Context(prec=digits, rounding=ROUND_CEILING)


def dyadic(numerator: int, bits: int) -> Decimal:
    """Return numerator/2^bits, exactly: it is numerator·5^bits / 10^bits."""
    return Decimal(f"{numerator * 5**bits}e-{bits}")


def outward(nearest: Decimal, context: Context) -> Decimal:
    """Return the neighbor of `nearest` that bounds the exact number in `context`'s direction."""
    if context.rounding == ROUND_FLOOR:
        return context.next_minus(nearest)
    return context.next_plus(nearest)


def negative_log(numerator: int, bits: int, context: Context) -> Decimal:
    """Bound −ln(numerator/2^bits) ≥ 0 from below or above, as `context` rounds; ∞ for numerator 0."""
    # `ln` rounds to nearest in every context, and the change of sign is exact.
    return max(Decimal(0), outward(context.minus(context.ln(dyadic(numerator, bits))), context))


def _log_error_ok() -> bool:
    """Test that float64 logarithms of array and scalar code on [2^−24, 1) are within 4 ulp."""
    steps = np.arange(_CHECK_POINTS)
    small = np.exp2(-24.0 * (steps + 0.37) / _CHECK_POINTS)
    # Near 1 the logarithm is small, and its relative error matters.
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
    """Return the ratio of noise to grid as a float; raise PrivotError unless it is in (0, 2^40]."""
    if not 0 < ratio <= MAX_RATIO:
        raise PrivotError(
            f"the scale of the noise is {ratio:.4g} steps, not in (0, 2^40]: give a larger "
            "epsilon, or a coarser grid"
        )
    return float(ratio)


def cell_middles(words: Integers) -> Floats:
    """Return the middle of every word's cell [a, a+1)/2^63: in (−1, 1), never 0, rounded twice."""
    return np.multiply(words + 0.5, _UNIT, dtype=np.float64)


def round_with_more_bits(prefixes: list[int], ratio: float, enclose: Enclose) -> list[float]:
    """Return the integers nearest to magnitudes of uniforms whose first 63 bits are `prefixes`."""
    scale, bits = Decimal(ratio), _PREFIX_BITS

    def nearest(context: Context) -> list[float]:
        bounds = enclose(prefixes, bits, scale, context)
        return [float(bound.to_integral_value(ROUND_HALF_EVEN)) for bound in bounds]

    while True:
        prefixes = [prefix << 64 | random_bits(64) for prefix in prefixes]
        bits += 64
        down, up = directed_contexts(2 * bits)
        low = nearest(down)
        if low == nearest(up):
            return low


def round_exactly(words: Integers, value: Floats, ratio: float, enclose: Enclose) -> Floats:
    """Return the integers nearest to real magnitudes, with the signs of their words, as floats.

    Arguments:
        words: Words (m, n) of m uniforms for each of n draws.
        value: Approximate magnitudes (m, n) at the middles of the words' cells; NaN without a proof.
            It is overwritten.
        ratio: Public ratio t: the error of `value` is at most t · 2^−39.
        enclose: Bounds of the magnitudes of one draw, for the exact path.
    """
    margin = 0.5 - ratio * _FLOAT_ERROR if LOG_ERROR_OK else -1.0
    magnitude = np.rint(value)
    value -= magnitude
    np.abs(value, out=value)
    for i in np.flatnonzero(~(value < margin).all(axis=0)):
        prefixes = [word if word >= 0 else ~word for word in words[:, i].tolist()]
        magnitude[:, i] = round_with_more_bits(prefixes, ratio, enclose)
    return np.copysign(magnitude, words.view(np.float64), out=magnitude)  # by the word's top bit


def fill_array(size: Size, ratio: float, draw: Callable[[int, float], Floats]) -> Integers:
    """Fill an array of shape `size` by draw(count, ratio), which may return any number of values."""
    ratio, out = check_ratio(ratio), np.empty(size, np.int64)
    flat, filled = out.reshape(-1), 0
    while filled < flat.size:
        block = draw(min(_BLOCK, flat.size - filled), ratio)[: flat.size - filled]
        flat[filled : filled + block.size] = block
        filled += block.size
    return out
