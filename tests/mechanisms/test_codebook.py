"""Codebooks: the documented words, rows and products that agree with dense matrices."""

import numpy as np
import pytest
from scipy.linalg import hadamard as dense

from privot.core.errors import PrivotError
from privot.mechanisms.candidates.codebook import Codebook, seed_words

MASK = 2**64 - 1


def splitmix(seed: int, place: int) -> int:
    """As documented, in integers without a width."""
    z = (seed + (place + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def matrix(seed: int, size: int, blocks: int) -> np.ndarray:
    """All candidates of a seed, bit by bit as the module documents them."""
    made = []
    for block in range(blocks):
        signs = []
        for which in range(2):
            first = (2 * block + which) * size // 64
            bits = [(splitmix(seed, first + i // 64) >> (i % 64)) & 1 for i in range(size)]
            signs.append(np.diag([1.0 - 2.0 * bit for bit in bits]))
        made.append(dense(size) @ signs[1] @ dense(size) @ signs[0] / size)
    return np.vstack(made)


def test_words_are_the_documented_ones():
    seeds = [0, 1, 2**63 + 12345, MASK]
    words = seed_words(np.array(seeds, np.uint64), 5, 3)
    assert words.tolist() == [[splitmix(seed, place) for place in (5, 6, 7)] for seed in seeds]


@pytest.mark.parametrize(("size", "blocks"), [(256, 3), (512, 1)])
def test_products_and_rows_are_those_of_the_documented_matrix(size, blocks):
    seeds = np.array([3, 2**64 - 7], np.uint64)
    codebook = Codebook(size, blocks)
    x = np.random.default_rng(0).standard_normal((2, size)).astype(np.float32)
    products = codebook.products(seeds, x)
    indices = np.array([size * blocks - 1, 17])
    rows = codebook.rows(seeds, indices)
    for person, seed in enumerate(seeds.tolist()):
        candidates = matrix(seed, size, blocks)
        np.testing.assert_allclose(products[person], candidates @ x[person], atol=2e-5)
        np.testing.assert_allclose(rows[person], candidates[indices[person]], atol=1e-6)


def test_products_do_not_depend_on_who_else_is_asked():
    """Otherwise a rounding could tell of another person's record."""
    seeds = np.arange(9, dtype=np.uint64)
    x = np.random.default_rng(1).standard_normal((9, 1024)).astype(np.float32)
    codebook = Codebook(1024, 2)
    together = codebook.products(seeds, x)
    alone = np.vstack([codebook.products(seeds[i : i + 1], x[i : i + 1]) for i in range(9)])
    assert (together == alone).all()


@pytest.mark.parametrize(
    ("size", "blocks", "told"),
    [(300, 1, "power of two"), (128, 1, "from 256"), (256.0, 1, "from 256"), (256, 0, "blocks"),
     (256, 2**13, "blocks"), (2**17, 1, "65,536")],
)  # fmt: skip
def test_other_sizes_are_refused(size, blocks, told):
    with pytest.raises(PrivotError, match=told):
        Codebook(size, blocks)
