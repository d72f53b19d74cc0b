"""Sums on the grid are as accurate as they claim, or say that they are not."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from studies.full_batch.chebyshev_grid import Axis, Grid, product


def dense(x, y, h):
    gaps = x[:, None] - y[None]
    scores = h - (gaps**2).sum(axis=2) / 2
    sums = logsumexp(scores, axis=1)
    return sums, np.einsum("ij,ijk->ik", np.exp(scores - sums[:, None]), gaps)


def on_grid(x, y, h, cut, accuracy):
    """Log-sums, mean gaps, and which sums missed."""
    grids = [Grid(points, *cut) for points in (x, y)]
    centers = zip(grids[0].centers, grids[1].centers)
    axes = [Axis.between(*both, *cut) for both in centers]
    sums, gaps = np.empty(len(x)), np.empty((len(x), 2))
    missed = product(*grids, axes, h, accuracy, True, sums, gaps)
    return sums, gaps, missed


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(2.5, 8), (1.5, 16), (0.75, 16), (0.5, 12)]),
    st.floats(0.05, 8.0),
    st.floats(0.0, 20.0),
    st.floats(0.0, 12.0),
    st.sampled_from([1e-10, 1e-6, 1e-3]),
)
def test_no_sum_is_silently_inaccurate(seed, cut, scale, gap, tilt, accuracy):
    """Distant clouds, curved clouds, steep weights."""
    rng = np.random.default_rng(seed)
    x, y = scale * rng.normal(size=(60, 2)), scale * rng.normal(size=(50, 2))
    x[:, 1] += np.abs(x[:, 0]) ** 1.5
    x[:, 0] += gap
    h = rng.normal(size=50) + tilt * y[:, 0]
    sums, gaps, missed = on_grid(x, y, h, cut, accuracy)
    want, want_gaps = dense(x, y, h)
    np.testing.assert_allclose(sums[~missed], want[~missed], rtol=1e-13, atol=2 * accuracy)
    np.testing.assert_allclose(gaps[~missed], want_gaps[~missed], atol=1e3 * accuracy)


def test_coarse_grids_do_miss():
    """The property above has something to catch: sums that a coarse grid gets wrong."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 2)) * 3 + 5, rng.normal(size=(200, 2)) * 3
    h = 6 * y[:, 0]
    _, _, missed = on_grid(x, y, h, (2.5, 8), 1e-6)
    raw, _, _ = on_grid(x, y, h, (2.5, 8), np.inf)
    wrong = ~(np.abs(raw - dense(x, y, h)[0]) <= 2e-6)
    assert wrong.any()
    assert missed[wrong].all()


def test_fine_grids_serve_every_point():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3000, 2)), rng.normal(size=(2000, 2)) * 2
    sums, _, missed = on_grid(x, y, np.zeros(2000), (1.5, 16), 1e-6)
    assert not missed.any()
    np.testing.assert_allclose(sums, dense(x, y, np.zeros(2000))[0], atol=1e-8)
