"""DP-MERF: its sensitivity by search, its noise by measurement, and that it learns classes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from privot.core.errors import PrivotError
from privot.privacy.curves import gaussian_epsilon
from studies.rivals.dp_merf import (
    DPMERFSettings,
    fit_dp_merf,
    mean_record,
    noisy_mean,
)

SMALL = DPMERFSettings(num_frequencies=50, bandwidth=2.0, steps=3, batch_size=20)


def _images(count):
    rng = np.random.default_rng(0)
    return rng.random((count, 784), dtype=np.float32), np.arange(count) % 10


@pytest.mark.parametrize(
    ("settings", "attained"), [(SMALL, 0.95), (replace(SMALL, features="tangent"), 0.9)]
)
def test_replacing_one_record_moves_the_mean_by_the_stated_sensitivity_at_most(settings, attained):
    """At most 2/n, over replacements of image and label; nearly attained by antipodal features."""
    images, labels = _images(20)
    features = settings.embedding(784, seed=0)
    y = torch.from_numpy(labels)
    before = mean_record(torch.from_numpy(images), y, features)
    rng = np.random.default_rng(1)
    moves = []
    for scale in (0.01, 1.0, 100.0):
        for label in range(10):
            other, others = images.copy(), y.clone()
            other[0] = scale * rng.random(784)
            others[0] = label
            after = mean_record(torch.from_numpy(other), others, features)
            moves.append(float((after - before).norm()))
    assert max(moves) <= 2.0 / 20 + 1e-12
    assert max(moves) > attained * 2 / 20


def test_the_mean_holds_shares():
    images, labels = _images(40)
    features = SMALL.embedding(784, seed=0)
    mean = mean_record(torch.from_numpy(images), torch.from_numpy(labels), features)
    assert torch.allclose(mean[:, -1], torch.full((10,), 0.1, dtype=torch.float64))


def test_the_noise_is_the_least_that_keeps_the_promise():
    exact = torch.zeros(10, 2001, dtype=torch.float64)
    released, stddev = noisy_mean(exact, 1000, 2.0, 1e-5)
    assert gaussian_epsilon(stddev, 2 / 1000, 1e-5) <= 2.0
    assert gaussian_epsilon(0.99 * stddev, 2 / 1000, 1e-5) > 2.0
    # 20 010 draws: the deviation of their spread is half a percent; 6 of them are allowed.
    assert abs(float(released.std()) / stddev - 1) < 0.03
    assert abs(float(released.mean())) < 6 * stddev / np.sqrt(20_010)


def test_it_learns_the_mean_of_a_class():
    """Dark zeros and bright ones: draws of the labels follow."""
    labels = np.arange(400) % 10
    images = np.where(labels[:, None] % 2 == 1, 0.9, 0.1) * np.ones((400, 784), np.float32)
    settings = DPMERFSettings(num_frequencies=50, bandwidth=8.0, steps=60, batch_size=50)
    fitted = fit_dp_merf(images.astype(np.float32), labels, 50.0, 1e-3, settings, seed=0)
    drawn = fitted.generator.sample(torch.tensor([0, 1] * 20)).reshape(20, 2, 784).mean(axis=(0, 2))
    assert drawn[1] - drawn[0] > 0.3
    assert fitted.guarantee.neighboring == "replace_one"


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (np.zeros((4, 784), np.float32), np.zeros(3, int), "do not fit"),
        (np.zeros((4, 784), np.float32), np.full(4, 10), "out of range"),
        (np.full((4, 784), np.nan, np.float32), np.zeros(4, int), "out of range"),
    ],
)
def test_bad_input_is_refused(images, labels, words):
    with pytest.raises(PrivotError, match=words):
        fit_dp_merf(images, labels, 1.0, 1e-5, SMALL)
