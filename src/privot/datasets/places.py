"""Populated places of the United Kingdom, from GeoNames, for the demo.

5 383 places with their population, © GeoNames (https://www.geonames.org), CC BY 4.0, derived by
`scripts/derive_places.py`. People drawn from them in proportion to population are made up: the file
describes towns, not persons.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

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


@dataclass(frozen=True)
class Places:
    """Names, coordinates in degrees, and populations of places."""

    names: tuple[str, ...]
    longitude: np.ndarray
    latitude: np.ndarray
    population: np.ndarray


def load_places() -> Places:
    """The embedded table of places."""
    with open(PLACES_FILE, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers = {
        key: np.array([float(row[key]) for row in rows])
        for key in ("longitude", "latitude", "population")
    }
    return Places(tuple(row["name"] for row in rows), **numbers)


def draw_people(num_people: int, seed: int) -> pa.Table:
    """Home towns of made-up people, drawn in proportion to population: longitude, latitude.

    Raises:
        PrivotError: if there are to be none.
    """
    num_people = require_count("people", num_people, MOST_ROWS)
    places = load_places()
    share = places.population / places.population.sum()
    town = np.random.default_rng(seed).choice(len(share), size=num_people, p=share)
    return pa.table({"longitude": places.longitude[town], "latitude": places.latitude[town]})
