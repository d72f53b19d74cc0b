"""The Bernstein mechanism: what it releases without noise, its noise, and its sensitivity."""

import math

import numpy as np
import pytest
from scipy.stats import beta, kstest

from privot.core.errors import PrivotError
from studies.rivals.bernstein import basis, fit_bernstein, kernel_values, sensitivity

LITTLE = 1e6  # so much ε that the noise does not show


def values(points, degree, bandwidth):
    """The kernel estimate of single records on the lattice, written from the definition."""
    nodes = np.arange(degree + 1) / degree
    dim = points.shape[1]
    mesh = np.stack([a.ravel() for a in np.meshgrid(*[nodes] * dim, indexing="ij")], axis=1)
    squares = ((mesh - points[:, None]) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * bandwidth**2)) / (math.sqrt(2 * math.pi) * bandwidth) ** dim


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("degree", [3, 30])
@pytest.mark.parametrize("bandwidth", [0.02, 0.2, 2.0])
def test_no_two_records_differ_by_more_than_the_sensitivity(dim, degree, bandwidth):
    points = np.random.default_rng(0).random((60, dim))
    points[:4] = np.array([[0], [1], [0.5], [1 / 3]])
    found = values(points, degree, bandwidth)
    largest = np.abs(found[:, None] - found[None]).sum(axis=2).max()
    bound = sensitivity(1, dim, degree, bandwidth)
    assert largest <= bound <= sensitivity(1, dim, degree, bandwidth, "published")


@pytest.mark.parametrize("dim", [1, 2])
def test_without_noise_it_is_the_bernstein_polynomial(dim):
    rng = np.random.default_rng(1)
    records = rng.random((50, dim))
    lower, upper = (0.0,) * dim, (1.0,) * dim
    released = fit_bernstein(records, lower, upper, LITTLE, degree=8, bandwidth=0.2)
    exact = values(records, 8, 0.2).mean(axis=0)
    assert released.weights.ravel() == pytest.approx(exact / exact.sum(), rel=1e-3)
    axis = (np.arange(400) + 0.5) / 400
    density = released.density([axis] * dim)
    assert density.mean() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize(("degree", "bandwidth"), [(3, 0.5), (700, 0.004), (700, 0.1)])
def test_values_and_polynomial_are_those_of_the_definition(dim, degree, bandwidth):
    """Nodes and basis functions that are left out do not show, at the box's ends neither."""
    points = np.array([[0.0, 1.0], [1.0, 0.004], [0.31, 0.5]])[:, :dim]
    box = (0.0,) * dim, (1.0,) * dim
    found = kernel_values(points, *box, degree, bandwidth)
    exact = values(points, degree, bandwidth).mean(axis=0)
    np.testing.assert_allclose(found.ravel(), exact, rtol=1e-9, atol=1e-12 * exact.max())
    y = np.array([1e-5, 0.004, 0.31, 0.5, 1 - 1e-3])
    dense = beta.pdf(y[:, None], np.arange(degree + 1) + 1, degree + 1 - np.arange(degree + 1))
    np.testing.assert_allclose(basis(y, degree).toarray(), dense, rtol=1e-8, atol=1e-9)


def test_noise_is_averaged_before_it_is_cut():
    """Where no record is, what cut values leave is a floor; the cut polynomial leaves less of it.

    By 60 fits: .034 ± .013 against .147 ± .010. Means of four make the margin .0546 ± .0073, 7.5
    deviations above 0; were both cut alike, it would be −.059 ± .006.
    """
    records = np.random.default_rng(4).normal(0.3, 0.03, (5000, 1))
    axis = [(np.arange(500) + 0.5) / 500]
    far = {"polynomial": [], "clip": []}
    for positivity in [*far] * 4:
        released = fit_bernstein(
            records, (0.0,), (1.0,), 1.0, degree=800, bandwidth=0.01, positivity=positivity
        )
        density = released.density(axis)
        assert density.min() >= 0
        assert density.mean() == pytest.approx(1, abs=1e-3)
        far[positivity].append(density[250:].mean())
    assert np.mean(far["polynomial"]) < 0.6 * np.mean(far["clip"])


def relative_scale(claimed):
    """Size of the noise at nodes far from all records, over what `claimed` records would get."""
    degree, bandwidth, epsilon, num_records = 40_000, 1e-3, 5_000.0, 100
    released = fit_bernstein(
        np.zeros((num_records, 1)),
        (0.0,),
        (1.0,),
        epsilon,
        degree=degree,
        bandwidth=bandwidth,
    )
    # Weights are values over their sum, which is nearly all kernel: the noise adds some percent.
    scale = sensitivity(claimed, 1, degree, bandwidth) / epsilon
    total = values(np.zeros((1, 1)), degree, bandwidth).sum() + scale * degree / 2
    far = released.weights[2000:]
    return far[far > 0].mean() * total / scale, far[far > 0]


def test_noise_is_laplace_of_its_scale():
    """Positive noise has mean `scale`; 19 000 values give it up to .7 %, seven deviations from 5 %.

    With the sensitivity of 90 records instead of 100 it is .914 ± .006, 5.9 deviations below .95.
    """
    found, positive = relative_scale(100)
    assert found == pytest.approx(1, abs=0.05)
    assert kstest(positive / positive.mean(), "expon").pvalue > 1e-6
    wrong, _ = relative_scale(90)
    assert wrong < 0.95


@pytest.mark.parametrize(("positivity", "epsilon"), [("clip", 5.0), ("polynomial", 0.3)])
def test_draws_follow_the_density(positivity, epsilon):
    records = np.random.default_rng(2).normal(1.0, 0.5, (2000, 1))
    released = fit_bernstein(
        records, (-2.0,), (4.0,), epsilon, degree=30, bandwidth=0.05, positivity=positivity
    )
    assert bool(released.weights.min() < 0) is (positivity == "polynomial")
    draws = released.draw(20_000, np.random.default_rng(3))[:, 0]
    axis = -2 + 6 * (np.arange(3000) + 0.5) / 3000
    cumulative = np.cumsum(released.density([axis])) * 6 / 3000
    assert kstest(draws, lambda x: np.interp(x, axis, cumulative)).pvalue > 1e-6


@pytest.mark.parametrize("positivity", ["clip", "shift"])
def test_a_density_even_where_noise_is_all_there_is(positivity):
    released = fit_bernstein(
        np.zeros((1, 1)), (-1.0,), (1.0,), 1e-3, degree=20, bandwidth=0.1, positivity=positivity
    )
    assert (released.weights >= 0).all()
    assert released.weights.sum() == pytest.approx(1)
    assert str(released.guarantee) == "ε = 0.001 (pure), replace_one, per person"


def test_refusals():
    def fit(shape=(2, 1), epsilon=1.0, degree=5, bandwidth=0.1):
        records = np.zeros(shape)
        fit_bernstein(records, (0.0,), (1.0,), epsilon, degree=degree, bandwidth=bandwidth)

    with pytest.raises(PrivotError, match="epsilon is 0"):
        fit(epsilon=0.0)
    with pytest.raises(PrivotError, match="bandwidth is -1"):
        fit(bandwidth=-1.0)
    with pytest.raises(PrivotError, match="records have shape"):
        fit(shape=(0, 1))
    with pytest.raises(PrivotError, match="degree is 0"):
        fit(degree=0)
