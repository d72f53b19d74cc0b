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
    settings = BoostSettings(**{"network": QUICK} | settings)
    return boost(records(), StandardNormal(1), epsilon, settings)


@pytest.mark.parametrize("rounds", [1, 3, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_coefficients(epsilon, rounds):
    exact, published = (coefficients(epsilon, rounds, kind) for kind in ("exact", "published"))
    assert sum(exact) == pytest.approx(epsilon / (4 * math.log(2)))
    ratio = epsilon / (epsilon + 4 * math.log(2))
    assert published == pytest.approx([ratio**t for t in range(1, rounds + 1)])
    assert sum(published) < sum(exact)
    np.testing.assert_allclose(np.diff(np.log(exact)), np.log(ratio))


def test_exact_coefficients_spend_epsilon_and_published_ones_less():
    exact, published = (
        boosted(8.0, classifier="mlp"),
        boosted(8.0, coefficients="published", network=UNTRAINED),
    )
    assert exact.epsilon == 8.0
    spent = 4 * BOUND * sum(coefficients(8.0, 3, "published"))
    assert published.epsilon == pytest.approx(spent)
    assert published.epsilon < 4.8
    assert published.acceptance_floor > exact.acceptance_floor == pytest.approx(math.exp(-4))


@pytest.mark.parametrize("classifier", ["mlp", "trees"])
def test_classifiers_are_bounded_by_construction(classifier):
    """Far from any record as well, and whatever ε is."""
    if classifier == "trees":
        pytest.importorskip("sklearn")
    density = boosted(2.0, classifier=classifier)
    x = np.array([[-1e6], [-3.0], [0.0], [1.0], [1e6]])
    for member in density.tilt.members:
        assert np.abs(member(x)).max() <= BOUND
    assert np.abs(density.tilt(x)).max() <= 0.5 * (1 + 1e-12)


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
    assert divergence(8.0) < 0.6 * divergence(2.0) < 0.6 * 0.9 * reference


def test_edges_are_those_of_records_and_fresh_draws():
    """γ_Q beside quadrature, within six standard errors of its draws; rounds get harder."""
    density = boosted(8.0, classifier="mlp")
    q = norm.pdf(X)
    for theta, member, edge in zip(
        density.tilt.coefficients, density.tilt.members, density.tilt.edges, strict=True
    ):
        c = member(X[:, None])
        assert edge.gamma_p == pytest.approx(member(records()).mean() / BOUND, abs=1e-12)
        assert edge.gamma_q == pytest.approx(-(q * c).sum() / q.sum() / BOUND, abs=0.066)
        q *= np.exp(theta * c)
    first, *_, last = density.tilt.edges
    assert first.gamma_p + first.gamma_q > last.gamma_p + last.gamma_q > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds 0"),
        ({"coefficients": "other"}, "coefficients is 'other'"),
        ({"classifier": "forest"}, "classifier is 'forest'"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(PrivotError, match=message):
        BoostSettings(**settings)
