"""Pandera schemas, by what they look like: pandera is not needed to read one."""

from types import SimpleNamespace

import pytest

from privot.core.errors import PrivotError
from studies.schema_drafts.pandera_schema import columns_of, is_pandera


def column(dtype, nullable=False, **checks):
    made = [SimpleNamespace(name=name, statistics=fields) for name, fields in checks.items()]
    return SimpleNamespace(dtype=dtype, nullable=nullable, checks=made)


SCHEMA = SimpleNamespace(
    checks=[],
    columns={
        "age": column(
            "int64", greater_than_or_equal_to={"min_value": 0}, less_than={"max_value": 120}
        ),
        "weight": column("float64", True, in_range={"min_value": 1.0, "max_value": 300.0}),
        "open": column("float32", odd={}),
        "sex": column("object", isin={"allowed_values": {"M", "F"}}),
        "kind": column("category"),
        "owner": column("boolean", True),
        "seen": column("datetime64[ns]"),
        "name": column("str"),
    },
)


def test_dtypes_and_checks_are_taken_over():
    found = {one.name: one for one in columns_of(SimpleNamespace(to_schema=lambda: SCHEMA))}
    fields = {name: dict(one.fields) for name, one in found.items()}
    assert fields["age"] == {"kind": "numeric", "integer": True, "bounds": [0, 119]}
    assert fields["weight"] == {"kind": "numeric", "bounds": [1.0, 300.0], "nullable": True}
    assert fields["open"] == {"kind": "numeric"}
    assert fields["sex"] == {"kind": "categorical", "categories": ["F", "M"]}
    assert fields["kind"] == {"kind": "categorical"}
    assert fields["owner"] == {"kind": "boolean", "nullable": True}
    assert fields["seen"] == {"kind": "datetime", "resolution": "second"}
    assert not fields["name"]


def test_it_is_known_by_what_it_has():
    assert is_pandera(SCHEMA)
    assert not is_pandera("x")
    with pytest.raises(PrivotError, match="has no columns"):
        columns_of(SimpleNamespace(columns={}, checks=[]))
