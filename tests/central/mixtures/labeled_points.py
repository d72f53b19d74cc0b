"""Points of five coordinates with a label: two heaps of one label, one of the other."""

import numpy as np
import pyarrow as pa

from privot.schema import Schema

NAMES = list("pqrst")
HEAPS = {"a": ([-5, 0, 0, 0, 0], [5, 0, 0, 0, 0]), "b": ([0, 6, 0, 0, 0],)}


def schema(**more):
    points = {"kind": "vector", "columns": NAMES, "bounds": [[-10, 10]] * 5} | more
    label = {"kind": "categorical", "categories": ["a", "b"]}
    return Schema.from_dict({"columns": {"kind": label, "place": points}})


def points(count=6000, seed=0):
    """Coordinates (n, 5) and labels; the third and the fourth coordinate go together."""
    rng = np.random.default_rng(seed)
    kinds = np.where(rng.random(count) < 0.7, "a", "b")
    heaps = np.array([HEAPS[kind][rng.integers(len(HEAPS[kind]))] for kind in kinds], float)
    noise = rng.standard_normal((count, 5))
    noise[:, 3] = 0.9 * noise[:, 2] + np.sqrt(1 - 0.81) * noise[:, 3]
    return heaps + noise, kinds


def table(count=6000, seed=0):
    values, kinds = points(count, seed)
    return pa.table(dict(zip(NAMES, values.T, strict=True)) | {"kind": kinds})


def of(drawn):
    """Coordinates and labels of a table."""
    values = np.stack([drawn[name].to_numpy() for name in NAMES], axis=1)
    return values, np.array(drawn["kind"].to_pylist())
