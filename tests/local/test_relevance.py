"""Columns that depend on nothing are distinguished from those that do."""

import numpy as np

from privot.local.classes.class_fit import relevance
from privot.local.classes.counts import count_tables
from privot.local.classes.marginals import stacked_marginals
from simulated_reports import joint_reports

SIZES = (4, 4, 5, 3)


def test_what_depends_keeps_its_freedom_and_what_does_not_is_held():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 20_000)
    second = np.where(rng.random(20_000) < 0.8, first, rng.integers(0, 4, 20_000))
    others = [rng.integers(0, size, 20_000) for size in SIZES[2:]]
    people = np.stack([first, second, *others], axis=1)
    tables = count_tables(joint_reports(rng, people, SIZES, 3.0), SIZES)
    factors = relevance(tables, stacked_marginals(tables), 0)
    assert factors.shape == (16, 1)
    by_column = factors[tables.offsets[:-1], 0]
    assert (by_column[:2] < 10).all()
    assert (by_column[2:] > 50).all()


def test_where_no_report_has_two_columns_all_factors_are_one():
    rng = np.random.default_rng(0)
    people = rng.integers(0, 4, (500, 1)).repeat(2, axis=1)
    tables = count_tables(joint_reports(rng, people, (4, 4), 3.0, report_columns=1), (4, 4))
    assert not tables.has_pairs
    assert relevance(tables, stacked_marginals(tables), 0).tolist() == [[1.0]] * 8
