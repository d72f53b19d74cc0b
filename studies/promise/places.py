r"""Maps learned at the same ε where different parties are trusted.

    python -m studies promise.places towns --where central aggregated --seeds 0 1 2 -o towns_sums.json
    python -m studies promise.places accidents --data FOLDER --where shuffled -o accidents_shuffled.json

- `local`: nobody is trusted; every report keeps ε (δ = 0).
- `shuffled`: all reports are mixed, and keep (ε, δ) together; the ε₀ of one by itself is in the row.
- `aggregated`: two servers sum counts, and each adds noise that is enough alone; **simulated** here by
  the sum of both noises, on the query and by the estimator of `privot.central.pyramid`.
- `central`: a curator sees all records (`privot.central.fit`).

δ = 10^-6, the promise's least number of people is the number that there is. People, distances and
floors are those of `reports.points`. Privacy's noise has no seed: numbers repeat up to its randomness.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import privot.central
from privot.central import SumSettings
from privot.central.pyramid import PlaceFit
from privot.central.sums import Budget, NoisySums, sensitivity
from privot.evaluation import sample_distance
from privot.local import fit
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.privacy.ledger import RepeatedRecords
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.domains import Array, to_unit
from studies.common.rows import gather
from studies.reports.points import places

WHERE = ("local", "shuffled", "aggregated", "central")
DELTA = 1e-6
_SAMPLES = 30_000


def measure(
    work: str,
    seed: int,
    epsilons: list[float],
    wheres: list[str],
    data: Path | None,
    num_people: int,
) -> Iterator[dict[str, Any]]:
    """The floor, and a row for each place of trust and ε."""
    schema, people, fresh = places(work, seed, num_people, data)
    column = schema.point_column("home")
    units = [column.encode_units("home", table) for table in (people, fresh or people)]
    floor = sample_distance(units[1], units[0] if fresh else units[1], repeats=3)
    common = {"work": work, "seed": seed}
    yield common | {"where": "floor", "people": len(units[0]), "w2": round(floor, 4)}
    for where in wheres:
        for epsilon in epsilons:
            started = time.perf_counter()
            points, made = learned(where, epsilon, schema, people, seed)
            seconds = {"seconds": round(time.perf_counter() - started, 1)}
            w2 = sample_distance(points, units[0], repeats=3)
            row = {"where": where, "epsilon": epsilon, "w2": round(w2, 4)}
            yield common | row | made | seconds


def learned(
    where: str, epsilon: float, schema: Schema, people: pa.Table, seed: int
) -> tuple[Array, dict[str, Any]]:
    """Points of a model in unit coordinates, and facts of how it was made."""
    promise = {"epsilon": epsilon, "where": where}
    if where != "local":
        promise |= {"delta": DELTA, "people": people.num_rows}
    schema = Schema.from_dict(schema.to_dict() | {"promise": promise})
    if where == "aggregated":
        return _by_two_servers(epsilon, schema, people, seed)
    made: dict[str, Any] = {}
    if where == "central":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepeatedRecords)  # public records, as often as wanted
            model: Any = privot.central.fit(people, schema)
    else:
        randomizer = Randomizer.calibrate(schema)
        model = fit(randomizer.privatize(people), seed=seed)
        if where == "shuffled":
            made = {"epsilon0": round(randomizer.report_law.epsilon0, 4)}
    drawn = model.sample(_SAMPLES, seed=seed)
    points = np.stack([column.to_numpy() for column in drawn.columns], axis=1)
    return to_unit(schema.point_column("home").domain, points), made


def _by_two_servers(
    epsilon: float, schema: Schema, people: pa.Table, seed: int
) -> tuple[Array, dict[str, Any]]:
    """Exact sums, and the noise of both servers."""
    fitted = PlaceFit(schema, SumSettings(), Budget(epsilon, DELTA, people.num_rows))
    query, stddev = fitted.query, sensitivity(fitted.query) / fitted.plan().ratios[0]
    starts = np.cumsum(query.sizes) - query.sizes
    ones = query.positions(fitted.records.encode(people)) + starts
    sums = np.bincount(ones.ravel(), minlength=query.width)[None].astype(np.float64)
    for _ in range(2):
        sums += sample_rounded_gaussian(sums.shape, stddev)
    law = fitted.law(NoisySums(sums, float(np.sqrt(2.0)) * stddev))
    return law.points(_SAMPLES, np.random.default_rng(seed)), {"counts": query.width}


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("work", choices=["towns", "accidents"])
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("--people", type=int, default=200_000, help="of towns")
    parser.add_argument("--where", nargs="+", choices=WHERE, default=list(WHERE))
    parser.add_argument(
        "--epsilon", type=float, nargs="+", default=[0.01, 0.1, 0.25, 0.5, 1.0, 2.0]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """One seed after another."""
    gather(_measured(chosen), chosen.output)


def _measured(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for seed in chosen.seeds:
        given = chosen.epsilon, chosen.where, chosen.data, chosen.people
        yield from measure(chosen.work, seed, *given)
