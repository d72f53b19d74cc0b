"""What a plan predicts of a fit's error, beside what fits err by: thirty settings of tables, ε, people.

    python -m studies tables.predicted -o predicted.json

People are drawn from a table with replacement and report; `made` is the total variation (TV) of fits
from the table's own shares, the mean over some releases. `like` is the forecast by a **pilot**: a
fifth as many other people, at the same ε, whose columns and dependence stand for all
(`privot.forecast.fits`), and `like_low` and `like_high` are where eight in ten fits should err;
`made_up` is the forecast by random populations, which knows the schema alone; `bound` the plan's error
of an estimate without a model. A forecast is as good as `made` is known: `spread` is the standard
deviation of one release's two-way error, as a share of it.

Tables: five short columns of Adult, five long ones, and six independent columns, at nine settings each;
and at the first of them tables of ten columns, whose fits take long: those of `tables.adult`, ten that
depend weakly on each other, and the network of `tables.bayesian_network`. Adult needs `adult.csv.gz` in
the folder of `--data` or `PRIVOT_DATA`.
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

from privot.evaluation.estimates import sampler_of
from privot.forecast.fits import FitForecast, forecast_fit
from privot.local import fit
from privot.randomizer import Randomizer, plan_reports
from privot.schema import Schema
from studies.common.rows import gather
from studies.tables import bayesian_network
from studies.tables.adult import marginal_errors, read_adult
from studies.tables.never_worse import populations

SETTINGS = ((8.0, 3_000), (4.0, 3_000), (2.0, 10_000), (8.0, 30_000), (1.0, 10_000),
            (4.0, 30_000), (8.0, 100_000), (2.0, 30_000), (1.0, 30_000))  # fmt: skip
_OF_TEN = 1  # settings of tables of ten columns, whose fits take long
_ELSEWHERE = ("many categories",)
_PILOT = 5


def tables(data: str | Path) -> dict[str, tuple[Schema, np.ndarray]]:
    """Schema and codes (n, m) of each table."""
    found = {name: own for name, own in populations(data).items() if name not in _ELSEWHERE}
    schema, table = read_adult(data)
    found["Adult, ten"] = schema, _codes(schema, table)
    network = bayesian_network.Population.of_network()
    drawn = network.draw(200_000, np.random.default_rng(3))
    found["network"] = bayesian_network.SCHEMA, _codes(bayesian_network.SCHEMA, drawn)
    return found


def _codes(schema: Schema, table: pa.Table) -> np.ndarray:
    return np.stack([c.encode_codes(n, table) for n, c in schema.coded.items()], axis=1)


def measure(
    name: str, schema: Schema, codes: np.ndarray, setting: tuple[float, int], releases: int
) -> dict[str, Any]:
    """One setting: both forecasts, and some releases."""
    (epsilon, people), rng = setting, np.random.default_rng(11)
    randomizer, started = Randomizer.calibrate(schema, epsilon), time.process_time()
    sizes = [column.alphabet.size for column in schema.coded.values()]

    def report(number: int) -> Any:
        drawn = codes[rng.integers(len(codes), size=number)]
        table: dict[str, Any] = {}
        for index, (column, coded) in enumerate(schema.coded.items()):
            table |= coded.decode_codes(column, drawn[:, index], rng)
        return randomizer.privatize(table)

    pilot = fit(report(people // _PILOT), seed=0)
    like = forecast_fit(schema, epsilon, people, like=pilot)
    alone = forecast_fit(schema, epsilon, people)
    fits = [fit(report(people), seed=seed) for seed in range(releases)]
    every = np.array([marginal_errors(sampler_of(model).classes, codes, sizes) for model in fits])
    made = every.mean(axis=0)
    table = plan_reports(schema, epsilon, people).table
    assert table is not None
    assert table.recommended.two_way is not None
    return {
        "table": name,
        "epsilon": epsilon,
        "people": people,
        **_both("made", *made),
        "spread": round(float(every[:, 1].std(ddof=1) / made[1]), 3),
        **_forecast("like", like),
        "like_low": round(like.low or 0.0, 4),
        "like_high": round(like.high or 0.0, 4),
        **_forecast("made_up", alone),
        **_both("bound", table.recommended.one_way, table.recommended.two_way),
        "seconds": round(time.process_time() - started, 1),
    }


def _forecast(name: str, told: FitForecast) -> dict[str, float]:
    assert told.two_way is not None
    return _both(name, told.one_way, told.two_way)


def _both(name: str, one_way: float, two_way: float) -> dict[str, float]:
    return {
        f"{name}_one_way": round(float(one_way), 4),
        f"{name}_two_way": round(float(two_way), 4),
    }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA", "."))
    parser.add_argument("--releases", type=int, default=6)
    parser.add_argument("--tables", nargs="+", help="names of some; all by default")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every setting of every table."""
    gather(_rows(chosen.data, chosen.tables, chosen.releases), chosen.output)


def _rows(data: str, names: Sequence[str] | None, releases: int) -> Iterator[dict[str, Any]]:
    found = tables(data)
    for number, setting in enumerate(SETTINGS):
        for name in names or found:
            schema, codes = found[name]
            if number < _OF_TEN or len(schema.coded) < 10:
                yield measure(name, schema, codes, setting, releases)
