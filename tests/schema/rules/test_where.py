"""Conditions by values: ranges and computed columns are looked at in records."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.sampling import split_where

SCHEMA = Schema.from_toml("""
rules = ["kind = if age < 18 then child else 'grown up'", "twice = 2 * age"]
[columns.age]
kind = "numeric"
integer = true
bounds = [0, 99]
spikes = [40]
nullable = true
[columns.came]
kind = "datetime"
bounds = [2020-01-01, 2020-12-31]
[columns.twice]
kind = "numeric"
bounds = [0, 198]
nullable = true
[columns.kind]
kind = "categorical"
categories = ["child", "grown up"]
nullable = true
""")
TABLE = pa.table({"age": [5, 35, 40, None], "came": [dt.date(2020, m, 1) for m in (1, 2, 3, 4)]})


def kept(where):
    drawn, rules = split_where(SCHEMA, where)
    table, _ = SCHEMA.read_rules.complete(TABLE)
    good = np.ones(4, bool)
    for term in rules.values():
        good &= np.asarray(term.values(table).fill_null(True))  # as samples do
    return list(drawn), good.tolist()


@pytest.mark.parametrize(
    ("where", "drawn", "rows"),
    [
        ({"age": 5}, ["age"], [1, 1, 1, 1]),
        ({"age": "30..39"}, ["age"], [0, 1, 0, 0]),
        ({"age": ["0..9", "40..50"]}, ["age"], [1, 0, 1, 0]),
        ({"came": "2020-01-15..2020-03-01", "age": None}, ["came", "age"], [0, 1, 1, 0]),
        ({"kind": "grown up"}, [], [0, 1, 1, 0]),
        ({"kind": ["child", None]}, [], [1, 0, 0, 1]),
        ({"twice": 70}, [], [0, 1, 0, 0]),
        ({"twice": "60..100", "age": "0..99"}, ["age"], [0, 1, 1, 0]),
    ],
)
def test_a_split_condition_is_exact(where, drawn, rows):
    assert kept(where) == (drawn, [bool(row) for row in rows])


def test_a_range_has_the_bins_and_spikes_that_it_meets():
    column = SCHEMA.coded["age"]
    named = [column.labels[code] for code in column.find_codes("age", "39..50")]
    assert named == ["30 to 39", "41 to 49", "50 to 59", "40"]
    for wrong in ("50..39", "x..3", "100..200", "-9..-1"):
        with pytest.raises(PrivotError, match="write LOW..HIGH, within the bounds 0.0 and 99.0"):
            column.find_codes("age", wrong)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(PrivotError, match="ranges and other values: give either"):
        split_where(SCHEMA, {"age": ["0..9", 40]})
    with pytest.raises(PrivotError, match="none of the categories of 'kind'"):
        split_where(SCHEMA, {"kind": "pink"})
