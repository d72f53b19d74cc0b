"""People whose ways move: a column that grows, one that depends on it, a number, places."""

import numpy as np

from privot import Randomizer, Schema

TEXT = """
[columns.uses]
kind = "boolean"
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
[columns.age]
kind = "numeric"
bounds = [0, 100]
integer = true
"""
SCHEMA = Schema.from_toml(TEXT)
USES = Schema.from_toml(TEXT.split("[columns.color]")[0])
SQUARE = Schema.from_toml("""
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[-1, 1], [-1, 1]]
""")


def people(share, num, seed):
    """Of whom this share uses it, and they like red; their age does not move."""
    rng = np.random.default_rng(seed)
    uses = rng.random(num) < share
    red = rng.random(num) < np.where(uses, 0.8, 0.3)
    other = np.where(rng.random(num) < 0.5, "green", "blue")
    age = rng.normal(40, 12, num).clip(0, 100).astype(int)
    return {"uses": uses, "color": np.where(red, "red", other), "age": age}


def places(share, num, seed):
    """Of whom this share is in the east."""
    rng = np.random.default_rng(seed)
    middle = np.where(rng.random(num) < share, 0.5, -0.5)
    return {
        "x": (middle + 0.08 * rng.standard_normal(num)).clip(-1, 1),
        "y": (0.1 * rng.standard_normal(num)).clip(-1, 1),
    }


def waves(shares, num, epsilon=4.0, drawn=people, schema=SCHEMA):
    randomizer = Randomizer.calibrate(schema, epsilon)
    return [randomizer.privatize(drawn(p, num, i)) for i, p in enumerate(shares)]


def uses_only(share, num, seed):
    """Of whom this share uses it, and nothing else is asked."""
    return {"uses": people(share, num, seed)["uses"]}
