"""Numbers and dates: every one has its own step, and comes back with its type."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa

from mixed_columns import SCHEMA, TABLE


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
