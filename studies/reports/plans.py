r"""How good plans are: the error that was predicted, from public inputs alone, beside what was measured.

    python -m studies reports.plans --data FOLDER -o docs/results/best_report/plans.json

Measured errors of places, numbers and images are read from the rows of `reports.points` and
`images.candidates` below `--rows`; a plan has seen none of them. Of places the measured error is that
of a sample against people, whose own error (the floor) is there without any privacy: what is predicted
is $(\mathrm{floor}^2 + \mathrm{plan}^2)^{1/2}$. Numbers are from 0 to 1, half of unit coordinates. With
`--data`, ten columns of Adult are reported and fitted at ε = 4: the plan of a table is of estimates
without a model, at most.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privot.demo.homes import SCHEMA_TOML
from privot.local import fit
from privot.local.classes.mixture import LatentClassSampler
from privot.randomizer import Randomizer, plan_reports
from privot.schema import Schema
from studies.common.rows import Rows, gather, read_rows
from studies.images.candidates import SCHEMA as IMAGES
from studies.reports.points import NUMBER, SQUARE
from studies.tables.adult import PEOPLE, marginal_errors, read_adult

_PEOPLE = {"towns": 200_000, "accidents": 140_029, "half_circle": 100_000}
_NUMBERS = 100_000
_TABLE_EPSILON = 4.0


def plans_of_places(rows: Rows) -> Iterator[dict[str, Any]]:
    """A row for each place, ε and mechanism: means over seeds."""
    measured = defaultdict(list)
    for row in rows:
        if row["work"] in _PEOPLE:
            measured[row["work"], row.get("epsilon"), row["method"]].append(row["w2"])
    for (work, epsilon, method), each in measured.items():
        if epsilon is None:
            continue
        schema = SQUARE if work == "half_circle" else Schema.from_toml(SCHEMA_TOML)
        plan = plan_reports(schema, epsilon, _PEOPLE[work]).columns[0]
        error = next(option.error for option in plan.options if option.report == method)
        floor = float(np.mean(measured[work, None, "floor"]))
        yield _row(work, epsilon, method, float(np.hypot(error, floor)), float(np.mean(each)))


def plans_of_numbers(rows: Rows) -> Iterator[dict[str, Any]]:
    """A row for each law: W₁, means over seeds."""
    measured = defaultdict(list)
    for row in rows:
        if row["work"] == "numbers" and row["method"] == "privot.fit":
            measured[row["law"], row["epsilon"]].append(row["w1"])
    for (law, epsilon), each in measured.items():
        error = plan_reports(NUMBER, epsilon, _NUMBERS).columns[0].recommended.error / 2
        yield _row(law, epsilon, "window", error, float(np.mean(each)))


def plans_of_images(rows: Rows) -> Iterator[dict[str, Any]]:
    """A row for each data set and ε: accuracy, means over seeds."""
    measured = defaultdict(list)
    for row in rows:
        measured[row["dataset"], row["epsilon"], row["num_people"]].append(row["accuracy"])
    for (dataset, epsilon, people), each in measured.items():
        plan = plan_reports(Schema.from_toml(IMAGES), epsilon, people)
        accuracy = plan.columns[0].recommended.accuracy or 0.0
        yield _row(dataset, epsilon, "candidates", accuracy, float(np.mean(each)))


def plan_of_table(data: Path) -> Iterator[dict[str, Any]]:
    """Rows of Adult's columns and pairs."""
    schema, table = read_adult(data)
    people = table.slice(0, PEOPLE)
    randomizer = Randomizer.calibrate(schema, _TABLE_EPSILON)
    model = fit(randomizer.privatize(people), seed=0)
    assert isinstance(model.sampler, LatentClassSampler)
    codes = np.stack([c.encode_codes(n, people) for n, c in schema.coded.items()], axis=1)
    found = marginal_errors(
        model.sampler.classes, codes, [c.alphabet.size for c in randomizer.schema.coded.values()]
    )
    plan = plan_reports(schema, _TABLE_EPSILON, PEOPLE).table
    assert plan is not None
    best = plan.recommended
    for what, planned, measured in zip(
        ("columns", "pairs"), (best.one_way, best.two_way or 0.0), found, strict=True
    ):
        yield _row(f"Adult, {what}", _TABLE_EPSILON, "joint", planned, measured)


def _row(work: str, epsilon: float, method: str, planned: float, measured: float) -> dict[str, Any]:
    return {
        "work": work,
        "epsilon": epsilon,
        "method": method,
        "planned": round(planned, 4),
        "measured": round(measured, 4),
        "ratio": round(planned / measured, 2),
    }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--rows", type=Path, default=Path("docs/results"))
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Command line."""
    gather(_all_rows(chosen.rows, chosen.data), chosen.output)


def _all_rows(folder: Path, data: Path | None) -> Iterator[dict[str, Any]]:
    points = [row for name in ("towns", "accidents", "half_circle", "numbers")
              for row in read_rows(folder / "best_report", name)]  # fmt: skip
    yield from plans_of_places(points)
    yield from plans_of_numbers(points)
    yield from plans_of_images(read_rows(folder / "images", "candidates"))
    if data is not None:
        yield from plan_of_table(Path(data))
