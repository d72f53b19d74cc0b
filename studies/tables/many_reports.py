"""From five thousand to five million reports: how long a fit takes, and how much memory it needs.

    python -m studies tables.many_reports -o many.json

People of the known population (`bayesian_network`: ten columns, all reported as codes) report jointly
into one Parquet file, which a process of its own then opens and fits with the defaults. `seconds` is the
fit with its reading, without imports; `megabytes` is the most memory that the process ever held, of
which `imported` were there before the release was opened. Reports are counted as they stream in, so
what grows with the number of people is the number of distinct reports, up to all cells of all
combinations of columns. Linux only: memory is read from `/proc`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privot.collector import collect
from privot.local import fit
from privot.local.classes.counts import count_tables, report_groups
from privot.randomizer import Randomizer, Release, count
from studies.common.rows import gather
from studies.tables.bayesian_network import SCHEMA, Population

_AT_ONCE = 500_000
_CHECKOUT = Path(__file__).parents[2]


def write_release(path: Path, num_people: int, epsilon: float, seed: int = 0) -> None:
    """A release of this many people of the known population."""
    randomizer = Randomizer.calibrate(SCHEMA, epsilon)
    population, rng = Population.of_network(), np.random.default_rng(seed)
    parts = [
        randomizer.privatize(population.draw(min(_AT_ONCE, num_people - start), rng))
        for start in range(0, num_people, _AT_ONCE)
    ]
    collect(parts).release.save(path)


def measure_fit(path: Path) -> dict[str, Any]:
    """Seconds and megabytes of opening and fitting a release in this very process."""
    imported = peak_megabytes()
    started = time.perf_counter()
    release = Release.load(path)
    model = fit(release, seed=0)
    seconds, most = time.perf_counter() - started, peak_megabytes()
    return {
        "reports": len(release),
        "epsilon": release.guarantee.epsilon,
        "distinct": _distinct(release),
        "classes": model.made_with["classes"],
        "seconds": round(seconds, 1),
        "megabytes": round(most),
        "imported": round(imported),
        "file_megabytes": round(path.stat().st_size / 1e6, 2),
    }


def peak_megabytes() -> float:
    """The most memory that this process has held so far.

    `getrusage` would count the parent that started the process, too.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) / 1024


def _distinct(release: Release) -> int:
    tables = count_tables(
        report_groups(count(release)),
        [c.alphabet.size for c in release.randomizer.schema.coded.values()],
    )
    return int(tables.counts.size)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--people", nargs="+", type=int, default=[5_000, 500_000, 5_000_000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[4.0])
    parser.add_argument("--fit", type=Path, help="only fit this release, here")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every ε and number of people, each fit in a process of its own."""
    if chosen.fit:
        print(json.dumps(measure_fit(chosen.fit)))
        return
    gather(_measured(chosen.epsilons, chosen.people), chosen.output)


def _measured(epsilons: Sequence[float], people: Sequence[int]) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release.parquet"
        for epsilon, num_people in itertools.product(epsilons, people):
            write_release(path, num_people, epsilon)
            command = [sys.executable, "-m", "studies", "tables.many_reports", "--fit", str(path)]
            done = subprocess.run(
                command, cwd=_CHECKOUT, check=True, capture_output=True, text=True
            )
            yield json.loads(done.stdout)
