"""Rules in words: what they mean, and what is refused with the word that cannot be."""

import contextlib
import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.schema.rules import column_term, read_rule

COLUMNS = {
    "a": column_term("a", "number", None),
    "b": column_term("b", "number", None),
    "length of stay": column_term("length of stay", "number", None),
    "came": column_term("came", "date", None),
    "left": column_term("left", "date", None),
    "sex": column_term("sex", "text", ("F", "M")),
    "pregnant": column_term("pregnant", "truth", None),
}
TABLE = pa.table(
    {
        "a": [1, 2, None],
        "b": [2.0, 2.0, 2.0],
        "length of stay": [0, 1, 2],
        "came": [dt.date(2024, 2, 28)] * 3,
        "left": [dt.datetime(2024, 2, 28), dt.datetime(2024, 3, 1, 12), None],
        "sex": ["F", "M", None],
        "pregnant": [True, True, None],
    }
)


def told(text):
    values = read_rule(text, COLUMNS)[1].values(TABLE)
    return values.to_pylist()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a < b", [True, False, None]),
        ("0 <= a < b", [True, False, None]),
        ("a = 1 + 2 * 3 - 6 / 1", [True, False, None]),
        ("(a + b) * 2 == 8", [False, True, None]),
        ("-a > -b", [True, False, None]),
        ("a - -b = 3", [True, False, None]),
        ("left >= came", [True, True, None]),
        ("left - came > 2.25", [False, True, None]),
        ("came + `length of stay` = 2024-02-29", [False, True, False]),
        ("left = 2024-03-01T12:00", [False, True, None]),
        ("if pregnant then sex = F", [True, False, None]),
        ('if pregnant then sex = "F"', [True, False, None]),
        ("not pregnant or sex in (F, M)", [True, True, None]),
        ("sex not in (F)", [False, True, None]),
        ("not sex = F and not a = 1", [False, True, None]),
        ("a = missing", [False, False, True]),
        ("if a = missing then b != missing", [True, True, True]),
        ("pregnant = true", [True, True, None]),
    ],
)
def test_conditions_mean_what_they_say_and_pass_by_what_is_missing(text, values):
    # In parentheses, for a rule that begins with a column and = defines it.
    assert told(f"({text})") == values


@pytest.mark.parametrize(
    ("text", "column", "values"),
    [
        ("a = b + 1", "a", [3, 3, 3]),
        ("a = if sex = F then b else missing", "a", [2, None, None]),
        ("sex = if a < 2 then F else if a < 9 then M else F", "sex", ["F", "M", None]),
        ("pregnant = sex = F and b > 1", "pregnant", [True, False, None]),
    ],
)
def test_a_rule_that_begins_with_a_column_and_equals_defines_it(text, column, values):
    name, term = read_rule(text, COLUMNS)
    assert name == column
    assert term.values(TABLE).to_pylist() == values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it ends where a value is expected"),
        ("a <", "it ends where"),
        ("a < b b", "'b' is not expected there"),
        ("(a < b", "'\\)' is expected before its end"),
        ("if a < b", "'then' is expected before its end"),
        ("a ; b", "' ; b' cannot be read"),
        ("`c` = 1", "column 'c' is not one of a, b"),
        ("a < came", "'a' is a number and 'came' is a date"),
        ("came + left = 3", "compute with numbers"),
        ("sex < M", "have no order"),
        ("(sex = X)", "'X' is no column, and none of the categories of 'sex': use one of F, M"),
        ("(sex = came)", "'sex' is a text and 'came' is a date"),
        ("a and b", "'a' beside 'and' is a number"),
        ("not a", "'a' beside 'not' is a number"),
        ("a < missing", "missing is compared by <"),
        ("left > 2024-02-31", "a date that no calendar has"),
        ("if a then b", "'a' beside 'not'"),
        ("if pregnant then b else came", "'b' is a number"),
        ("then = 3", "'then' stands where a value is expected"),
        ("(" * 99 + "a", "nested more than 40 deep"),
        ("a" * 3000, "more than 2,000"),
        ("__import__('os')", "is not expected"),
    ],
)
def test_refusals_name_the_rule_and_the_word(text, words):
    with pytest.raises(PrivotError, match=words) as caught:
        read_rule(text, COLUMNS)
    assert str(caught.value).startswith("rule ")


@given(st.text(alphabet="ab()<=+-*/ 19.,\"'`ifthenlsorad", max_size=40))
def test_any_text_is_a_rule_or_refused(text):
    with contextlib.suppress(PrivotError):
        assert read_rule(text, COLUMNS)[1].type in ("number", "text", "truth", "missing", "date")
