"""Dates and times: every one has its own step, and comes back with its type."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from mixed_columns import SCHEMA, TABLE
from privot.core.errors import PrivotError
from privot.device.device import units_of
from privot.schema import Column, Schema


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


FORMATS = [
    ("day", "%d/%m/%Y", "29/02/2024", "2024-02-29"),
    ("hour", "%H h, %m-%d %Y", "07 h, 12-30 2024", "2024-12-30T07:00:00"),
    ("second", "(%S.%M.%H) %Y.%m.%d", "(05.04.03) 2024.01.02", "2024-01-02T03:04:05"),
]


@pytest.mark.parametrize(("resolution", "form", "text", "iso"), FORMATS)
def test_a_format_is_read_in_tables_and_on_devices_and_written_in_samples(
    resolution, form, text, iso
):
    fields = {"kind": "datetime", "bounds": ["2024-01-01", "2024-12-31"], "resolution": resolution}
    column, plain = (Column.of_kind(fields | more) for more in ({"format": form}, {}))
    table = pa.table({"d": [text, iso, ""]}).slice(0, 2)
    expected = plain.number(iso)
    assert column.accept("d", table).tolist() == [expected, expected]
    take = column.point_program("d")
    assert units_of(take, {"d": text}) == units_of(take, {"d": iso})
    samples = pa.table(column.decode_numbers("d", np.array([expected])))
    assert column.in_format("d", samples).column("d").to_pylist() == [text]
    assert column.accept("d", column.in_format("d", samples)).tolist() == [expected]


@pytest.mark.parametrize(
    "text", ["31/02/2024", "1/2/2024", "01/02/24", "01-02-2024", "01/02/2024 x"]
)
def test_what_is_not_in_the_format_is_refused_everywhere_with_an_example(text):
    fields = {"kind": "datetime", "bounds": ["2024-01-01", "2024-12-31"], "format": "%d/%m/%Y"}
    column = Column.of_kind(fields)
    with pytest.raises(PrivotError, match="column 'd' .*write dates as 31/05/2024"):
        column.accept("d", pa.table({"d": [text]}))
    with pytest.raises(PrivotError, match=r"column 'd' holds .*date"):
        units_of(column.point_program("d"), {"d": text})


@pytest.mark.parametrize(
    ("form", "resolution"),
    [("%d/%m", "day"), ("%d/%m/%y", "day"), ("%d/%m/%Y", "hour"), ("%d %d/%m/%Y", "day"),
     ("%d %b %Y", "day"), ("%Y-%d-%m", "day"), ("%d/%m/%Y%", "day"), ("", "day")],
)  # fmt: skip
def test_formats_that_leave_a_part_out_or_are_unclear_are_refused(form, resolution):
    fields = {"kind": "datetime", "bounds": ["2024-01-01", "2024-12-31"], "format": form}
    with pytest.raises(PrivotError, match="format .* cannot be used: give %Y, %m, %d"):
        Schema.from_dict({"columns": {"d": fields | {"resolution": resolution}}})
