"""Every way to fit a tilted density keeps the same law."""

import pytest

from laws.tilted import TiltedLaws
from privot.integral import BoostSettings, ClippedRatioSettings, boost, clip_ratio
from privot.integral.learners import NetworkSettings
from privot.integral.references import CustomReference

QUICK = NetworkSettings(hidden=(16, 16), steps=25, batch_size=256, learning_rate=0.03)


@pytest.fixture(scope="module", autouse=True)
def _few_trees():
    """Thirty trees a classifier, instead of a hundred: laws of their sum hold for any number."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot.integral.learners.MOST_TREES", 30)
        yield


class TestBoostedNetworks(TiltedLaws):
    def fit(self, records, reference, epsilon):
        return boost(records, reference, epsilon, BoostSettings(rounds=2, network=QUICK))


class TestBoostedTrees(TiltedLaws):
    def fit(self, records, reference, epsilon):
        pytest.importorskip("sklearn")
        settings = BoostSettings(rounds=2, classifier="trees", normalizer="none")
        return boost(records, reference, epsilon, settings)


class TestClippedNetwork(TiltedLaws):
    def fit(self, records, reference, epsilon):
        return clip_ratio(records, reference, epsilon, ClippedRatioSettings(network=QUICK))


class TestClippedTrees(TiltedLaws):
    def fit(self, records, reference, epsilon):
        pytest.importorskip("sklearn")
        settings = ClippedRatioSettings(estimator="trees", normalizer="none")
        return clip_ratio(records, reference, epsilon, settings)


class TestUnnormalized(TiltedLaws):
    def fit(self, records, reference, epsilon):
        settings = ClippedRatioSettings(network=QUICK, normalizer="none")
        return clip_ratio(records, reference, epsilon, settings)


class TestEstimatedNormalizer(TiltedLaws):
    def fit(self, records, reference, epsilon):
        settings = ClippedRatioSettings(
            network=QUICK, normalizer="estimated", normalizer_draws=2**17, delta=1e-6
        )
        return clip_ratio(records, reference, epsilon, settings)

    def test_it_states_its_delta(self, opposites):
        assert all(density.delta == 1e-6 for density in opposites)


class TestOwnReference(TiltedLaws):
    """A reference that offers nothing but a sampler and a density."""

    def fit(self, records, reference, epsilon):
        own = CustomReference(2, reference.sample, reference.log_density)
        return clip_ratio(records, own, epsilon, ClippedRatioSettings(network=QUICK))
