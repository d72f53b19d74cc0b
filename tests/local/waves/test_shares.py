"""Coordinates of shares: the prior is round in them, and what all waves likelihood is diagonal."""

import numpy as np

from privot.local.waves.paths import (
    ShareCoordinates,
    ShareLikelihood,
    ShareSeries,
)

SHARES = np.array([0.5, 0.3, 0.15, 0.05])


def informed(seed):
    root = np.random.default_rng(seed).standard_normal((4, 4))
    return 50 * root @ root.T


def test_the_basis_is_round_and_diagonal():
    one = ShareCoordinates.of(SHARES, [ShareLikelihood(np.zeros(len(SHARES)), informed(0))])
    assert np.allclose(one.basis @ one.basis.T, np.diag(SHARES) - np.outer(SHARES, SHARES))
    projected = one.basis.T @ informed(0) @ one.basis
    assert np.allclose(projected, np.diag(np.diag(projected)))


def test_paths_and_shares_are_each_others_inverse():
    one = ShareCoordinates.of(SHARES, [ShareLikelihood(np.zeros(len(SHARES)), informed(1))])
    wanted = np.array([0.4, 0.3, 0.1, 0.2])
    assert np.allclose(one.at(one.coordinates_of(wanted)), wanted)
    assert (one.at(np.full(3, 50.0)) > 0).all()


def test_a_likelihood_is_the_same_around_any_shares():
    """A quadratic law has one slope and one information, wherever it is expanded."""
    likelihood = ShareLikelihood(np.array([3.0, -1.0, 2.0, 0.0]), informed(2))
    one = ShareCoordinates.of(SHARES, [likelihood])
    path = np.array([0.1, -0.2, 0.05])
    there = ShareLikelihood(
        likelihood.slope - likelihood.information @ one.basis @ path, likelihood.information
    )
    assert np.allclose(one.project(there, path)[0], one.project(likelihood, np.zeros(3))[0])


def test_a_series_grows_by_a_wave():
    likelihood = ShareLikelihood(np.zeros(4), informed(3))
    one = ShareCoordinates.of(SHARES, [likelihood])
    series = ShareSeries.of(one, np.array([0.0, 1.0]), [likelihood, likelihood], np.zeros((2, 3)))
    more = series.with_wave(2.0, likelihood, np.zeros(3))
    assert more.paths.slopes.shape == (3, 3)
    assert more.paths.times.tolist() == [0.0, 1.0, 2.0]
