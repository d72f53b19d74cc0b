"""Terms: dates are days, whatever their type in a table."""

import datetime as dt

import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.schema.rules import column_term, date_constant, to_timestamps


def test_dates_and_times_are_days_since_1970_and_return():
    times = [dt.datetime(1969, 12, 31, 18), dt.datetime(2024, 2, 29), None]
    term = column_term("t", "date", None)
    days = term.values(pa.table({"t": times}))
    assert days.to_pylist() == [-0.25, 19782.0, None]
    assert to_timestamps(days).to_pylist() == times
    only = term.values(pa.table({"t": [dt.date(2024, 2, 29)]}))
    assert only.to_pylist() == [19782.0]
    assert date_constant("2024-02-29").values(None).as_py() == 19782.0
    with pytest.raises(PrivotError, match="no calendar"):
        date_constant("2023-02-29")
