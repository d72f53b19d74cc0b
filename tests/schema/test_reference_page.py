"""The page of kinds and options says what the code takes: all of it, and nothing else."""

import re
import tomllib
from pathlib import Path

import pytest

from privot.schema import Column, Schema
from privot.schema.drafts import read_declaration

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "schema.md").read_text(encoding="utf-8")
KINDS = ("numeric", "datetime", "categorical", "boolean", "word", "vector", "array", "identifier")
# What each kind needs beside the option that is shown.
NEEDED = {
    "numeric": {"bounds": [17, 90]},
    "datetime": {"bounds": ["2020-01-01", "2024-12-31"]},
    "categorical": {"categories": ["a", "b"]},
    "boolean": {},
    "word": {},
    "vector": {"columns": ["x", "y"], "radius": 1.0},
    "array": {"shape": [28, 28], "bounds": [0, 1]},
    "identifier": {"pattern": "x{9}"},
}
MORE = {"norm": {"radius": 2.0}, "center": {"radius": 2.0}, "low_pass": {"transform": "dct"}}


def rows(heading):
    """The rows of the table under a heading, header left out: cells without blanks around them."""
    part = re.search(rf"^#+ {heading}\n(.*?)(?=^#+ |\Z)", PAGE, re.DOTALL | re.MULTILINE).group(1)
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_kind_of_the_library_has_a_table():
    own = {kind for kind, cls in Column.kinds.items() if cls.__module__.startswith("privot.")}
    assert own == set(KINDS) == {row[0].strip("`") for row in rows("Kinds")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kinds_table_has_its_options_their_defaults_and_examples_that_work(kind):
    fields = Column.kinds[kind].model_fields
    table = {row[0].strip("`"): row for row in rows(kind)}
    assert set(table) == set(fields)
    for name, (_, default, _, example) in table.items():
        assert fields[name].is_required() == (default == "required"), name
        if default.startswith("`"):
            assert tomllib.loads(f"x = {default.strip('`')}")["x"] == fields[name].default, name
        declared = tomllib.loads(example.strip("`"))
        assert list(declared) == [name]
        needed = {"bounds": [0, 90]} if name in ("step", "spikes") else {}
        needed |= {"bounds": [17, 90]} if name == "bins" and kind == "numeric" else {}
        needed = NEEDED[kind] | MORE.get(name, {}) | needed
        if kind == "vector" and name in ("bounds", "support"):
            needed = {"columns": ["x", "y"]}
        column = {"kind": kind} | needed | declared
        another = {"another": {"kind": "boolean"}}
        made = Schema.from_dict({"columns": {"column": column} | another})
        assert getattr(made.declared["column"], name) is not None


def test_the_schemas_own_table():
    table = {row[0].strip("`"): row for row in rows("Top level")}
    own = {field.alias or name for name, field in Schema.model_fields.items()}
    assert set(table) == own


def test_lines_are_read_as_the_page_has_them():
    table = rows("In a line")
    assert len(table) >= 8
    for line, _ in table:
        assert read_declaration(line.strip("`").replace("\\|", "|")).fields
