import numpy as np
import pytest
import torch
from scipy import stats

from privot.central.slices import (
    EMPTY,
    draw_directions,
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


def drawn(dim, count, orthonormal=False):
    return draw_directions(dim, count, orthonormal).double()


@pytest.mark.parametrize("orthonormal", [False, True])
@pytest.mark.parametrize(("dim", "count"), [(1, 1), (3, 2), (784, 300), (20_000, 7)])
def test_no_column_is_longer_than_one(dim, count, orthonormal):
    lengths = drawn(dim, count, orthonormal).norm(dim=0)
    assert bool((lengths <= 1).all())
    assert bool((lengths > 1 - 2.0**-17).all())


def test_frames_are_orthogonal_and_others_are_not():
    columns = [drawn(60, 8, frame) for frame in (True, False)]
    gram, other = (chosen.T @ chosen for chosen in columns)
    assert bool((gram - torch.eye(8)).abs().max() < 1e-5)
    assert bool((other - torch.eye(8)).abs().max() > 1e-2)


@pytest.mark.parametrize("dim", [2, 3, 7, 100])
def test_shares_of_a_coordinate_are_beta(dim):
    """The law that is accounted, Beta(½, (d−1)/2), and not that of another dimension."""
    shares = drawn(dim, 20_000).square()
    other = dim + max(1, dim // 5)  # at d = 100 the next dimension is too near to be told apart
    for coordinate in (0, dim - 1):
        share = shares[coordinate].numpy()
        assert stats.kstest(share, stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > 1e-6
        assert stats.kstest(share, stats.beta(0.5, (other - 1) / 2).cdf).pvalue < 1e-9


def test_columns_are_independent():
    columns = drawn(50, 4000)
    products = (columns[:, ::2] * columns[:, 1::2]).sum(dim=0)
    # Of two independent columns of 50 coordinates the product has variance 1/50.
    assert abs(float(products.square().mean()) * 50 - 1) < 0.2
    assert abs(float(products.mean())) < 5 / (50 * 2000) ** 0.5


def test_two_calls_differ():
    assert not torch.equal(draw_directions(9, 4), draw_directions(9, 4))


def test_a_column_of_zeros_gets_a_direction(monkeypatch):
    monkeypatch.setattr(
        "privot.central.slices._normal",
        lambda rows, columns: torch.zeros(rows, columns),
    )
    assert bool((drawn(3, 5).norm(dim=0) - 1).abs().max() < 1e-5)
