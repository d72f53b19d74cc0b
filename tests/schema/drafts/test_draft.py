"""Drafts are TOML, whatever names and texts they hold."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from privot.schema.drafts import DraftColumn, write_draft


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
