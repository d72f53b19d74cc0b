"""Drafts are TOML, whatever names and texts they hold."""

import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.drafts import DraftColumn, draft_header, read_declaration, write_draft
from privot.tables.record_files import read_header


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    word=st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    number=st.floats(-1e15, 1e15),
)
def test_what_is_written_is_read_again(name, word, number):
    fields = {"categories": [word, "2024-01-01"], "bounds": [number, 3], "nullable": True}
    text = write_draft(
        [DraftColumn(name, fields), DraftColumn("out", {}, ["why"])], ["A draft"], [word]
    )
    read = tomllib.loads(text)
    assert read == {"unit": "person", "rules": [word], "columns": {name: fields}}


def test_numbers_are_written_as_they_were_given():
    line = write_draft([read_declaration("x:number[0.1,0.3]:step=0.1")])
    assert "bounds = [0.1, 0.3]" in line
    assert "step = 0.1" in line


def test_a_header_gives_names_and_types_and_no_row_is_looked_at(tmp_path):
    """Two tables of one header have one draft, whatever their rows hold."""
    texts = []
    for row in ("1,2020-01-01", 'secret,"never closed'):
        (tmp_path / "people.csv").write_text("age,left & gone\n" + row)
        header = read_header(tmp_path / "people.csv")
        assert header == {"age": None, "left & gone": None}
        texts.append(draft_header(header, "people.csv"))
    assert texts[0] == texts[1]
    with pytest.raises(PrivotError, match="kind '' of column 'age' is not known: say one of"):
        Schema.from_toml(texts[0])
    days = pa.array([0], pa.date32())
    table = pa.table({"n": [1], "x": [0.5], "yes": [True], "came": days, "sex": ["F"], "v": [[1]]})
    pq.write_table(table, tmp_path / "people.parquet")
    columns = tomllib.loads(draft_header(read_header(tmp_path / "people.parquet"), ""))["columns"]
    kinds = {name: fields["kind"] for name, fields in columns.items()}
    assert kinds == {
        "n": "numeric", "x": "numeric", "yes": "boolean", "came": "datetime", "sex": "categorical",
    }  # fmt: skip
    assert [name for name, fields in columns.items() if "integer" in fields] == ["n"]
    assert not any({"bounds", "categories"} & {*fields} for fields in columns.values())


def test_a_header_with_a_name_twice_or_none_is_refused(tmp_path):
    for text, words in (("a,b,a\n1,2,3", r"columns \['a'\] appear twice"), ("", "is empty")):
        (tmp_path / "people.csv").write_text(text)
        with pytest.raises(PrivotError, match=words):
            read_header(tmp_path / "people.csv")
