"""What rounds ask of images: nothing is longer or of another sign than promised, whatever they hold."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from central.declared_images import image_records
from privot.central.moments import (
    LENGTH,
    LEVELS,
    PixelSums,
    ResidualProducts,
    nearest_component,
)

IMAGES = image_records((6, 5), num_labels=3, low_pass=3, degree=1)
RNG = np.random.default_rng(0)
CENTERS = RNG.standard_normal((3, 4, 9))


def arrays(*tensors):
    return tuple(tensor.numpy() for tensor in tensors)


def records(seed, count=40):
    rng = torch.Generator().manual_seed(seed)
    scale = 10.0 ** torch.randint(-30, 30, (count, 1, 1), generator=rng)
    pixels = torch.randn(count, 6, 5, generator=rng) * scale
    pixels[::2] = torch.rand(count, 6, 5, generator=rng)[::2]
    return pixels, torch.randint(3, (count,), generator=rng)


@given(seed=st.integers(0, 2**32), norm=st.floats(0.01, 6))
def test_vectors_keep_their_bounds(seed, norm):
    for query in (
        PixelSums(IMAGES, CENTERS, norm),
        ResidualProducts(IMAGES, CENTERS, IMAGES, RNG.standard_normal((12, 9)), norm),
    ):
        slots, vectors = query.answer(arrays(*records(seed)))
        assert vectors.shape == (40, query.width)
        assert ((slots >= 0) & (slots < query.slots)).all()
        assert np.square(vectors.astype(object)).sum(axis=1).max() <= query.radius**2
        assert query.moment == 2 or vectors.min() >= 0


def test_images_go_to_the_nearest_center_of_their_label():
    pixels, labels = torch.rand(30, 6, 5), torch.arange(30) % 3
    nearest = nearest_component(CENTERS, IMAGES.prepare(pixels), labels)
    for place, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        own = CENTERS[label] - IMAGES.prepare(image[None]).numpy()
        assert nearest[place] == 4 * label + np.linalg.norm(own, axis=1).argmin()


def test_short_images_are_summed_as_they_are():
    query = PixelSums(IMAGES, CENTERS, 6.0)
    pixels = torch.rand(20, 6, 5)
    vectors = query.answer(arrays(pixels, torch.zeros(20, dtype=torch.int64)))[1]
    assert np.abs(vectors[:, :-1] / LEVELS - pixels.flatten(1).numpy()).max() <= 1 / LEVELS
    assert (vectors[:, -1] == query.one).all()


def test_long_residuals_keep_their_direction():
    means = np.zeros((12, 9))
    query = ResidualProducts(IMAGES, CENTERS, IMAGES, means, 0.5)
    pixels = torch.rand(20, 6, 5) * 0.5 + 0.5
    vectors = query.answer(arrays(pixels, torch.zeros(20, dtype=torch.int64)))[1]
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(LENGTH, rel=0.01)
    coordinates = IMAGES.prepare(pixels).numpy()
    cosines = (vectors * coordinates).sum(1) / np.linalg.norm(coordinates, axis=1) / LENGTH
    assert cosines.min() > 0.99
