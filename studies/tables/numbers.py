"""Numbers that declare no bins, learned with all the columns of their table: shapes and correlations.

    python -m studies tables.numbers -o rows.json

Three tables: Adult's numbers beside its categories (`adult.csv.gz` in the folder of `--data` or
`PRIVOT_DATA`), made-up diamonds (carat lognormal on [.2, 5], price as carat^1.7 with a heavy tail on
[0, 20 000], depth and table narrow normals in wide bounds; carat and price correlate by .92), and a
made-up hospital (length of stay geometric on [0, 365], cost lognormal on [0, 10⁶], age, admissions
clustered in winter, wards). Bounds are declared and nothing else. Each table is reported jointly, once
as the defaults ask it, and once with ten equal bins declared for every number; 40 000 rows are
drawn of each model. Told are the Kolmogorov-Smirnov distance of each number from people's own values
and the correlations of all pairs of numbers. Privacy's noise has no seed, so numbers repeat up to its
randomness.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import ks_2samp

from privot.local import fit
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.domains import Array
from studies.common.rows import gather
from studies.tables.adult import read_adult

PEOPLE = 40_000
_SAMPLES = 40_000
_BOUNDS = {
    "age": [17, 90], "hours_per_week": [1, 99], "fnlwgt": [0, 1_500_000],
    "capital_gain": [0, 99_999], "capital_loss": [0, 4356],
}  # fmt: skip
_FIRST_DAY = dt.date(2024, 7, 1)

Columns = dict[str, dict[str, Any]]


def diamonds(count: int, seed: int) -> tuple[Columns, pa.Table]:
    """Declared columns, and people."""
    rng = np.random.default_rng(seed)
    size, noise = rng.standard_normal((2, count))
    carat = np.exp(0.55 * size - 0.4).clip(0.2, 5)
    price = (4000 * carat**1.7 * np.exp(0.28 * noise)).clip(0, 20_000)
    columns: Columns = {
        "carat": {"kind": "numeric", "bounds": [0.2, 5]},
        "price": {"kind": "numeric", "bounds": [0, 20_000]},
        "depth": {"kind": "numeric", "bounds": [40, 80]},
        "table": {"kind": "numeric", "bounds": [40, 95]},
    }
    numbers = {
        "carat": carat,
        "price": price,
        "depth": rng.normal(61.7, 1.4, count).clip(40, 80),
        "table": rng.normal(57.5, 2.2, count).clip(40, 95),
    }
    quality = {"cut": (5, -0.3, 0.9), "color": (7, 0.5, 1.6), "clarity": (8, -0.6, 1.6)}
    for name, (levels, slope, spread) in quality.items():
        grade = levels / 2 + slope * size + spread * rng.standard_normal(count)
        numbers[name] = np.floor(grade).clip(0, levels - 1).astype(int).astype(str)
        categories = [str(level) for level in range(levels)]
        columns[name] = {"kind": "categorical", "categories": categories}
    return columns, pa.table(numbers)


def hospital(count: int, seed: int) -> tuple[Columns, pa.Table]:
    """Declared columns, and people."""
    rng = np.random.default_rng(seed)
    illness = rng.random(count)
    stay = np.minimum(rng.geometric(1 / (1.5 + 8 * illness**2)) - 1, 365)
    cost = np.exp(7 + 0.9 * np.log1p(stay) + 0.5 * rng.standard_normal(count)).clip(0, 1e6)
    winter = np.rint(rng.normal(200, 30, count)) % 365
    day = np.where(rng.random(count) < 0.5, winter, rng.integers(0, 365, count)).astype(int)
    ward = np.floor(5 * illness + 0.8 * rng.standard_normal(count)).clip(0, 5).astype(int)
    first = np.datetime64(_FIRST_DAY)
    columns: Columns = {
        "age": {"kind": "numeric", "bounds": [0, 110], "integer": True},
        "stay": {"kind": "numeric", "bounds": [0, 365], "integer": True},
        "cost": {"kind": "numeric", "bounds": [0, 1e6]},
        "admitted": {
            "kind": "datetime",
            "bounds": [str(first), str(first + np.timedelta64(364, "D"))],
        },
        "ward": {"kind": "categorical", "categories": [str(level) for level in range(6)]},
        "sex": {"kind": "categorical", "categories": ["f", "m"]},
    }
    people = {
        "age": np.rint(rng.normal(35 + 35 * illness, 15)).clip(0, 110).astype(int),
        "stay": stay,
        "cost": cost,
        "admitted": (first + day.astype("timedelta64[D]")).astype("datetime64[D]"),
        "ward": ward.astype(str),
        "sex": rng.choice(["f", "m"], count),
    }
    return columns, pa.table(people)


def adult(folder: str) -> tuple[Columns, pa.Table]:
    """Its columns with nothing but bounds declared for numbers, education once."""
    schema, table = read_adult(folder, "all")
    columns = {
        name: {"kind": "numeric", "integer": True, "bounds": _BOUNDS[name]}
        if name in _BOUNDS
        else declared
        for name, declared in schema.to_dict()["columns"].items()
        if name not in ("education_num", "native_country")
    }
    return columns, table.select(list(columns)).slice(0, PEOPLE)


def numbers_of(table: pa.Table, columns: Columns) -> dict[str, Array]:
    """Values of all numbers and dates, dates in days."""
    found = {}
    for name, declared in columns.items():
        if declared["kind"] in ("numeric", "datetime"):
            values = table.column(name)
            days = values.cast(pa.int32()) if declared["kind"] == "datetime" else values
            found[name] = days.to_numpy().astype(float)
    return found


def compare(columns: Columns, people: pa.Table, epsilon: float, seed: int) -> dict[str, Any]:
    """One release of all columns, one model, one sample."""
    schema = Schema.from_dict({"columns": columns})
    release = Randomizer.calibrate(schema, epsilon).privatize(people)
    started = time.process_time()
    model = fit(release, seed=seed)
    seconds = time.process_time() - started
    real, drawn = (numbers_of(t, columns) for t in (people, model.sample(_SAMPLES, seed=seed)))
    distances = {name: float(ks_2samp(drawn[name], real[name]).statistic) for name in real}
    correlations = {
        f"{a}, {b}": [round(float(np.corrcoef(t[a], t[b])[0, 1]), 3) for t in (real, drawn)]
        for a, b in combinations(real, 2)
    }
    return {
        "ks": {name: round(distance, 4) for name, distance in distances.items()},
        "worst": round(max(distances.values()), 4),
        "correlations": correlations,
        "seconds": round(seconds, 1),
    }


def rows(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every table, both ways of asking, every seed."""
    makers: dict[str, Callable[[int], tuple[Columns, pa.Table]]] = {
        "diamonds": lambda seed: diamonds(PEOPLE, seed),
        "hospital": lambda seed: hospital(PEOPLE, seed),
        "adult": lambda seed: adult(chosen.data),
    }
    for name in chosen.tables:
        for seed in chosen.seeds:
            columns, people = makers[name](seed)
            binned = {
                c: each | {"bins": 10} if each["kind"] in ("numeric", "datetime") else each
                for c, each in columns.items()
            }
            for way, declared in (("defaults", columns), ("ten bins", binned)):
                found = compare(declared, people, chosen.epsilon, seed)
                yield {"table": name, "asked": way, "epsilon": chosen.epsilon, "seed": seed} | found


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--tables", nargs="+", default=["diamonds", "hospital", "adult"])
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA", "."))
    parser.add_argument("--epsilon", type=float, default=6.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """All of it."""
    gather(rows(chosen), chosen.output)
