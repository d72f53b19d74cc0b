"""People, their encoder, and two servers that hold their shares."""

from functools import cache

import numpy as np

from privot.aggregated import Encoder, Server
from privot.schema import Schema

COLUMNS = {
    "region": {"kind": "categorical", "categories": [f"r{i}" for i in range(40)]},
    "age": {"kind": "numeric", "bounds": [0, 80], "integer": True, "bins": 40},
    "sick": {"kind": "boolean"},
}


def schema(people=200, epsilon=1.0, columns=COLUMNS):
    promise = {"epsilon": epsilon, "where": "aggregated", "delta": 1e-6, "people": people}
    return Schema.from_dict({"columns": columns, "promise": promise})


@cache
def encoder(people=200, epsilon=4.0):
    return Encoder.calibrate(schema(people, epsilon))


def table(count, seed=0):
    """Sick are the old, and each region has its age."""
    rng = np.random.default_rng(seed)
    region = rng.integers(40, size=count)
    age = np.clip(2 * region + rng.integers(5, size=count), 0, 79)
    return {"region": [f"r{i}" for i in region], "age": age, "sick": age > 39}


IMAGES = {
    "image": {"kind": "array", "shape": [8, 8], "bounds": [0, 255]},
    "side": {"kind": "categorical", "categories": ["left", "top"]},
}


def images(count, seed=0):
    """A quarter is bright on the left, the others on top."""
    rng = np.random.default_rng(seed)
    left = rng.random(count) < 0.25
    pixels = rng.integers(0, 40, (count, 8, 8))
    bright = rng.integers(60, 140, (count, 1, 1))
    pixels[left, :, :4] = bright[left]
    pixels[~left, :4, :] = bright[~left]
    return {"image": [*pixels], "side": np.where(left, "left", "top")}


def whole(rule, data):
    """The exact sums of all records."""
    return sum(chunk.sum(axis=0) for chunk in rule.contributions(data)).view(np.int64)


def servers(folder, rule, data):
    """Both, holding the shares of the same records."""
    both = [Server.create(folder / role, rule, role) for role in ("leader", "helper")]
    shares = zip(*rule.encode_table(data))
    for server, mine in zip(both, shares):
        assert server.accept(*mine) == len(mine)
    return both


PLACE = {
    "home": {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1]] * 2, "nullable": True}
}
VERIFY_KEY = bytes(range(16))


@cache
def proving(kind="table"):
    """An encoder whose shares have proofs."""
    return Encoder.calibrate(schema(50, 4.0, {"table": FEW, "place": PLACE}[kind]), proofs=True)


FEW = {"old": {"kind": "boolean"}, "color": {"kind": "categorical", "categories": list("rgb")}}


def few(count, kind="table", seed=0):
    rng = np.random.default_rng(seed)
    if kind == "place":
        x, y = rng.random((2, count))
        absent = rng.random(count) < 0.1
        return {name: np.where(absent, np.nan, axis) for name, axis in (("x", x), ("y", y))}
    return {"old": rng.random(count) < 0.3, "color": rng.choice(list("rgb"), count)}


def provers(folder, rule, data):
    """Both servers, holding shares with proofs."""
    both = [Server.create(folder / role, rule, role, VERIFY_KEY) for role in ("leader", "helper")]
    for server, mine in zip(both, zip(*rule.encode_table(data))):
        assert server.accept(*mine) == len(mine)
    return both
