import pytest
import torch
from scipy import stats

from privot.sliced.releases.directions import draw_directions


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
        "privot.sliced.releases.directions._normal",
        lambda rows, columns: torch.zeros(rows, columns),
    )
    assert bool((drawn(3, 5).norm(dim=0) - 1).abs().max() < 1e-5)
