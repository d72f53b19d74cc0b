r"""Cryptographic random words of 64 bits, fast enough for billions of records.

Words come from AES-256 in counter mode, keyed by the operating system's generator. To distinguish these
words from uniform ones is to break AES; that computational assumption is the only one between the
samplers of this package and their information-theoretic guarantees.

There is no seed: nothing here can be repeated, stored or logged. Each thread owns one stream, so
that no word is used twice. A stream takes a new key every $2^{32}$ bytes, far below the
$2^{68}$ bytes at which counter mode departs from random by the birthday bound.

**Forks.** A child's copy of its parent's stream would repeat the parent's noise, and the difference of
two people's reports would then be that of their records. So before each use a stream compares its
process with the one that it was keyed in (`privot.core.processes`).

**Stocks.** Single records take words and noise from stocks that the array code has drawn ahead: one law,
one proof, and no array for one number. A stock belongs to its thread, yields each number once, depends
on no record, and is discarded with the key.

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
EXACT = Context(prec=80)  # operators of Decimal would round by the caller's own context

_REKEY_BYTES = 2**32
_CHUNK_BYTES = 2**17
_ZEROS = memoryview(bytes(_CHUNK_BYTES))
_AHEAD = 128  # numbers a stock draws at once
_MAX_STOCKS = 1024  # a few MB; beyond, all are forgotten


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
