"""Rules of a schema: what they define is left out of reports, and what breaks them is found."""

import datetime as dt

import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema

STAY = """
rules = [
    "discharge >= admission",
    "nights = discharge - admission",
    "paid = nights * rate",
    "region = if state in (CA, OR) then west else east",
    "if pregnant then sex = F",
]
[columns.patient]
kind = "identifier"
pattern = 'P-\\d{6}'
[columns.paid]
kind = "numeric"
bounds = [0, 1000]
decimals = 2
[columns.nights]
kind = "numeric"
integer = true
bounds = [0, 31]
[columns.rate]
kind = "numeric"
bounds = [10, 50]
[columns.admission]
kind = "datetime"
bounds = [2024-01-01, 2024-12-31]
[columns.discharge]
kind = "datetime"
bounds = [2024-01-01, 2024-12-31]
[columns.state]
kind = "categorical"
categories = ["CA", "OR", "NY"]
[columns.region]
kind = "categorical"
categories = ["west", "east"]
[columns.sex]
kind = "categorical"
categories = ["F", "M"]
[columns.pregnant]
kind = "boolean"
nullable = true
"""
SCHEMA = Schema.from_toml(STAY)
NEW_YEAR = dt.date(2024, 1, 1)
REPORTED = ["rate", "admission", "discharge", "state", "sex", "pregnant"]


def test_what_is_made_up_or_defined_is_not_reported():
    assert list(SCHEMA.columns) == list(SCHEMA.table_columns) == REPORTED
    assert SCHEMA.sampled_columns[:3] == ("patient", "paid", "nights")
    assert set(SCHEMA.unread_columns) == {"patient", "paid", "nights", "region"}
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA


def test_records_are_completed_and_those_that_break_a_rule_are_named():
    table = pa.table(
        {
            "rate": [10.005, 20.0, 50.0, 10.0],
            "admission": [dt.date(2024, 2, 28), dt.date(2024, 3, 2), NEW_YEAR, NEW_YEAR],
            "discharge": [dt.date(2024, 3, 1), dt.date(2024, 3, 1), dt.date(2024, 1, 31), NEW_YEAR],
            "state": ["CA", "NY", "OR", "NY"],
            "sex": ["F", "M", "F", "M"],
            "pregnant": [True, None, False, True],
        }
    )
    whole, broken = SCHEMA.read_rules.complete(table)
    assert whole.column("nights").to_pylist()[::2] == [2, 30]
    assert whole.column("nights").type == pa.int64()
    assert whole.column("paid").to_pylist()[0] == 20.01
    assert whole.column("region").to_pylist() == ["west", "east", "west", "east"]
    assert broken["discharge >= admission"].tolist() == [False, True, False, False]
    assert broken["if pregnant then sex = F"].tolist() == [False, False, False, True]
    assert broken["nights = … within its declaration"].tolist() == [False, True, False, False]
    assert broken["paid = … within its declaration"].tolist() == [False, False, True, False]


def test_a_table_may_have_them_or_not():
    rows = {"rate": [10.0], "admission": ["2024-01-01"], "discharge": ["2024-01-01"]}
    rows |= {"state": ["CA"], "sex": ["F"], "pregnant": [None]}
    SCHEMA.check_table(pa.table(rows))
    SCHEMA.check_table(pa.table(rows | {"patient": [None], "paid": ["a secret"]}))
    with pytest.raises(PrivotError, match=r"columns \['name'\] are not in the schema"):
        SCHEMA.check_table(pa.table(rows | {"name": ["x"]}))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("nights = rate", "column 'nights' is defined twice"),
        ("1 < 2", "depends on no column"),
        ("rate + 1", "is a number: write a condition"),
        ("sex = rate", "defines a text by a number"),
        ("sex = if state = CA then X else F", "'X', which is none of the categories of 'sex'"),
        ("rate = rate + 1", "defines a column by itself"),
        ("patient = 3", "patient"),
    ],
)
def test_rules_that_cannot_be_are_refused(rule, words):
    with pytest.raises(PrivotError, match=words):
        Schema.from_toml(STAY.replace("rules = [", f"rules = [\n'{rule}',"))


def test_a_schema_needs_something_to_report():
    with pytest.raises(PrivotError, match="declare one to report"):
        Schema.from_toml('[columns.id]\nkind = "identifier"\npattern = "x"')
