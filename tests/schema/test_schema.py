"""Schemas: TOML in, canonical JSON out, refusals that name column, value and remedy."""

import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema

TOML = """
unit = "person"

[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[-8.7, 1.8], [49.8, 60.9]]

[columns.age]
kind = "numeric"
bounds = [17, 90]

[columns.sex]
kind = "categorical"
categories = ["Female", "Male"]
"""


def test_json_round_trip_is_canonical():
    schema = Schema.from_toml(TOML)
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert again.to_json() == schema.to_json()
    assert schema.table_columns == ("longitude", "latitude", "age", "sex")


def test_load_by_suffix(tmp_path):
    (tmp_path / "schema.toml").write_text(TOML)
    schema = Schema.load(tmp_path / "schema.toml")
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    with pytest.raises(PrivotError, match=r"ends with .json"):
        schema.save(tmp_path / "schema.toml")
    assert (tmp_path / "schema.toml").read_text() == TOML


REFUSED = {
    "bounds of column 'age' are missing: declare them in the schema (public knowledge": (
        "bounds = [17, 90]", ""),
    "column 'home': bounds are missing": ("bounds = [[-8.7, 1.8], [49.8, 60.9]]", ""),
    "column 'age': bounds [90.0, 17.0] are not an interval": ("[17, 90]", "[90, 17]"),
    "column 'age' = 'x' cannot be used": ("[17, 90]", '["x", 90]'),
    "column 'age' = inf cannot be used": ("[17, 90]", "[17, inf]"),
    "column 'sex': categories ['Female'] leave nothing to hide": ('"Female", "Male"', '"Female"'),
    "column 'sex': categories ['Female'] are declared twice": ('"Male"', '"Female"'),
    "kind 'number' of column 'age' is not known": ('kind = "numeric"', 'kind = "number"'),
    "kind of column 'age' is missing": ('kind = "numeric"', ""),
    "bond of column 'age' is not known: correct its spelling": (
        'kind = "numeric"', 'kind = "numeric"\nbond = 1'),
    "table columns ['age'] are declared twice": ('"latitude"]', '"age"]'),
    "coordinates for 3 columns": ('"latitude"]', '"latitude", "height"]'),
    "not TOML": ("[columns.age]", "[columns.age"),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_refusals_name_column_value_and_remedy(words):
    old, new = REFUSED[words]
    assert old in TOML
    with pytest.raises(PrivotError) as caught:
        Schema.from_toml(TOML.replace(old, new))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_schema_without_columns_is_refused():
    with pytest.raises(PrivotError, match="columns"):
        Schema.from_toml('unit = "person"')


def test_missing_schema_file_is_named(tmp_path):
    with pytest.raises(PrivotError, match="cannot be read"):
        Schema.load(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"longitude": [0.0]}), "are missing from the table"),
        (pa.table({"longitude": [0.0], "latitude": [50.0], "age": [20], "sex": ["Male"], "x": [1]}),
         "columns ['x'] are not in the schema"),
        (pa.table({"longitude": [0.0], "latitude": [50.0], "age": [20], "sex": ["Male"]}).slice(1),
         "no rows"),
        (pa.Table.from_arrays([pa.array([1])] * 2, names=["age", "age"]), "appear twice"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_are_refused(table, words):
    with pytest.raises(PrivotError) as caught:
        Schema.from_toml(TOML).check_table(table)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("", "declare at least one, as \\[columns.NAME\\]"),
        (
            '[columns.age]\nkind = "numeric"\nbound = [17, 90]\n',
            "^bound of column 'age' is not known",
        ),
        (
            '[columns.home]\nkind = "vector"\ncolumns = ["a", "b"]\nbounds = [-8.7, 1.8]\n',
            "give a pair \\[low, high\\] for each",
        ),
    ],
)
def test_what_is_told_leads_to_the_mistake(toml, words):
    with pytest.raises(PrivotError, match=words):
        Schema.from_toml(toml)


def test_codes_of_columns_stand_in_the_order_asked():
    schema = Schema.from_toml(TOML)
    table = pa.table({"sex": ["Male", "Female"], "age": [17, 90]})
    codes = schema.encode_codings(["sex", "age"], table)
    sizes = [coding.size for coding in schema.coded["age"].codings]
    assert codes[0].tolist() == [1] + [0] * 8
    assert codes[1].tolist() == [0, *(size - 1 for size in sizes)]
    assert (schema.encode_codings(["age"], table) == codes[:, 1:]).all()


def test_columns_are_equal_by_what_they_declare_whatever_was_computed():
    text = (
        '[columns.age]\nkind = "numeric"\nbounds = [17, 90]\n[columns.sex]\nkind = "categorical"\n'
    )
    used, fresh = (Schema.from_toml(text + 'categories = ["f", "m"]') for _ in range(2))
    for column in used.coded.values():
        _ = column.atoms, column.codings
    assert used == fresh
    assert hash(used.columns["age"]) == hash(fresh.columns["age"])
    assert used != Schema.from_toml(text.replace("90", "91") + 'categories = ["f", "m"]')


def test_all_problems_are_listed_a_line_each_and_misspelled_fields_first():
    text = """
    [columns.age]
    kind = "numeric"
    bound = [0, 9]
    [columns.sex]
    kind = "categoricl"
    [columns.fee]
    kind = "numeric"
    bounds = [3, 1]
    """
    with pytest.raises(PrivotError) as caught:
        Schema.from_toml(text)
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "bound of column 'age' is not known",
        "bounds of column 'age' are missing",
        "kind 'categoricl' of column 'sex' is not known",
        "column 'fee'",
    ]


def test_a_column_that_is_declared_twice_is_named():
    text = '[columns.age]\nkind = "boolean"\n[columns."a b"]\nkind = "boolean"\n'
    for name in ("age", "a b"):
        with pytest.raises(PrivotError, match=f"column '{name}' is declared twice .at line 5"):
            Schema.from_toml(text + f'[columns."{name}"]\nkind = "boolean"')
