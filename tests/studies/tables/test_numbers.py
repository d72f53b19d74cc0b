"""The tables of the study are what their page says, and a model's distances are told."""

import numpy as np
import pytest

from privot.schema import Schema
from studies.tables.numbers import compare, diamonds, hospital, numbers_of


def test_people_are_as_they_are_told():
    columns, people = diamonds(20_000, 0)
    numbers = numbers_of(people, columns)
    assert np.corrcoef(numbers["carat"], numbers["price"])[0, 1] == pytest.approx(0.92, abs=0.015)
    columns, people = hospital(20_000, 0)
    Schema.from_dict({"columns": columns}).check_table(people)
    days = numbers_of(people, columns)["admitted"]
    assert np.histogram(days, 12)[0].max() > 3 * np.histogram(days, 12)[0].min()


def test_distances_are_of_every_number():
    columns, people = diamonds(2000, 0)
    few = {name: columns[name] | {"bins": 4} for name in ("carat", "depth")}
    found = compare(few, people.select(list(few)), 6.0, 0)
    assert found["ks"].keys() == few.keys()
    assert found["worst"] == max(found["ks"].values()) < 0.6
    assert found["correlations"].keys() == {"carat, depth"}
