"""Frequency oracles: what they say of a support holds of their law, summed over all reports."""

from itertools import combinations

import numpy as np
import pytest

from privot.mechanisms import RandomizedResponse, SubsetSelection
from privot.schema import CategoricalColumn

SIZE = 5
SETS = SubsetSelection(SIZE, 0.5).subset_size
ORACLES = {
    "randomized_response": (RandomizedResponse(SIZE, 1.5), np.arange(SIZE)),
    "subset_selection": (
        SubsetSelection(SIZE, 0.5),
        np.array(list(combinations(range(SIZE), SETS))),
    ),
}
each_oracle = pytest.mark.parametrize(("oracle", "reports"), ORACLES.values(), ids=ORACLES)


def column(size):
    return CategoricalColumn(kind="categorical", categories=tuple(map(str, range(size))))


def supported(oracle, reports):
    """Whether each report supports each code, (reports, K)."""
    return (oracle.support(reports)[:, :, None] == np.arange(SIZE)).any(axis=1)


@each_oracle
def test_the_indicator_is_unbiased_and_has_the_stated_variance(oracle, reports):
    own, other = oracle.probabilities
    estimate = (supported(oracle, reports) - other) / (own - other)
    for record in range(SIZE):
        law = np.exp(oracle.log_likelihood(reports, record))
        mean = law @ estimate
        np.testing.assert_allclose(mean, np.arange(SIZE) == record, atol=1e-12)
        variance = law @ (estimate - mean) ** 2
        absent = np.delete(variance, record)
        np.testing.assert_allclose(absent, oracle.variance, rtol=1e-9)


@each_oracle
def test_a_report_tells_two_codes_apart_by_its_support_and_the_ratio_alone(oracle, reports):
    sets = oracle.support(reports)
    assert 1 < oracle.likelihood_ratio <= np.exp(oracle.epsilon)
    for first, second in combinations(range(SIZE), 2):
        codes = (np.full(len(reports), code) for code in (first, second))
        told = oracle.log_ratio(sets, *codes)
        exact = oracle.log_likelihood(reports, first) - oracle.log_likelihood(reports, second)
        np.testing.assert_allclose(told, exact, atol=1e-9)


@each_oracle
def test_it_fits_its_own_alphabet_only(oracle, reports):
    assert oracle.fits(column(SIZE))
    assert not oracle.fits(column(SIZE + 1))
    assert type(oracle).for_column(column(7), 1.0).num_values == 7


@each_oracle
def test_what_is_no_support_is_impossible(oracle, reports):
    sets = oracle.support(reports).astype(np.int64)
    assert not oracle.impossible(sets).any()
    beyond = np.where(sets == sets.max(axis=1, keepdims=True), SIZE, sets)
    assert oracle.impossible(beyond[(sets >= 0).any(axis=1)]).all()
