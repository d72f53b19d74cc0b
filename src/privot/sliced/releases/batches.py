r"""Which private records enter a release: drawn by the very scheme that is accounted, in secret.

Amplification by sampling holds only if nobody knows who was drawn, so the coins come from the operating
system's entropy and are neither seeded, logged nor kept.

- `without_replacement`: a uniformly random subset of fixed size **in uniformly random order**. Words of
  64 bits, those beyond the largest multiple of n redrawn, taken modulo n are exactly uniform; keeping
  first occurrences in order of appearance gives an ordered sample without replacement.
- `padded_poisson`: every record enters with probability at most q, independently of the others, into
  uniformly random slots of a public, constant number of rows; the other slots stay empty. Conditioned
  on the records not overflowing the slots, whose probability δ has paid for; should they do, the rest
  is cut.
- `none`: all records.

Who sees what: the index of each slot stays inside the mechanism. Its drawing time depends on the coins
alone, and on the number of records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privot.mechanisms import random_words
from privot.sliced.releases.plan import Plan

Indices = NDArray[np.int64]
EMPTY = -1


def draw_batch(plan: Plan, rows: int) -> Indices:
    """The record in each of `rows` slots, or `EMPTY`."""
    accounting = plan.accounting
    if accounting.sampling == "none":
        return np.arange(accounting.records)
    if accounting.sampling == "padded_poisson":
        return fill_slots(poisson_sample(accounting.records, accounting.rate), rows)
    return ordered_sample(accounting.records, rows)


def ordered_sample(population: int, size: int) -> Indices:
    """A uniformly random subset of `size` of range(population), in uniformly random order."""
    if 4 * size > population:
        return random_order(population)[:size]
    chosen = np.empty(0, np.int64)
    limit = np.uint64(2**64 // population * population - 1)
    while len(chosen) < size:
        words = random_words(2 * (size - len(chosen)) + 8)
        more = (words[words <= limit] % np.uint64(population)).astype(np.int64)
        chosen = np.concatenate([chosen, more])
        first = np.sort(np.unique(chosen, return_index=True)[1])
        chosen = chosen[first]
    return chosen[:size]


def random_order(count: int) -> Indices:
    """A uniformly random permutation: the ranks of 64-bit words, all drawn again if two agree."""
    while True:
        words = random_words(count)
        order = np.argsort(words, kind="stable")
        ranked = words[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order.astype(np.int64)


def poisson_sample(population: int, rate: float) -> Indices:
    """Each of range(population) independently with probability ⌊rate·2^64⌋/2^64 (1 if rate is 1)."""
    if rate >= 1:
        return np.arange(population)
    return np.flatnonzero(random_words(population) < np.uint64(int(rate * 2**64)))


def fill_slots(chosen: Indices, rows: int) -> Indices:
    """The chosen records in uniformly random slots of `rows`, the others `EMPTY`."""
    slots = np.full(rows, EMPTY, np.int64)
    order = random_order(rows)
    kept = chosen[:rows]
    slots[order[: len(kept)]] = kept
    return slots
