"""Synthetic census records from private reports: UCI Adult, every estimator on the same reports.

    python -m studies tables.adult ten --data FOLDER -o adult.json
    python -m studies tables.adult all --data FOLDER -o adult_all.json
    python -m studies tables.adult ten --marginals --data FOLDER -o adult_marginals.json

`ten` are ten of its columns, `all` all fifteen. 40 000 people report, the other 8 842 are held out for
the area under the curve (AUC) of a classifier of `income` that is trained on 20 000 synthetic records.
Total variation (TV) is of the models' exact probabilities from the 40 000 people's own shares of codes,
averaged over columns and over pairs of them: whoever reproduces these people exactly has 0. Needs
`adult.csv.gz` in the folder of `--data` or `PRIVOT_DATA`. Privacy's noise has no seed, so numbers repeat
up to its randomness. `--marginals` compares one-way errors with those of multi-freq-ldpy, which makes
reports of its own at the same ε and knows nothing of pairs (`pip install multi-freq-ldpy`).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

from privot.core.errors import PrivotError
from privot.evaluation import total_variation
from privot.evaluation.prediction import predict_target
from privot.local import FitSettings, fit
from privot.local.classes.counts import report_groups
from privot.local.classes.mixture import LatentClassSampler
from privot.randomizer import Randomizer, count
from privot.schema import Schema
from studies.common.rows import gather
from studies.rivals.as_if_clean import fit_as_if_clean
from studies.rivals.chow_liu import chow_liu
from studies.rivals.independence import independence
from studies.rivals.multi_freq_ldpy import SOLUTIONS, multi_freq_ldpy

FILE = "adult.csv.gz"
PEOPLE = 40_000
TARGET = "income"
_TEN = (
    "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex",
    "income", "age", "hours_per_week",
)  # fmt: skip
_SAMPLES = 20_000
# Public declarations: bounds from the questionnaire, spikes where everybody knows that people crowd.
_NUMBERS: dict[str, dict[str, Any]] = {
    "age": {"bounds": [17, 90], "integer": True, "bins": 10},
    "hours_per_week": {"bounds": [1, 99], "integer": True, "bins": 10},
    "education_num": {"bounds": [1, 16], "integer": True},
    "fnlwgt": {"bounds": [0, 1_500_000], "integer": True, "bins": 10},
    "capital_gain": {"bounds": [0, 99_999], "integer": True, "bins": [0, 3000, 5000, 7500, 10_000,
                     20_000, 99_999], "spikes": [0]},
    "capital_loss": {"bounds": [0, 4356], "integer": True, "bins": [0, 1500, 1800, 2000, 4356],
                     "spikes": [0]},
}  # fmt: skip


class Estimate(Protocol):
    """What any estimator here returns."""

    def marginal(self, columns: Sequence[int]) -> np.ndarray:
        """Joint distribution of a few columns."""

    def sample(self, num_rows: int, rng: np.random.Generator) -> np.ndarray:
        """Codes (num_rows, columns)."""


def read_adult(folder: str | Path, columns: str = "ten") -> tuple[Schema, pa.Table]:
    """The schema and all 48 842 records, shuffled by a fixed seed.

    Raises:
        PrivotError: if the file is not there.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise PrivotError(f"{path} is not there: give the folder that holds {FILE} by --data")
    table = csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=False))
    names = list(_TEN) if columns == "ten" else [n for n in table.column_names if n != "split"]
    declared: dict[str, Any] = {}
    for name in names:
        if name in _NUMBERS:
            declared[name] = {"kind": "numeric"} | _NUMBERS[name]
        else:
            categories = sorted(table.column(name).unique().to_pylist())
            declared[name] = {"kind": "categorical", "categories": categories}
    order = np.random.default_rng(0).permutation(table.num_rows)
    return Schema.from_dict({"columns": declared}), table.select(names).take(order)


def compare_on(
    schema: Schema, table: pa.Table, epsilon: float, seed: int, rivals: str = "some"
) -> Iterator[dict[str, Any]]:
    """Rows of one release: estimator, one- and two-way TV, AUCs, seconds.

    `rivals` are "none" but independence, "some", or "all" with the generator.
    """
    people, held_out = table.slice(0, PEOPLE), table.slice(PEOPLE)
    codes = np.stack([c.encode_codes(n, people) for n, c in schema.coded.items()], axis=1)
    randomizer = Randomizer.calibrate(schema, epsilon)
    assert randomizer.joint is not None
    release = randomizer.privatize(people)
    groups = report_groups(count(release))
    sizes = [c.alphabet.size for c in randomizer.schema.coded.values()]

    def row(name: str, estimate: Estimate, seconds: float) -> dict[str, Any]:
        one, two = marginal_errors(estimate, codes, sizes)
        drawn = estimate.sample(_SAMPLES, np.random.default_rng(seed))
        records = _records(schema, drawn, seed)
        scores = predict_target(schema, records, held_out, TARGET, seed).scores
        return {
            "epsilon": epsilon,
            "seed": seed,
            "columns": randomizer.joint.design.lengths[1] if randomizer.joint else 0,
            "estimator": name,
            "one_way": round(one, 4),
            "two_way": round(two, 4),
            **{f"auc_{s.classifier.split()[0]}": round(s.synthetic, 3) for s in scores},
            "seconds": round(seconds, 1),
        }

    started = time.perf_counter()
    model = fit(release, seed=seed)
    assert isinstance(model.sampler, LatentClassSampler)
    yield row("latent classes (privot.fit)", model.sampler.classes, time.perf_counter() - started)
    started = time.perf_counter()
    alone = independence(groups, sizes)
    yield row("independence", alone, time.perf_counter() - started)
    if rivals == "none":
        return
    started = time.perf_counter()
    yield row("Chow-Liu tree", chow_liu(groups, sizes, seed=seed), time.perf_counter() - started)
    started = time.perf_counter()
    naive = fit_as_if_clean(groups, sizes, seed)
    yield row("latent classes, as if clean", naive, time.perf_counter() - started)
    if rivals == "all":
        started = time.perf_counter()
        network = fit(release, FitSettings(estimator="generator", seed=seed, **NEURAL))
        drawn = network.sample(200_000, seed)
        estimate = Drawn(np.stack([c.encode_codes(n, drawn) for n, c in schema.coded.items()], 1))
        yield row("generator (likelihood)", estimate, time.perf_counter() - started)
    if seed == 0:
        yield row("a clean sample of 5 000", Drawn(codes[:5000]), 0.0)


