"""Paths against brute force, on paths that drift, stand still, or jump."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from privot.local.waves.paths import (
    _DRIFTS,
    Paths,
    integrated_walk_covariance,
    random_walk_covariance,
)

TIMES = np.linspace(0.0, 1.0, 12)
STEPS, SUDDEN = (0.01, 0.03, 0.1, 0.3, 1.0), 0.02


def reported(path, precision, rng):
    """What waves of this precision say of a path (T, K)."""
    precisions = np.full(path.shape, float(precision))
    return precisions * path + np.sqrt(precisions) * rng.standard_normal(path.shape), precisions


@pytest.mark.parametrize("kernel", [random_walk_covariance, integrated_walk_covariance])
def test_kernels_are_covariances_of_what_they_say(kernel):
    steps = 400
    walk = np.tril(np.ones((steps, steps))) / steps**0.5
    fine = np.arange(1, steps + 1) / steps
    root = (
        walk
        if kernel is random_walk_covariance
        else np.tril(np.ones((steps, steps))) / steps @ walk
    )
    own = root @ root.T
    if kernel is integrated_walk_covariance:
        own = own + np.outer(fine, fine)
    assert np.abs(own - kernel(fine)).max() < 0.01


@pytest.mark.parametrize("times", [TIMES, TIMES**2])
def test_the_posterior_is_that_of_gaussians_with_a_step_and_without(times):
    rng = np.random.default_rng(0)
    truth = np.sin(3 * times) + 0.3 * (times >= times[5])
    slopes, precisions = reported(truth[:, None], 40.0, rng)
    found = Paths(times, slopes, precisions)
    seen, noise = slopes[:, 0] / precisions[:, 0], np.diag(1 / precisions[:, 0])
    means, seconds, logs = [], [], []
    for each in found._posteriors:
        for size in (0.0, *STEPS):
            for wave in range(1, 12) if size else [0]:
                after = (np.arange(12) >= wave) * 1.0
                prior = each.prior + size * np.outer(after, after)
                gain = prior @ np.linalg.inv(prior + noise)
                means.append(gain @ seen)
                seconds.append(np.outer(means[-1], means[-1]) + prior - gain @ prior)
                likely = multivariate_normal(np.zeros(12), prior + noise).logpdf(seen)
                share = SUDDEN * (times[wave] - times[wave - 1]) / 5 if size else 1 - SUDDEN
                logs.append(likely + np.log(share))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    mean, second = (np.tensordot(weights, np.array(x), 1) for x in (means, seconds))
    assert np.allclose(found.mean[:, 0], mean, atol=1e-3)
    assert np.allclose(found.covariance[0], second - np.outer(mean, mean), atol=3e-5)


def test_waves_on_either_side_of_a_jump_are_pooled():
    """Twelve waves fitted apart err by 1 in standard errors of one; two halves, by 6^-1/2 = .41."""
    errors = []
    for seed in range(20):
        jump = np.where(TIMES[6] <= TIMES, 1.0, 0.0)[:, None]
        paths = Paths(TIMES, *reported(jump, 400.0, np.random.default_rng(seed)))
        errors.append((paths.mean - jump) * 400**0.5)
    assert 0.3 < np.sqrt(np.mean(np.square(errors))) < 0.55


def test_one_number_that_jumps_is_no_reason_to_believe_that_another_did():
    rng = np.random.default_rng(5)
    truth = np.stack([np.where(TIMES[6] <= TIMES, 1.0, 0.0), np.zeros(12)], axis=1)
    paths = Paths(TIMES, *reported(truth, 400.0, rng))
    assert np.abs(paths.mean[:, 1]).max() < 4.5 * 400**-0.5
    assert np.abs(paths.mean[:, 0] - truth[:, 0]).max() < 4.5 * 400**-0.5


def test_drift_is_learned_and_bands_hold():
    rng = np.random.default_rng(1)
    still = Paths(TIMES, *reported(np.ones((12, 3)), 200.0, rng))
    moves = Paths(TIMES, *reported(np.outer(TIMES, [1, -2, 3]), 200.0, rng))
    slow, fast = (
        np.array([each.total for each in paths._weights]) @ [*_DRIFTS, *_DRIFTS[1:]]
        for paths in (still, moves)
    )
    assert slow < 0.02 < 0.3 < fast
    error = np.abs(moves.mean - np.outer(TIMES, [1, -2, 3]))
    spread = np.sqrt(np.diagonal(moves.covariance, axis1=1, axis2=2)).T
    assert (error < 3.5 * spread).all()
    assert spread.mean() < 0.6 / 200**0.5  # waves learn from each other


def test_a_time_between_waves_is_a_wave_without_reports():
    rng = np.random.default_rng(2)
    paths = Paths(TIMES, *reported(np.outer(TIMES, [4.0]), 100.0, rng))
    mean, variance = paths.at((TIMES[4] + TIMES[5]) / 2)
    assert abs(mean[0] - (paths.mean[4, 0] + paths.mean[5, 0]) / 2) < 0.05
    assert variance[0] >= paths.covariance[0, 4, 4] * 0.5
    assert paths.at(TIMES[4])[0][0] == paths.mean[4, 0]


def test_a_step_is_found_where_it_is_and_none_where_there_is_none():
    rng = np.random.default_rng(3)
    jump = np.where(TIMES[:, None] >= TIMES[7], 1.0, 0.0) * [1.0, -1.0]
    found = Paths(TIMES, *reported(jump, 150.0, rng))
    assert found.step_evidence().argmax() + 1 == 7
    assert found.p_value(99, seed=0) <= 0.03
    drift = Paths(TIMES, *reported(np.outer(TIMES, [1.0, -1.0]), 150.0, rng))
    assert drift.p_value(99, seed=0) > 0.05


def test_evidence_of_a_step_is_that_of_its_kernel():
    rng = np.random.default_rng(4)
    slopes, precisions = reported(rng.standard_normal((12, 2)), 30.0, rng)
    one = Paths(TIMES, slopes, precisions)._posteriors[8]
    after = np.tril(np.ones((12, 12)))[:, 1:]
    gain = one.step_gains(slopes.T, after)
    w = after[:, 4]
    wider = type(one).of(one.prior + 0.1 * np.outer(w, w), np.sqrt(precisions.T))
    assert np.isclose(gain[2, 4], wider.log_evidence(slopes.T) - one.log_evidence(slopes.T))


def test_where_no_step_is_likely_the_path_is_the_one_without():
    """Eleven numbers, known nearly exactly, that rise evenly: no step has a weight that counts."""
    truth = np.outer(np.arange(6.0), np.linspace(-0.1, 0.1, 11))
    precisions = np.full(truth.shape, 1e4)
    paths = Paths(np.arange(6.0), precisions * truth, precisions)
    np.testing.assert_allclose(paths.mean, truth, atol=0.01)
    assert (np.diagonal(paths.covariance, axis1=1, axis2=2) > 0).all()
