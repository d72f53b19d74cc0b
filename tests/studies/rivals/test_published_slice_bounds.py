"""The published bounds: their formulas, where they hold, and where the normal one does not."""

import numpy as np
import pytest
from scipy import stats

from privot.core.errors import PrivotError
from privot.privacy.slice_accounting import SlicedAccounting
from studies.rivals.published_slice_bounds import (
    published_bernstein,
    published_clt,
    published_stddev,
)


def squared_lengths(dim, k, draws):
    rng = np.random.default_rng(3)
    return rng.beta(0.5, (dim - 1) / 2, size=(draws, k)).sum(axis=1)


def test_formulas():
    log_odds = np.log(1e4)
    root = np.sqrt(200 * 783 / 786 * log_odds)
    expected = 200 / 784 + 2 / 3 * log_odds + 2 / 784 * root
    assert published_bernstein(784, 200, 1e-4) == pytest.approx(expected)
    expected = 200 / 784 + stats.norm.isf(1e-4) / 784 * np.sqrt(2 * 200 * 783 / 786)
    assert published_clt(784, 200, 1e-4) == pytest.approx(expected)


def test_bernstein_holds_and_the_normal_quantile_is_exceeded_too_often():
    draws = squared_lengths(784, 10, 200_000)
    assert (draws > published_bernstein(784, 10, 1e-3)).mean() == 0.0
    exceeded = (draws > published_clt(784, 10, 1e-3)).sum()
    # Expected 200 if it were the quantile; its own 5 standard deviations are 70.
    assert exceeded > 270


def test_the_recipes_noise_lies_above_the_exact_one():
    mnist = SlicedAccounting(784, 1000, 60_000, 100, radius=0.5)
    exact = mnist.calibrate(10.0, 1e-5, 60_000)
    clt = published_stddev(mnist, "clt", 10.0, 1e-5, 60_000)
    bernstein = published_stddev(mnist, "bernstein", 10.0, 1e-5, 60_000)
    assert exact < clt < bernstein
    # The paper's table has 0.84 for the first; it converts Rényi curves less tightly.
    assert clt == pytest.approx(0.84, abs=0.02)


def test_refusals():
    frames = SlicedAccounting(20, 5, 100, 10, orthonormal=True)
    with pytest.raises(PrivotError, match="independent directions"):
        published_stddev(frames, "clt", 1.0, 1e-5, 10)
    with pytest.raises(PrivotError, match="delta is 0"):
        published_clt(5, 5, 0.0)
