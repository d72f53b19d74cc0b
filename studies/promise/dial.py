"""Forecasts of all places of trust, by people and ε, for the page `docs/trust.md`.

    python -m studies promise.dial towns adult --data FOLDER -o docs/results/promise/forecasts/dial.json

The prior of the towns is the demo's people, that of `adult` all its records; δ is .01 over the number of
people. Noise has no seed: numbers repeat up to its randomness.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from privot.evaluation.simulation import forecast_trust, promises_at
from studies.common.rows import gather
from studies.promise.forecasts import halves

PEOPLE = {"towns": (20_000, 200_000), "adult": (10_000, 40_000)}
EPSILONS = (0.1, 0.3, 1.0, 3.0)


def forecasts(
    work: str, numbers: Sequence[int], epsilons: Sequence[float], data: Path | None
) -> Iterator[dict[str, Any]]:
    """A row for each number of people, ε and place of trust."""
    schema, *parts = halves(work, 0, data)
    prior = pa.concat_tables(parts)
    for people in numbers:
        found = forecast_trust(
            schema, promises_at(epsilons, people), people, prior=prior, rehearsals=1
        )
        for row in found.rows:
            error = None if row.refused else round(row.predicted[found.measure], 4)
            yield {
                "plan": work,
                "people": people,
                "epsilon": row.epsilon,
                "where": row.where,
                "error": error,
                "floor": round(found.floor[found.measure], 4),
                "epsilon0": None if row.epsilon0 is None else round(row.epsilon0, 3),
                "bytes": row.report_bytes,
            }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("works", nargs="+", choices=[*PEOPLE])
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """One work after another."""
    rows = (
        row for work in chosen.works for row in forecasts(work, PEOPLE[work], EPSILONS, chosen.data)
    )
    gather(rows, chosen.output)
