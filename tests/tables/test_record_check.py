"""Everything that is wrong with records is told at once, with its place and an example."""

import pyarrow as pa
import pytest

from privot import Schema
from privot.errors import PrivotError
from privot.tables.batches import TableBatches
from privot.tables.record_check import check_records

SCHEMA = Schema.from_toml("""
[columns.height]
kind = "numeric"
bounds = [0, 3]
[columns.color]
kind = "categorical"
categories = ["red", "blue"]
""")


def check(**columns):
    return check_records(TableBatches(pa.table(columns)), SCHEMA)


def test_every_kind_of_problem_is_one_finding():
    found = check(
        height=["1", "tall", "nan", "2", "wide"], color=["red", "green", "red", "", "green"]
    )
    assert found.num_rows == 5
    told = {(one.column, one.example): (one.count, one.places) for one in found.findings}
    rows = [f"row {row} of the table" for row in range(1, 6)]
    assert told[("height", "'tall'")] == (2, [rows[1], rows[4]])
    assert told[("color", "'green'")][0] >= 2
    assert sum(one.count for one in found.findings) == 6
    assert found.outside == {}


def test_values_outside_are_counted_and_no_finding():
    found = check(height=[-1.0, 2.0, 9.0], color=["red"] * 3)
    assert (found.findings, found.outside) == ((), {"height": 2})


def test_long_examples_are_cut_and_places_are_three():
    (finding,) = check(height=[1.0] * 9, color=["x" * 500] * 9).findings
    assert len(finding.example) <= 41
    assert (finding.count, len(finding.places)) == (9, 3)


def test_no_rows_are_refused():
    with pytest.raises(PrivotError, match="has no rows"):
        check(height=pa.array([], pa.float64()), color=pa.array([], pa.string()))
