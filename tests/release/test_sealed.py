"""A sealed randomizer is read as it was written, or not at all."""

import json

import pytest

from privot.errors import PrivotError
from privot.release import Randomizer
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[-8.7, 1.8], [49.8, 60.9]]
[columns.age]
kind = "numeric"
bounds = [17, 90]
[columns.sex]
kind = "categorical"
categories = ["Female", "Male"]
""")


def test_altered_randomizers_are_refused():
    text = Randomizer.calibrate(SCHEMA, 1.0, report="split").to_json()
    fields = json.loads(text)
    fields["mechanisms"]["age"]["scale"] /= 2
    for broken, words in (
        (json.dumps(fields), "was altered after it was calibrated"),
        (json.dumps(json.loads(text) | {"format": 99}), "format 99"),
        (text[:-20], "not readable"),
        ("[]", "not readable"),
        ("{}", "not readable"),
    ):
        with pytest.raises(PrivotError, match=words):
            Randomizer.from_json(broken)
