"""Randomized response: the laws, and the ratio e^ε in integers."""

import json

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.mechanism import MechanismLaws
from privot.core.errors import PrivotError
from privot.mechanisms import RandomizedResponse, SubsetSelection, Window


class TestRandomizedResponse(MechanismLaws):
    mechanism = RandomizedResponse(num_categories=7, epsilon=1.5)
    wrong = (RandomizedResponse(7, 1.515), RandomizedResponse(7, 1.485))
    record = np.int64(3)
    worst_pairs = ((np.int64(0), np.int64(6)), (np.int64(3), np.int64(2)))
    records = np.arange(400) % 7
    outcomes = np.arange(7)
    invalid_fields = (
        ("num_categories", 1),
        ("num_categories", 2.5),
        ("epsilon", 0.0),
        ("epsilon", float("nan")),
        ("epsilon", 1e-19),
    )

    def index(self, reports):
        return reports

    @pytest.mark.parametrize("code", [-1, 7, 0.5, np.nan])
    @pytest.mark.parametrize("count", [1, 100])
    def test_other_codes_are_refused(self, code, count):
        codes = np.zeros(count, np.array(code).dtype)
        codes[-1] = code
        with pytest.raises(PrivotError, match=r"integer|outside"):
            self.mechanism.privatize(codes)

    def test_variance_is_that_of_the_unbiased_indicator(self):
        keep, other = self.mechanism.probabilities
        reports = self.mechanism.privatize(np.zeros(1_000_000, int))
        debiased = ((reports == 3) - other) / (keep - other)
        assert abs(debiased.mean()) < 6 * np.sqrt(self.mechanism.variance / 1e6)
        assert debiased.var() == pytest.approx(self.mechanism.variance, rel=0.02)


@given(num_categories=st.integers(2, 100_000), epsilon=st.floats(1e-6, 40.0))
def test_integers_keep_epsilon_and_waste_nothing(num_categories, epsilon):
    keep, other = RandomizedResponse(num_categories, epsilon).words
    assert keep + (num_categories - 1) * other == 2**64
    with mpmath.workdps(60):
        loss = mpmath.log(mpmath.mpf(keep) / other)
        assert loss <= mpmath.mpf(epsilon)
        assert loss >= mpmath.mpf(epsilon) - 2 * mpmath.mpf(num_categories) / other


def test_a_number_of_numpy_has_the_words_of_the_same_number():
    """Products of 64-bit integers would wrap around."""
    for kind in (RandomizedResponse, SubsetSelection):
        assert kind(np.uint8(200), 0.5).words == kind(200, 0.5).words
    given, same = (Window(1.0, *map(number, (1, 128, 17))) for number in (np.uint8, int))
    assert json.dumps(given.to_dict()) == json.dumps(same.to_dict())
