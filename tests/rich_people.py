"""Made-up people some of whom are rich: the larger and the redder, oftener; a coin tells nothing."""

import numpy as np

from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.size]
kind = "numeric"
bounds = [0, 10]
bins = 5
[columns.color]
kind = "categorical"
categories = ["red", "green"]
[columns.coin]
kind = "boolean"
[columns.rich]
kind = "boolean"
nullable = true
""")


def people(num, seed):
    rng = np.random.default_rng(seed)
    size = rng.uniform(0, 10, num)
    rich = size + rng.normal(0, 3, num) + 2 * (color := rng.random(num) < 0.4) > 6
    return {
        "size": size,
        "color": np.where(color, "red", "green"),
        "coin": rng.random(num) < 0.5,
        "rich": np.where(rng.random(num) < 0.1, None, rich).tolist(),
    }
