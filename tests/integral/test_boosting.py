"""Boosting: coefficients that spend ε, classifiers that are bounded, densities that come nearer."""

import functools
import math

import numpy as np
import pytest
from scipy.stats import norm

from privot.core.errors import PrivotError
from privot.integral import BoostSettings, boost
from privot.integral.learners import NetworkSettings
from privot.integral.methods import BOUND, coefficients
from privot.integral.references import StandardNormal

QUICK = NetworkSettings(hidden=(16,), steps=60, batch_size=256)
UNTRAINED = NetworkSettings(hidden=(2,), steps=1, batch_size=8)
X = np.linspace(-6, 6, 2001)


def records(num=2000):
    return np.random.default_rng(0).normal(1.0, 0.5, (num, 1))


@pytest.fixture(scope="module", autouse=True)
def _few_trees():
    """Twenty trees a classifier, instead of a hundred: bounds hold for any number."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot.integral.learners.MOST_TREES", 20)
        yield


@functools.cache
def boosted(epsilon, **settings):
    """One fit for all tests that look at it."""
    settings = BoostSettings(**{"network": QUICK, "rounds": 3} | settings)
    return boost(records(), StandardNormal(1), epsilon, settings)


@pytest.mark.parametrize("rounds", [1, 3, 7])
@pytest.mark.parametrize("limit", [0.1, 1.0, 10.0])
def test_coefficients(limit, rounds):
    thetas = coefficients(limit, rounds)
    assert sum(thetas) * math.log(2) == pytest.approx(limit)
    np.testing.assert_allclose(np.diff(np.log(thetas)), np.log(limit / (limit + math.log(2))))


def test_the_normalizer_is_known_where_there_is_a_grid():
    """All of ε is width; half of it without a normalizer."""
    known, unknown = boosted(2.0), boosted(2.0, normalizer="none", network=UNTRAINED)
    assert known.high - known.low == pytest.approx(2.0, abs=1e-8)
    assert known.normalizer.delta == 0
    assert unknown.high - unknown.low == 1.0
    assert max(known.epsilon, unknown.epsilon) <= 2.0


@pytest.mark.parametrize("classifier", ["mlp", "trees"])
def test_classifiers_are_bounded_by_construction(classifier):
    """Far from any record as well, and whatever ε is."""
    if classifier == "trees":
        pytest.importorskip("sklearn")
    settings = BoostSettings(rounds=3, classifier=classifier, network=QUICK)
    tilt = settings.log_ratio(records(), StandardNormal(1), 2.0)
    x = np.array([[-1e6], [-3.0], [0.0], [1.0], [1e6]])
    for member in tilt.members:
        assert np.abs(member(x)).max() <= BOUND
    assert np.abs(tilt(x)).max() <= 2.0 * (1 + 1e-12)


@pytest.mark.parametrize("classifier", ["mlp", "trees"])
def test_it_comes_nearer(classifier):
    if classifier == "trees":
        pytest.importorskip("sklearn")
    p = norm.pdf(X, 1.0, 0.5)

    def divergence(epsilon):
        density = boosted(epsilon, classifier=classifier)
        log = density.log_unnormalized(X[:, None])
        log -= math.log(np.exp(log).sum() * 0.006)
        return (p * (norm.logpdf(X, 1.0, 0.5) - log)).sum() * 0.006

    reference = (p * (norm.logpdf(X, 1.0, 0.5) - norm.logpdf(X))).sum() * 0.006
    assert divergence(2.0) < 0.6 * divergence(0.5) < 0.6 * 0.9 * reference


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds 0"),
        ({"normalizer": "mcmc"}, "normalizer is 'mcmc'"),
        ({"classifier": "forest"}, "classifier is 'forest'"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(PrivotError, match=message):
        BoostSettings(**settings)
