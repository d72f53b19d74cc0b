"""Numbers: missing ones, and what their bins are called."""

import numpy as np
import pandas as pd
import pyarrow as pa

from mixed_columns import SCHEMA, TABLE
from privot.schema import Schema


def test_frames_with_nan_for_missing_mean_the_same():
    frame = pd.DataFrame({"age": [17, np.nan, 90, 42]})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    declared = SCHEMA.coded["age"]
    assert (declared.encode_codes("age", table) == declared.encode_codes("age", TABLE)).all()


def test_labels_are_the_decimals_that_a_person_would_write():
    schema = Schema.from_toml("""
    [columns.carat]
    kind = "numeric"
    bounds = [0.1, 6]
    spikes = [1]
    [columns.price]
    kind = "numeric"
    bounds = [10, 100_000]
    scale = "log"
    """)
    carat, price = (schema.coded[name].labels for name in ("carat", "price"))
    assert carat[:2] == ("[0.1, 0.69)", "[0.69, 1.28)")
    assert carat[-2:] == ("[5.41, 6]", "1")
    assert price[:3] == ("[10, 25.1)", "[25.1, 63)", "[63, 158.5)")
    assert price[-1] == "[39800, 100000]"
