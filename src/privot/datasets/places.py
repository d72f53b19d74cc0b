"""Populated places of the United Kingdom, from GeoNames, for the demo.

5 383 places with their population, © GeoNames (https://www.geonames.org), CC BY 4.0, derived by
`scripts/derive_places.py`. People drawn from them in proportion to population are made up: the file
describes towns, not persons.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from privot.limits import MOST_ROWS, require_count

# Longitudes and latitudes that the demo's schema declares.
BOX = ((-8.7, 1.8), (49.8, 60.9))
PLACES_FILE = Path(__file__).with_name("places.csv")

SCHEMA_TOML = """\
unit = "person"

[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[-8.7, 1.8], [49.8, 60.9]]
"""


def draw_people(num_people: int, seed: int) -> pa.Table:
    """Home towns of made-up people, drawn in proportion to population: longitude, latitude."""
    num_people = require_count("people", num_people, MOST_ROWS)
    places = pa_csv.read_csv(PLACES_FILE)
    population = places["population"].to_numpy().astype(float)
    town = np.random.default_rng(seed).choice(
        len(population), size=num_people, p=population / population.sum()
    )
    return places.select(["longitude", "latitude"]).take(town)
