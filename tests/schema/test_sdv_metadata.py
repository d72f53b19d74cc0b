"""SDV's metadata of a schema: every column that a sample has, and back again as a draft."""

import json

import pytest

from mixed_columns import SCHEMA
from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.drafts import draft_schema, write_metadata


def test_kinds_return_as_a_draft():
    kinds = {name: column.kind for name, column in SCHEMA.columns.items()}
    drafted = draft_schema(write_metadata(SCHEMA))
    for name, kind in kinds.items():
        assert f'[columns.{name}]\nkind = "{kind}"' in drafted
    assert 'resolution = "second"' in drafted


def test_identifiers_and_parts_of_vectors_are_columns_of_their_own():
    schema = Schema.from_toml("""
    rules = ["twice = 2 * x"]
    [columns.patient]
    kind = "identifier"
    pattern = 'P-\\d{6}'
    [columns.home]
    kind = "vector"
    columns = ["x", "y"]
    radius = 1.0
    [columns.twice]
    kind = "numeric"
    bounds = [-2, 2]
    """)
    told = json.loads(write_metadata(schema))
    assert told["primary_key"] == "patient"
    assert list(told["columns"]) == ["patient", "x", "y", "twice"]
    assert told["columns"]["patient"] == {"sdtype": "id", "regex_format": r"P-\d{6}"}
    assert told["columns"]["x"] == told["columns"]["twice"] == {"sdtype": "numerical"}


def test_images_are_refused():
    image = '[columns.i]\nkind = "array"\nshape = [2, 2]\nbounds = [0, 1]'
    with pytest.raises(PrivotError, match="holds images"):
        write_metadata(Schema.from_toml(image))
