"""Values become codes and points and come back with their types; what cannot is refused by row."""

import numpy as np
import pyarrow as pa
import pytest

from mixed_columns import SCHEMA, TABLE
from privot.core.errors import PrivotError
from privot.schema import Schema


@pytest.mark.parametrize("name", list(SCHEMA.columns))
def test_decoding_restores_type_and_missing_values_and_encodes_to_the_same_code(name):
    declared = SCHEMA.coded[name]
    codes = declared.encode_codes(name, TABLE)
    again = pa.table(declared.decode_codes(name, codes, np.random.default_rng(0)))
    assert (declared.encode_codes(name, again) == codes).all()
    assert again.column(name).null_count == TABLE.column(name).null_count
    stored = {"born": pa.date32(), "seen": pa.timestamp("s"), "work": pa.string()}
    assert again.column(name).type == stored.get(name, TABLE.column(name).type)


def test_a_column_of_nothing_but_missing_values():
    for name in ("age", "born", "smokes", "work"):
        declared = SCHEMA.coded[name]
        codes = declared.encode_codes(name, pa.table({name: pa.nulls(3)}))
        assert (codes == declared.alphabet.size - 1).all()


def test_schemas_of_every_kind_round_trip():
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "numeric"\nbounds = [0, 9]\nbins = "integers"', "need integer = true"),
        ('kind = "numeric"\nbounds = [0.5, 9]\ninteger = true', "integer column"),
        ('kind = "numeric"\nbounds = [0, 9]\nbins = [0, 5]', "do not begin and end"),
        ('kind = "numeric"\nbounds = [0, 9]\nbins = 0', "bins 0 cannot be"),
        ('kind = "numeric"\nbounds = [0, 9]\ninteger = true\nbins = 11', "bins 11 cannot be"),
        ('kind = "datetime"\nbounds = ["2001-01-01", "soon"]', "'soon' is not a date"),
        ('kind = "datetime"\nbounds = [2001-01-01, 2000-01-01]', "are not an interval"),
        ('kind = "categorical"\ncategories = []\nother = "x"', "leave nothing to hide"),
    ],
)
def test_declarations_that_cannot_be_are_refused(text, words):
    with pytest.raises(PrivotError) as caught:
        Schema.from_toml("[columns.x]\n" + text)
    assert words in str(caught.value)
