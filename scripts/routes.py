"""Count the files that a reader crosses to follow one job, and how often the route comes back.

    python scripts/routes.py                # all jobs
    python scripts/routes.py fit check      # some
    python scripts/routes.py fit --list     # the stays, one a line

Each job runs once on small data under `sys.setprofile`, after a first run has imported all modules and
compiled all loops. Functions of the library are put in the order of their first calls; consecutive
functions of one file are a **stay**, and a stay in a file that was left before is a **return**.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import privot
from privot import central, integral
from privot.device import Device

ROOT = str(Path(privot.__file__).parent)
os.environ["OMP_NUM_THREADS"] = "1"  # the same route on every machine
PLACE = """
[columns.home]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 1]]
"""
TABLE = """
[columns.age]
kind = "numeric"
bounds = [17, 90]
[columns.sex]
kind = "categorical"
categories = ["f", "m"]
[columns.works]
kind = "boolean"
"""


class Route(NamedTuple):
    """The files and functions of one job, in the order of first calls."""

    files: int
    folders: int
    functions: int
    stays: list[str]

    @property
    def returns(self) -> int:
        """Stays in files that were left before."""
        return len(self.stays) - self.files


def trace(job: Callable[[], Any]) -> Route:
    """Run a job and return its route."""
    order: dict[CodeType, None] = {}

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            order.setdefault(frame.f_code)

    sys.setprofile(profile)
    try:
        job()
    finally:
        sys.setprofile(None)
    names = [os.path.relpath(code.co_filename, ROOT) for code in order]
    stays = [name for name, _ in groupby(names)]
    return Route(len(set(names)), len({os.path.dirname(n) for n in names}), len(order), stays)


def jobs(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the jobs by name, on data that are made up with a fixed seed."""
    rng = np.random.default_rng(0)
    place, table = privot.Schema.from_toml(PLACE), privot.Schema.from_toml(TABLE)
    homes = {"x": rng.random(400), "y": rng.random(400)}
    people = {
        "age": rng.uniform(17, 90, 400),
        "sex": rng.choice(["f", "m"], 400),
        "works": rng.random(400) < 0.5,
    }
    calibrate = privot.Randomizer.calibrate
    at_places, of_tables = calibrate(place, epsilon=4.0), calibrate(table, epsilon=4.0)
    places, reports = at_places.privatize(homes), of_tables.privatize(people)
    model = privot.fit(reports, seed=0)
    of_tables.save(folder / "randomizer.json")
    device = Device.from_json((folder / "randomizer.json").read_text())
    numbers = {"x": homes["x"], "y": homes["y"]}
    return {
        "calibrate a place": lambda: calibrate(place, epsilon=4.0),
        "calibrate a table": lambda: calibrate(table, epsilon=4.0),
        "privatize a table": lambda: of_tables.privatize(people),
        "fit places": lambda: privot.fit(places, seed=0),
        "fit a table": lambda: privot.fit(reports, seed=0),
        "check a table": lambda: privot.check(model, reports),
        "evaluate a table": lambda: privot.evaluate(model, people),
        "central fit of a table": lambda: central.fit(people, table, epsilon=4.0),
        "integral fit": lambda: integral.fit(numbers, place, epsilon=1.0, draws=10),
        "Device.report": lambda: device.report({"age": 40, "sex": "f", "works": True}),
    }


def main() -> None:
    """Print a row a job."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="words of the jobs' names; all by default")
    parser.add_argument("--list", action="store_true", help="print the stays")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PRIVOT_STATE_DIR"] = folder
        print(f"{'job':24} files folders functions stays returns")
        for name, job in jobs(Path(folder)).items():
            if given.names and not any(word in name for word in given.names):
                continue
            job()
            route = trace(job)
            print(
                f"{name:24} {route.files:5} {route.folders:7} {route.functions:9} "
                f"{len(route.stays):5} {route.returns:7}"
            )
            if given.list:
                print("\n".join(f"    {stay}" for stay in route.stays))


if __name__ == "__main__":
    main()
