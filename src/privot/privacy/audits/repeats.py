r"""Does noise repeat? A stretch of reports that two calls, threads or processes have in common.

A report whose probability was p tells $−\log_2 p$ bits. If streams are drawn independently, a given
stretch of b bits occurs at a given place of another with probability $2^{−b}$: among N comparisons, with
probability at most $N 2^{−b}$. So stretches are made long enough to tell $\log_2 N + 40$ bits, and a
single one that is found twice refutes independence. Where reports tell next to nothing (one of two
answers, at a large ε), no stretch is long enough, and nothing is said.

Within a stream, a report of probability p comes among n − 1 others as often as a binomial variable says.
Whichever report comes most often, n times the tail from there on bounds the chance of any that does: a
share of the reports that has no noise at all, too small to bend the law, is found as soon as some of
them agree.

All reports must be of one record: then equal noise means equal reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

_BITS = 40
_KEY_BITS = 60.0  # keys of different reports agree as seldom
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Stream:
    """Reports in the order drawn: a key (n,) that tells equal from different, and what each tells."""

    keys: NDArray[np.uint64]
    bits: NDArray[np.float64]


def row_keys(values: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Keys of rows (n, w) of 64-bit numbers: equal where the rows are, else different but for 2^−64."""
    keys = np.zeros(len(values), np.uint64)
    for column in np.ascontiguousarray(values).view(np.uint64).T:
        keys = _mixed(keys * _MULTIPLIER + column)
    return keys


def repeats(streams: Sequence[Stream]) -> float | None:
    """P-value of a stretch in common to two of the streams; None where none would be long enough.

    >>> rng = np.random.default_rng(0)
    >>> words = [rng.integers(0, 2**32, 100).astype(np.uint64) for _ in range(2)]
    >>> here, there = (Stream(word, np.full(100, 32.0)) for word in words)
    >>> late = Stream(np.roll(here.keys, 7), here.bits)
    >>> repeats([here, there]), repeats([here, there, late]) < 1e-9
    (1.0, True)
    """
    comparisons = sum(len(stream.keys) for stream in streams) ** 2
    wanted = np.log2(max(comparisons, 2)) + _BITS
    told = np.concatenate([stream.bits for stream in streams])
    mean = float(told.mean()) if told.size else 0.0
    length = 1
    while length * mean < 2 * wanted:
        length *= 2
        if mean <= 0 or length > max(len(stream.keys) for stream in streams) // 2:
            return None
    seen: set[int] = set()
    for stream in streams:
        whole = len(stream.keys) // length
        told = stream.bits[: whole * length].reshape(whole, length).sum(axis=1)
        stretches = _stretches(stream.keys, length)
        if not seen.isdisjoint(stretches[length * np.flatnonzero(told >= wanted)].tolist()):
            return float(comparisons * 2.0**-wanted)
        seen.update(stretches.tolist())
    return 1.0


def most_common(stream: Stream) -> float:
    """P-value of a report that comes too often for what it tells.

    >>> words = np.random.default_rng(0).integers(0, 2**32, 10_000).astype(np.uint64)
    >>> bare = np.where(np.arange(10_000) % 2_000, words, words[0])
    >>> most_common(Stream(words, np.full(10_000, 32.0))) > 1e-3
    True
    >>> most_common(Stream(bare, np.full(10_000, 32.0))) < 1e-9
    True
    """
    _, first, counts = np.unique(stream.keys, return_index=True, return_counts=True)
    often = counts > 1
    if not often.any():
        return 1.0
    share = 2.0 ** -np.minimum(stream.bits[first[often]], _KEY_BITS)
    drawn = len(stream.keys)
    return min(1.0, drawn * float(special.bdtrc(counts[often] - 2, drawn - 1, share).min()))


def _stretches(keys: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    """Keys of the stretches of `length` (a power of two) that begin at each place."""
    if len(keys) < length:
        return keys[:0]
    step = 1
    while step < length:
        keys = _mixed(keys[:-step] * _MULTIPLIER + keys[step:])
        step *= 2
    return keys


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
