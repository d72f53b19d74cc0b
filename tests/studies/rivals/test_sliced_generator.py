"""The sliced generator without privacy learns what is bright, label by label."""

import numpy as np
import torch

from studies.rivals.image_generator import ImageGenerator
from studies.rivals.published_slices import with_label
from studies.rivals.sliced_generator import SlicedGeneratorSettings, fit_sliced_generator


def test_draws_follow_labels_and_seeds_repeat():
    labels = np.arange(200) % 10
    images = np.where(labels[:, None] % 2 == 1, 0.9, 0.1) * np.ones((200, 784))
    settings = SlicedGeneratorSettings(
        steps=40, images_a_label=5, num_projections=50, learning_rate=1e-2
    )
    generator = fit_sliced_generator(images, labels, settings, seed=0)
    wanted = torch.tensor([0, 1] * 20)
    drawn = generator.sample(wanted).reshape(20, 2, 784).mean(axis=(0, 2))
    assert drawn[1] - drawn[0] > 0.2
    assert np.array_equal(generator.sample(wanted, 3), generator.sample(wanted, 3))


def test_the_label_is_appended_with_its_weight():
    record = with_label(torch.zeros(2, 784), torch.tensor([3, 9]), 5.0)
    assert record.shape == (2, 794)
    assert record[0, 784 + 3] == record[1, 793] == 5.0
    assert float(record.sum()) == 10.0


def test_size_of_the_published_generator():
    weights = sum(p.numel() for p in ImageGenerator().parameters())
    assert 150_000 < weights < 190_000
    images = ImageGenerator().sample(torch.arange(10))
    assert images.shape == (10, 784)
    assert 0 <= images.min() <= images.max() <= 1
