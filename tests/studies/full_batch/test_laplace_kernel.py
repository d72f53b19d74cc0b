"""Kernel sums without the matrix against sums over the matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from studies.full_batch.laplace_kernel import LaplaceKernel


def dense(x, y, h, reg):
    """Log-sums at x and means of sign(x − y), from all pairs."""
    gaps = x[:, None] - y[None]
    scores = h - np.abs(gaps).sum(axis=2) / reg
    sums = logsumexp(scores, axis=1)
    return sums, np.einsum("ij,ijk->ik", np.exp(scores - sums[:, None]), np.sign(gaps))


def rounding(x, y, h, reg):
    """What rounding the exponents alone must cost."""
    reach = np.abs(np.vstack([x, y])).max() / reg + np.abs(h).max()
    return 1e-13 + 20 * 2.0**-53 * reach


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("reg", [1e-7, 1e-3, 0.02, 0.3, 1.0, 50.0, 1e6])
def test_sums_and_slopes_are_those_of_the_matrix(dim, reg):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(230, dim)) * 3 + 1, rng.normal(size=(170, dim))
    x[0], y[0] = 400.0, -90.0
    at_x, at_y = rng.normal(size=170) * 5, rng.normal(size=230) * 5
    kernel = LaplaceKernel(x, y, reg)
    for found, slope, want in (
        (kernel.at_x(at_x), kernel.slope_x(at_x), dense(x, y, at_x, reg)),
        (kernel.at_y(at_y), kernel.slope_y(at_y), dense(y, x, at_y, reg)),
    ):
        tolerance = rounding(x, y, at_x, reg)
        np.testing.assert_allclose(found, want[0], rtol=0, atol=tolerance)
        np.testing.assert_allclose(slope, want[1], rtol=0, atol=10 * tolerance)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 2),
    st.integers(1, 40),
    st.integers(1, 40),
    st.floats(1e-4, 1e4),
    st.sampled_from([1.0, 30.0, 2000.0]),
    st.booleans(),
)
def test_ties_duplicates_and_any_weights(seed, dim, n, m, reg, spread, collinear):
    """On a lattice nearly everything coincides with something, in one coordinate or in both."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-2, 3, (n, dim)) * 1.0, rng.integers(-2, 3, (m, dim)) * 1.0
    if collinear:
        x[:, -1] = y[:, -1] = 1.0
    h = rng.uniform(-spread, spread, m)
    kernel = LaplaceKernel(x, y, reg)
    sums, slopes = dense(x, y, h, reg)
    tolerance = rounding(x, y, h, reg)
    np.testing.assert_allclose(kernel.at_x(h), sums, rtol=0, atol=tolerance)
    np.testing.assert_allclose(kernel.slope_x(h), slopes, rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("reg", [0.005, 1.0])
def test_large_clouds_in_threads(dim, reg):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(9_000, dim)), rng.normal(size=(7_000, dim))
    h = rng.normal(size=7_000)
    some = rng.choice(9_000, 50)
    want = dense(x[some], y, h, reg)
    kernel = LaplaceKernel(x, y, reg)
    np.testing.assert_allclose(kernel.at_x(h)[some], want[0], atol=1e-11)
    np.testing.assert_allclose(kernel.slope_x(h)[some], want[1], atol=1e-11)
