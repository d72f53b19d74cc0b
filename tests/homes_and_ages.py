"""People of the README: a home, an age, a sex."""

import numpy as np

from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[-8.7, 1.8], [49.8, 60.9]]
[columns.age]
kind = "numeric"
bounds = [17, 90]
[columns.sex]
kind = "categorical"
categories = ["Female", "Male"]
""")


def people(num=1000, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "longitude": rng.uniform(-8, 1, num),
        "latitude": rng.uniform(50, 60, num),
        "age": rng.integers(17, 90, num),
        "sex": rng.choice(["Female", "Male"], num),
    }
