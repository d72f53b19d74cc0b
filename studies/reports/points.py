r"""Places and numbers learned from reports of one mechanism or another, at the same ε.

    python -m studies reports.points towns --epsilon 4 2 1 --mechanism window laplace --seeds 0 1 2
    python -m studies reports.points accidents --data FOLDER --epsilon 4 -o accidents.json
    python -m studies reports.points half_circle --epsilon 5 -o half_circle.json
    python -m studies reports.points numbers --epsilon 1 -o numbers.json

A mechanism may name the estimator of its reports, as in `laplace/generator`; else `fit` chooses.
`towns` are the demo's 200 000 people, `accidents` 140 029 road accidents in Great Britain (a file of
the folder of `--data` or `PRIVOT_DATA`), `half_circle` 100 000 people on a curve that the schema does
not know: it declares the square $[−1, 1]^2$. Distances are exact W₂ of 3 000 against 3 000 points, the
box scaled to $[−1, 1]^2$, means of three subsamples; the floor is that of two samples of the truth.

`numbers` are 100 000 people, each with a number from 0 to 1, of three laws; the distance is W₁ of all.
Beside `privot.fit` stands what is published for the square wave, on **the same reports**
(`studies.rivals.square_wave_em`), over as many bins as serve it best: that choice looks at the truth,
ours does not.

Privacy's noise has no seed, so that numbers repeat up to its randomness only.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.demo.homes import SCHEMA_TOML, draw_people
from privot.evaluation import sample_distance
from privot.local import FitSettings, fit
from privot.randomizer import Randomizer, Release
from privot.schema import Schema
from privot.schema.domains import Array, to_unit
from privot.tables.files import read_table
from studies.common.rows import gather
from studies.rivals.square_wave_em import square_wave_em

ACCIDENTS = "uk_road_accidents_2d.csv.gz"
SQUARE = Schema.from_dict(
    {"columns": {"home": {"kind": "vector", "columns": ["x", "y"], "bounds": [[-1, 1], [-1, 1]]}}}
)
NUMBER = Schema.from_dict({"columns": {"value": {"kind": "numeric", "bounds": [0, 1]}}})
_SAMPLES = 30_000
_NUMBERS = 100_000
_BINS = (64, 128, 256, 512, 1024)


def places(
    name: str, seed: int, people: int, data: Path | None
) -> tuple[Schema, pa.Table, pa.Table | None]:
    """A schema of one place, people, and others of the same law, if there are any."""
    if name == "half_circle":
        return SQUARE, *(_on_half_circle(np.random.default_rng([seed, i])) for i in (0, 1))
    schema = Schema.from_toml(SCHEMA_TOML)
    if name == "towns":
        return schema, draw_people(people, seed=seed), draw_people(people, seed=seed + 1)
    if data is None:
        raise PrivotError(f"--data is missing: name the folder that holds {ACCIDENTS}")
    return schema, read_table(Path(data) / ACCIDENTS), None


def _on_half_circle(rng: np.random.Generator) -> pa.Table:
    angle = rng.uniform(0, np.pi, 100_000)
    return pa.table({"x": np.cos(angle), "y": np.sin(angle)})


def measure_places(
    name: str,
    seed: int,
    num_people: int,
    epsilons: list[float],
    mechanisms: list[str],
    data: Path | None,
) -> Iterator[dict[str, Any]]:
    """The floor, and a row for each ε and mechanism."""
    schema, people, fresh = places(name, seed, num_people, data)
    domain = schema.point_column("home").domain
    units = [schema.point_column("home").encode_units("home", t) for t in (people, fresh or people)]
    common = {"work": name, "seed": seed}
    floor = sample_distance(units[1], units[0] if fresh else units[1], repeats=3)
    yield common | {"method": "floor", "w2": round(floor, 4)}
    for epsilon in epsilons:
        for method in mechanisms:
            mechanism, _, estimator = method.partition("/")
            settings = FitSettings(estimator=estimator or "auto")  # type: ignore[arg-type]  # checked there
            release = Randomizer.calibrate(schema, epsilon, mechanism=mechanism).privatize(people)
            started = time.perf_counter()
            model = fit(release, settings, seed=seed)
            seconds = time.perf_counter() - started
            drawn = model.sample(_SAMPLES, seed=seed)
            points = np.stack([column.to_numpy() for column in drawn.columns], axis=1)
            w2 = sample_distance(to_unit(domain, points), units[0], repeats=3)
            found = {"w2": round(w2, 4), "seconds": round(seconds, 1)}
            yield common | {"method": method, "epsilon": epsilon} | found


def draw_numbers(law: str, rng: np.random.Generator, size: int = _NUMBERS) -> Array:
    """People's numbers, of a law by name."""
    if law == "beta":
        return rng.beta(5, 2, size)
    if law == "two peaks":
        near = rng.random(size) < 0.3
        return np.where(near, rng.normal(0.2, 0.03, size), rng.normal(0.7, 0.1, size)).clip(0, 1)
    return np.minimum(rng.exponential(0.15, size), 1.0)


def measure_numbers(seed: int, epsilons: list[float]) -> Iterator[dict[str, Any]]:
    """Rows of each law: the fit, and the published estimates with as many bins as serve them best."""
    for number, law in enumerate(("beta", "two peaks", "exponential")):
        truth = draw_numbers(law, np.random.default_rng([seed, number]))
        for epsilon in epsilons:
            release = Randomizer.calibrate(NUMBER, epsilon, mechanism="window").privatize(
                {"value": truth}
            )
            started = time.perf_counter()
            model = fit(release, seed=seed)
            seconds = time.perf_counter() - started
            drawn = model.sample(_NUMBERS, seed=seed).column("value").to_numpy()
            common = {"work": "numbers", "law": law, "seed": seed, "epsilon": epsilon}
            fitted = {"method": "privot.fit", "w1": _w1(drawn, truth), "seconds": round(seconds, 1)}
            yield common | fitted
            yield from (common | row for row in _published(release, truth, seed))


def _published(release: Release, truth: Array, seed: int) -> Iterator[dict[str, Any]]:
    for method, smooth in (("EM", False), ("EM with smoothing", True)):
        found = {}
        for bins in _BINS:
            shares = square_wave_em(release, "value", bins, smooth)
            rng = np.random.default_rng(seed)
            drawn = (rng.choice(bins, _NUMBERS, p=shares) + rng.random(_NUMBERS)) / bins
            found[bins] = _w1(drawn, truth)
        best = min(found, key=lambda bins: found[bins])
        yield {"method": method, "w1": found[best], "bins": best}


def _w1(first: Array, second: Array) -> float:
    return round(float(np.abs(np.sort(first) - np.sort(second)).mean()), 5)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("work", choices=["towns", "accidents", "half_circle", "numbers"])
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("--people", type=int, default=200_000, help="of towns")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[4.0])
    parser.add_argument("--mechanism", nargs="+", default=["window"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """One seed after another."""
    gather(_measured(chosen), chosen.output)


def _measured(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for seed in chosen.seeds:
        if chosen.work == "numbers":
            yield from measure_numbers(seed, chosen.epsilon)
        else:
            given = chosen.people, chosen.epsilon, chosen.mechanism, chosen.data
            yield from measure_places(chosen.work, seed, *given)
