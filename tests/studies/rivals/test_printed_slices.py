"""Slices at a printed noise: records of norm ½ at most, and a generator that follows means by label."""

import numpy as np
import torch

from studies.rivals.printed_slices import PrintedSlicesSettings, fit_printed_slices


def test_records_have_norm_one_half_at_most_and_keep_how_bright_an_image_is():
    images = torch.tensor([[0.1], [0.5]]) * torch.ones(2, 784)
    labels = torch.tensor([0, 1])
    dark, middle = PrintedSlicesSettings(cut=14.0).records(images, labels).norm(dim=1)
    assert torch.isclose(dark, torch.tensor(0.5 * 2.8 / 14))
    assert torch.isclose(middle, torch.tensor(0.5))
    appended = PrintedSlicesSettings(by_label=False).records(images, labels)
    assert appended.shape == (2, 794)
    assert torch.allclose(appended.norm(dim=1), torch.tensor(0.5))


def test_by_label_follows_labels_that_differ_in_brightness():
    """Even labels have pixels of .05, odd ones of .3: six seeds draw .02 to .05, and .30 to .32."""
    labels = np.arange(300) % 10
    images = np.where(labels[:, None] % 2 == 1, 0.3, 0.05) * np.ones((300, 784))
    settings = PrintedSlicesSettings(
        stddev=0.01,
        steps=200,
        batch_size=20,
        num_projections=50,
        learning_rate=5e-3,
        averaging=0.9,
    )
    generator = fit_printed_slices(images, labels, settings, seed=0)
    drawn = generator.sample(torch.tensor([0, 1] * 20)).reshape(20, 2, 784)
    dark, bright = drawn.mean(axis=(0, 2))
    assert dark < 0.12
    assert 0.2 < bright < 0.4
