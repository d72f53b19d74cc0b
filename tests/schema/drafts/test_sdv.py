"""Drafts from SDV's metadata: kinds, what is left to declare, names in TOML, refusals."""

import json
import tomllib

import pytest

from commands import typed
from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.drafts import draft_schema

HOTEL = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    "primary_key": "guest_email",
    "alternate_keys": ["credit_card_number"],
    "columns": {
        "guest_email": {"sdtype": "email", "pii": True},
        "has_rewards": {"sdtype": "boolean"},
        "room_type": {"sdtype": "categorical"},
        "amenities_fee": {"sdtype": "numerical", "computer_representation": "Float"},
        "nights": {"sdtype": "numerical", "computer_representation": "Int64"},
        "room_rate": {"sdtype": "numerical"},
        "checkin_date": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
        "seen_at": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M:%S"},
        "booking": {"sdtype": "id", "regex_format": "B_[0-9]{3}"},
        "serial": {"sdtype": "id", "regex_format": "[0-9]+"},
        "notes": {"sdtype": "unknown", "pii": True},
    },
    "column_relationships": [],
}
KEPT = [
    "has_rewards",
    "room_type",
    "amenities_fee",
    "nights",
    "room_rate",
    "checkin_date",
    "seen_at",
    "booking",
]


def draft(columns, **fields):
    metadata = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns} | fields
    return draft_schema(json.dumps(metadata))


def test_kinds_and_what_is_known_of_them():
    columns = tomllib.loads(draft_schema(json.dumps(HOTEL)))["columns"]
    assert list(columns) == KEPT
    assert columns == {
        "has_rewards": {"kind": "boolean"},
        "room_type": {"kind": "categorical"},
        "amenities_fee": {"kind": "numeric"},
        "nights": {"kind": "numeric", "integer": True},
        "room_rate": {"kind": "numeric"},
        "checkin_date": {"kind": "datetime"},
        "seen_at": {"kind": "datetime", "resolution": "second"},
        "booking": {"kind": "identifier", "pattern": "B_[0-9]{3}"},
    }


def test_every_column_is_mentioned_and_what_is_left_out_says_why():
    text = draft_schema(json.dumps(HOTEL))
    for name in ("guest_email", "serial", "notes"):
        line = next(line for line in text.splitlines() if line.startswith(f'# "{name}"'))
        assert "is left out: sdtype " in line
    assert 'One row is one "guest_email"' in text
    assert '"%d %b %Y"' in text


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"sdtype": "numerical"}, "bounds of column 'x' are missing: declare them in the schema"),
        ({"sdtype": "datetime"}, "bounds of column 'x' are missing"),
        ({"sdtype": "categorical"}, "categories of column 'x' are missing: list them"),
        ({"sdtype": "categorical", "order": ["S", "M"]}, "categories of column 'x' are missing"),
    ],
)
def test_a_draft_is_no_schema_until_a_person_declares_the_rest(column, message):
    with pytest.raises(PrivotError, match=message):
        Schema.from_toml(draft({"x": column}))


def test_uncommenting_the_placeholders_gives_a_schema():
    """Every commented line that is TOML is valid in its place, so that it can be edited there."""
    sizes = {"sdtype": "categorical", "order": ["S", 'M"', "L\n", 4]}
    text = draft_schema(json.dumps(HOTEL | {"columns": HOTEL["columns"] | {"size": sizes}}))
    fields = ("bounds", "bins", "categories", "other", "nullable")
    lines = [
        line.removeprefix("# ") if line.startswith(tuple(f"# {f} = " for f in fields)) else line
        for line in text.splitlines()
    ]
    schema = Schema.from_toml("\n".join(lines))
    assert list(schema.declared) == [*KEPT, "size"]
    assert schema.columns["size"].categories == ("S", 'M"', "L\n", "4")
    assert all(column.nullable for column in schema.columns.values())


NAMES = [
    "plain", "with space", "dot.ted", 'quo"ted', "back\\slash", "new\nline", "tab\t", "é", "名前", "🏨",
    "", "columns", "kind", "class", "true", "1", "-", "#", "[x]", "a=b", "'", "\x00", "\x7f", "\u2028",
    '"""', "unit",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=repr)
