r"""Codebooks: many random unit vectors that a 64-bit seed stands for, and all inner products at once.

A seed expands into $K = RD$ candidates, the rows of R blocks

$$ \tfrac1D H S_2 H S_1 , \qquad H_{ij} = (−1)^{|i ∧ j|} , $$

H being the Hadamard matrix of size D, a power of two ($|i ∧ j|$ counts the bits that i and j share),
and $S_1, S_2$ diagonal matrices of signs. Rows of a block are orthonormal; a sign-flipped transform is
nearly uniform on the sphere (what it lacks is measured: `docs/results/candidates.md`). All D inner
products of a block with a vector are two transforms, and so is one row.

**From seed to signs**, for whoever draws the same elsewhere. The i-th word (i = 0, 1, …) of a seed s is
that of SplitMix64: with all arithmetic modulo $2^{64}$,

    z = s + (i + 1) · 0x9E3779B97F4A7C15
    z = (z ⊕ (z ≫ 30)) · 0xBF58476D1CE4E5B9
    z = (z ⊕ (z ≫ 27)) · 0x94D049BB133111EB
    word = z ⊕ (z ≫ 31)

Each diagonal takes D/64 words: those of block r begin at word $2rD/64$, first $S_1$'s, then $S_2$'s.
Coordinate i has bit i mod 64, the least significant being bit 0, of its word ⌊i/64⌋; a set bit is the
sign −1. Candidate j is row j mod D of block ⌊j/D⌋.

Transforms are products by two Hadamard matrices of about $\sqrt D$ rows each, which a matrix library
does faster than the textbook's butterflies. Nothing here is secret: seeds are published.

References:
    Steele, Lea, Flood, *Fast splittable pseudorandom number generators* (2014); Ailon, Chazelle, *The
    fast Johnson–Lindenstrauss transform and approximate nearest neighbors* (2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError

Floats = NDArray[np.float32]
Words = NDArray[np.uint64]

SMALLEST_DIMENSION, LARGEST_DIMENSION = 2**8, 2**16
MOST_CANDIDATES = 2**20

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST = np.uint64(31)


def seed_words(seeds: Words, first: NDArray[np.int64] | int, count: int) -> Words:
    """Words `first` … `first` + `count` − 1 of every seed, (n, count).

    >>> [f"{word:016x}" for word in seed_words(np.zeros(1, np.uint64), 0, 2)[0]]
    ['e220a8397b1dcdaf', '6e789e6aa1b965f4']
    """
    place = np.asarray(first, np.uint64)[..., None] + np.arange(1, count + 1, dtype=np.uint64)
    z: Words = np.asarray(seeds, np.uint64)[:, None] + place.astype(np.uint64) * _STEP
    for shift, factor in _MIX:
        z ^= z >> shift
        z *= factor
    z ^= z >> _LAST
    return z


@lru_cache(maxsize=32)
def hadamard(size: int) -> Floats:
    """The Hadamard matrix of a size that is a power of two."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    matrix.setflags(write=False)
    return matrix


def transform(x: Floats) -> Floats:
    """H x of every row of `x` (n, D), whose sums do not depend on the other rows."""
    size = x.shape[1]
    left = 1 << (size.bit_length() - 1) // 2
    cube = np.matmul(x.reshape(-1, left, size // left), hadamard(size // left))
    return np.matmul(hadamard(left), cube).reshape(x.shape)


@dataclass(frozen=True)
class Codebook:
    """What seeds expand into.

    Arguments:
        dimension: D, of the candidates.
        blocks: R.

    Examples:
        >>> codebook = Codebook(dimension=256, blocks=2)
        >>> rows = codebook.rows(np.full(512, 7, np.uint64), np.arange(512))
        >>> bool(np.allclose(rows[:256] @ rows[:256].T, np.eye(256), atol=1e-6))
        True
    """

    dimension: int
    blocks: int

    def __post_init__(self) -> None:
        size = self.dimension
        if type(size) is not int or not SMALLEST_DIMENSION <= size <= LARGEST_DIMENSION:
            raise PrivotError(
                f"dimension is {size!r}: give a power of two from {SMALLEST_DIMENSION} to "
                f"{LARGEST_DIMENSION:,}"
            )
        if size & (size - 1):
            raise PrivotError(f"dimension is {size}: give a power of two")
        most = MOST_CANDIDATES // size
        if type(self.blocks) is not int or not 1 <= self.blocks <= most:
            raise PrivotError(f"blocks is {self.blocks!r}: give an integer from 1 to {most}")

    @property
    def num_candidates(self) -> int:
        """K = RD."""
        return self.blocks * self.dimension

    def products(self, seeds: Words, x: Floats) -> Floats:
        """Inner products (n, K) of vectors (n, D) with all candidates of their seeds (n,)."""
        size = self.dimension
        out = np.empty((len(x), self.blocks, size), np.float32)
        for block in range(self.blocks):
            flips = self._flips(seeds, block)
            out[:, block] = transform(_flip(transform(_flip(x, flips[:, 0])), flips[:, 1]))
        out *= np.float32(1 / size)
        return out.reshape(len(x), -1)

    def rows(self, seeds: Words, indices: NDArray[np.integer]) -> Floats:
        """Candidates (n, D): that of index `indices` (n,) in the codebook of each seed."""
        block, row = np.divmod(np.asarray(indices, np.int64), self.dimension)
        flips = self._flips(seeds, block)
        made = _flip(transform(_flip(self._columns(row), flips[:, 1])), flips[:, 0])
        made *= np.float32(1 / self.dimension)
        return made

    def _columns(self, which: NDArray[np.int64]) -> Floats:
        """Columns `which` (n,) of H, as rows (n, D)."""
        size = self.dimension
        left = 1 << (size.bit_length() - 1) // 2
        high, low = np.divmod(which, size // left)
        ends = hadamard(left)[high][:, :, None] * hadamard(size // left)[low][:, None, :]
        return ends.reshape(len(which), size)

    def _flips(self, seeds: Words, block: NDArray[np.int64] | int) -> NDArray[np.uint32]:
        """Sign bits (n, 2, D) of the two diagonals of a block."""
        words = seed_words(seeds, np.asarray(block) * (self.dimension // 32), self.dimension // 32)
        octets = words.astype("<u8", copy=False).view(np.uint8)
        bits = np.unpackbits(octets, axis=1, bitorder="little")
        flips = bits.astype(np.uint32)
        flips <<= np.uint32(31)
        return flips.reshape(len(words), 2, self.dimension)


def _flip(x: Floats, flips: NDArray[np.uint32]) -> Floats:
    """`x` with the signs of `flips`."""
    return (np.ascontiguousarray(x).view(np.uint32) ^ flips).view(np.float32)
