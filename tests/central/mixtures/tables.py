"""People whose age, health and town depend on each other."""

import numpy as np
import pyarrow as pa

from privot.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "numeric", "bounds": [0, 80]},
            "sick": {"kind": "boolean", "nullable": True},
            "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
        }
    }
)


def people(count=20_000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.triangular(0, 20, 80, count)
    sick = rng.random(count) < age / 80
    town = np.where(sick, "a", rng.choice(["b", "c"], count))
    told = pa.array(sick, mask=rng.random(count) < 0.1)
    return pa.table({"age": age, "sick": told, "town": town})
