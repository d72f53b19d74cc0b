"""Disks, hybrids and square waves on grids: laws add up, keep ε, agree with draws; EM finds places."""

import math

import numpy as np
import pytest

from studies.rivals.disk_area import (
    GridReports,
    SquareWaves,
    disk_radius,
    draw,
    maximize,
    whole_cells,
)

CHANNELS = [
    GridReports(1.5, 8, 0.75),
    GridReports(1.5, 8, 0.6, "hybrid"),
    SquareWaves(1.5, 8),
]


@pytest.mark.parametrize("channel", CHANNELS)
def test_laws_add_up_keep_epsilon_and_agree_with_draws(channel):
    cells = np.eye(64).reshape(64, 8, 8)
    law = np.stack([channel.forward(cell) for cell in cells], axis=1)
    assert law.sum(axis=0) == pytest.approx(np.ones(64))
    assert np.log(law.max(axis=1) / law.min(axis=1)).max() <= 1.5 + 1e-6
    ratios = np.random.default_rng(1).random(len(law))
    assert channel.back(ratios).ravel() == pytest.approx(law.T @ ratios)
    people = np.full((200_000, 2), [-0.9, 0.3])  # of the cell (0, 5)
    sent = channel.report(people, np.random.default_rng(0)) / len(people)
    spread = np.sqrt(law[:, 5] / len(people))
    assert (np.abs(sent - law[:, 5]) < 6.5 * spread).all()  # a few hundred reports: 1e-7


def test_the_radius_has_the_most_information():
    def information(radius, epsilon):
        area = 4 + 8 * radius + math.pi * radius**2
        share, gain = math.pi * radius**2 / area, math.expm1(epsilon)
        inside = share * (1 + gain) / (1 + share * gain)
        return epsilon * inside - math.log1p(share * gain)

    for epsilon in (0.5, 1.0, 4.0):
        best = disk_radius(epsilon)
        for other in (0.95 * best, 1.05 * best):
            assert information(best, epsilon) > information(other, epsilon)
    assert whole_cells(0.37, 15) == pytest.approx(4 / 15)
    assert whole_cells(0.01, 15) == pytest.approx(2 / 15)


@pytest.mark.parametrize("smooth", [False, True])
def test_two_towns_are_found(smooth):
    rng = np.random.default_rng(0)
    people = np.repeat([[-0.5, -0.5], [0.6, 0.2]], [30_000, 10_000], axis=0)
    channel = GridReports(4.0, 10, whole_cells(disk_radius(4.0), 10))
    points = draw(maximize(channel, channel.report(people, rng), smooth=smooth), 20_000, rng)
    near = np.linalg.norm(points - [-0.5, -0.5], axis=1) < 0.5
    assert near.mean() == pytest.approx(0.75, abs=0.2 if smooth else 0.05)
