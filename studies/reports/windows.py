"""Which window is best for W₂: radii and shapes compared on public synthetic people, not on any data.

    python -m studies reports.windows --epsilon 4 --radii .1 .15 .225 .35 .5 --people 200000
    python -m studies reports.windows --dimension 3 --epsilon 2 --radii .4 .8 1.2 --people 100000
    python -m studies reports.windows --epsilon 2 --radii .3 .45 --shape product
    python -m studies reports.windows --epsilon 4 --radii .225 --roughness .3 1.25 5

A population is random: clusters of Pareto weights and of sizes over two magnitudes, up to three
filaments, and a few people anywhere, in [−1, 1]^d. Distances are exact W₂ of 1 500 against 1 500 points,
evenly spaced in the order of a space-filling walk, so that they err little.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privot.evaluation import sample_distance
from privot.local.grid.channels import window_channel
from privot.local.grid.deconvolution import deconvolve
from privot.local.grid.density import GridDensity
from privot.mechanisms import Window
from privot.release import Randomizer
from privot.schema import Array, Schema
from studies.common.rows import gather

_SPACINGS = {1: 1024, 2: 128, 3: 32}
_POINTS = 1_500


def draw_population(seed: int, num_people: int, dimension: int) -> Array:
    """Random people (n, d) of a random population."""
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


def compare(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each radius and roughness: W₂ of each population's fit, and their mean."""
    d, epsilon = chosen.dimension, chosen.epsilon
    names = [f"x{i}" for i in range(d)]
    fields = {"kind": "vector", "columns": names, "bounds": [[-1, 1]] * d}
    schema = Schema.from_dict({"columns": {"x": fields}})
    for radius in chosen.radii:
        steps = max(_SPACINGS[d], 2 ** int(np.ceil(np.log2(8 / radius))))
        window = Window(epsilon, d, steps, round(radius * steps / 2), chosen.shape)
        form, spacings = window.point_form(schema.columns["x"]), _SPACINGS[d]
        for roughness in chosen.roughness:
            distances = []
            for seed in range(chosen.populations):
                people = draw_population(seed, chosen.people, d)
                table = dict(zip(names, people.T, strict=True))
                release = Randomizer(schema, {"x": window}).privatize(table)
                channel = window_channel(release, "x", form, spacings)
                nodes = np.ones((channel.spacings + 1,) * d, bool)
                found = deconvolve(channel, nodes, strength=roughness)
                density = GridDensity(found.weights.reshape(nodes.shape))
                drawn = density.sample(100_000, np.random.default_rng(1))
                distances.append(sample_distance(walk(drawn), walk(people), _POINTS, repeats=1))
            yield {
                "dimension": d,
                "epsilon": epsilon,
                "shape": chosen.shape,
                "radius": radius,
                "roughness": roughness,
                "people": chosen.people,
                "w2": round(float(np.mean(distances)), 4),
                "each": np.round(distances, 4).tolist(),
            }


def walk(points: Array) -> Array:
    """Evenly spaced points in the order of interleaved binary digits: neighbors mostly stay together."""
    cells = np.clip((points + 1) * 512, 0, 1023).astype(np.int64)
    key = np.zeros(len(points), np.int64)
    for bit in range(9, -1, -1):
        for coordinate in cells.T:
            key = key * 2 + (coordinate >> bit & 1)
    chosen = (np.arange(_POINTS) + 0.5) * len(points) / _POINTS
    return points[np.argsort(key, kind="stable")[chosen.astype(np.int64)]]


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--dimension", type=int, choices=[1, 2, 3], default=2)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--radii", type=float, nargs="+", required=True)
    parser.add_argument("--roughness", type=float, nargs="+", default=[None])
    parser.add_argument("--shape", choices=["ball", "product"], default="ball")
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--populations", type=int, default=4)
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Command line."""
    gather(compare(chosen), chosen.output)
