"""Errors that a plan predicts for each place of trust, beside what is realized.

    python -m studies promise.forecasts towns accidents adult --data FOLDER -o forecasts.json
    python -m studies promise.forecasts adult --where central --epsilon 1 --data FOLDER

Records are split at random in two halves (of `towns`: two samples). One half is the **prior** from which
`privot.forecast.simulation.forecast_trust` predicts. The other half stands for the population: as many
people as the work has are drawn from it with replacement, what is learned from them is compared with all
of that half, and this is what is **realized**. With `--rows made_up` a third row is
predicted without any prior, which takes as long as with one.

Learning is by the public interfaces (`privot.fit`, `privot.central.fit`, `privot.aggregated.fit`); the
two servers are simulated by exact sums and the noise of both. Errors are those of the forecast, by the
same random numbers: exact W₂ of 3 000 points, the box scaled to [−1, 1]^2, or total variation of columns
and of pairs, from 200 000 samples. δ = 10^-6. Noise has no seed: numbers repeat up to its randomness.
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
from privot.aggregated import Encoder, SumRelease
from privot.aggregated import fit as fit_sums
from privot.aggregated.shares import one_round_fit
from privot.forecast.simulation import (
    ErrorsOf,
    errors_against,
    forecast_trust,
    promises_at,
    weighted_sums,
)
from privot.local import fit
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.privacy.ledger import RepeatedRecords
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.schema import Promise
from studies.common.rows import gather
from studies.promise.places import DELTA, WHERE
from studies.reports.points import places
from studies.tables.adult import read_adult

PEOPLE = {"towns": 200_000, "accidents": 140_000, "adult": 40_000}
ROWS = ("realized", "predicted", "made_up")
_SAMPLES = 200_000


def halves(work: str, seed: int, data: Path | None) -> tuple[Schema, pa.Table, pa.Table]:
    """The schema, the prior, and the records that stand for the population."""
    if work == "towns":
        schema, prior, others = places(work, seed, PEOPLE[work], data)
        assert others is not None
        return schema, prior, others
    if work == "adult":
        schema, table = read_adult(data or ".")
    else:
        schema, table, _ = places(work, seed, PEOPLE[work], data)
    order = np.random.default_rng(seed).permutation(table.num_rows)
    first, second = (table.take(each) for each in np.array_split(order, 2))
    return schema, first, second


def measure(
    work: str, wheres: list[str], epsilons: list[float], rows: list[str], how: tuple[Any, int, int]
) -> Iterator[dict[str, Any]]:
    """The `rows` of each place of trust and ε; `how` are the folder of data, rehearsals, the seed."""
    (data, rehearsals, seed), people = how, PEOPLE[work]
    schema, prior, others = halves(work, seed, data)
    distance = errors_against(schema, others)
    drawn = others.take(np.random.default_rng([seed, 1]).integers(others.num_rows, size=people))
    delta = None if wheres == ["local"] else DELTA
    promises = promises_at(epsilons, people, where=wheres, delta=delta)  # type: ignore[arg-type]
    common: dict[str, Any] = {"plan": work, "seed": seed, "people": people}
    for name, known in (("predicted", prior), ("made_up", None)):
        if name not in rows:
            continue
        found = forecast_trust(
            schema, promises, people, prior=known, rehearsals=rehearsals, seed=seed
        )
        for row in found.rows:
            at = {"where": row.where, "epsilon": row.epsilon, "row": name}
            facts: dict[str, Any] = {
                "floor": _rounded(found.without_noise),
                "bytes": row.report_bytes,
            }
            facts |= {"epsilon0": row.epsilon0, "errors": _rounded(row.predicted)}
            yield common | at | facts
    for promise in promises if "realized" in rows else []:
        started = time.process_time()
        made = realized(schema, promise, drawn, distance, (seed, rehearsals))
        at = {"where": promise.where, "epsilon": promise.epsilon, "row": "realized"}
        seconds = round(time.process_time() - started, 1)
        yield common | at | {"errors": made, "cpu_seconds": seconds}


def realized(
    schema: Schema, promise: Promise, people: pa.Table, distance: ErrorsOf, how: tuple[int, int]
) -> dict[str, float]:
    """Errors of what these people's reports, or sums of their records, teach; `how` as in `measure`."""
    seed, rehearsals = how
    promising = Schema.from_dict(schema.to_dict()).model_copy(update={"promise": promise})
    model: Any
    if promise.where == "central":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepeatedRecords)  # public records, as often as wanted
            model = privot.central.fit(people, promising)
    elif promise.where == "aggregated":
        model = _by_two_servers(promising, people)
    else:
        model = fit(Randomizer.calibrate(promising).privatize(people), seed=seed)
    found = [distance(model.sample(_SAMPLES, seed=k), k) for k in range(seed, seed + rehearsals)]
    return _rounded({name: float(np.mean([each[name] for each in found])) for name in found[0]})


def _by_two_servers(schema: Schema, people: pa.Table) -> Any:
    """A model of the exact sums with the noise of both servers, without shares."""
    encoder = Encoder.calibrate(schema)
    records = one_round_fit(schema, "aggregated").records.encode(people)
    sums = weighted_sums(encoder.query, records, np.ones(people.num_rows, np.int64))
    for _ in ("leader", "helper"):
        sums = sums + sample_rounded_gaussian(sums.shape, encoder.stddev)
    return fit_sums(SumRelease(encoder, {"simulated": people.num_rows}, sums))


def _rounded(errors: dict[str, float]) -> dict[str, float]:
    return {name: round(error, 4) for name, error in errors.items()}


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("works", nargs="+", choices=[*PEOPLE])
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("--where", nargs="+", choices=WHERE, default=list(WHERE))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rehearsals", type=int, default=1)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS[:2]))
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """One work after another."""
    gather(_measured(chosen), chosen.output)


def _measured(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for work in chosen.works:
        how = chosen.data, chosen.rehearsals, chosen.seed
        yield from measure(work, chosen.where, chosen.epsilon, chosen.rows, how)