def compare_marginals(
    schema: Schema, table: pa.Table, epsilon: float, seed: int
) -> Iterator[dict[str, Any]]:
    """One-way errors of the default's reports, of one column a report, and of multi-freq-ldpy.

    Ours are by maximum likelihood; `fit`'s own are the same within some percent.
    """
    people = table.slice(0, PEOPLE)
    codes = np.stack([c.encode_codes(n, people) for n, c in schema.coded.items()], axis=1)
    randomizer = Randomizer.calibrate(schema, epsilon)
    sizes = [c.alphabet.size for c in randomizer.schema.coded.values()]

    def row(name: str, estimate: Estimate, started: float) -> dict[str, Any]:
        one, two = marginal_errors(estimate, codes, sizes)
        seconds = round(time.perf_counter() - started, 1)
        return {"epsilon": epsilon, "seed": seed, "estimator": name, "one_way": round(one, 4),
                "two_way": round(two, 4), "seconds": seconds}  # fmt: skip

    alone = Randomizer.calibrate(schema, epsilon, report_columns=1)
    for name, made_by in (("joint reports", randomizer), ("one column a report", alone)):
        started = time.perf_counter()
        groups = report_groups(count(made_by.privatize(people)))
        yield row(f"privot, {name}", independence(groups, sizes), started)
    np.random.seed(seed)  # the library's noise is that of the global generator
    for solution in SOLUTIONS:
        started = time.perf_counter()
        estimate = multi_freq_ldpy(codes, sizes, epsilon, solution)
        yield row(f"multi-freq-ldpy {solution}", estimate, started)


NEURAL: dict[str, Any] = {
    "averaging": 0.98, "hidden": (128,), "latent_dim": 16,
}  # fmt: skip


class Drawn:
    """Records as an estimate: their own shares, and draws from them."""

    def __init__(self, codes: np.ndarray) -> None:
        self.codes = codes

    def marginal(self, columns: Sequence[int]) -> np.ndarray:
        """Shares of the records' codes."""
        cells, counts = np.unique(self.codes[:, list(columns)], axis=0, return_counts=True)
        out = np.zeros(self.codes.max(axis=0)[list(columns)] + 1)
        out[tuple(cells.T)] = counts / len(self.codes)
        return out

    def sample(self, num_rows: int, rng: np.random.Generator) -> np.ndarray:
        """Records drawn with replacement."""
        return self.codes[rng.integers(len(self.codes), size=num_rows)]


def marginal_errors(
    estimate: Estimate, codes: np.ndarray, sizes: Sequence[int]
) -> tuple[float, float]:
    """Mean TV of all columns and of all pairs, from the shares of the records."""
    truth = Drawn(codes)

    def error(columns: tuple[int, ...]) -> float:
        padded = []
        for each in (estimate, truth):
            part = each.marginal(columns)
            full = np.zeros([sizes[column] for column in columns])
            full[tuple(slice(0, size) for size in part.shape)] = part
            padded.append(full.ravel())
        return total_variation(*padded)

    every = range(len(sizes))
    one = [error((column,)) for column in every]
    return float(np.mean(one)), float(np.mean([error(pair) for pair in combinations(every, 2)]))


def _records(schema: Schema, codes: np.ndarray, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {}
    for index, (name, column) in enumerate(schema.coded.items()):
        columns |= column.decode_codes(name, codes[:, index], rng)
    return pa.table(columns)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("columns", choices=("ten", "all"))
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA", "."))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[8.0, 4.0, 2.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rivals", choices=("none", "some", "all"), default="some")
    parser.add_argument("--marginals", action="store_true", help="only multi-freq-ldpy beside us")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every ε and seed."""
    schema, table = read_adult(chosen.data, chosen.columns)
    rows = (
        row
        for epsilon in chosen.epsilons
        for seed in chosen.seeds
        for row in (
            compare_marginals(schema, table, epsilon, seed)
            if chosen.marginals
            else compare_on(schema, table, epsilon, seed, chosen.rivals)
        )
    )
    gather(rows, chosen.output)
