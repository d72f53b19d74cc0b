"""Trends are ratios of shares, with the posterior's spread; a change point is where a step is."""

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.local.waves.paths import (
    Paths,
    ShareCoordinates,
    ShareLikelihood,
    ShareRatio,
    ShareSeries,
)
from privot.local.waves.wave_model import change_point_of, trend_of

TIMES = np.arange(10.0)
NAMES = tuple(map(str, range(10)))


def series(path, precision=400.0, seed=0):
    coordinates = ShareCoordinates.of(
        np.array([0.6, 0.4]), [ShareLikelihood(np.zeros(2), np.eye(2))]
    )
    rng = np.random.default_rng(seed)
    slopes = precision * path + np.sqrt(precision) * rng.standard_normal(path.shape)
    return ShareSeries(coordinates, Paths(TIMES, slopes, np.full(path.shape, precision)))


def test_a_share_has_the_spread_of_its_paths():
    one = series(np.linspace(-0.3, 0.3, 10)[:, None])
    part = np.tile([1.0, 0.0], (10, 1))
    trend = trend_of("a", ShareRatio(one, part, np.ones((10, 2))), NAMES, 0.95)
    assert np.allclose(trend.estimate, [one.coordinates.at(u)[0] for u in one.paths.mean])
    spread = np.sqrt(one.paths.covariance[0].diagonal()) * abs(one.coordinates.basis[0, 0])
    assert np.allclose(trend.high - trend.low, 2 * 1.959964 * spread, rtol=1e-5)
    assert trend.within(0.5, 0.6).high.max() <= 0.6


def test_a_mean_is_of_those_who_have_a_number():
    """Of a ratio the spread is that of drawing many paths."""
    one = series(np.linspace(-0.5, 0.5, 10)[:, None])
    ratio = ShareRatio(one, np.tile([30.0, 4.0], (10, 1)), np.tile([1.0, 0.5], (10, 1)))
    trend = trend_of("m", ratio, NAMES, 0.9)
    rng = np.random.default_rng(1)
    drawn = rng.multivariate_normal(one.paths.mean[:, 0], one.paths.covariance[0], 4000)
    shares = (
        one.coordinates.shares[:, None, None] + one.coordinates.basis[:, :1, None] * drawn.T[None]
    )
    ratios = (30 * shares[0] + 4 * shares[1]) / (shares[0] + 0.5 * shares[1])
    assert np.allclose(trend.estimate, ratios.mean(axis=1), rtol=0.01)
    assert np.allclose(trend.high - trend.low, 2 * 1.645 * ratios.std(axis=1), rtol=0.08)


def test_a_change_is_reported_by_its_time():
    jump = np.where(TIMES >= 6, 0.8, 0.0)[:, None]
    found = change_point_of("c", series(jump).paths, NAMES, 0)
    assert (found.time, found.low, found.high) == ("6", "6", "6")
    assert found.p_value < 0.05
    assert found.log_odds > 2


def test_two_waves_show_no_change():
    paths = Paths(TIMES[:2], np.zeros((2, 1)), np.ones((2, 1)))
    with pytest.raises(PrivotError, match="2 waves show no change"):
        change_point_of("c", paths, NAMES[:2], 0)