@pytest.mark.parametrize("ascii_json", [True, False])
def test_names_survive(name, ascii_json):
    """As a column, as an identifier in a comment, as the primary key."""
    metadata = {
        "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
        "primary_key": name,
        "columns": {name: {"sdtype": "boolean"}, name + "_id": {"sdtype": name or "id"}},
    }
    text = draft_schema(json.dumps(metadata, ensure_ascii=ascii_json))
    assert list(Schema.from_toml(text).columns) == [name]
    text.encode()


def test_several_rows_of_one_person_are_pointed_out():
    text = draft({"x": {"sdtype": "boolean"}}, sequence_key="patient")
    assert "reduce them to one row each" in text


TABLES = {
    "METADATA_SPEC_VERSION": "V1",
    "tables": {
        "hotels": {"columns": {"city": {"sdtype": "boolean"}}},
        "guests": {"columns": {"rewards": {"sdtype": "boolean"}}},
    },
    "relationships": [],
}


@pytest.mark.parametrize("version", ["V1", "MULTI_TABLE_V1"])
def test_one_of_several_tables(version):
    text = json.dumps(TABLES | {"METADATA_SPEC_VERSION": version})
    assert list(Schema.from_toml(draft_schema(text, "guests")).columns) == ["rewards"]
    with pytest.raises(PrivotError, match=r"table None is not one of .*'guests', 'hotels'"):
        draft_schema(text)
    with pytest.raises(PrivotError, match="table 'x' is not one of"):
        draft_schema(text, "x")


def test_the_only_table_needs_no_name():
    only = TABLES | {"tables": {"guests": TABLES["tables"]["guests"]}}
    assert list(Schema.from_toml(draft_schema(json.dumps(only))).columns) == ["rewards"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[]", "METADATA_SPEC_VERSION of the metadata is None"),
        ("3", "METADATA_SPEC_VERSION"),
        ('{"columns": {}}', "METADATA_SPEC_VERSION of the metadata is None"),
        ('{"METADATA_SPEC_VERSION": "V2"}', "is 'V2': give SDV's metadata JSON"),
        ('{"METADATA_SPEC_VERSION": ["V1"]}', "METADATA_SPEC_VERSION"),
        ('{"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1"}', "no columns"),
        ('{"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": {"a": 1}}', "no columns"),
        ('{"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": {}}', "nothing is left"),
        ('{"METADATA_SPEC_VERSION": "V1"}', "no tables"),
        ('{"METADATA_SPEC_VERSION": "V1", "tables": {"a": 1}}', "no tables"),
        (
            '{"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": {"\\ud800": {"sdtype": "id"}}}',
            "not Unicode",
        ),
        (
            '{"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": {"a": {"sdtype": "id"}}}',
            "nothing is left",
        ),
    ],
)
def test_refusals(text, message):
    with pytest.raises(PrivotError, match=message):
        draft_schema(text)


def test_a_table_of_single_table_metadata_is_refused():
    with pytest.raises(PrivotError, match="table 'x' was named"):
        draft_schema(json.dumps(HOTEL), "x")


@pytest.fixture
def run(tmp_path):
    """Run `privot …` in a folder with metadata; return (exit code, standard output, error)."""
    (tmp_path / "metadata.json").write_text(json.dumps(HOTEL))
    return typed(tmp_path)


def test_the_command_writes_a_draft_that_check_refuses(run, tmp_path):
    code, out, err = run("schema new --from metadata.json -o schema.toml")
    assert (code, err) == (0, "")
    assert "privot schema check schema.toml" in out
    assert (tmp_path / "schema.toml").read_text() == draft_schema(json.dumps(HOTEL))
    code, out, err = run("schema check schema.toml")
    assert (code, out) == (2, "")
    assert "categories of column 'room_type' are missing" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("schema new --from nowhere.json", "metadata nowhere.json cannot be read"),
        ("schema new --from metadata.json --table x", "table 'x' was named"),
        (
            "schema new --from metadata.json -o metadata.json",
            "has an unknown format: use one of .toml",
        ),
    ],
)
def test_refusals_are_one_line_and_nothing_is_written(run, tmp_path, arguments, message):
    code, out, err = run(arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["metadata.json"]
