"""What images are drawn from: bounds, means and variances that were asked for, and files."""

import numpy as np
import pytest
import torch

from central.declared_images import image_records
from privot.central.mixtures import DITHER, ImageMixture

IMAGES = image_records((4, 4), num_labels=2, degree=1)
LOW = image_records((4, 4), num_labels=2, low_pass=4, degree=1)
COUNTS = np.array([[300.0, 100.0], [50.0, 50.0]])


def law(spread=0.05):
    rng = np.random.default_rng(0)
    means = rng.uniform(0.2, 0.8, (2, 2, 16))
    roots = np.sqrt(spread) * np.stack([np.eye(16)] * 2)
    return means, ImageMixture.of(IMAGES, means, COUNTS, LOW, roots)


def test_draws_have_the_means_and_variances_of_their_label():
    means, mixture = law()
    assert mixture.shares.tolist() == pytest.approx([0.8, 0.2])
    labels = torch.arange(20_000) % 2
    drawn = mixture.values(labels, torch.Generator().manual_seed(0)).flatten(1).numpy()
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    for label in (0, 1):
        own = drawn[labels == label]
        weights = COUNTS[label] / COUNTS[label].sum()
        mean = weights @ means[label]
        between = weights @ (means[label] - mean) ** 2
        assert own.mean(axis=0) == pytest.approx(mean, abs=0.02)
        expected = 0.05 + between + DITHER**2
        assert own.var(axis=0).sum() == pytest.approx(expected.sum(), rel=0.06)


def test_dark_pixels_stay_dark():
    means = np.full((2, 2, 16), 0.005)
    means[:, :, :4] = 0.5
    mixture = ImageMixture.of(IMAGES, means, COUNTS, LOW, np.stack([0.5 * np.eye(16)] * 2))
    drawn = mixture.values(torch.zeros(4000).long(), torch.Generator().manual_seed(0)).flatten(1)
    assert drawn[:, 4:].mean() < 0.05
    assert drawn[:, :4].var(dim=0).mean() > 0.15


def test_written_and_built_again():
    mixture = law()[1]
    again = ImageMixture.build(IMAGES, mixture.fields(), mixture.arrays())
    labels = torch.arange(6) % 2
    one, other = (
        each.values(labels, torch.Generator().manual_seed(1)) for each in (mixture, again)
    )
    assert (one == other).all()
