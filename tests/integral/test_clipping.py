"""The clipped ratio: against the optimum for a known density, its window, its normalizer."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from privot.core.errors import PrivotError
from privot.integral import ClippedRatioSettings, clip_ratio
from privot.integral.references import CustomReference, StandardNormal

X = np.linspace(-6, 6, 6001)
STEP = X[1] - X[0]
REFERENCE = StandardNormal(1)


def clipped(ratio, records, epsilon, settings=None):
    """The density of a known log ratio, which is not learned from the records."""
    settings = settings or ClippedRatioSettings()
    return settings.clipped(settings.untilted(REFERENCE, epsilon), ratio, records)


class Mixture:
    """A known density: ½ N(−1, 0.5²) + ½ N(1.2, 0.7²)."""

    centers, spreads = np.array([-1.0, 1.2]), np.array([0.5, 0.7])

    def density(self, x):
        return norm.pdf(x[:, None], self.centers, self.spreads).mean(axis=1)

    def sample(self, num, seed):
        rng = np.random.default_rng(seed)
        which = rng.integers(0, 2, num)
        return rng.normal(self.centers[which], self.spreads[which])[:, None]

    def __call__(self, x):
        return np.log(self.density(x[:, 0])) - norm.logpdf(x[:, 0])

    def pack(self):
        raise NotImplementedError


def divergence(log_q):
    p = Mixture().density(X)
    return float((p * (np.log(p) - log_q)).sum() * STEP)


def normalized(density):
    log = density.log_unnormalized(X[:, None])
    return log - math.log(np.exp(log).sum() * STEP)


def optimum(epsilon, share):
    ratio = Mixture()(X[:, None])
    low = -share * epsilon

    def log_z(shift):
        q = norm.pdf(X) * np.exp(np.clip(ratio - shift, low, low + epsilon))
        return math.log(q.sum() * STEP)

    shift = brentq(log_z, -50, 50)
    return norm.logpdf(X) + np.clip(ratio - shift, low, low + epsilon)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("share", [0.2, 0.35, 0.5])
def test_a_known_ratio_gives_the_optimum(epsilon, share):
    settings = ClippedRatioSettings(floor_share=share)
    density = clipped(Mixture(), np.zeros((1, 1)), epsilon, settings)
    best = optimum(epsilon, share)
    assert divergence(normalized(density)) == pytest.approx(divergence(best), abs=2e-4)
    # Normalized as it stands, not only up to a constant.
    np.testing.assert_allclose(density.log_unnormalized(X[:, None]), best, atol=0.01)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_a_learned_ratio_comes_near_the_optimum(epsilon):
    density = clip_ratio(Mixture().sample(10_000, 0), REFERENCE, epsilon)
    assert divergence(normalized(density)) < divergence(optimum(epsilon, 0.5)) + 0.003


def test_half_the_width_is_worse_than_the_whole():
    ratio, records = Mixture(), Mixture().sample(2000, 1)
    whole = clipped(ratio, records, 1.0)
    half = clipped(ratio, records, 1.0, ClippedRatioSettings(normalizer="none"))
    assert half.high - half.low == 0.5
    assert divergence(normalized(half)) > 1.2 * divergence(normalized(whole))
    assert divergence(normalized(half)) < divergence(norm.logpdf(X)), "better than the reference"


def test_the_normalizer_is_what_it_is_said_to_be():
    """Exactly: the finite sum over cells of integer masses times integer coins."""
    density = clipped(Mixture(), np.zeros((1, 1)), 2.0)
    grid = density.reference
    middles = grid.centers()
    masses = [int(m) for m in grid.axes[0].masses]
    coins = [int(c) for c in density.coins(middles)]
    accepted = sum(m * c for m, c in zip(masses, coins)) / 2**127
    z = math.log(accepted) + density.high
    assert density.normalizer.low <= z <= density.normalizer.high
    assert density.normalizer.high == 1e-9


def test_an_estimated_normalizer_is_within_its_limits():
    settings = ClippedRatioSettings(normalizer="estimated", delta=1e-6, normalizer_draws=2**18)
    density = clipped(Mixture(), np.zeros((1, 1)), 2.0, settings)
    z = math.log((norm.pdf(X) * np.exp(density.log_tilt(X[:, None]))).sum() * STEP)
    assert density.normalizer.low <= z <= density.normalizer.high
    assert density.epsilon <= 2.0
    assert density.high - density.low < 2.0
    assert divergence(normalized(density)) < divergence(optimum(2.0, 0.35)) + 0.02


class Garbage:
    """A ratio that is no number anywhere, or the same everywhere."""

    def __init__(self, value):
        self.value = value

    def __call__(self, x):
        return np.full(len(x), self.value)

    def pack(self):
        raise NotImplementedError


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, 1e300])
@pytest.mark.parametrize("kind", ["exact", "none", "estimated"])
def test_a_ratio_without_information_gives_the_reference(value, kind):
    settings = ClippedRatioSettings(normalizer=kind, normalizer_draws=2**16, delta=0.01)
    density = clipped(Garbage(value), np.zeros((5, 1)), 1.0, settings)
    assert density.epsilon <= 1.0
    assert np.ptp(density.log_tilt(X[:, None])) == 0
    assert np.isfinite(density.draw(10)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "kernel"}, "estimator is 'kernel'"),
        ({"normalizer": "mcmc"}, "normalizer is 'mcmc'"),
        ({"floor_share": 1.0}, "floor_share 1.0"),
        ({"delta": 0.0}, "delta"),
        ({"normalizer_draws": 0}, "normalizer_draws 0"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(PrivotError, match=message):
        ClippedRatioSettings(**settings)


def test_what_cannot_be_done_is_refused():
    own = CustomReference(1, REFERENCE.sample, REFERENCE.log_density)
    records = np.zeros((10, 1))
    with pytest.raises(PrivotError, match="no grid"):
        clip_ratio(records, own, 1.0, ClippedRatioSettings(normalizer="exact"))
    with pytest.raises(PrivotError, match="one continuous coordinate"):
        clip_ratio(records, own, 1.0, ClippedRatioSettings(estimator="spline"))
    with pytest.raises(PrivotError, match="are too few for epsilon"):
        settings = ClippedRatioSettings(normalizer="estimated", normalizer_draws=100)
        clip_ratio(records, REFERENCE, 0.1, settings)
    with pytest.raises(PrivotError, match="below 1e-06"):
        clip_ratio(records, REFERENCE, 1e-9)
