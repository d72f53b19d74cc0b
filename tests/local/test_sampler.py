"""Records of latent classes: codes keep their mass, and numbers go on from atom to atom."""

import numpy as np
import pyarrow as pa

from privot import Randomizer, Schema
from privot.local.classes.mixture import LatentClasses, LatentClassSampler
from privot.local.releases import Atoms, Places, ReportedColumn

SCHEMA = Schema.from_toml("""
[columns.price]
kind = "numeric"
bounds = [0, 100]
bins = [0, 5, 10, 20, 40, 100]
spikes = [7]
nullable = true
[columns.color]
kind = "categorical"
categories = ["red", "blue"]
""")
PRICES = np.array([[0.35, 0.05], [0.25, 0.05], [0.15, 0.1], [0.1, 0.3], [0.05, 0.4], [0.05, 0.05],
                   [0.05, 0.05]])  # fmt: skip


def sampler():
    atoms = [
        Atoms.of(name, [ReportedColumn(column, True)]) for name, column in SCHEMA.coded.items()
    ]
    places = tuple(Places(each.codes, each.cells) for each in atoms)
    law = LatentClasses(np.array([0.6, 0.4]), (PRICES, np.array([[0.9, 0.2], [0.1, 0.8]])))
    return LatentClassSampler(law, places, SCHEMA)


def draw(rows, where=None):
    return sampler().records(rows, np.random.default_rng(0), where or {})


def test_codes_are_drawn_as_often_as_the_law_says():
    drawn = draw(60_000)
    codes = [column.encode_codes(name, drawn) for name, column in SCHEMA.coded.items()]
    found = np.histogram2d(*codes, bins=[np.arange(8), np.arange(3)])[0] / 60_000
    assert np.abs(found - sampler().classes.marginal([0, 1])).max() < 0.01


def test_the_shape_within_a_bin_is_that_of_the_class():
    """Red ones get dearer from bin to bin downward, blue ones upward: so they do within [20, 40)."""
    drawn = draw(100_000)
    price, red = drawn["price"].to_numpy(), np.array(drawn["color"].to_pylist()) == "red"
    inside = (price >= 20) & (price < 40)
    assert price[inside & red].mean() < price[inside & ~red].mean() - 0.3
    fine = np.histogram(price[(price > 0) & (price != 7)], 100, (0, 100))[0]
    for edge in (10, 20, 40):
        assert abs(fine[edge] / fine[edge - 1] - 1) < 0.3


def test_conditions_are_codes():
    drawn = draw(500, {"price": [5, 6], "color": [1]})
    assert set(drawn["price"].to_pylist()) == {7.0, None}
    assert set(drawn["color"].to_pylist()) == {"blue"}


def test_it_is_stored_and_built_again():
    made = sampler()
    randomizer = Randomizer.calibrate(SCHEMA, 2.0)
    again = LatentClassSampler.build(randomizer, made.fields(), made.arrays())
    rng = np.random.default_rng(1)
    drawn = again.records(1000, rng, {})
    assert drawn.equals(made.records(1000, np.random.default_rng(1), {}))
    assert isinstance(drawn, pa.Table)
