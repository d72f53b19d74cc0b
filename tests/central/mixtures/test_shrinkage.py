"""Covariances shrunk by empirical Bayes are nearer to the truth than what was released."""

import numpy as np

from privot.central.moments import shrink_covariances

SIZE = 12
FREQUENCIES = (np.arange(SIZE) ** 2).astype(float)


def problem(error, seed=0):
    rng = np.random.default_rng(seed)
    scale = np.sqrt(1 / (1 + FREQUENCIES / 4))
    true = []
    for _ in range(6):
        root = rng.standard_normal((SIZE, 3 * SIZE)) * scale[:, None]
        true.append(root @ root.T / (3 * SIZE))
    noise = rng.standard_normal((6, SIZE, SIZE)) * error
    upper = np.triu(noise, 1) / np.sqrt(2)
    noise = upper + upper.swapaxes(1, 2) + noise * np.eye(SIZE)
    return np.array(true), np.array(true) + noise


def test_much_noise_is_taken_away():
    true, noisy = problem(0.5)
    found = shrink_covariances(noisy, np.full(6, 0.5), FREQUENCIES)
    assert np.square(found - true).sum() < 0.25 * np.square(noisy - true).sum()


def test_without_noise_little_is_changed():
    true, noisy = problem(1e-4)
    found = shrink_covariances(noisy, np.full(6, 1e-4), FREQUENCIES)
    assert np.square(found - true).sum() < 0.01 * np.square(true).sum()


def test_a_class_with_more_noise_is_shrunk_more():
    true, _ = problem(0.0)
    errors = np.array([0.01] * 5 + [2.0])
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((6, SIZE, SIZE)) * errors[:, None, None]
    noise = (noise + noise.swapaxes(1, 2)) / 2
    found = shrink_covariances(true + noise, errors, FREQUENCIES)
    gaps = np.square(found - true).sum(axis=(1, 2)) / np.square(noise).sum(axis=(1, 2))
    assert gaps[-1] < 0.1
    assert np.square(found[:5] - true[:5]).sum() < 0.05 * np.square(true[:5]).sum()
