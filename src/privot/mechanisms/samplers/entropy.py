r"""Cryptographic random words of 64 bits, fast enough for billions of records.

Words come from AES-256 in counter mode, keyed by the operating system's generator. The guarantees of
this package's samplers rest on one computational assumption: that these words cannot be distinguished
from uniform ones, which would break AES.

There is no seed: no draw can be repeated, stored or logged. Each thread owns one stream, so
that no word is used twice. A stream takes a new key every $2^{32}$ bytes, far below the
$2^{68}$ bytes at which counter mode departs from random by the birthday bound.

**Forks.** A child's copy of its parent's stream would repeat the parent's noise, and the difference of
two people's reports would then be that of their records. So before each use a stream checks that it is
in the process in which it was keyed (`privot.core.processes`).

**Buffers.** Single records take words and noise from buffers that the array code fills: both have the
same law by the same proof, and no array is made for one number. A buffer belongs to its thread, yields
each number once, does not depend on any record, and is discarded with the key.

References:
    NIST SP 800-38A (counter mode); Garfinkel, Leclerc, *Randomness concerns when deploying
    differential privacy* (2020).
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from privot.core.processes import OwnProcess

Words = NDArray[np.uint64]

WORDS = 2**64
EXACT = Context(prec=80)  # used explicitly: Decimal's operators round by the caller's context

_REKEY_BYTES = 2**32
_CHUNK_BYTES = 2**17
_ZEROS = memoryview(bytes(_CHUNK_BYTES))
_BUFFER_SIZE = 128  # numbers drawn at once
_MAX_BUFFERS = 1024  # a few MB; if there are more, all are discarded


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
        self.belong_here()

    def fill(self, target: memoryview) -> None:
        """Overwrite `target` (bytes) with key stream."""
        for start in range(0, len(target), _CHUNK_BYTES):
            part = target[start : start + _CHUNK_BYTES]
            if self._bytes_left < len(part):
                self.rekey()
            self._encryptor.update_into(_ZEROS[: len(part)], part)
            self._bytes_left -= len(part)


class _ThreadLocal(threading.local):
    """Holder of one stream for each thread: `__init__` runs once in every thread."""

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
    """Take `count` numbers from the buffer that draw(number, *arguments) fills: 0.3 µs each."""
    buffers = _stream().buffers
    buffer = buffers[draw, arguments]
    while len(buffer) < count:
        if len(buffers) > _MAX_BUFFERS:
            buffers.clear()
        buffer.extend(draw(_BUFFER_SIZE, *arguments).tolist())
    return [buffer.pop() for _ in range(count)]


def random_word() -> int:
    """Take one uniform 64-bit word from a buffer, for single records."""
    return upcoming(1, random_words)[0]


def random_bits(count: int) -> int:
    """Draw a uniform integer of `count` bits from the operating system.

    Examples:
        >>> 0 <= random_bits(10) < 1024
        True
    """
    return int.from_bytes(os.urandom((count + 7) // 8), "big") >> (-count % 8)


def uniform_below(bound: int) -> int:
    """Draw a uniform integer 0 … bound−1, by rejection of words from the largest multiple of it on."""
    limit = WORDS - WORDS % bound
    word = random_word()
    while word >= limit:
        word = random_word()
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
    r"""Return the number $L = ⌊2^{64} s / (e^ε i + o)⌋ + 1$ of words for s of the unlikely outcomes.

    $L ≥ 2^{64} s / (e^ε i + o)$. All o unlikely outcomes take o/s times L words, so at most
    $e^ε i L / s$ words remain for the i likely ones: the likelihood ratio is at most $e^ε$.

    Arguments:
        epsilon: ε.
        inside: Number i of outcomes whose likelihood is e^ε times as large.
        outside: Number o of all other outcomes.
        share: Number s of the other outcomes that share L words.
    """
    power = EXACT.next_minus(EXACT.exp(Decimal(epsilon)))
    total = EXACT.next_minus(EXACT.add(EXACT.multiply(power, inside), outside))
    words = EXACT.next_plus(EXACT.divide(Decimal(WORDS * share), total))
    return int(words.to_integral_value(ROUND_FLOOR)) + 1
