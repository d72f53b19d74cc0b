"""Whether `privot fit` is ever worse than independence: forty settings of tables, ε and people.

    python -m studies tables.never_worse -o never_worse.json

Two-way total variation (TV) of the fitted model and of the product of the columns' maximum-likelihood
shares, both from the same reports, from a population that is known: people are drawn from it with
replacement, the TV is from its own shares. `excess` is the model's TV less independence's, the mean over
some releases with its standard error; a setting is `worse` if it is above twice that error. Where
held-out reports show no dependence, the fit is independence, with shares that a prior has shrunk.

Tables: five short columns of Adult and five long ones, six independent columns, ten that depend weakly
on each other, and four of many categories. Adult needs `adult.csv.gz` in the folder of `--data` or
`PRIVOT_DATA`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privot.local import fit
from privot.local.classes.counts import report_groups
from privot.local.classes.mixture import LatentClassSampler
from privot.randomizer import Randomizer, count
from privot.schema import Schema
from studies.common.rows import gather
from studies.rivals.independence import independence
from studies.tables.adult import marginal_errors, read_adult

SETTINGS = ((0.5, 1_000), (0.5, 30_000), (1.0, 10_000), (2.0, 3_000), (2.0, 100_000),
            (4.0, 1_000), (4.0, 30_000), (8.0, 10_000))  # fmt: skip
_SHORT = ("sex", "income", "race", "relationship", "marital_status")
_LONG = ("education", "occupation", "age", "hours_per_week", "workclass")
_POPULATION = 100_000


def populations(data: str | Path) -> dict[str, tuple[Schema, np.ndarray]]:
    """Schema and codes (n, m) of each table."""
    rng = np.random.default_rng(5)
    found = {}
    for name, columns in (("Adult, short", _SHORT), ("Adult, long", _LONG)):
        schema, table = read_adult(data)
        declared = schema.to_dict()["columns"]
        own = Schema.from_dict({"columns": {column: declared[column] for column in columns}})
        codes = [c.encode_codes(n, table.select([n])) for n, c in own.coded.items()]
        found[name] = own, np.stack(codes, axis=1)
    found["independent"] = draw_chain(rng, (2, 3, 5, 8, 12, 4), 0.0)
    found["weak"] = draw_chain(rng, (2, 3, 4, 5, 6, 7, 8, 3, 2, 10), 0.25)
    found["many categories"] = draw_chain(rng, (42, 30, 20, 12), 1.0)
    return found


def draw_chain(
    rng: np.random.Generator, sizes: Sequence[int], strength: float
) -> tuple[Schema, np.ndarray]:
    """A chain with branches: each column depends on an earlier one by random scores."""
    codes = np.zeros((_POPULATION, len(sizes)), np.int64)
    for column, size in enumerate(sizes):
        scores = np.tile(rng.normal(0, 1, size), (_POPULATION, 1))
        if column:
            parent = int(rng.integers(column))
            scores += rng.normal(0, strength, (sizes[parent], size))[codes[:, parent]]
        ends = np.exp(scores).cumsum(axis=1)
        drawn = rng.random((_POPULATION, 1)) * ends[:, -1:]
        codes[:, column] = (ends < drawn).sum(axis=1)
    columns = {
        f"c{i}": {"kind": "categorical", "categories": [str(code) for code in range(size)]}
        for i, size in enumerate(sizes)
    }
    return Schema.from_dict({"columns": columns}), codes


def measure(
    name: str, schema: Schema, codes: np.ndarray, setting: tuple[float, int], releases: int
) -> dict[str, Any]:
    """One setting, some releases."""
    (epsilon, people), rng = setting, np.random.default_rng(7)
    randomizer = Randomizer.calibrate(schema, epsilon)
    sizes = [c.alphabet.size for c in randomizer.schema.coded.values()]
    started = time.process_time()
    errors, classes = [], []
    for seed in range(releases):
        drawn = codes[rng.integers(len(codes), size=people)]
        table: dict[str, Any] = {}
        for index, (column, coded) in enumerate(schema.coded.items()):
            table |= coded.decode_codes(column, drawn[:, index], rng)
        release = randomizer.privatize(table)
        model = fit(release, seed=seed)
        assert isinstance(model.sampler, LatentClassSampler)
        alone = independence(report_groups(count(release)), sizes)
        classes.append(model.made_with["classes"])
        both = (model.sampler.classes, alone)
        errors.append([marginal_errors(each, codes, sizes)[1] for each in both])
    excess = np.subtract(*np.transpose(errors))
    error = float(excess.std(ddof=1) / np.sqrt(releases))
    return {
        "table": name,
        "epsilon": epsilon,
        "people": people,
        "classes": classes,
        "two_way": round(float(np.mean(errors, axis=0)[0]), 4),
        "independence": round(float(np.mean(errors, axis=0)[1]), 4),
        "excess": round(float(excess.mean()), 4),
        "standard_error": round(error, 4),
        "worse": bool(excess.mean() > 2 * error),
        "seconds": round(time.process_time() - started, 1),
    }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA", "."))
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--tables", nargs="+", help="names of some; all by default")
    parser.add_argument("--most", type=int, default=100_000, help="people of a setting at most")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every table and setting."""
    gather(_rows(chosen), chosen.output)


def _rows(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    found = populations(chosen.data)
    for name in chosen.tables or found:
        for epsilon, people in SETTINGS:
            setting = epsilon, min(people, chosen.most)
            yield measure(name, *found[name], setting, chosen.releases)
