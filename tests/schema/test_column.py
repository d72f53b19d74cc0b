"""Values become codes and points and come back with their types; what cannot is refused by row."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privot.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.raw_values import RecordError

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


def column(values):
    return pa.table({"x": values})


@pytest.mark.parametrize("name", list(SCHEMA.columns))
def test_decoding_restores_type_and_missing_values_and_encodes_to_the_same_code(name):
    declared = SCHEMA.coded[name]
    codes = declared.encode_codes(name, TABLE)
    again = pa.table(declared.decode_codes(name, codes, np.random.default_rng(0)))
    assert (declared.encode_codes(name, again) == codes).all()
    assert again.column(name).null_count == TABLE.column(name).null_count
    stored = {"born": pa.date32(), "seen": pa.timestamp("s"), "work": pa.string()}
    assert again.column(name).type == stored.get(name, TABLE.column(name).type)


def test_every_integer_and_every_category_comes_back_as_it_was():
    for name in ("age", "smokes", "sex"):
        codes = SCHEMA.coded[name].encode_codes(name, TABLE)
        again = SCHEMA.coded[name].decode_codes(name, codes, np.random.default_rng(0))[name]
        assert again.to_pylist() == TABLE.column(name).to_pylist()
    codes = SCHEMA.coded["work"].encode_codes("work", TABLE)
    assert codes.tolist() == [1, 2, 3, 2]  # an unlisted pilot is "other"


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


def test_text_from_a_csv_means_the_same():
    text = pa.table(
        {
            "born": ["1900-01-01", "1969-12-31", "", "2020-12-31"],
            "smokes": ["True", "no", "", "1"],
            "work": ["nurse", "pilot", "", "other"],
        }
    )
    for name in text.column_names:
        declared = SCHEMA.coded[name]
        np.testing.assert_array_equal(
            declared.encode_codes(name, text), declared.encode_codes(name, TABLE)
        )


def test_frames_with_nan_for_missing_mean_the_same():
    frame = pd.DataFrame({"age": [17, np.nan, 90, 42]})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    declared = SCHEMA.coded["age"]
    assert (declared.encode_codes("age", table) == declared.encode_codes("age", TABLE)).all()


def test_a_column_of_nothing_but_missing_values():
    for name in ("age", "born", "smokes", "work"):
        declared = SCHEMA.coded[name]
        codes = declared.encode_codes(name, pa.table({name: pa.nulls(3)}))
        assert (codes == declared.alphabet.size - 1).all()


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("weight", [1.0, None], "row 2: column 'weight' has no value: declare nullable"),
        ("weight", ["7", "a secret"], "row 2: column 'weight' has text, not a number"),
        ("weight", ["7", "70,5"], "row 2: column 'weight' has a number with a comma"),
        ("weight", ["7", "1.234,5"], "row 2: column 'weight' has a number with a comma"),
        ("weight", ["7", "2024-05-31"], "row 2: column 'weight' has a date, not a number"),
        ("weight", ["7", "0x1p4"], "row 2: column 'weight' has text, not a number"),
        ("weight", ["7", "n/a"], "row 2: column 'weight' has no value"),
        ("weight", ["7", "1e999"], "row 2: column 'weight' is infinite, or too large"),
        ("weight", [True, False], "row 1: column 'weight' holds bool, not numbers"),
        ("weight", [1.0, float("inf")], "row 2: column 'weight' is infinite"),
        ("seen", ["2001-01-01", "yesterday"], "row 2: column 'seen' has text, not a date"),
        ("seen", ["2001-01-01", "31.12.2001"], "row 2: column 'seen' has a date in another format"),
        ("seen", ["2001-01-01", "2001-02-30"], "row 2: column 'seen' has a date in another format"),
        ("seen", ["2001-01-01T00:00:00Z"] * 2, "row 1: column 'seen' has a time with a zone"),
        ("seen", pa.array([None, None], pa.timestamp("s")), "row 1: column 'seen' has no value"),
        ("born", [2001, 1999], "row 1: column 'born' holds int64, not dates"),
        ("sex", ["F", "X"], "row 2: column 'sex' is none of its 2 categories"),
        ("sex", ["F", " M"], "row 2: column 'sex' has spaces around its category"),
        ("sex", ["F", "m"], "row 2: column 'sex' differs from a category by capitals"),
        ("sex", ["F", ""], "row 2: column 'sex' has no value"),
        ("sex", pa.array(["F", None]), "row 2: column 'sex' has no value"),
        ("sex", pa.array([["F"], ["M"]]), "row 1: column 'sex' holds list<"),
        ("smokes", ["true", "perhaps"], "row 2: column 'smokes' is none of its 2 categories"),
    ],
)
def test_values_that_cannot_be_are_refused_by_column_row_and_kind(name, values, words):
    with pytest.raises(RecordError) as caught:
        SCHEMA.coded[name].encode_codes(name, pa.table({name: values}))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_refusal_tells_a_value():
    secret = {"weight": "77,25", "seen": "12.12.1912", "smokes": "daily", "sex": "X"}
    for name, value in secret.items():
        with pytest.raises(RecordError) as caught:
            SCHEMA.coded[name].encode_codes(name, pa.table({name: [value]}))
        assert value not in str(caught.value)
        assert value not in repr(caught.value.__context__)


def test_numbers_and_dates_as_text_are_what_they_say():
    text = pa.table({"age": [" 17", "NA", "9e1", "42.0"], "born": ["1900-01-01 ", "NA", "", "n/a"]})
    assert SCHEMA.coded["age"].encode_codes("age", text).tolist() == [0, 74, 73, 25]
    assert SCHEMA.coded["born"].encode_codes("born", text).tolist() == [0, 12, 12, 12]


def test_all_problems_of_a_column_are_found_at_once():
    weights = pa.table({"weight": ["1", "1,5", None, "x", "inf", "2,5", "31.12.2001"]})
    found = {
        problem.what: np.flatnonzero(problem.rows).tolist()
        for problem in SCHEMA.columns["weight"].read("weight", weights)[1]
    }
    assert found == {
        "has a number with a comma": [1, 5],
        "has no value": [2],
        "has text, not a number": [3],
        "is infinite, or too large for a number": [4],
        "has a date, not a number": [6],
    }


def test_schemas_of_every_kind_round_trip():
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "numeric"\nbounds = [0, 9]\nbins = "integers"', "need integer = true"),
        ('kind = "numeric"\nbounds = [0.5, 9]\ninteger = true', "integer column"),
        ('kind = "numeric"\nbounds = [0, 9]\nbins = [0, 5]', "do not begin and end"),
        ('kind = "numeric"\nbounds = [0, 9]\nbins = 0', "bins 0 do not fit"),
        ('kind = "numeric"\nbounds = [0, 9]\ninteger = true\nbins = 11', "bins 11 do not fit"),
        ('kind = "datetime"\nbounds = ["2001-01-01", "soon"]', "'soon' is not a date"),
        ('kind = "datetime"\nbounds = [2001-01-01, 2000-01-01]', "are not an interval"),
        ('kind = "categorical"\ncategories = []\nother = "x"', "leave nothing to hide"),
    ],
)
def test_declarations_that_cannot_be_are_refused(text, words):
    with pytest.raises(PrivotError) as caught:
        Schema.from_toml("[columns.x]\n" + text)
    assert words in str(caught.value)
