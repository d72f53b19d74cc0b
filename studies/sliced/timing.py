r"""What a release costs: processor milliseconds of noisy slices at the published sizes.

B = 100 records of d = 784 along k = 1000 fresh directions, on made-up data: batch, directions,
projection, exactly rounded noise. Processor time of one thread, so that other work beside it counts
less.

Usage:
    python -m studies sliced.timing -o docs/results/central/timing.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import torch

from privot.central.records import records_of
from privot.central.slices import SlicePlan, SlicingMechanism, accounted_grid
from privot.privacy.ledger import Ledger
from privot.privacy.slice_accounting import SlicedAccounting
from privot.schema import Schema
from privot.training.loop import threads_for
from studies.common.rows import write_row

BATCH, DIM, NUM_PROJECTIONS, RECORDS = 100, 784, 1000, 60_000
# Calibration is not what is timed: σ ≈ .53 of these records at ε = 10.
_STDDEV, _GRID = 0.53, 2.0**-20


def release_times(count: int) -> list[float]:
    """Processor milliseconds of `count` releases."""
    columns = {"image": {"kind": "array", "shape": [28, 28], "bounds": [0, 1]}}
    schema = Schema.from_dict({"unit": "image", "columns": columns})
    records = records_of(schema, low_pass=None, degree=1, scale=2 * 28.0)
    accounting = SlicedAccounting(
        DIM, NUM_PROJECTIONS, RECORDS, BATCH, radius=0.5, non_negative=True,
        grid=accounted_grid(_GRID, BATCH), unit=records.unit,
    )  # fmt: skip
    images = torch.rand(RECORDS, 28, 28, generator=torch.Generator().manual_seed(0))
    plan = SlicePlan(accounting, _STDDEV, count, 1e-5, _GRID)
    mechanism = SlicingMechanism(images, None, records, Ledger(plan))
    times = []
    with threads_for(0):
        for _ in range(count):
            started = time.process_time()
            mechanism.release()
            times.append(1e3 * (time.process_time() - started))
    return times


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("-o", "--output", type=Path, default=Path("sliced_timing.json"))


def run(chosen: argparse.Namespace) -> None:
    """Time releases, and write the row."""
    times = release_times(chosen.releases)
    row = {
        "batch_size": BATCH,
        "dim": DIM,
        "num_projections": NUM_PROJECTIONS,
        "releases": chosen.releases,
        "median_ms": round(median(times), 2),
        "least_ms": round(min(times), 2),
    }
    write_row(chosen.output, row)
    print(json.dumps(row))
