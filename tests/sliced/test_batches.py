import numpy as np
import pytest
from scipy import stats

from privot.sliced.releases.batches import (
    EMPTY,
    fill_slots,
    ordered_sample,
    poisson_sample,
    random_order,
)


@pytest.mark.parametrize(("population", "size"), [(50, 3), (5, 3), (3, 3), (1, 1)])
def test_ordered_samples_are_distinct_and_in_range(population, size):
    for _ in range(50):
        drawn = ordered_sample(population, size)
        assert len(set(drawn.tolist())) == size
        assert ((drawn >= 0) & (drawn < population)).all()


@pytest.mark.parametrize("population", [4, 13])
def test_every_ordered_pair_is_as_likely(population):
    """Both branches (words modulo n, and a whole permutation) against the uniform law."""
    draws = np.stack([ordered_sample(population, 2) for _ in range(20_000)])
    pairs = draws[:, 0] * population + draws[:, 1]
    counts = np.bincount(pairs, minlength=population**2)
    legal = ~np.eye(population, dtype=bool).ravel()
    assert counts[~legal].sum() == 0
    assert stats.chisquare(counts[legal]).pvalue > 1e-6


def test_index_order_would_be_noticed():
    """The test above has power: sorted rows fail it."""
    draws = np.sort(np.stack([ordered_sample(13, 2) for _ in range(20_000)]), axis=1)
    counts = np.bincount(draws[:, 0] * 13 + draws[:, 1], minlength=169)
    assert stats.chisquare(counts[~np.eye(13, dtype=bool).ravel()]).pvalue < 1e-6


def test_poisson_sizes_follow_the_binomial():
    sizes = [len(poisson_sample(2000, 0.05)) for _ in range(3000)]
    assert abs(np.mean(sizes) - 100) < 1.0
    assert abs(np.var(sizes) / 95 - 1) < 0.15
    assert len(poisson_sample(7, 1.0)) == 7


def test_slots_are_uniform_and_overflow_is_cut():
    places = [int(np.flatnonzero(fill_slots(np.array([3]), 8) == 3)[0]) for _ in range(8000)]
    assert stats.chisquare(np.bincount(places, minlength=8)).pvalue > 1e-6
    full = fill_slots(np.arange(9), 4)
    assert len(full) == 4
    assert (full != EMPTY).all()
    assert (fill_slots(np.arange(0), 3) == EMPTY).all()


def test_orders_are_permutations():
    assert sorted(random_order(100).tolist()) == list(range(100))
