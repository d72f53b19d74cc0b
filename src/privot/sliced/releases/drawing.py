r"""What is drawn for a release: which private records enter it, in secret, and public directions.

**Batches** are drawn by the very scheme that is accounted. Amplification by sampling holds only if
nobody knows who was drawn, so the coins come from the operating system's entropy and are neither
seeded, logged nor kept.

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

**Directions** are drawn afresh, uniform on the sphere and never longer than 1: the accounting averages
over U with independent uniform unit columns (or a uniform frame). Columns are normalized Gaussian
vectors of the words that noise is made of (`privot.mechanisms.samplers.entropy`), so that no two runs,
threads or forked processes share directions: two releases along the same ones would not be what the
accounting composes. They do not depend on the data. Box and Muller's pairs

$$ (\sqrt{−2 \ln u} \cos φ, \sqrt{−2 \ln u} \sin φ), \qquad u = (w + ½)/2^{32}, \quad φ = π w'/2^{31} $$

in single precision, from 32-bit words w, w′, take half the time of a ziggurat. What that costs is
resolution of public directions only: coordinates beyond 6.76 standard deviations (1.4e-11 of them) do
not occur, which makes the law of the projected sensitivity lighter, not heavier.

**Length.** In single precision a norm is not exact. With u = 2^−24, a square (u), numpy's pairwise sum
(at most 19 + log₂(d/128) roundings), root, quotient and product (3.5 more on the length) leave a
relative error below 17·u·(1 + …) < 2^−19 for d < 2^20, so columns are aimed at length 1 − 2^−19 and
never exceed 1. A column shorter by a factor c ≤ 1 has c² of its share of H = ‖Uᵀz‖²: given U the
mechanism is a Gaussian one of smaller sensitivity than the one accounted.

References:
    Box, Muller, *A note on the generation of random normal deviates* (1958).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.mechanisms import random_words
from privot.sliced.releases.plan import SlicePlan

Indices = NDArray[np.int64]
EMPTY = -1
# Columns aim at this length, so that errors of single precision never make one longer than 1.
_LENGTH = 1.0 - 2.0**-19


def draw_batch(plan: SlicePlan, rows: int) -> Indices:
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


def draw_directions(dim: int, count: int, orthonormal: bool = False) -> Tensor:
    """Columns (d, k), float32: uniform and independent on the sphere, or a uniform frame.

    Arguments:
        dim: Dimension d.
        count: Number k, at most d for a frame.
        orthonormal: Whether columns are orthogonal to each other.

    Examples:
        >>> columns = draw_directions(5, 3)
        >>> columns.shape, bool((columns.norm(dim=0) - 1).abs().max() < 1e-5)
        (torch.Size([5, 3]), True)
    """
    normal = _normal(count, dim)
    if orthonormal:
        return (_LENGTH * torch.linalg.qr(normal.T.double()).Q).float()
    # Rows are contiguous: numpy then sums pairwise, which the bound on the length counts on.
    squares = np.square(normal.numpy()).sum(axis=1)
    empty = np.flatnonzero(squares == 0)  # in one dimension, once in 2^25 columns
    normal[empty, 0], squares[empty] = 1.0, 1.0
    normal *= torch.from_numpy(_LENGTH / np.sqrt(squares))[:, None]
    return normal.T


def _normal(rows: int, columns: int) -> Tensor:
    """Standard Gaussians (rows, columns) by Box and Muller."""
    half = (rows * columns + 1) // 2
    words = torch.from_numpy(random_words(half).view(np.int32).reshape(2, half))
    angle = words[0].float().mul_(math.pi / 2**31)
    # Signed words move up by 2^31 in double precision: small u keep all their bits.
    radius = words[1].double().add_(2.0**31 + 0.5).mul_(2.0**-32).float()
    radius = radius.log_().mul_(-2.0).sqrt_()
    pairs = torch.empty(2, half)
    torch.cos(angle, out=pairs[0]).mul_(radius)
    torch.sin(angle, out=pairs[1]).mul_(radius)
    return pairs.flatten()[: rows * columns].reshape(rows, columns)
