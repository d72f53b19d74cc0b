"""`privot schema`: what a record may be, what is wrong with records, and drafts that stay drafts."""

import json

import pytest

from commands import typed

SCHEMA = """
[columns.age]
kind = "numeric"
bounds = [0, 99]
measured_in = "years"
[columns.home]
kind = "vector"
columns = ["x", "y"]
radius = 1.0
"""


@pytest.fixture
def run(tmp_path):
    """Run `privot schema …` beside a schema; return (exit code, standard output, error)."""
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return typed(tmp_path, "schema")


def test_every_column_is_told_as_it_is_reported(run):
    code, out, _ = run("check schema.toml")
    assert code == 0
    assert out.splitlines()[0] == "one record belongs to one person and has 2 columns"
    assert "age (years): numeric, reported as one of 10" in out
    assert "home: vector, reported as one of" in out
    assert json.loads(run("check schema.toml --json")[1])["columns"].keys() == {"age", "home"}


def test_columns_that_are_not_reported_say_so(run, tmp_path):
    made = (
        '[columns.id]\nkind = "identifier"\npattern = "\\\\d"\n[columns.decade]\nkind = "numeric"\n'
    )
    rules = 'rules = ["decade = age / 10"]\n'
    (tmp_path / "schema.toml").write_text(rules + SCHEMA + made + "bounds = [0, 10]\n")
    code, out, _ = run("check schema.toml")
    assert code == 0
    assert "has 2 columns" in out
    assert "id: identifier, never reported: made up" in out
    assert "decade: numeric, never reported: computed by a rule" in out


def test_wrong_records_are_found_all_at_once_and_end_with_1(run, tmp_path):
    (tmp_path / "people.csv").write_text("age,x,y\n5,0,0\nold,0.5,0\n7,,0\n200,0,0\n")
    code, out, err = run("check schema.toml --against people.csv")
    assert code == 1
    assert "age: 1 of 4" in out
    assert "x: 1 of 4" in out
    assert "not private" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("check schema.toml --json --against people.csv", "give one of them"),
        ("check schema.toml --ignore x", "name their file by --against"),
        ("new --from nowhere.json -o draft.toml", "metadata nowhere.json cannot be read"),
    ],
)
def test_refusals_are_one_line_and_exit_with_2(run, arguments, message):
    code, out, err = run(arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_draft_of_a_header_waits_for_kinds_and_bounds_with_a_line_for_each(run, tmp_path):
    (tmp_path / "people.csv").write_text("age;sex\n44;F\n")
    new = "new --like people.csv --separator ; -o draft.toml"
    assert run(new)[0] == 0
    code, out, err = run("check draft.toml")
    assert (code, out) == (2, "")
    assert [line.split(":")[1] for line in err.splitlines()] == [
        " kind '' of column 'age' is not known",
        " kind '' of column 'sex' is not known",
    ]
    assert "44" not in (tmp_path / "draft.toml").read_text()
    assert run(new)[0] == 2  # it is not written over
