"""What rounds ask of images: nothing is longer or of another sign than promised, whatever they hold."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from central.declared_images import image_records
from privot.central.moments import (
    LEVELS,
    PRODUCT_RADIUS,
    LabeledProducts,
    PixelSums,
    ResidualProducts,
    nearest_component,
)
from privot.central.sums import NoisySums, contributions, noisy_sums, sensitivity

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
        LabeledProducts(IMAGES, norm),
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
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(PRODUCT_RADIUS, rel=0.01)
    coordinates = IMAGES.prepare(pixels).numpy()
    cosines = (vectors * coordinates).sum(1) / np.linalg.norm(coordinates, axis=1) / PRODUCT_RADIUS
    assert cosines.min() > 0.99


def test_moments_by_label_are_those_of_the_weighted_frequencies():
    query = LabeledProducts(IMAGES, 9.0)
    pixels, labels = torch.rand(60, 6, 5), torch.arange(60) % 3
    sums = contributions(query, arrays(pixels, labels)).sum(axis=0)
    found = query.moments(noisy_sums(query, sums, 29.0))
    waves = IMAGES.prepare(pixels).double().numpy() * (1 + IMAGES.squared_frequencies / 4) ** 0.25
    assert np.linalg.norm(waves, axis=1).max() < 9
    assert found.counts == pytest.approx([20, 20, 20])
    for label in range(3):
        # Each frequency was rounded towards zero by less than a unit.
        own = waves[labels.numpy() == label].sum(axis=0)
        assert np.abs(found.sums[label] - own).max() <= 20 * query.unit
    assert np.abs(found.products - waves.T @ waves).max() <= 60 * 2 * 9 * query.unit


def test_errors_of_moments_by_label_are_in_the_units_of_frequencies():
    """Of 27 + 9 and 9 numbers times 400: deviations within 6 of their own, a false alarm in 10⁸ runs."""
    query = LabeledProducts(IMAGES, 2.0)
    width = query.width
    noise = RNG.standard_normal((400, width, width)) * 1e6
    noise = np.where(np.eye(width, dtype=bool), noise, noise / np.sqrt(2))
    many = [query.moments(NoisySums(each[None], 1e6)) for each in noise]
    for values, error in (
        (np.array([each.sums for each in many]), many[0].sum_error),
        (np.array([np.diag(each.products) for each in many]), many[0].product_error),
    ):
        limit = 6 / np.sqrt(2 * values.size)
        assert values.std() / error == pytest.approx(1, abs=limit)


@given(seed=st.integers(0, 2**32), norm=st.floats(0.01, 6))
def test_products_by_label_of_two_images_differ_by_at_most_the_sensitivity(seed, norm):
    query = LabeledProducts(IMAGES, norm)
    added = contributions(query, arrays(*records(seed))).astype(np.float64)
    apart = np.linalg.norm(added[:20] - added[20:], axis=1)
    assert apart.max() <= sensitivity(query)


def test_two_images_come_near_the_sensitivity():
    """Bright above and bright below, of two labels: their frequencies are nearly orthogonal."""
    query = LabeledProducts(IMAGES, 1.0)
    pixels = torch.zeros(2, 6, 5)
    pixels[0, 0, 0] = pixels[1, 5, 4] = 1.0
    added = contributions(query, arrays(9 * pixels, torch.arange(2))).astype(np.float64)
    assert np.linalg.norm(added[0] - added[1]) > 0.7 * sensitivity(query)
