"""Queries that give positions: what they sum, how far one record moves it, what counts as nothing."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from privot.central.pyramid import Pyramid
from privot.central.sums import Indicators, SumMechanism, SumPlan, sensitivity
from privot.privacy.ledger import Ledger


@dataclass(frozen=True)
class Given(Indicators):
    """Records are positions already."""

    sizes: tuple = (2, 3, 2)

    def positions(self, records):
        return records[0]


def released(query, records, ratio=1e9):
    """What one round answers; by default with next to no noise."""
    plan = SumPlan((ratio,), 1e-5, len(records[0]))
    return SumMechanism(records, Ledger(plan)).release(query)


def test_sums_are_those_of_the_vectors():
    rng = np.random.default_rng(0)
    positions = np.stack([rng.integers(size, size=9000) for size in (2, 3, 2)], axis=1)
    sums = released(Given(), (positions,)).sums
    blocks = [np.bincount(part, minlength=size) for part, size in zip(positions.T, (2, 3, 2))]
    assert np.abs(sums - np.concatenate(blocks)).max() < 0.5
    slots, vectors = Given().answer((positions,))
    assert not slots.any()
    assert (vectors.sum(axis=0) == np.concatenate(blocks)).all()
    assert (vectors.sum(axis=1) == 3).all()


@pytest.mark.parametrize("query", [Given(), Given((4,)), Given((2,) * 6)])
def test_the_sensitivity_is_what_the_farthest_records_move(query):
    """Every record beside every other, one released data set each."""
    records = np.array([*itertools.product(*map(range, query.sizes))])
    sums = np.stack([released(query, (row[None],)).sums[0] for row in records])
    moved = np.linalg.norm(sums[:, None] - sums, axis=2).max()
    assert 0.999 * sensitivity(query) < moved <= sensitivity(query) + 1e-3


def test_places_move_a_pyramid_by_its_sensitivity_and_no_more():
    rng = np.random.default_rng(1)
    pyramid = Pyramid(2, depth=3, nullable=True)
    points, absent = rng.uniform(-1, 1, (60, 2)), np.arange(60) % 6 == 0
    points[1], points[2] = (-1, -1), (1, 1)
    rows = zip(points[:, None], absent[:, None].astype(int), strict=True)
    sums = np.stack([released(pyramid, row).sums[0] for row in rows])
    moved = np.linalg.norm(sums[:, None] - sums, axis=2).max()
    assert 0.999 * sensitivity(pyramid) < moved <= sensitivity(pyramid) + 1e-3


@pytest.mark.parametrize("wrong", [(2, 0, 0), (0, -1, 0), (0, 0, 2**40)])
def test_a_record_outside_its_blocks_counts_as_nothing(wrong):
    """(2, 0, 0) would add 2 to the second block: farther than Δ allows."""
    positions = np.array([[0, 1, 1], wrong])
    assert np.abs(released(Given(), (positions,)).sums - [[1, 0, 0, 1, 0, 0, 1]]).max() < 0.5
    assert Given().answer((positions,))[1].sum(axis=1).tolist() == [3, 0]


def test_noise_is_as_large_as_it_says():
    query = Given((6000, 1200))
    answer = released(query, (np.zeros((2, 2), int),), ratio=0.5)
    # 7 200 draws: the standard deviation of their spread is 1/120 of it, and limits are six of these.
    assert answer.sums.std() / answer.stddev == pytest.approx(1, abs=0.05)
    assert answer.stddev == pytest.approx(2 / 0.5)
