"""Numbers and dates in a condition: which bin or spike holds them."""

import datetime as dt

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema

SKEWED = Schema.from_toml("""
[columns.carat]
kind = "numeric"
bounds = [0.1, 6]
spikes = [1]
[columns.price]
kind = "numeric"
bounds = [10, 100_000]
scale = "log"
[columns.hours]
kind = "numeric"
integer = true
bounds = [0, 99]
[columns.since]
kind = "datetime"
bounds = [2000-01-01, 2019-12-31]
bins = [2000-01-01, 2010-01-01, 2019-12-31]
nullable = true
""")


@pytest.mark.parametrize(
    ("name", "value", "label"),
    [
        ("carat", 1.0, "1"),
        ("carat", "1.0", "1"),
        ("carat", "0.7", "[0.69, 1.28)"),
        ("carat", "[0.69, 1.28)", "[0.69, 1.28)"),
        ("carat", 0.6900000000000001, "[0.69, 1.28)"),
        ("price", np.float32(12), "[10, 25.1)"),
        ("hours", 1, "0 to 9"),
        ("since", "2010-01-01", "2010-01-01 to 2019-12-31"),
        ("since", dt.date(2009, 12, 31), "2000-01-01 to 2009-12-31"),
        ("since", None, "(missing)"),
    ],
)
def test_a_condition_finds_the_bin_that_holds_a_number(name, value, label):
    column = SKEWED.coded[name]
    assert column.labels[column.find_code(name, value)] == label


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("carat", "7", "the value '7': its bounds are 0.1 and 6.0"),
        ("hours", float("nan"), "its bounds are"),
        ("hours", True, "the value True: use '0 to 9'"),
        ("hours", None, "use '0 to 9'"),
        ("since", "1999-12-31", "its bounds are 2000-01-01 and 2019-12-31"),
        ("since", "soon", "use '2000-01-01 to 2009-12-31'"),
    ],
)
def test_a_condition_beyond_the_bounds_names_them(name, value, words):
    with pytest.raises(PrivotError, match=words):
        SKEWED.coded[name].find_code(name, value)
