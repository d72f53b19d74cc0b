"""What a rehearsal predicts of a fit's error, beside what fits of other people err by.

    python -m studies waves.rehearsed -o docs/results/waves/rehearsed.json

Rows of Adult, five short and five long columns, are halved. One half is the prior of a rehearsal, older
people say; as many as are planned are drawn from the other half, report, and are learned from, and
the errors are those of the fits from that half's own shares: two-way total variation, means of some
fits. Adult needs `adult.csv.gz` in the folder of `--data` or `PRIVOT_DATA`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privot.forecast.simulation import simulate_campaign
from privot.schema import Schema
from studies.common.rows import gather
from studies.tables.adult import read_adult

TABLES = {
    "short": ("sex", "income", "race", "relationship", "workclass"),
    "long": ("age", "occupation", "education", "marital_status", "hours_per_week"),
}
SETTINGS = ((8.0, 3_000), (4.0, 10_000), (2.0, 30_000), (1.0, 30_000))


def measure(
    name: str,
    schema: Schema,
    halves: tuple[pa.Table, pa.Table],
    setting: tuple[float, int],
    fits: int,
) -> dict[str, Any]:
    """One setting: a rehearsal by one half, and fits of the other."""
    epsilon, people = setting
    told = simulate_campaign(schema, epsilon, people, prior=halves[0], rehearsals=fits, seed=0)
    made = simulate_campaign(schema, epsilon, people, prior=halves[1], rehearsals=fits, seed=1000)
    ratios = {key: told.predicted[key] / made.predicted[key] for key in told.predicted}
    return {
        "table": name,
        "epsilon": epsilon,
        "people": people,
        "predicted": _rounded(told.predicted),
        "realized": _rounded(made.predicted),
        "ratio": _rounded(ratios),
        "low": _rounded(told.low),
        "high": _rounded(told.high),
        "without_noise": _rounded(told.without_noise),
    }


def _rounded(errors: dict[str, float]) -> dict[str, float]:
    return {key: round(value, 4) for key, value in errors.items()}


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, help="JSON of the rows.")


def run(chosen: argparse.Namespace) -> None:
    """Measure, and write rows."""

    def rows() -> Iterator[dict[str, Any]]:
        declared, table = read_adult(chosen.data)
        order = np.random.default_rng(0).permutation(table.num_rows)
        for name, columns in TABLES.items():
            own = {column: declared.to_dict()["columns"][column] for column in columns}
            schema, few = Schema.from_dict({"columns": own}), table.select(list(columns))
            middle = table.num_rows // 2
            halves = few.take(order[:middle]), few.take(order[middle:])
            for setting in SETTINGS:
                yield measure(name, schema, halves, setting, chosen.fits)

    gather(rows(), chosen.output)
