"""Densities near a time: courses that are lines in the logarithm, and what is learned of them."""

import numpy as np
import pytest

from privot.local.grid.channels import ProductChannel
from privot.local.waves.local_likelihood import LocalLikelihood
from privot.local.waves.reach import Reach

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


def away(told, reach, course, time=TIMES[-1]):
    """Total variation."""
    return np.abs(told.density(time, reach).weights - course(time)).sum() / 2


@pytest.mark.parametrize("course", [emptying, moving])
def test_what_moves_evenly_is_learned_from_all_waves(course):
    told = likelihood(course, 1e5)
    line, standing = (away(told, Reach(np.inf, degree), course) for degree in (1, 0))
    assert line < 0.05
    assert standing > 0.25
    assert away(told, Reach(np.inf, 1), course, 4.5) < 0.05


def test_few_people_a_wave_are_told_better_by_their_line():
    """The others are the wave alone, and all waves that stand; what is told is how many are east."""
    east = np.s_[9:]
    truth = emptying(TIMES[-1])[east].sum()
    found = []
    for seed in range(8):
        told = likelihood(emptying, 100, np.random.default_rng(seed))
        reaches = (Reach(np.inf, 1), Reach(0.0), Reach(np.inf))
        found.append([told.density(TIMES[-1], each).weights[east].sum() for each in reaches])
    line, alone, standing = np.sqrt(np.mean((np.array(found) - truth) ** 2, axis=0))
    assert line < 0.8 * alone
    assert line < 0.3 * standing


def test_courses_are_learned_to_move_or_stand():
    rng = np.random.default_rng(0)
    assert likelihood(emptying, 2000, rng).learned(0).degree == 1
    stands = likelihood(lambda _: bell(0.0, 0.0), 2000, rng).learned(0)
    assert stands.degree == 0
    assert stands.waves >= 8.0


def test_densities_do_not_depend_on_what_was_asked_before():
    first, second = (likelihood(moving, 1e4) for _ in range(2))
    reach = Reach(3.0, 1)
    first.density(2.0, reach)
    np.testing.assert_array_equal(
        first.density(6.0, reach).weights, second.density(6.0, reach).weights
    )


def test_all_reports_count_however_they_are_put_together():
    told = likelihood(moving, 1000.0)
    weights = Reach(2.0, 1).weights(TIMES[-1] - TIMES)
    out = told.counts[-1] / 2
    channels, times = told._parts(weights, 4, (8, out))
    assert 1 < len(channels) <= 4
    total = sum(channel.counts for channel in channels)
    wanted = sum(w * c for w, c in zip(weights, told.counts, strict=True)) - out
    np.testing.assert_allclose(total, wanted)
    assert (np.diff(times) > 0).all()
