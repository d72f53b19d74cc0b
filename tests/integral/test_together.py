"""Draws together: every outcome of every small data set, by enumeration; laws, gains, refusals."""

import itertools
import math

import numpy as np
import pytest

from laws.reference import FALSE_ALARM, chi_square
from privot.integral import BoostSettings, ClippedRatioSettings, clip_ratio
from privot.integral.density import TabulatedTilt
from privot.integral.learners import NetworkSettings
from privot.integral.references import (
    Categorical,
    CustomReference,
    ProductReference,
    StandardNormal,
)

THREE = ProductReference([Categorical((0.5, 0.3, 0.2))])
POINTS = np.arange(3.0)[:, None]
SETTINGS = ClippedRatioSettings(floor_share=0.35)


def density_of(counts, epsilon, settings=SETTINGS):
    """The density that a data set leads to, whose learner only counts; a count of 0 is a ratio of 0."""
    untilted = settings.untilted(THREE, epsilon)
    with np.errstate(divide="ignore"):
        values = np.log(np.array(counts) / sum(counts)) - THREE.log_density(POINTS)
    table = TabulatedTilt(untilted.reference, np.maximum(values, -1e4))
    return settings.clipped(untilted, table, POINTS)


def joint_law(density, n):
    """The log probability of every sequence of n draws, by the tree of all paths."""
    law = {(): (0.0, 0.0)}
    for t in range(n):
        longer = {}
        for path, (log, total) in law.items():
            following = density.window(n, n - t, 1, total) if n > 1 else density
            masses = density.reference.axes[0].masses
            coins = following.coins(POINTS)
            weights = [int(m) * int(c) for m, c in zip(masses, coins, strict=True)]
            tilts = following.accepted_tilt(POINTS)
            for value in range(3):
                step = math.log(weights[value] / sum(weights))
                longer[*path, value] = log + step, total + tilts[value]
        law = longer
    return np.array([log for log, _ in law.values()])


# All data sets of one or two people, and two of very different sizes.
DATA_SETS = [c for c in itertools.product(range(3), repeat=3) if 0 < sum(c) <= 2]
DATA_SETS += [(1, 0, 999), (10**6, 1, 1)]


@pytest.mark.parametrize(("epsilon", "n"), [(0.3, 4), (1.0, 1), (1.0, 4), (3.0, 3)])
def test_no_outcome_of_any_two_data_sets_passes_epsilon(epsilon, n):
    """All sequences of n draws, for all pairs of data sets."""
    laws = np.array([joint_law(density_of(counts, epsilon), n) for counts in DATA_SETS])
    assert np.exp(laws).sum(axis=1) == pytest.approx(1.0)
    largest = (laws.max(axis=0) - laws.min(axis=0)).max()
    assert largest <= n * epsilon
    assert largest > 0.65 * n * epsilon, "a much smaller promise would hold as well"


@pytest.mark.parametrize("worst", [np.min, np.max])
def test_no_path_leaves_the_limits(worst):
    """Blocks of up to four draws, which all take the value that spends most, or least."""
    density, n, total = density_of((1, 0, 999), 0.5), 250, 0.0
    lowest, left = density.low * n**0.6, n
    while left:
        block = -(-left // 64)
        tilts = density.window(n, left, block, total).accepted_tilt(POINTS)
        total, left = total + block * worst(tilts), left - block
        assert lowest - 1e-9 <= total <= n * (density.high - density.low) + lowest + 1e-9


def test_draws_follow_the_tree():
    """1 000 pairs against the enumeration in random order; independent draws have another law.

    False alarms have a rate of 1e-6.
    """
    density = density_of((1, 1, 8), 3.0)
    law = np.exp(joint_law(density, 2)).reshape(3, 3)
    law = (law + law.T) / 2
    pairs = np.array([density.draw_together(2)[:, 0] for _ in range(1000)]).astype(int)
    counts = np.zeros((3, 3))
    np.add.at(counts, tuple(pairs.T), 1)
    one = np.exp(joint_law(density, 1))
    assert chi_square(counts.ravel(), 1000 * law.ravel()) > FALSE_ALARM
    assert chi_square(counts.ravel(), 1000 * np.outer(one, one).ravel()) < 1e-6, "no power"


def test_together_they_are_nearer_to_the_data():
    """The share within two deviations of the records, at ε = 1 a draw: .95 of them are."""
    records = np.random.default_rng(0).normal(1.5, 0.3, (2000, 1))
    density = clip_ratio(records, StandardNormal(1), 1.0, SETTINGS)
    together, alone = density.draw_together(400), density.draw(400)
    near = [(np.abs(drawn[:, 0] - 1.5) < 0.6).mean() for drawn in (together, alone)]
    # Shares of .58 and .32: 7 standard deviations of their difference, .034, apart.
    assert near[0] > near[1] + 0.05


def test_without_a_grid_they_are_independent():
    """And boosting shares its budget as the clipped ratio does."""
    own = CustomReference(1, StandardNormal(1).sample, StandardNormal(1).log_density)
    records = np.random.default_rng(0).normal(1.5, 0.3, (200, 1))
    quick = NetworkSettings(hidden=(4,), steps=5)
    density = clip_ratio(records, own, 1.0, ClippedRatioSettings(network=quick))
    assert density.draw_together(5).shape == (5, 1)
    boosted = BoostSettings(rounds=2, network=quick).learn(records, StandardNormal(1), 1.0)
    assert boosted.window(50, 50, 1, 0.0).high > boosted.high
    assert boosted.draw_together(5).shape == (5, 1)
