"""JSON Schemas and pydantic models: what they declare is taken over, what they leave open is left."""

import datetime as dt
import enum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from privot.core.errors import PrivotError
from studies.schema_drafts.json_schema import columns_of


class Ward(enum.Enum):
    WEST = "west"
    EAST = "east"


class Stay(BaseModel):
    patient: str = Field(pattern=r"^P-\d{6}$")
    age: int = Field(ge=0, lt=120)
    weight: float | None = Field(ge=0.5, le=300)
    dose: Annotated[float, Field(ge=0, le=10, multiple_of=0.5)]
    paid: float = Field(ge=0)
    ward: Ward
    sex: Literal["F", "M"] | None
    came: dt.date
    seen: dt.datetime | None = None
    owner: bool
    notes: str


def test_a_pydantic_model_is_a_json_schema():
    columns = {column.name: column for column in columns_of(Stay.model_json_schema())}
    fields = {name: dict(column.fields) for name, column in columns.items()}
    assert fields["patient"] == {"kind": "identifier", "pattern": r"P-\d{6}"}
    assert fields["age"] == {"kind": "numeric", "integer": True, "bounds": [0, 119]}
    assert fields["weight"] == {"kind": "numeric", "bounds": [0.5, 300], "nullable": True}
    assert fields["dose"]["step"] == 0.5
    assert fields["paid"] == {"kind": "numeric"}
    assert columns["paid"].comments[0].startswith("# bounds = [0, 100]")
    assert fields["ward"] == {"kind": "categorical", "categories": ["west", "east"]}
    assert fields["sex"]["nullable"]
    assert fields["came"] == {"kind": "datetime"}
    assert fields["seen"] == {"kind": "datetime", "resolution": "second", "nullable": True}
    assert fields["owner"] == {"kind": "boolean"}
    assert not fields["notes"]
    assert "text cannot be learned" in columns["notes"].comments[0]


def test_types_and_references_that_lead_nowhere_are_left_out():
    found = columns_of(
        {
            "properties": {
                "a": {"type": ["null", "integer"], "exclusiveMinimum": 0, "maximum": 9},
                "b": {"$ref": "#/nowhere"},
                "c": {"$ref": "#/properties/c"},
                "d": {"const": "x"},
                "e": True,
            }
        }
    )
    assert found[0].fields == {
        "kind": "numeric",
        "integer": True,
        "bounds": [1, 9],
        "nullable": True,
    }
    assert [bool(column.fields) for column in found] == [True, False, False, True, False]


def test_null_may_be_a_value_and_alternatives_are_nobodys_to_choose():
    """Of `int | float` the first would round, of two ranges it would cut off the other."""
    ranges = [{"type": "integer", "minimum": low, "maximum": low + 9} for low in (0, 20)]
    whole = {"type": "integer"}
    given = {
        "a": {"enum": ["x", None]},
        "b": {"enum": [True, False, None]},
        "c": {"anyOf": ranges},
        "d": {"type": ["integer", "number", "null"], "minimum": 0, "maximum": 1},
        "e": {"allOf": [whole, {"minimum": 0, "exclusiveMinimum": 3}, {"maximum": 9}]},
        "f": whole | {"minimum": float("-inf"), "maximum": 3},
        "g": {"anyOf": [True, {"type": "null"}]},
    }
    found = {column.name: dict(column.fields) for column in columns_of({"properties": given})}
    absent, number = {"nullable": True}, {"kind": "numeric", "integer": True}
    assert found["a"] == {"kind": "categorical", "categories": ["x"]} | absent
    assert found["b"] == {"kind": "boolean"} | absent
    assert found["c"] == found["d"] == found["g"] == {}
    assert found["e"] == number | {"bounds": [4, 9]}
    assert found["f"] == number  # its bounds are left to declare


def test_what_is_no_object_is_refused():
    with pytest.raises(PrivotError, match="has no properties"):
        columns_of({"type": "array"})
