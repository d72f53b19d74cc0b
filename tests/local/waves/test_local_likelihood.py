"""Densities near a time: what waves from afar are worth, and how far in time is near."""

import numpy as np
import pytest

from privot.local.grid_channels import ProductChannel
from privot.local.waves.grid_drift import LocalLikelihood

NODES = np.ones((17, 17), bool)
AXIS = np.linspace(-1, 1, 17)
TIMES = np.arange(9.0)
# Reports of a coordinate: the node with probability .6, one of its neighbors otherwise.
LAW = np.eye(17) * 0.6 + np.eye(17, k=1) * 0.2 + np.eye(17, k=-1) * 0.2
LAW /= LAW.sum(axis=0)


def bell(x, y, width=0.2):
    away = (AXIS[:, None] - x) ** 2 + (AXIS - y) ** 2
    found = np.exp(-away / (2 * width**2)) + 1e-4
    return found / found.sum()


def emptying(time):
    """A town that empties into another."""
    share = 0.8 - 0.6 * time / TIMES[-1]
    return share * bell(-0.5, 0.0) + (1 - share) * bell(0.5, 0.3)


def moving(time):
    return bell(-0.2 + 0.05 * time, 0.3 - 0.05 * time)


def likelihood(course, num, rng=None):
    laws = [(LAW @ course(time) @ LAW.T).ravel() for time in TIMES]
    counts = [num * law if rng is None else rng.multinomial(num, law) * 1.0 for law in laws]
    channel = ProductChannel(counts[0], [LAW, LAW])
    return LocalLikelihood(TIMES, counts, [0] * len(TIMES), [channel], NODES)


def standing(_):
    return bell(0.0, 0.0)


def test_all_waves_count_alike_where_the_reach_is_infinite():
    local = likelihood(emptying, 1e5)
    found = [local.density(time, np.inf).weights for time in (0.0, 3.5)]
    np.testing.assert_array_equal(found[0], found[1])
    middle = np.mean([emptying(time) for time in TIMES], axis=0)
    assert np.abs(found[0] - middle).sum() / 2 < 0.05


@pytest.mark.parametrize("course", [emptying, moving])
@pytest.mark.parametrize("time", [0.0, 4.0])
def test_many_reports_of_a_wave_say_more_than_all_waves_before(course, time):
    density = likelihood(course, 1e7).density(time, 0.0).weights
    assert np.abs(density - course(time)).sum() / 2 < 0.02


@pytest.mark.parametrize(("course", "reach"), [(emptying, 1.5), (moving, 0.7)])
def test_few_people_a_wave_are_estimated_better_with_distant_waves(course, reach):
    """Beside the wave alone; and where nobody ever was, almost nobody is."""
    corner, truth, found = np.s_[:5, 13:], course(TIMES[-1]), []
    for seed in range(8):
        local = likelihood(course, 100, np.random.default_rng(seed))
        last = LocalLikelihood(TIMES[-1:], local.counts[-1:], [0], local.channels, NODES)
        densities = last.density(TIMES[-1], 0.0).weights, local.density(TIMES[-1], reach).weights
        found.append([(np.abs(d - truth).sum() / 2, d[corner].sum()) for d in densities])
    (alone, stray), (ours, fewer) = np.mean(found, axis=0)
    assert ours < alone
    assert fewer < 0.4 * stray


def test_reaches_are_learned():
    rng = np.random.default_rng(0)
    assert likelihood(standing, 2000, rng).choose_reach(0) == np.inf
    assert 0.7 <= likelihood(emptying, 2000, rng).choose_reach(0) <= 3.0


def test_densities_do_not_depend_on_earlier_calls():
    first, second = (likelihood(moving, 1e4) for _ in range(2))
    first.density(2.0, 3.0)
    np.testing.assert_array_equal(first.density(6.0, 3.0).weights, second.density(6.0, 3.0).weights)


def test_few_waves_are_not_fitted_twice():
    """Of two waves a reach of 25 weighs much the same as an infinite one."""
    local = likelihood(emptying, 1000.0)
    two = LocalLikelihood(TIMES[:2], local.counts[:2], [0, 0], local.channels, NODES)
    np.testing.assert_array_equal(two.density(0.0, 25.0).weights, two.density(0.0, np.inf).weights)
    assert (two.density(0.0, 0.0).weights != two.density(0.0, np.inf).weights).any()
