"""Numbers in bounds six times too wide: bounds alone, typical numbers, or a pilot; and the verdict.

    python -m studies tables.wide_bounds -o wide_bounds.json

Simulated gems, 50 000 people, ε = 6: carat lognormal, price a power of it with a heavy tail, three sides
that follow from carat (correlations up to .997), depth and table nearly normal, and three graded
categories. Ways:

- `tight`: bounds from the least to the largest value (of prices, sides and carats, from 0);
- `bounds`: bounds six times as wide, and nothing else declared;
- `typical`: the quantiles .02 and .98, to two digits, as public statistics would have them;
- `median`: the quantiles .05, .5 and .95, to two digits;
- `pilot`: a fifth of the people report with `bounds` alone, the others as `privot.local.refine` says.

Scores are of 50 000 sampled records against the people: the worst KS, and the mean and the largest error
of Pearson's correlations. *Expected* are the same errors by `privot.check`, from reports alone, with its
grades of numbers and of correlations. The noise of reports has no seed, so rows repeat up to its
randomness.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import privot
from privot.evaluation.distances import correlations, ks_distance
from privot.evaluation.verdicts import CORRELATION, NUMBER, grade_share
from privot.local import refine
from privot.randomizer import Randomizer, Release
from privot.schema import Schema
from privot.schema.domains import Array
from studies.common.rows import gather

PEOPLE, EPSILON, TIMES = 50_000, 6.0, 6.0
_WAYS = ("tight", "bounds", "typical", "median", "pilot")
_NUMBERS: dict[str, dict[str, Any]] = {
    "carat": {"decimals": 2}, "depth": {"decimals": 1}, "table": {"integer": True},
    "price": {"integer": True}, "x": {"decimals": 2}, "y": {"decimals": 2}, "z": {"decimals": 2},
}  # fmt: skip
_LEVELS = {"typical": (0.02, 0.98), "median": (0.05, 0.5, 0.95)}
# Number of grades, slope in the size, and spread.
_GRADES = {"cut": (5, -0.3, 0.9), "color": (7, 0.5, 1.6), "clarity": (8, -0.6, 1.6)}


def gems(count: int, seed: int) -> pa.Table:
    """Draw people."""
    rng = np.random.default_rng(seed)
    size = rng.standard_normal(count)
    carat = np.round(np.exp(0.58 * size - 0.38).clip(0.2, 5), 2)
    price = (3900 * carat**1.68 * np.exp(0.25 * rng.standard_normal(count))).clip(326, 18_823)
    x = 6.43 * np.cbrt(carat) * np.exp(0.012 * rng.standard_normal(count))
    y = x * np.exp(0.006 * rng.standard_normal(count))
    depth = rng.normal(61.75, 1.43, count).clip(43, 79)
    table = rng.normal(57.46, 2.23, count) - 0.3 * (depth - 61.75)
    columns = {"carat": carat, "depth": depth, "table": table.clip(43, 95), "price": price}
    columns |= {"x": x, "y": y, "z": depth / 100 * (x + y) / 2}
    people: dict[str, Any] = {
        name: np.rint(values).astype(np.int64)
        if _NUMBERS[name].get("integer")
        else np.round(values, _NUMBERS[name]["decimals"])
        for name, values in columns.items()
    }
    for name, (levels, slope, spread) in _GRADES.items():
        grade = levels / 2 + slope * size + spread * rng.standard_normal(count)
        people[name] = np.floor(grade).clip(0, levels - 1).astype(int).astype(str)
    return pa.table(people)


def declare(people: pa.Table, way: str) -> Schema:
    """Declare the columns; ranges and quantiles stand for public statistics."""
    columns: dict[str, Any] = {}
    for name, fields in _NUMBERS.items():
        values, times = people[name].to_numpy(), 1.0 if way == "tight" else TIMES
        low = float(values.min()) if name in ("depth", "table") else 0.0
        high = float(np.ceil(low + times * (values.max() - low)))
        columns[name] = {"kind": "numeric", "bounds": [0.0 if times > 1 else low, high]} | fields
        if way in _LEVELS:
            quantiles = np.quantile(values, _LEVELS[way])
            columns[name]["typical"] = [float(f"{quantile:.2g}") for quantile in quantiles]
    for name, (levels, _, _) in _GRADES.items():
        categories = [str(level) for level in range(levels)]
        columns[name] = {"kind": "categorical", "categories": categories}
    return Schema.from_dict({"columns": columns})


def report(people: pa.Table, way: str) -> list[Release]:
    """Privatize everybody once, in one release or, after a pilot, two."""
    first = Randomizer.calibrate(declare(people, way), EPSILON)
    if way != "pilot":
        return [first.privatize(people)]
    count = people.num_rows // 5
    pilot = first.privatize(people.slice(0, count))
    second = Randomizer.calibrate(refine(privot.fit(pilot)), EPSILON)
    return [pilot, second.privatize(people.slice(count))]


def numbers_of(table: pa.Table) -> Array:
    """Return the numbers (n, 7)."""
    return np.stack([table[name].to_numpy().astype(float) for name in _NUMBERS], axis=1)


def score(people: pa.Table, way: str, seed: int) -> dict[str, Any]:
    """Fit and check one way; return errors made and expected."""
    releases = report(people, way)
    started = time.process_time()
    model = privot.fit(releases, seed=seed)
    seconds = time.process_time() - started
    real, made = numbers_of(people), numbers_of(model.sample(people.num_rows, seed=seed))
    ks = [ks_distance(x, y) for x, y in zip(made.T, real.T, strict=True)]
    pairs = [*zip(*combinations(range(len(_NUMBERS)), 2), strict=True)]
    errors = np.abs(correlations(made) - correlations(real))[pairs[0], pairs[1]]
    found = privot.check(model, releases, seed=seed)
    expected_ks = [column.number.ks for column in found.columns if column.number]
    expected = [p.correlation_error for p in found.pairs if p.correlation_error is not None]
    grades = {finding.topic: finding.grade for finding in found.verdict}

    def both(made: Any, expected: Any) -> list[float]:
        return [round(float(number), 3) for number in (made, expected)]

    return {
        "worst_ks": both(max(ks), max(expected_ks)),
        "correlation_mean": both(errors.mean(), np.mean(expected)),
        "correlation_worst": both(errors.max(), max(expected)),
        "numbers": [
            grade_share(float(np.mean(np.array(ks) <= NUMBER[0]))),
            grades["numbers, value by value"],
        ],
        "correlations": [
            grade_share(float(np.mean(errors <= CORRELATION[0]))),
            grades["correlations"],
        ],
        "seconds": round(seconds, 1),
    }


def rows(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for every way and seed."""
    for seed in chosen.seeds:
        people = gems(chosen.people, seed)
        for way in chosen.ways:
            yield {"way": way, "seed": seed} | score(people, way, seed)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--ways", nargs="+", default=list(_WAYS))
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Run all of it."""
    gather(rows(chosen), chosen.output)
