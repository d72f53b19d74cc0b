"""Completing images within their bounds, with the moments that were learned."""

import numpy as np
import pytest

from privot.local import gaussians
from privot.local.gaussians import GaussianClasses, ImageCompletion, SmoothChannel
from privot.mechanisms.candidates.codebook import ClosestCandidates
from privot.mechanisms.candidates.features import Coordinates
from privot.schema import Schema


@pytest.fixture(scope="module")
def setting():
    """Dark images with strokes, whose Gaussian leaves the bounds."""
    text = '[columns.x]\nkind = "array"\nbounds = [0, 1]\nshape = [12, 12]'
    coordinates = Coordinates(Schema.from_toml(text).columns["x"], 20)
    rng = np.random.default_rng(0)
    images = np.full((2000, 12, 12), -1.0)
    for image, row in zip(images, rng.integers(2, 9, 2000), strict=True):
        image[row : row + 2, 2:10] = 1.0
    points = coordinates.encode(coordinates.column.domain.encode(images.reshape(2000, -1)))
    values, vectors = np.linalg.eigh(np.cov(points.T))
    factors = vectors[:, -8:] * np.sqrt(np.maximum(values[-8:], 0))
    channel = SmoothChannel.of(ClosestCandidates.for_dimension(20, 2.0), 0.0)
    law = GaussianClasses(
        channel, np.ones(1), np.zeros(1), points.mean(axis=0)[None], factors,
        np.full(points.shape[1], 1e-4),
    )  # fmt: skip
    return coordinates, law


def test_images_lie_within_bounds_and_near_the_cosines_drawn(setting):
    coordinates, law = setting
    found = ImageCompletion.of(law, coordinates, np.random.default_rng(0))
    labels = np.zeros(300, np.int64)
    points = law.draw_points(labels, np.random.default_rng(1))
    images = found.images(points, labels, np.random.default_rng(2))
    assert np.abs(images).max() <= 1
    blurred = coordinates.cosines.to_pixels(*coordinates.decode(points))
    assert np.abs(blurred).max() > 1.2
    together = (images - images.mean(axis=0)) * (blurred - blurred.mean(axis=0))
    assert together.mean() > 0.7 * blurred.std(axis=0).mean() * images.std(axis=0).mean()


def test_completed_images_keep_the_spread_that_was_learned(setting, monkeypatch):
    coordinates, law = setting
    labels = np.zeros(2000, np.int64)
    points = law.draw_points(labels, np.random.default_rng(1))
    wanted = coordinates.decode(points)[0].var(axis=0).sum()

    def spread():
        made = ImageCompletion.of(law, coordinates, np.random.default_rng(0))
        images = made.images(points, labels, np.random.default_rng(2))
        return coordinates.cosines.from_pixels(images)[0].var(axis=0).sum() / wanted

    corrected = spread()
    monkeypatch.setattr(gaussians, "_NUM_CORRECTIONS", 0)
    assert spread() < 0.8
    assert corrected == pytest.approx(1, abs=0.15)
