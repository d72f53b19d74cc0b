"""A place beside other columns of a table: what goes with where is learned, from one joint report."""

import numpy as np

from given_classes import fit_four
from privot import Randomizer, Schema, evaluate

SCHEMA = Schema.from_toml("""
[columns.home]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 10], [0, 20]]
bins = 6
[columns.price]
kind = "numeric"
bounds = [0, 100]
bins = 5
""")


def homes(rows, seed):
    """Dear in one corner, cheap in the other, and nobody between."""
    rng = np.random.default_rng(seed)
    dear = rng.random(rows) < 0.4
    middle = np.where(dear[:, None], [2.0, 16.0], [8.0, 4.0])
    x, y = (middle + rng.normal(0, [0.8, 1.6], (rows, 2))).clip([0, 0], [10, 20]).T
    price = np.where(dear, 80.0, 20.0) + rng.normal(0, 5, rows)
    return {"x": x, "y": y, "price": price.clip(0, 100)}


def test_price_follows_place():
    release = Randomizer.calibrate(SCHEMA, 4.0).privatize(homes(20_000, 0))
    model = fit_four(release)
    drawn = model.sample(5000, seed=1).to_pandas()
    for low, high, at in ((0, 40, [8.0, 4.0]), (60, 100, [2.0, 16.0])):
        some = drawn[(drawn.price >= low) & (drawn.price < high)]
        assert np.abs(some[["x", "y"]].mean() - at).max() < 2.5
    found = evaluate(model, homes(1500, 2)).comparison
    (place,), (pair,) = found.vectors, found.table.pairs
    assert place.distance < 0.35  # a cell is a third of a unit wide
    # Independent columns are off by .476, or by .56 where nobody is drawn in the empty bin of prices;
    # the model by .026 ± .005, and the limit is .12 at least: 18 standard deviations away.
    assert pair.cramers_v.synthetic < pair.cramers_v.independence / 4
