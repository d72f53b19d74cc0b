"""Numbers and dates: every one has its own step, and comes back with its type."""

import datetime as dt

import numpy as np
import pandas as pd
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


def test_dates_before_1970_are_on_their_own_day():
    born = SCHEMA.point_column("born")
    days = born.encode_points("born", TABLE.slice(0, 2))[:, 0]
    assert days.tolist() == [-25567.0, -1.0]
    again = born.decode_points("born", days[:, None])["born"]
    assert again.to_pylist() == [dt.date(1900, 1, 1), dt.date(1969, 12, 31)]
    seen = SCHEMA.point_column("seen")
    assert seen.encode_points("seen", TABLE)[1, 0] == -1.0


def test_parts_of_a_second_before_1970_are_on_their_own_day():
    late = pa.table({"born": [dt.datetime(1969, 12, 30, 23, 59, 59, 500_000)]})
    assert SCHEMA.point_column("born").encode_points("born", late)[0, 0] == -2.0


def test_frames_with_nan_for_missing_mean_the_same():
    frame = pd.DataFrame({"age": [17, np.nan, 90, 42]})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    declared = SCHEMA.coded["age"]
    assert (declared.encode_codes("age", table) == declared.encode_codes("age", TABLE)).all()
