"""Drafts of JSON Schemas' files, and of models that are imported on somebody's command."""

import json
import tomllib

import pytest

from privot.core.errors import PrivotError
from studies.__main__ import main
from studies.schema_drafts.draft import draft_of

OBJECT = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}}


def test_a_json_schema_is_read_from_its_file(tmp_path):
    (tmp_path / "object.json").write_text(json.dumps(OBJECT))
    read = tomllib.loads(draft_of(str(tmp_path / "object.json")))
    assert read["columns"]["age"] == {"kind": "numeric", "integer": True, "bounds": [0, 99]}
    for text, words in {
        "{": "is not JSON",
        "[]": "is no JSON Schema",
        "{}": "no properties",
    }.items():
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(PrivotError, match=words):
            draft_of(str(tmp_path / "other.json"))
    (tmp_path / "text.json").write_text(
        json.dumps({"properties": {"name": {"type": "string"}}, "$schema": "x"})
    )
    with pytest.raises(PrivotError, match="nothing is left to report"):
        draft_of(str(tmp_path / "text.json"))


def test_a_model_is_imported_by_its_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "drafted_models.py").write_text(
        "from pydantic import BaseModel\nclass One(BaseModel):\n    owner: bool\nother = 3\n"
    )
    assert tomllib.loads(draft_of("drafted_models:One"))["columns"] == {
        "owner": {"kind": "boolean"}
    }
    for name, words in [("other", "no pydantic model"), ("Two", "cannot be imported")]:
        with pytest.raises(PrivotError, match=words):
            draft_of(f"drafted_models:{name}")
    with pytest.raises(PrivotError, match="cannot be imported"):
        draft_of("nowhere_at_all:One")
    with pytest.raises(PrivotError, match="cannot be read"):
        draft_of("nowhere.json")


def test_the_recipe_writes_it(tmp_path, capsys):
    (tmp_path / "object.json").write_text(json.dumps(OBJECT))
    output = tmp_path / "schema.toml"
    main(["schema_drafts.draft", str(tmp_path / "object.json"), "-o", str(output)])
    assert output.read_text() == draft_of(str(tmp_path / "object.json"))
    assert "privot schema check" in capsys.readouterr().out
