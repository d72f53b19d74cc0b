"""Raw values: text that says a number or a date is one; what cannot be is refused by row alone."""

import numpy as np
import pyarrow as pa
import pytest

from mixed_columns import SCHEMA, TABLE
from privot.schema.columns.raw_values import RecordError, find_texts, read_numbers


def column(values):
    return pa.table({"x": values})


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


def test_a_text_that_is_not_there_has_a_place_past_the_list_unless_it_is_listed():
    texts = pa.chunked_array([["b", "", None], ["c", "a"]], pa.string())
    assert find_texts(texts, ["a", "b"]).tolist() == [1, 2, 3, -1, 0]
    assert find_texts(texts, ["", "b", "a"]).tolist() == [1, 0, 4, -1, 2]


def test_what_is_read_is_the_tables_own_only_to_be_read():
    """A number that is none is missing in what is read, and stays in the table."""
    raw = np.array([1.0, np.inf, 3.0])
    numbers, problems = read_numbers(pa.chunked_array([raw]), "x")
    assert np.isnan(numbers[1])
    assert raw[1] == np.inf
    assert problems[0].first_row == 1
    kept, _ = read_numbers(pa.chunked_array([raw[:1]]), "x")
    assert not kept.flags.writeable or not np.shares_memory(kept, raw)


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
        ("sex", pa.array([["F"], ["M"]]), "row 1: column 'sex' holds list, not text"),
        ("weight", [{"a secret": 1}] * 2, "row 1: column 'weight' holds struct, not numbers"),
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
        problem.fault: np.flatnonzero(problem.rows).tolist()
        for problem in SCHEMA.columns["weight"].read("weight", weights)[1]
    }
    assert found == {
        "has a number with a comma": [1, 5],
        "has no value": [2],
        "has text, not a number": [3],
        "is infinite, or too large for a number": [4],
        "has a date, not a number": [6],
    }
