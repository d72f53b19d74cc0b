"""Columns in a line: what each declares, and what to write instead."""

import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.drafts import read_declaration, write_draft

LINES = [
    "age:int[17,90]",
    "weight:number[0,200]?:decimals=1:unit=kg",
    "paid : money[1, 20000] : log : bins=12",
    "came:date[2020-01-01,2024-12-31]",
    "seen:time[2020-01-01T00:00:00,2024-12-31T12:30:00]:resolution=minute",
    "hours:int[0,99]:bins=0;20;40;99:spikes=40",
    "sex:F|M?",
    "region:north|south|else where*",
    "owner:bool?",
    r"patient:id(P:\d{6})",
]


def test_lines_are_a_schema():
    schema = Schema.from_toml(write_draft(map(read_declaration, LINES)))
    told = schema.to_dict()["columns"]
    assert told["age"] == {"kind": "numeric", "bounds": [17.0, 90.0], "integer": True}
    assert told["weight"]["nullable"]
    assert (told["weight"]["decimals"], told["weight"]["measured_in"]) == (1, "kg")
    assert (told["paid"]["scale"], told["paid"]["bins"]) == ("log", 12)
    assert told["came"]["bounds"] == ["2020-01-01", "2024-12-31"]
    assert told["seen"]["resolution"] == "minute"
    assert told["hours"]["spikes"] == [40.0]
    assert schema.coded["hours"].labels == ("0 to 19", "20 to 39", "41 to 99", "40")
    assert told["sex"] == {"kind": "categorical", "categories": ["F", "M"], "nullable": True}
    assert told["region"]["other"] == "else where"
    assert told["owner"] == {"kind": "boolean", "nullable": True}
    assert told["patient"]["pattern"] == r"P:\d{6}"


@pytest.mark.parametrize(
    "line",
    ["age", "age:", ":int[1,2]", "age:int", "age:int[1]", "x:float[0,1]", "x:a||b", "x:int[0,1]!",
     "x:a|b*|c*"],
)  # fmt: skip
def test_other_lines_are_refused_by_examples(line):
    with pytest.raises(PrivotError, match=r"cannot be read: write it as age:int\[17,90\]"):
        read_declaration(line)


def test_an_option_says_its_value():
    with pytest.raises(PrivotError, match="'bins' has no value: write bins=VALUE"):
        read_declaration("x:int[0,9]:bins")


@pytest.mark.parametrize("end", ["inf", "nan"])
def test_an_infinite_bound_is_refused_by_the_schema(end):
    draft = write_draft([read_declaration(f"x:number[0,{end}]")])
    with pytest.raises(PrivotError, match=r"bounds.* of column 'x' = '...' cannot be used"):
        Schema.from_toml(draft)
