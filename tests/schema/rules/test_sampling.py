"""Samples keep rules, as many records as asked; or they say which rule is why not."""

import numpy as np
import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.sampling import completed


def schema(rule):
    return Schema.from_toml(f"""
    rules = ["{rule}"]
    [columns.id]
    kind = "identifier"
    pattern = '\\d{{5}}'
    [columns.a]
    kind = "numeric"
    bounds = [0, 1]
    [columns.b]
    kind = "numeric"
    bounds = [0, 1]
    """)


def drawer(seed=0):
    rng = np.random.default_rng(seed)

    def draw(num_rows):
        for size in (num_rows // 2, num_rows - num_rows // 2):
            yield pa.table({"b": rng.random(size), "a": rng.random(size)})

    return draw


@pytest.mark.parametrize(("rule", "num_rows"), [("a < b", 4000), ("a + b < 0.2", 50), ("a > 2", 0)])
def test_as_many_records_as_asked_keep_the_rule(rule, num_rows):
    drawn = completed(schema(rule), drawer(), num_rows, np.random.default_rng(1))
    table = pa.concat_tables(drawn)
    assert table.column_names == ["id", "a", "b"]
    assert table.num_rows == num_rows
    assert len(set(table.column("id").to_pylist())) == num_rows
    a, b = (np.asarray(table.column(name)) for name in "ab")
    assert (a < b).all() if rule == "a < b" else (a + b < 0.2).all()
    if num_rows == 4000:  # the law given the rule: the mean of the lesser of two
        assert a.mean() == pytest.approx(1 / 3, abs=0.02)


def test_a_rule_that_hardly_any_record_keeps_is_named():
    with pytest.raises(PrivotError, match="rule 'a > 2' is broken by .* and only 0 keep all"):
        list(completed(schema("a > 2"), drawer(), 10, np.random.default_rng(0)))


def test_without_rules_all_that_is_drawn_is_taken():
    plain = Schema.from_toml('[columns.a]\nkind = "numeric"\nbounds = [0, 1]')
    drawn = pa.table({"a": np.random.default_rng(0).random(9)})
    (taken,) = completed(plain, lambda rows: iter([drawn]), 9, np.random.default_rng(0))
    assert taken == drawn
