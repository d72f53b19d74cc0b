"""Places learned from private reports: mechanisms and estimators side by side, on the same people.

    python -m studies entropic.deconvolution towns --epsilons 4 2 1 --seeds 0 1 2 -o towns.json
    python -m studies entropic.deconvolution accidents --seeds 0 1 2 --data FOLDER -o accidents.json

`towns` are the demo's people; `accidents` are 140 029 road accidents in Great Britain (a file
`uk_road_accidents_2d.csv.gz` in the folder of `--data` or `PRIVOT_DATA`). Distances are exact W₂ of
3 000 against 3 000 points, the box scaled to [−1, 1]², means of three subsamples. Privacy's noise has
no seed, so that numbers repeat up to its randomness only.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privot.datasets import draw_people
from privot.datasets.fetch import SCHEMA_TOML
from privot.errors import PrivotError
from privot.evaluation import sample_distance
from privot.local import FitSettings, fit
from privot.release import Randomizer, Release, read_table
from privot.schema import Schema, to_unit
from studies.common.rows import gather

ACCIDENTS = "uk_road_accidents_2d.csv.gz"
_SAMPLES = 30_000


def compare_on(
    people: pa.Table, fresh: pa.Table | None, epsilon: float, seed: int, methods: list[str]
) -> Iterator[dict[str, Any]]:
    """Rows of (method, w2, seconds) of one population; `fresh` people give the floor.

    A method is a mechanism and an estimator, such as window/grid; those of one mechanism see the same
    reports.
    """
    schema = Schema.from_toml(SCHEMA_TOML)
    domain = schema.point_column("home").domain
    truth = to_unit(domain, _points(people))

    def row(method: str, points: np.ndarray, seconds: float) -> dict[str, Any]:
        w2 = sample_distance(to_unit(domain, points), truth, repeats=3)
        told = {"epsilon": epsilon, "seed": seed, "method": method}
        return told | {"w2": round(w2, 4), "seconds": round(seconds, 1)}

    if fresh is None:
        floor = round(sample_distance(truth, truth, repeats=3), 4)
        yield {"epsilon": epsilon, "seed": seed, "method": "floor", "w2": floor, "seconds": 0.0}
    else:
        yield row("floor", _points(fresh), 0.0)
    releases: dict[str, Release] = {}
    for method in methods:
        mechanism, estimator = method.split("/")
        if mechanism not in releases:
            randomizer = Randomizer.calibrate(schema, epsilon, mechanism=mechanism)
            release = releases[mechanism] = randomizer.privatize(people)
            yield row(f"{mechanism}, reports", domain.project(_points(release.table)), 0.0)
        started = time.perf_counter()
        model = fit(releases[mechanism], FitSettings(estimator=estimator, seed=seed))  # type: ignore[arg-type]  # checked there
        seconds = time.perf_counter() - started
        yield row(method, _points(model.sample(_SAMPLES, seed)), seconds)


def _points(table: pa.Table) -> np.ndarray:
    return np.stack([table.column(name).to_numpy() for name in ("longitude", "latitude")], axis=1)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("places", choices=["towns", "accidents"])
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    methods = ["window/grid", "laplace/grid", "laplace/generator"]
    parser.add_argument("--methods", nargs="+", default=methods, help="mechanism/estimator")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """One seed after another, each method."""
    gather(_measured(chosen), chosen.output)


def _measured(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for seed in chosen.seeds:
        if chosen.places == "towns":
            people = draw_people(chosen.people, seed=seed)
            fresh: pa.Table | None = draw_people(chosen.people, seed=seed + 1)
        else:
            if chosen.data is None:
                raise PrivotError(f"--data is missing: name the folder that holds {ACCIDENTS}")
            people, fresh = read_table(Path(chosen.data) / ACCIDENTS), None
        for epsilon in chosen.epsilons:
            yield from compare_on(people, fresh, epsilon, seed, chosen.methods)
