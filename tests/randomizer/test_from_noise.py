"""Noise that is stated: it has its size, and promises what it has to."""

import numpy as np
import pytest

from labeled_images import records, schema_of
from privot.mechanisms import Gaussian, RandomizedResponse
from privot.mechanisms.additive_noise import choose_grid
from privot.privacy import gaussian_epsilon
from privot.randomizer import Randomizer, randomizer_from_noise


def test_noise_has_the_stated_size():
    """7 200 values: the deviation's own deviation is 0.83 %, and 6 of them are allowed, as of the mean.

    So the false-alarm rate is 2e-9 each.
    """
    schema = schema_of()
    clean = records(300)
    randomizer = randomizer_from_noise(schema, 2.0, 1e-5, shares={"label": 4.0})
    release = randomizer.privatize(clean, keep_order=True)
    units = clean["image"].reshape(300, -1) / 127.5 - 1
    noise = release.reports("image")[0] - units
    assert noise.std() == pytest.approx(2.0, rel=0.05)
    assert abs(noise.mean()) < 6 * 2 / np.sqrt(7200)


def test_an_image_and_its_label_promise_together_what_both_spend():
    schema = schema_of()
    randomizer = Randomizer(
        schema,
        {"image": Gaussian(2.0, choose_grid(2.0)), "label": RandomizedResponse(3, 1.5)},
        delta=1e-5,
    )
    diameter = 2 * np.sqrt(24)
    expected = gaussian_epsilon(2.0, diameter, 1e-5) + 1.5
    assert randomizer.guarantee.epsilon == pytest.approx(expected, rel=1e-6)
    assert randomizer.guarantee.epsilon >= expected
    assert randomizer.guarantee.delta == 1e-5
    assert randomizer_from_noise(schema, 2.0, 1e-5, shares={"label": 1.5}) == randomizer


def test_expected_noise_is_one_number():
    rows = randomizer_from_noise(schema_of(), 2.0, 1e-5, shares={"label": 4.0}).expected_noise()
    assert rows[0]["stddev"] == pytest.approx(2.0)
    assert "24 pixels" in rows[0]["in_words"]
