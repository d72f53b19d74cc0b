"""A schema with a column of every coded kind, and a table of the values that are easy to get wrong."""

import datetime as dt

import pyarrow as pa

from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [17, 90]
integer = true
bins = "integers"
nullable = true
[columns.weight]
kind = "numeric"
bounds = [0, 200]
bins = [0, 50, 70, 90, 200]
[columns.born]
kind = "datetime"
bounds = [1900-01-01, 2020-12-31]
bins = 12
nullable = true
[columns.seen]
kind = "datetime"
resolution = "second"
bounds = [1960-01-01T00:00:00, 2020-12-31T23:59:59]
[columns.smokes]
kind = "boolean"
nullable = true
[columns.work]
kind = "categorical"
categories = ["clerk", "nurse"]
other = "other"
nullable = true
[columns.sex]
kind = "categorical"
categories = ["F", "M"]
""")

TABLE = pa.table(
    {
        "age": [17, None, 90, 42],
        "weight": [0.0, 69.9, 70.0, 200.0],
        "born": [dt.date(1900, 1, 1), dt.date(1969, 12, 31), None, dt.date(2020, 12, 31)],
        "seen": [dt.datetime(1960, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59)] * 2,
        "smokes": [True, False, None, True],
        "work": ["nurse", "pilot", None, "other"],
        "sex": ["F", "M", "F", "M"],
    }
)
