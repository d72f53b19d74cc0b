"""What a check by reports alone says of classifiers, beside what they score on the population.

    python -m studies tables.telling --data FOLDER -o telling.json

The population is a table: ten columns of Adult, or 200 000 people of a Bayesian network
(`tables.bayesian_network`, with tables of the release's own seed). People drawn from it with replacement
report, a model is learned, and for every target a row has the score that `privot.check` tells of what
20 000 synthetic records teach, with its 90 % interval, and what was made: the same linear classifier's,
or regression's, score on the whole population. `--kept` adds, of Adult, the share that is kept of what
people would teach: as rehearsed, and as it is by the linear classifier and by gradient boosting.

Rows at the end count the intervals that held. Needs scikit-learn and `adult.csv.gz` in the folder of
`--data` or `PRIVOT_DATA`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privot.evaluation import check, evaluate
from privot.evaluation.estimates import rehearse
from privot.evaluation.target_check import (
    CrossFit,
    LinearPredictor,
    cross_fitted_performance,
    mean_performance,
)
from privot.evaluation.verdicts import CHANCE
from privot.local import LocalModel, fit
from privot.local.releases import Releases
from privot.randomizer import Randomizer, Release
from privot.schema import Schema
from studies.common.rows import gather
from studies.tables import bayesian_network
from studies.tables.adult import PEOPLE, read_adult

_ROWS = 20_000
_NETWORK = 200_000
_TESTED = 50_000  # people whom the model draws, as a check does
TARGETS = {
    "Adult": ("income", "sex", "marital_status", "race", "age"),
    "network": ("ill", "education", "income", "insured", "visits"),
}


def population(name: str, data: str, seed: int) -> tuple[Schema, pa.Table]:
    """Its schema and records."""
    if name == "Adult":
        return read_adult(data)
    drawn = bayesian_network.Population.of_network(seed)
    return bayesian_network.SCHEMA, drawn.draw(_NETWORK, np.random.default_rng(seed))


def measure(
    name: str, data: str, people: int, epsilon: float, seed: int, kept: bool
) -> Iterator[dict[str, Any]]:
    """Rows of one release."""
    schema, table = population(name, data, seed)
    drawn = np.random.default_rng([seed, people]).integers(table.num_rows, size=people)
    release = Randomizer.calibrate(schema, epsilon).privatize(table.take(drawn))
    started = time.process_time()
    model, releases = fit(release, seed=seed), Releases.of(release)
    fitted = time.process_time() - started
    rehearsed = rehearse(model, releases, [(0,)], seed)
    whole, reported = rehearsed.model, rehearsed.releases
    halves = CrossFit.of(model, releases, seed), CrossFit.of(whole, reported, seed)
    made_up = model.sample(_TESTED, seed=seed + 1)
    for target in TARGETS[name]:
        told = cross_fitted_performance(*halves, whole, made_up, target, seed=seed)
        made = mean_performance(*LinearPredictor.of(model, target, seed).performance(table))
        row = {
            "population": name, "epsilon": epsilon, "people": people, "seed": seed, "target": target,
            "measure": "R²" if schema.coded[target].is_number else "AUC",
            "told": round(told.estimate, 3), "low": round(told.low, 3), "high": round(told.high, 3),
            "made": round(made, 3), "held": told.holds(made),
            "seconds": round(time.process_time() - started, 1), "fit_seconds": round(fitted, 1),
        }  # fmt: skip
        yield row | (_kept(model, release, table.slice(PEOPLE), target, seed) if kept else {})


def _kept(
    model: LocalModel, release: Release, others: pa.Table, target: str, seed: int
) -> dict[str, Any]:
    """Shares of what people would teach, above guessing."""
    checked = check(model, release, target=target, seed=seed).target
    assert checked is not None
    prediction = evaluate(model, others, target=target, num_rows=_ROWS, seed=seed).prediction
    assert prediction is not None
    guess = CHANCE[checked.measure]
    linear, trees = (
        round((one.synthetic - guess) / (one.real - guess), 3) for one in prediction.scores
    )
    told = None if checked.retained is None else round(checked.retained, 3)
    return {"kept_told": told, "kept_made": linear, "kept_by_trees": trees}


def counted(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """How many intervals held, of every population, ε and number of people, and of all."""
    keys = sorted({(row["population"], row["people"], row["epsilon"]) for row in rows})
    for key in [*keys, None]:
        own = [r for r in rows if key in (None, (r["population"], r["people"], r["epsilon"]))]
        about = (
            {} if key is None else dict(zip(("population", "people", "epsilon"), key, strict=True))
        )
        gaps = [row["told"] - row["made"] for row in own]
        yield {
            "all": True, **about, "intervals": len(own),
            "held": round(float(np.mean([row["held"] for row in own])), 3),
            "too_low": sum(row["made"] > row["high"] for row in own),
            "too_high": sum(row["made"] < row["low"] for row in own),
            "mean_gap": round(float(np.mean(gaps)), 4),
            "half_width": round(float(np.median([r["high"] - r["low"] for r in own])) / 2, 4),
        }  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA", "."))
    parser.add_argument("--populations", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[8.0, 4.0])
    parser.add_argument("--people", nargs="+", type=int, default=[10_000, PEOPLE])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--kept", action="store_true", help="of Adult, what trees keep, too: slow")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every population, number of people, ε and seed."""
    gather(_rows(chosen), chosen.output)


def _rows(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    rows = []
    for name in chosen.populations:
        for people in chosen.people:
            for epsilon in chosen.epsilons:
                for seed in chosen.seeds:
                    for row in measure(
                        name, chosen.data, people, epsilon, seed, chosen.kept and name == "Adult"
                    ):
                        rows.append(row)
                        yield row
    yield from counted(rows)
