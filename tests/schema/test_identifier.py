"""Identifiers: distinct, of their pattern, and never looked at on a device."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.schema import IdentifierColumn
from privot.schema.columns.identifier import permuted


@given(size=st.integers(1, 5000), seed=st.integers(0, 2**32))
def test_a_permutation_has_every_place_once(size, seed):
    keys = np.random.default_rng(seed).integers(0, 2**63, 4, np.uint64)
    places = permuted(np.arange(size, dtype=np.uint64), size, keys)
    assert sorted(places.tolist()) == list(range(size))


PATTERNS = [
    r"P-\d{2}",
    "[A-Z]{2}[0-9]",
    r"[a-f0-9]{32}",
    r"\d[xyz]\-[\d_-]",
    "[A-C-]",
    "é{2}[ab]{9}",
    r"[a\-z]{3}[!-\]]",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_identifiers_fit_their_pattern_and_are_distinct_across_pieces(pattern):
    column = IdentifierColumn(kind="identifier", pattern=pattern)
    count = min(column.size, 900)
    draw = column.generator(count, np.random.default_rng(1))
    made = [*draw(count // 3).to_pylist(), *draw(count - count // 3).to_pylist()]
    assert len(set(made)) == count
    assert all(re.fullmatch(pattern, one) for one in made)
    assert draw(0).to_pylist() == []
    if count == 900:
        assert made != sorted(made)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "has 0 places"),
        ("P-#*", r"cannot be read from '\*'"),
        (r"\w{3}", "cannot be read"),
        ("(ab)", "cannot be read"),
        ("[^a]", "cannot be read"),
        ("[z-a]", "cannot be read"),
        ("[z-ab]", "cannot be read"),
        (r"[a-\d]", "cannot be read"),
        (r"[\sa]", "cannot be read"),
        ("a[\0b]", "cannot be read"),  # which texts of one length cannot end with
        ("a{999}", "has 999 places"),
    ],
)
def test_patterns_that_are_not_plain_are_refused(pattern, words):
    with pytest.raises(ValueError, match=words):
        IdentifierColumn(kind="identifier", pattern=pattern)


def test_no_more_are_made_up_than_there_are():
    column = IdentifierColumn(kind="identifier", pattern=r"\d")
    with pytest.raises(PrivotError, match="has 10 identifiers, 11 are requested"):
        column.generator(11, np.random.default_rng(0))


def test_nothing_is_read():
    column = IdentifierColumn(kind="identifier", pattern=r"\d")
    values, problems = column.read("id", pa.table({"id": [None, "x"]}))
    assert len(values) == 0
    assert problems == []
