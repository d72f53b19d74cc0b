"""Shares by unary encoding have the stated law; grids and trees find where people are."""

import numpy as np
import pytest

from studies.rivals.disk_area import draw
from studies.rivals.grids_of_ranges import (
    adaptive_tree,
    hybrid_grids,
    nonnegative,
    unary_shares,
    variance,
)


def test_unary_shares_are_unbiased_with_the_stated_variance():
    counts = np.array([5_000, 0, 0, 5_000] + [0] * 60)
    rng = np.random.default_rng(0)
    found = np.stack([unary_shares(counts, 1.0, rng) for _ in range(400)])
    spread = found[:, 4:].std()  # 24 000 numbers: 1 % is more than 2 deviations of a deviation
    assert spread == pytest.approx(variance(10_000, 1.0) ** 0.5, rel=0.03)
    assert found.mean(axis=0) == pytest.approx(counts / 10_000, abs=6 * spread / 20 * 1.3)


def test_nonnegative_shares_are_the_nearest():
    assert nonnegative(np.array([0.9, 0.4, -0.3])) == pytest.approx([0.75, 0.25, 0.0])


@pytest.mark.parametrize("learn", ["grids", "tree"])
def test_two_towns_are_found(learn):
    rng = np.random.default_rng(0)
    people = np.repeat([[-0.5, -0.5], [0.6, 0.2]], [30_000, 10_000], axis=0)
    if learn == "grids":
        points = draw(hybrid_grids(people, 4.0, rng), 20_000, rng)
    else:
        points = adaptive_tree(people, 4.0, rng).draw(20_000, rng)
    near = np.linalg.norm(points - [-0.5, -0.5], axis=1) < 0.4
    assert near.mean() == pytest.approx(0.75, abs=0.07)


def test_a_tree_of_numbers_refines_where_people_are():
    numbers = np.random.default_rng(0).normal(0.4, 0.05, (50_000, 1)).clip(-1, 1)
    leaves = adaptive_tree(numbers, 2.0, np.random.default_rng(1))
    assert leaves.side.min() < 0.1 < leaves.side.max()
    assert leaves.draw(20_000, np.random.default_rng(2)).mean() == pytest.approx(0.4, abs=0.05)
