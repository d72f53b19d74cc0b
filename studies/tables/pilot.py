"""Two phases: the first people's model says which numbers are typical when the others report.

    python -m studies tables.pilot -o pilot.json

The made-up diamonds and hospital of `tables.numbers`, 30 000 people, ε = 6. A share of them reports
first, in the default codings; `privot.local.refine` declares typical numbers by their model; the others
report in codings around these, and both releases are fitted together. Share 0 is one phase. Scores are
against the people's own values: worst KS of a number, mean total variation of pairs in ten equal bins a
number, and the largest difference of a correlation of two numbers. Privacy's noise has no seed, so
numbers repeat up to its randomness.
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
from scipy.stats import ks_2samp

from privot.evaluation import compare_tables
from privot.local import LocalModel, fit, refine
from privot.randomizer import Randomizer
from privot.schema import Schema
from studies.common.rows import gather
from studies.tables.numbers import Columns, diamonds, hospital, numbers_of

PEOPLE = 30_000
_SAMPLES = 40_000
_TABLES = {"diamonds": diamonds, "hospital": hospital}


def two_phases(schema: Schema, people: pa.Table, share: float, epsilon: float) -> LocalModel:
    """The model of a pilot of this share of the people and the others; of all at once for 0."""
    first = Randomizer.calibrate(schema, epsilon)
    if not share:
        return fit(first.privatize(people))
    count = round(share * people.num_rows)
    pilot = first.privatize(people.slice(0, count))
    second = Randomizer.calibrate(refine(fit(pilot)), epsilon)
    return fit([pilot, second.privatize(people.slice(count))])


def score(columns: Columns, people: pa.Table, drawn: pa.Table) -> dict[str, Any]:
    """Of synthetic rows against people's own."""
    real, made = numbers_of(people, columns), numbers_of(drawn, columns)
    table = compare_tables(Schema.from_dict({"columns": columns}), drawn, people)
    off = [
        abs(np.corrcoef(made[a], made[b])[0, 1] - np.corrcoef(real[a], real[b])[0, 1])
        for a, b in combinations(real, 2)
    ]
    return {
        "ks": round(max(float(ks_2samp(made[name], real[name]).statistic) for name in real), 4),
        "two_way": round(table.summary["two_way"].synthetic, 4),
        "independence": round(table.summary["two_way"].independence or 0.0, 4),
        "correlation": round(float(max(off)), 3),
    }


def rows(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every table, seed and share."""
    for name in _TABLES:
        for seed in chosen.seeds:
            columns, people = _TABLES[name](PEOPLE, seed)
            schema = Schema.from_dict({"columns": columns})
            for share in chosen.shares:
                started = time.process_time()
                model = two_phases(schema, people, share, chosen.epsilon)
                seconds = round(time.process_time() - started, 1)
                found = score(columns, people, model.sample(_SAMPLES, seed=seed))
                yield {"table": name, "seed": seed, "pilot": share} | found | {"seconds": seconds}


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--shares", nargs="+", type=float, default=[0.0, 0.1, 0.2, 0.4])
    parser.add_argument("--epsilon", type=float, default=6.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """All of it."""
    gather(rows(chosen), chosen.output)
