"""Coordinates of shares: the prior is round in them, and what all waves told is diagonal."""

import numpy as np

from privot.local.waves.paths import Course, Moving, Told, basis_of

SHARES = np.array([0.5, 0.3, 0.15, 0.05])


def informed(seed):
    root = np.random.default_rng(seed).standard_normal((4, 4))
    return 50 * root @ root.T


def test_the_basis_is_round_and_diagonal():
    one = Moving.of(SHARES, informed(0))
    assert np.allclose(one.basis @ one.basis.T, np.diag(SHARES) - np.outer(SHARES, SHARES))
    turned = one.basis.T @ informed(0) @ one.basis
    assert np.allclose(turned, np.diag(np.diag(turned)))


def test_paths_and_shares_are_each_others_inverse():
    one = Moving.of(SHARES, informed(1))
    wanted = np.array([0.4, 0.3, 0.1, 0.2])
    assert np.allclose(one.at(one.path_to(wanted)), wanted)
    assert (one.at(np.full(3, 50.0)) > 0).all()


def test_what_was_told_elsewhere_is_told_around_the_middle():
    """A quadratic law has one slope and one information, wherever it was asked."""
    told = Told(np.array([3.0, -1.0, 2.0, 0.0]), informed(2))
    one = basis_of(SHARES, [told])
    path = np.array([0.1, -0.2, 0.05])
    there = Told(told.slope - told.information @ one.basis @ path, told.information)
    assert np.allclose(one.turned(there, path)[0], one.turned(told, np.zeros(3))[0])


def test_a_course_grows_by_a_wave():
    told = Told(np.zeros(4), informed(3))
    one = basis_of(SHARES, [told])
    course = Course.of(one, np.array([0.0, 1.0]), [told, told], np.zeros((2, 3)))
    more = course.with_wave(2.0, told, np.zeros(3))
    assert more.slopes.shape == (3, 3)
    assert more.times.tolist() == [0.0, 1.0, 2.0]
