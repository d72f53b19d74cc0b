"""Dates and times: every one has its own step, and comes back with its type."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from mixed_columns import SCHEMA, TABLE
from privot.schema import Schema


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


@pytest.mark.parametrize(
    ("resolution", "label", "step"),
    [
        ("hour", "2024-01-01T00:00:00 to 2024-01-01T01:00:00", 3600),
        ("minute", "2024-01-01T00:00:00 to 2024-01-01T02:23:00", 60),
    ],
)
def test_moments_are_whole_hours_or_minutes(resolution, label, step):
    schema = Schema.from_toml(
        f'[columns.at]\nkind = "datetime"\nresolution = "{resolution}"\n'
        "bounds = [2024-01-01T00:00:00, 2024-01-02T00:00:00]"
    )
    column = schema.coded["at"]
    assert column.labels[0] == label
    drawn = column.decode_codes("at", np.arange(10).repeat(9), np.random.default_rng(0))["at"]
    assert drawn.type == pa.timestamp("s")
    assert not (np.asarray(drawn.cast(pa.int64())) % step).any()
    assert (column.encode_codes("at", pa.table({"at": drawn})) == np.arange(10).repeat(9)).all()
