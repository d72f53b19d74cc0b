"""Factorized sums against sums over the matrix: every one within the accuracy promised."""

import numpy as np
import pytest
from scipy.special import logsumexp

from studies.full_batch import gaussian_kernel
from studies.full_batch.gaussian_kernel import GaussianKernel


def dense(x, y, h, reg):
    gaps = x[:, None] - y[None]
    scores = h - (gaps**2).sum(axis=2) / reg
    sums = logsumexp(scores, axis=1)
    return sums, 2 * np.einsum("ij,ijk->ik", np.exp(scores - sums[:, None]), gaps)


def rounding(x, y, reg):
    return 1e-11 + 20 * 2.0**-53 * (np.abs(np.vstack([x, y])).max() ** 2 * 8 / reg)


@pytest.fixture(params=["as it chooses", "grid", "direct"])
def route(request, monkeypatch):
    """What computes the sums: small clouds would otherwise never see the grid."""
    if request.param == "grid":
        monkeypatch.setattr(gaussian_kernel, "_ENTRY", 0.0)
        monkeypatch.setattr(gaussian_kernel, "_POINT", 0.0)
    if request.param == "direct":
        monkeypatch.setattr(gaussian_kernel, "_CUTS", ())
    return request.param


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("reg", [1e-6, 0.02, 0.3, 2.0, 50.0, 1e6])
def test_sums_and_slopes_are_those_of_the_matrix(route, dim, reg):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(230, dim)) * 2 + 7, rng.normal(size=(170, dim))
    y[:20] = y[20:40]
    at_x, at_y = rng.normal(size=170) * 3, rng.normal(size=230) * 3
    kernel = GaussianKernel(x, y, reg, accuracy=1e-8)
    for found, slope, want in (
        (kernel.at_x(at_x), kernel.slope_x(at_x), dense(x, y, at_x, reg)),
        (kernel.at_y(at_y), kernel.slope_y(at_y), dense(y, x, at_y, reg)),
    ):
        tolerance = 1e-8 + rounding(x, y, reg)
        np.testing.assert_allclose(found, want[0], rtol=0, atol=tolerance)
        np.testing.assert_allclose(slope, want[1], rtol=0, atol=100 * tolerance * (1 + reg**0.5))


def test_the_bound_is_not_idle():
    """Where clouds lie within reach of each other, the first grid serves every point."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3000, 2)), rng.normal(size=(2000, 2)) * 2
    kernel = GaussianKernel(x, y, reg=2.0)
    kernel.at_x(np.zeros(2000))
    kernel.at_y(np.zeros(3000))
    assert kernel._grids[0].width == gaussian_kernel._CUTS[0][0]
    assert not kernel._direct


@pytest.mark.parametrize("reg", [1e-4, 1.0])
def test_far_outliers_and_large_clouds(reg):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(9_000, 2)), rng.normal(size=(7_000, 2))
    x[0], y[0] = 1e3, -1e4
    h = rng.normal(size=7_000)
    h[0] = 1e4
    some = np.append(rng.choice(9_000, 40), 0)
    kernel = GaussianKernel(x, y, reg)
    np.testing.assert_allclose(
        kernel.at_x(h)[some], dense(x[some], y, h, reg)[0], rtol=1e-9, atol=2e-6
    )


@pytest.mark.parametrize("reg", [1e-3, 1.0, 1e5])
def test_identical_and_collinear_points(route, reg):
    x, y = np.full((30, 2), 3.0), np.linspace(0, 1, 40)[:, None] * np.array([[1.0, 2.0]])
    for a, b in ((x, x), (x, y), (y, x), (y, y)):
        h = np.zeros(len(b))
        sums, slopes = dense(a, b, h, reg)
        kernel = GaussianKernel(a, b, reg)
        np.testing.assert_allclose(kernel.at_x(h), sums, atol=2e-6)
        np.testing.assert_allclose(kernel.slope_x(h), slopes, atol=1e-4 * (1 + reg**0.5))
