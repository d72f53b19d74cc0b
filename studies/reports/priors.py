"""Which prior on the logarithm of a density is best, on public synthetic people and not on any data.

    python -m studies reports.priors numbers --epsilon 1 --people 100000 -o priors_numbers.json
    python -m studies reports.priors places --epsilon 8 4 2 1 -o priors_places.json
    python -m studies reports.priors places --dimension 3 --epsilon 4 --strengths .03 .1 .3

Of numbers, the orders of derivatives over which strengths are averaged by evidence
(`privot.local.deconvolution`); of places, the strength (`privot.local.deconvolution`). All
priors see the same reports, of the window that `calibrate` chooses. Errors are W₁ of numbers and W₂ of
places in [−1, 1]^d, of `studies.reports.populations`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privot.local.deconvolution import average_by_evidence, deconvolve
from privot.local.grid_channels import GridChannel
from privot.randomizer import Randomizer
from privot.schema.domains import Array
from studies.common.rows import Row, gather
from studies.reports.populations import draw_clusters, draw_smooth, error, report, schema_of

_ORDERS = {"1": [1], "2": [2], "3": [3], "1, 2": [1, 2], "1, 2, 3": [1, 2, 3]}


def compare_orders(epsilon: float, people: int, populations: int) -> Iterator[Row]:
    """A row for each kind of people and set of orders."""

    def fits(channel: GridChannel) -> dict[Any, Array]:
        return {name: average_by_evidence(channel, orders=m).weights for name, m in _ORDERS.items()}

    common = {"dimension": 1, "epsilon": epsilon, "people": people}
    clusters = [draw_clusters(seed, people, 1) for seed in range(populations)]
    smooth = [draw_smooth(seed, people) for seed in range(populations)]
    for name, drawn in (("clusters", clusters), ("smooth", smooth)):
        yield from _rows(common | {"of": name}, "orders", drawn, fits)


def compare_strengths(
    epsilon: float, people: int, populations: int, dimension: int, strengths: list[float]
) -> Iterator[Row]:
    """A row for each strength."""

    def fits(channel: GridChannel) -> dict[Any, Array]:
        nodes = np.ones((channel.spacings + 1,) * dimension, bool)
        return {s: deconvolve(channel, nodes, strength=s).weights for s in strengths}

    common = {"dimension": dimension, "epsilon": epsilon, "people": people}
    drawn = [draw_clusters(seed, people, dimension) for seed in range(populations)]
    yield from _rows(common | {"of": "clusters"}, "strength", drawn, fits)


def _rows(
    common: Row,
    name: str,
    populations: list[Array],
    fits: Callable[[GridChannel], dict[Any, Array]],
) -> Iterator[Row]:
    randomizer = Randomizer.calibrate(
        schema_of(common["dimension"]), common["epsilon"], mechanism="window"
    )
    errors = defaultdict(list)
    for people in populations:
        for prior, weights in fits(report(people, randomizer.mechanisms["x"])).items():
            errors[prior].append(error(weights, people))
    for prior, each in errors.items():
        mean = round(float(np.mean(each)), 5)
        yield common | {name: prior, "error": mean, "each": np.round(each, 5).tolist()}


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("work", choices=["numbers", "places"])
    parser.add_argument("--epsilon", type=float, nargs="+", required=True)
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--populations", type=int, default=8)
    parser.add_argument("--dimension", type=int, choices=[2, 3], default=2, help="of places")
    parser.add_argument(
        "--strengths", type=float, nargs="+", default=[0.03, 0.1, 0.3], help="of places"
    )
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """One ε after another."""
    gather(_compared(chosen), chosen.output)


def _compared(chosen: argparse.Namespace) -> Iterator[Row]:
    for epsilon in chosen.epsilon:
        given = epsilon, chosen.people, chosen.populations
        if chosen.work == "numbers":
            yield from compare_orders(*given)
        else:
            yield from compare_strengths(*given, chosen.dimension, chosen.strengths)
