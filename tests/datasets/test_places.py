"""Made-up people live where towns are, as often as towns are large."""

import numpy as np
import pyarrow.csv as pa_csv
import pytest

from privot.datasets.places import BOX, PLACES_FILE, SCHEMA_TOML, draw_people
from privot.errors import PrivotError
from privot.schema import Schema


def test_people_live_in_towns_in_proportion_to_population():
    people = draw_people(20_000, seed=0)
    Schema.from_toml(SCHEMA_TOML).check_table(people)
    assert people.equals(draw_people(20_000, seed=0))
    places = pa_csv.read_csv(PLACES_FILE)
    largest = int(np.argmax(places["population"].to_numpy()))
    there = [people[n].to_numpy() == places[n][largest].as_py() for n in people.column_names]
    share = places["population"][largest].as_py() / places["population"].to_numpy().sum()
    assert (there[0] & there[1]).mean() == pytest.approx(share, rel=0.1)
    for name, (low, high) in zip(people.column_names, BOX, strict=True):
        assert low <= people[name].to_numpy().min() <= people[name].to_numpy().max() <= high


def test_nobody_cannot_be_drawn():
    with pytest.raises(PrivotError, match="people 0"):
        draw_people(0, seed=0)
