"""The published estimate for the square wave: its likelihood is right, and it finds what is there."""

import numpy as np
import pytest

from privot import PrivotError, Randomizer, Schema
from studies.rivals.square_wave_em import _likelihood, square_wave_em

SCHEMA = Schema.from_dict({"columns": {"value": {"kind": "numeric", "bounds": [0, 1]}}})


def test_likelihoods_add_up_and_agree_with_simulation():
    half, epsilon = 0.4, 1.5
    reports, numbers = np.linspace(-1.4, 1.4, 15), np.linspace(-1, 1, 8)
    likelihood = _likelihood(reports, numbers, half, epsilon)
    assert likelihood.sum(axis=0) == pytest.approx(np.ones(7))
    rng = np.random.default_rng(0)
    x = rng.uniform(numbers[2], numbers[3], 400_000)
    inside = rng.random(x.size) < 2 * half * np.exp(epsilon) / (2 * half * np.exp(epsilon) + 2)
    y = rng.uniform(-1.4, 1.4 - 2 * half, x.size)
    y = np.where(inside, x + rng.uniform(-half, half, x.size), y + 2 * half * (y > x - half))
    found = np.histogram(y, reports)[0] / x.size
    assert np.abs(found - likelihood[:, 2]).max() < 5 * np.sqrt(0.1 / x.size)


@pytest.mark.parametrize("smooth", [False, True])
def test_a_peak_is_found(smooth):
    truth = np.random.default_rng(0).normal(0.3, 0.05, 50_000).clip(0, 1)
    release = Randomizer.calibrate(SCHEMA, 2.0, mechanism="window").privatize({"value": truth})
    shares = square_wave_em(release, "value", 64, smooth)
    middle = (np.arange(64) + 0.5) / 64
    assert shares.sum() == pytest.approx(1)
    assert shares @ middle == pytest.approx(0.3, abs=0.02)


def test_other_reports_are_refused():
    release = Randomizer.calibrate(SCHEMA, 2.0, mechanism="laplace").privatize({"value": [0.5]})
    with pytest.raises(PrivotError, match="was reported by laplace"):
        square_wave_em(release, "value", 8, False)
