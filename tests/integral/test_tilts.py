"""Every tilt there and back, and which estimator is taken."""

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.integral import BoostSettings, ClippedRatioSettings
from privot.integral.learners import NetworkSettings, fit_log_ratio, pack, unpack
from privot.integral.references import CustomReference, StandardNormal

QUICK = NetworkSettings(hidden=(8,), steps=30, batch_size=64)
RECORDS = np.random.default_rng(0).normal(0.7, 0.6, (400, 1))
NORMAL = StandardNormal(1)
OWN = CustomReference(1, NORMAL.sample, NORMAL.log_density)
X = np.linspace(-4, 4, 200)[:, None]


@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        (ClippedRatioSettings(), NORMAL),
        (ClippedRatioSettings(normalizer="none"), NORMAL),
        (ClippedRatioSettings(estimator="mlp", normalizer="none", network=QUICK), NORMAL),
        (ClippedRatioSettings(estimator="trees", normalizer="none"), NORMAL),
        (ClippedRatioSettings(network=QUICK), OWN),
        (BoostSettings(network=QUICK), NORMAL),
        (BoostSettings(classifier="trees"), NORMAL),
    ],
)
def test_round_trip(settings, reference):
    tilt = settings.learn(RECORDS, reference, 1.0).tilt
    fields, arrays = pack(tilt)
    again = unpack(fields, arrays, reference)
    assert np.ptp(tilt(X)) > 0
    np.testing.assert_array_equal(again(X), tilt(X))


def test_an_unknown_kind_is_refused():
    with pytest.raises(PrivotError, match="kind of tilt is 'other'"):
        unpack({"kind": "other"}, {}, NORMAL)


def test_the_estimator_follows_the_reference():
    assert fit_log_ratio(RECORDS, NORMAL, "auto", QUICK, 0).kind == "spline"
    assert fit_log_ratio(RECORDS, OWN, "auto", QUICK, 0).kind == "classifiers"
    with pytest.raises(PrivotError, match="one continuous coordinate"):
        fit_log_ratio(RECORDS, OWN, "spline", QUICK, 0)
