"""Moments of classes, what noise leaves of their differences, and the map between Gaussians."""

import numpy as np
import pytest

from privot.central.classifiers.adaptation import ClassMoments, gaussian_map, transported


def domain(count=4000, shift=0.0, stretch=1.0, seed=0):
    """Two classes in five dimensions; the first coordinate is moved, the second stretched."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 2
    x = rng.standard_normal((count, 5)) * [1.0, 0.8, 0.6, 0.4, 0.2] + 3.0 * y[:, None]
    x[:, 1] = 3.0 * y + stretch * (x[:, 1] - 3.0 * y)
    return x + shift * np.eye(5)[0], y


def told_of(source, x, y, error=0.0, seed=0):
    """Moments of a target as noisy sums tell them, with an error of a mean and of a variance."""
    rng = np.random.default_rng(seed)
    exact = ClassMoments.of(x, y, 2, 5)
    errors = np.full(2, error + 1e-9)
    target = source.with_means(exact.means + error * rng.standard_normal((2, 5)), errors)
    gaps = [(x[y == c] - target.means[c]) @ source.basis for c in (0, 1)]
    noise = rng.standard_normal((2, *[source.basis.shape[1]] * 2))
    noise = (noise + noise.swapaxes(1, 2)) / 2  # variance 1 on the diagonal, 1/2 off it
    products = np.stack([gap.T @ gap / len(gap) for gap in gaps])
    return target.with_covariances(products + error * noise, errors)


def test_transported_records_have_the_targets_moments():
    x, y = domain()
    other, z = domain(shift=2.0, stretch=1.8, seed=1)
    source = ClassMoments.of(x, y, 2, 5)
    moved = transported(x, y, source, told_of(source, other, z))
    for c in (0, 1):
        assert moved[y == c].mean(axis=0) == pytest.approx(other[z == c].mean(axis=0), abs=0.01)
        found, wanted = (np.cov(part.T) for part in (moved[y == c], other[z == c]))
        assert np.abs(found - wanted).max() < 0.02
    assert np.abs(np.cov(x[y == 0].T) - np.cov(other[z == 0].T)).max() > 1


def test_directions_that_are_not_told_are_left_alone():
    x, y = domain()
    other, z = domain(stretch=1.8, seed=1)
    source = ClassMoments.of(x, y, 2, 1)
    moved = transported(x, y, source, told_of(source, other, z))
    change = (moved - x) - (moved - x).mean(axis=0)
    along = change @ source.basis
    assert np.abs(change - along @ source.basis.T).max() < 0.2
    assert source.basis.shape == (5, 1)


def test_what_noise_drowns_stays_as_in_the_source():
    """Little noise: the target's means. Much: nearer to the source's than to what was told."""
    x, y = domain()
    other, z = domain(shift=0.3, seed=1)
    source = ClassMoments.of(x, y, 2, 5)
    near, far = (told_of(source, other, z, error) for error in (0.01, 30.0))
    true = ClassMoments.of(other, z, 2, 5)
    assert np.abs(near.means - true.means).max() < 0.05
    assert np.linalg.norm(far.means - source.means) < 0.5 * 30 * np.sqrt(10)
    assert np.abs(far.means - source.means)[:, 0].mean() < 30
    same = source.with_covariances(source.covariances, np.full(2, 30.0))
    assert same.covariances == pytest.approx(source.covariances)


def test_the_map_between_gaussians_is_the_symmetric_one():
    rng = np.random.default_rng(0)
    first, second = (a @ a.T + np.eye(4) for a in rng.standard_normal((2, 4, 4)))
    found = gaussian_map(first, second)
    assert found == pytest.approx(found.T)
    assert np.linalg.eigvalsh(found).min() > 0
    assert found @ first @ found == pytest.approx(second)


def test_a_class_without_records_does_no_harm():
    x, y = domain(count=400)
    moments = ClassMoments.of(x, y, 3, 5)
    assert np.isfinite(moments.covariances).all()
    assert moments.contrast > 0
