"""Measures of two columns, against closed forms, NumPy and SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats.contingency import association

from privot.evaluation.pairs import correlation, cramers_v, independent, joint_shares

seeds = st.integers(0, 2**32 - 1)


def counts(seed, shape=(4, 3)):
    return np.random.default_rng(seed).integers(1, 50, shape)


@given(seeds, st.integers(2, 6), st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_cramers_v_is_scipys(seed, rows, columns):
    table = counts(seed, (rows, columns))
    ours = cramers_v(table / table.sum())
    assert ours == pytest.approx(association(table, method="cramer"), abs=1e-7)


def test_cramers_v_works_on_many_tables_at_once():
    tables = np.stack([counts(i) / counts(i).sum() for i in range(5)])
    assert cramers_v(tables) == pytest.approx([float(cramers_v(table)) for table in tables])


def test_cramers_v_at_its_ends():
    determined = np.diag([0.2, 0.3, 0.5])[[2, 0, 1]]
    assert cramers_v(determined) == pytest.approx(1)
    assert cramers_v(np.outer([0.2, 0.8], [0.5, 0.25, 0.25])) == pytest.approx(0, abs=1e-7)
    assert cramers_v(np.array([[0.3, 0.7]])) == 0


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_correlation_is_numpys(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 4, 60), rng.integers(0, 3, 60)
    values = rng.normal(size=4), rng.normal(size=3)
    expected = np.corrcoef(values[0][first], values[1][second])[0, 1]
    joint = joint_shares(first, second, (4, 3))
    assert correlation(joint, *values) == pytest.approx(expected, abs=1e-9)


def test_correlation_leaves_missing_values_out():
    values = np.array([1.0, 2.0, np.nan]), np.array([3.0, 4.0])
    complete = np.array([[0.2, 0.1], [0.1, 0.2]])
    with_missing = np.concatenate([complete, [[0.4, 0.0]]])
    expected = correlation(complete / complete.sum(), values[0][:2], values[1])
    assert correlation(with_missing, *values) == pytest.approx(float(expected))
    assert expected == pytest.approx(1 / 3)


@pytest.mark.parametrize("far", [0.0, 1e9])
def test_correlation_of_a_constant_column_is_zero(far):
    joint = np.array([[0.3, 0.7], [0.0, 0.0]])
    assert correlation(joint, np.array([far, far + 1]), np.array([1.0, 2.0])) == 0
    # Nobody has both numbers.
    apart = np.array([[0.0, 0.5], [0.5, 0.0]])
    assert correlation(apart, np.array([1.0, np.nan]), np.array([1.0, np.nan])) == 0


def test_independence_keeps_the_margins():
    joint = counts(0) / counts(0).sum()
    product = independent(joint)
    assert product.sum(0) == pytest.approx(joint.sum(0))
    assert product.sum(1) == pytest.approx(joint.sum(1))
    assert cramers_v(product) == pytest.approx(0, abs=1e-7)
    assert np.abs(np.eye(2) / 2 - independent(np.eye(2) / 2)).sum() / 2 == pytest.approx(0.5)
