"""CORAL with noisy moments: a shift of all records is undone."""

import numpy as np
import pytest

from privot.central.classifiers.adapted import AdaptationSettings, as_records
from studies.rivals.coral import aligned, fit_coral

SETTINGS = AdaptationSettings(
    epsilon=10.0, unit="record", directions=2, jitter=0.0, feature_dim=8, channels=(), hidden=(16,)
)


def domains(count):
    """Two classes along the first axis; the target is moved along it by half their distance."""
    rng = np.random.default_rng(0)
    y = np.arange(count) % 2
    source = 3.0 * np.eye(4)[0] * y[:, None] + 0.3 * rng.standard_normal((count, 4))
    target = 3.0 * np.eye(4)[0] * (y[:, None] - 0.5) + 0.3 * rng.standard_normal((count, 4))
    return source, y, target


def test_the_source_is_moved_to_the_target():
    source, y, target = domains(6000)
    moved, plan = aligned(source, target, SETTINGS)
    assert moved.mean(axis=0) == pytest.approx(target.mean(axis=0), abs=0.1)
    assert plan.guarantee.epsilon <= 10.0
    assert plan.guarantee.neighboring == "replace_one"
    classifier, guarantee = fit_coral(source, y, target, SETTINGS, steps=200)
    found = classifier.classes(as_records("x", target)).numpy()
    assert (found == y).mean() > 0.9
    assert guarantee == plan.guarantee
