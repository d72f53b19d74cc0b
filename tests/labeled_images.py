"""Small images with a label: schemas of every way to report them, and records."""

import numpy as np

from privot.schema import Schema

LABELED = """
[columns.image]
kind = "array"
shape = [4, 6]
bounds = [0, 255]
{more}
[columns.label]
kind = "categorical"
categories = ["cat", "dog", "eel"]
"""

SCHEMAS = {
    "pixels": "",
    "coefficients": 'transform = "dct"\nlow_pass = 3',
    "ball": 'radius = 3\ncenter = "lower"\ntransform = "dct"',
}


def schema_of(more=""):
    return Schema.from_toml(LABELED.format(more=more))


def records(num, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (num, 4, 6)).astype(np.uint8)
    return {"image": images, "label": rng.choice(["cat", "dog", "eel"], num)}
