"""Subset selection: the laws, uniform subsets, and the ratio e^ε in integers."""

from fractions import Fraction
from itertools import combinations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.mechanism import MechanismLaws
from privot.core.errors import PrivotError
from privot.mechanisms import RandomizedResponse, SubsetSelection

SETS = np.array(list(combinations(range(6), 2)))


class TestSubsetSelection(MechanismLaws):
    mechanism = SubsetSelection(num_cells=6, epsilon=1.0)
    wrong = (SubsetSelection(6, 1.01), SubsetSelection(6, 0.99))
    record = np.int64(2)
    worst_pairs = ((np.int64(0), np.int64(5)), (np.int64(3), np.int64(2)))
    records = np.arange(400) % 6
    outcomes = SETS
    invalid_fields = (
        ("num_cells", 1),
        ("num_cells", 2.5),
        ("epsilon", 0.0),
        ("epsilon", float("nan")),
    )

    def index(self, reports):
        table = np.full((6, 6), len(SETS))
        table[SETS[:, 0], SETS[:, 1]] = np.arange(len(SETS))
        return table[reports[:, 0], reports[:, 1]]

    def cells_hold(self, found, expected):
        """Members are asked in random order: two others of a set have two orders."""
        orders = expected / found
        return np.allclose(np.sort(orders)[[0, 4, 5, -1]], [1, 1, 2, 2], rtol=1e-12)

    @pytest.mark.parametrize("cell", [-1, 6])
    @pytest.mark.parametrize("count", [1, 100])
    def test_other_cells_are_refused(self, cell, count):
        with pytest.raises(PrivotError, match="outside"):
            self.mechanism.privatize(np.full(count, cell))

    def test_shapes_are_refused(self):
        with pytest.raises(PrivotError, match="shape"):
            self.mechanism.privatize(np.zeros((3, 1), int))
        with pytest.raises(PrivotError, match="give 2 a report"):
            self.mechanism.log_likelihood(np.zeros((3, 1), int), np.zeros(3, int))


@pytest.mark.parametrize("count", [10, 6_000])
def test_many_cells_are_sorted_distinct_and_equally_frequent(count):
    """300 frequencies within six deviations of a share of a half, the largest: 6e-7 in all."""
    mechanism = SubsetSelection(num_cells=300, epsilon=1.0)
    reports = np.concatenate([mechanism.privatize(np.full(count, 41)) for _ in range(20)])
    assert (np.diff(reports, axis=1) > 0).all()
    frequency = np.bincount(reports.ravel(), minlength=300) / len(reports)
    own, other = mechanism.probabilities
    limit = 6 * np.sqrt(0.25 / len(reports))
    assert abs(frequency[41] - own) < limit
    assert np.abs(np.delete(frequency, 41) - other).max() < limit


def test_one_cell_is_randomized_response():
    subset, response = SubsetSelection(5, 4.0), RandomizedResponse(5, 4.0)
    assert subset.subset_size == 1
    assert subset.probabilities == pytest.approx(response.probabilities, rel=1e-15)
    assert subset.variance == pytest.approx(response.variance, rel=1e-12)


@given(num_cells=st.integers(2, 100_000), epsilon=st.floats(1e-6, 40.0))
def test_integers_keep_epsilon_and_waste_nothing(num_cells, epsilon):
    mechanism = SubsetSelection(num_cells, epsilon)
    size = mechanism.subset_size
    inside, outside = mechanism.words
    ratio = Fraction(inside, outside) * Fraction(num_cells - size, size)
    with mpmath.workdps(60):
        loss = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert loss <= mpmath.mpf(epsilon)
        assert loss >= mpmath.mpf(epsilon) - mpmath.mpf(4) / min(inside, outside)
