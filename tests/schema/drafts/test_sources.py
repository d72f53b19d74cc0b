"""Sources of drafts: files by what they hold, and names that are imported on somebody's command."""

import json
import tomllib

import pytest

from privot.core.errors import PrivotError
from privot.schema.draft_sources import draft_of

OBJECT = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}}


def test_a_file_is_known_by_what_it_holds(tmp_path):
    (tmp_path / "object.json").write_text(json.dumps(OBJECT))
    read = tomllib.loads(draft_of(str(tmp_path / "object.json")))
    assert read["columns"]["age"] == {"kind": "numeric", "integer": True, "bounds": [0, 99]}
    with pytest.raises(PrivotError, match="table 'x' was named, there is one"):
        draft_of(str(tmp_path / "object.json"), "x")
    sdv = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": {"owner": {"sdtype": "boolean"}}}
    (tmp_path / "sdv.json").write_text(json.dumps(sdv))
    assert "SDV" in draft_of(str(tmp_path / "sdv.json"))
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
