"""Gaussian classes: draws against the definition."""

import numpy as np
import pytest

from privot.local.gaussians import GaussianClasses, SmoothChannel
from privot.mechanisms.candidates.codebook import ClosestCandidates


def law(epsilon=8.0, missing=0.0):
    rng = np.random.default_rng(3)
    channel = SmoothChannel.of(ClosestCandidates.for_dimension(60, epsilon), 0.02)
    means = rng.standard_normal((3, 6)) * 0.3 + [0.6, 0, 0, 0, 0, 0]
    return GaussianClasses(
        channel, np.array([0.5, 0.3, 0.2]), np.full(3, missing), means,
        0.15 * rng.standard_normal((6, 2)), np.linspace(0.01, 0.04, 6),
    )  # fmt: skip


def untilted(classes, label, count=200_000):
    """z′ as the module defines it, by matrices."""
    rng = np.random.default_rng(4)
    mean, size = classes.means[label], classes.means.shape[1]
    covariance = classes.factors @ classes.factors.T + np.diag(classes.variances)
    direction = mean / np.linalg.norm(mean)
    flat = mean @ mean / (mean @ mean + np.trace(covariance))
    project = np.eye(size) - flat * np.outer(direction, direction)
    inner = project @ covariance @ project
    scale = (mean @ mean + np.trace(inner)) ** -0.5
    return scale * rng.multivariate_normal(mean, inner, count)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_points_have_the_tilted_law_on_the_sphere(label):
    classes = law()
    reference = untilted(classes, label)
    squared = (reference**2).sum(axis=1)
    assert squared.mean() == pytest.approx(1, abs=0.005)
    weight = classes.channel.tilt(squared)
    weight = np.minimum(weight, np.quantile(weight, 0.999))
    reference /= np.sqrt(squared)[:, None]
    mean = weight @ reference / weight.sum()
    around = reference - mean
    covariance = (around * weight[:, None]).T @ around / weight.sum()
    points = classes.draw_points(np.full(100_000, label), np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(points.mean(axis=0), mean, atol=0.004)
    np.testing.assert_allclose(np.cov(points.T), covariance, atol=0.002)
    # The tilt is there: without it, the law is another.
    assert np.abs(reference.mean(axis=0) - mean).max() > 0.006
    assert len(np.unique(points, axis=0)) == len(points)


def test_labels_and_missing_points_have_their_shares():
    classes, rng = law(missing=0.25), np.random.default_rng(0)
    labels = classes.draw_labels(40_000, rng)
    np.testing.assert_allclose(np.bincount(labels) / 40_000, classes.shares, atol=0.012)
    given = classes.draw_labels(1000, rng, [0, 2])
    assert set(given) == {0, 2}
    assert (given == 0).mean() == pytest.approx(5 / 7, abs=0.06)
    points = classes.draw_points(labels, rng)
    assert np.isnan(points).any(axis=1).mean() == pytest.approx(0.25, abs=0.01)
    assert classes.draw_points(labels[:0], rng).shape == (0, 6)
