"""The promise beside the columns: what is refused, and that it travels."""

import pytest

from privot import PrivotError, Schema
from privot.schema.schema import Promise

COLUMNS = '[columns.age]\nkind = "numeric"\nbounds = [17, 90]\n[promise]\n'


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": -1.0}, "epsilon is -1.0"),
        ({"epsilon": float("inf")}, "epsilon is inf"),
        ({"epsilon": 1.0, "where": "shufled"}, "where is 'shufled': choose one of local, shuffled"),
        ({"epsilon": 1.0, "people": 3}, "people is 3, which 'local' has no use for"),
        ({"epsilon": 1.0, "delta": 1.5}, "delta is 1.5"),
        ({"epsilon": 1.0, "where": "central", "people": 9}, "delta is 0, and where is 'central'"),
        ({"epsilon": 1.0, "where": "central", "delta": 1e-8}, "people is missing"),
        ({"epsilon": 1.0, "where": "central", "delta": 1e-8, "people": 0}, "people 0 cannot be"),
        ({"epsilon": 1.0, "where": "central", "delta": 1e-3, "people": 10_000}, "less than 1e-05"),
        (
            {"epsilon": 1.0, "where": "aggregated", "delta": 1e-9, "people": 9, "floor": 3.0},
            "floor is 3.0, which 'aggregated' has no use for",
        ),
        (
            {"epsilon": 2.0, "where": "shuffled", "delta": 1e-9, "people": 9, "floor": 1.0},
            "floor is 1.0, below epsilon 2.0",
        ),
    ],
)
def test_refusals(fields, message):
    with pytest.raises(PrivotError, match=message):
        Promise(**fields)
    lines = "\n".join(f"{name} = {value!r}" for name, value in fields.items())
    with pytest.raises(PrivotError, match=message):
        Schema.from_toml(COLUMNS + lines)


def test_misspelled_fields_are_named():
    with pytest.raises(PrivotError, match="promise.poeple = 3 cannot be used"):
        Schema.from_toml(COLUMNS + "epsilon = 1\npoeple = 3")


def test_it_travels_with_the_schema_and_not_without():
    text = 'epsilon = 1\nwhere = "shuffled"\ndelta = 1e-8\npeople = 1000\nfloor = 8'
    schema = Schema.from_toml(COLUMNS + text)
    assert schema.promise == Promise(1.0, "shuffled", 1e-8, 1000, 8.0)
    assert Schema.from_json(schema.to_json()) == schema
    without = Schema.from_toml(COLUMNS.removesuffix("[promise]\n"))
    assert without.promise is None
    assert "promise" not in without.to_json()
