"""Distinct rows are those that NumPy finds by comparing records, in the same order."""

import numpy as np
import pytest

from privot.randomizer.reports import rows as table
from privot.randomizer.reports.rows import distinct_rows

RNG = np.random.default_rng(0)
TABLES = {
    "few": RNG.integers(-1, 5, (3000, 3)).astype(np.int32),
    "many": RNG.integers(0, 1000, (3000, 4)).astype(np.int32),
    "one column": RNG.integers(0, 7, (500, 1)),
    "no column": np.zeros((5, 0), np.int32),
    "one row": np.array([[3, 1]]),
    "beyond 63 bits": RNG.integers(0, 2, (2000, 12)) * 999_983 - 7,
    "wide": RNG.integers(0, 2, (4000, 300)).astype(bool)[RNG.integers(0, 60, 4000)],
    "small integers whose span needs more bits": np.array([[-128], [127], [0], [127]], np.int8),
    "large integers": np.array([[2**63 - 1, -(2**63)], [0, 5], [2**63 - 1, -(2**63)], [-1, 5]]),
    "unsigned": np.array([[2**64 - 1], [1], [2**64 - 1]], np.uint64),
    "noisy numbers": RNG.integers(-20, 20, (1000, 2)) / 8.0,
}


@pytest.mark.parametrize("few_marks", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_rows_are_ranked_as_records_are(name, few_marks, monkeypatch):
    if few_marks:  # every table is sorted, none is marked
        monkeypatch.setattr(table, "_KEYS_PER_ROW", 0)
        monkeypatch.setattr(table, "_MIN_KEYS", 0)
    rows = TABLES[name]
    places, ranks = distinct_rows(rows)
    if rows.shape[1]:
        expected, inverse = np.unique(rows, axis=0, return_inverse=True)
    else:
        expected, inverse = rows[:1], np.zeros(len(rows), int)
    np.testing.assert_array_equal(rows[places], expected)
    np.testing.assert_array_equal(ranks, inverse.ravel())


def test_no_rows_have_no_ranks():
    places, ranks = distinct_rows(np.zeros((0, 2), np.int32))
    assert places.size == ranks.size == 0
