"""The demo: the home towns of 200 000 people, learned from Laplace noise at ε = 4.

The box of longitudes and latitudes, scaled to [−1, 1]², has ℓ1 diameter 4, so at ε = 4 each
coordinate's noise has scale 1: half the width of the country, and a standard deviation of 0.7 widths.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from privot.datasets import draw_people
from privot.datasets.fetch import BOX, SCHEMA_TOML
from privot.evaluation import sample_distance
from privot.local import FitSettings, fit
from privot.release import Randomizer
from privot.report.pages import write_results
from privot.report.panels import Panel, draw_maps
from privot.schema import Domain, Schema, to_unit
from privot.training import Progress

COMMANDS = """\
privot schema check schema.toml
privot calibrate schema.toml --epsilon 4 --mechanism laplace -o randomizer.json
privot privatize people.csv --randomizer randomizer.json -o release.parquet
privot fit release.parquet -o model/
privot sample model/ --num-rows 10000 -o synthetic.csv
privot evaluate model/ --against holdout.csv -o report.html"""


@dataclass(frozen=True)
class DemoMetrics:
    """What `metrics.json` holds. Distances are W₂ with the box scaled to [−1, 1]²."""

    epsilon: float
    num_people: int
    w2_learned: float
    w2_released: float
    w2_released_raw: float
    w2_floor: float
    train_seconds: float
    peak_memory_mb: float
    seed: int
    steps: int


def run_demo(
    folder: Path,
    *,
    num_people: int = 200_000,
    epsilon: float = 4.0,
    settings: FitSettings | None = None,
    say: Callable[[str], None] = print,
    progress: Progress | None = None,
) -> DemoMetrics:
    """Draw people, privatize, fit, sample, measure, and write the report to `folder`."""
    settings = settings or FitSettings()
    schema = Schema.from_toml(SCHEMA_TOML)
    randomizer = Randomizer.calibrate(schema, epsilon, mechanism="laplace")
    people = draw_people(num_people, seed=settings.seed)
    say(f"1  {num_people:,} people live in towns of the United Kingdom")
    release = randomizer.privatize(people)
    say(f"2  each noised their own location on their device: {randomizer.guarantee}")
    steps = settings.schedule()[0]
    say(f"3  the curator, who sees only noise, trains a generator ({steps:,} steps)")
    started = time.perf_counter()
    model = fit(release, settings, progress=progress)
    seconds = time.perf_counter() - started
    synthetic = model.sample(num_people, seed=settings.seed)
    say("4  samples of the model are compared with the truth, as only a demonstration can")
    fresh = draw_people(num_people, seed=settings.seed + 1)
    private, received, learned, floor = map(_points, (people, release.table, synthetic, fresh))
    domain = schema.point_column("home").domain
    metrics = DemoMetrics(
        epsilon=epsilon,
        num_people=num_people,
        **distances(domain, private, received, learned, floor),
        train_seconds=round(seconds, 2),
        peak_memory_mb=peak_memory_mb(),
        seed=settings.seed,
        steps=steps,
    )
    scale = randomizer.mechanisms["home"].variance ** 0.5 / 2**0.5 * domain.scale
    noise = f"{scale[0]:.2f}° of longitude and {scale[1]:.2f}° of latitude"
    picture = ("maps.png", _draw(private, received, learned))
    fields = {"noise": noise, "commands": COMMANDS}
    write_results(folder, "demo.html", picture, model, metrics, fields)
    return metrics


def distances(
    domain: Domain,
    private: np.ndarray,
    received: np.ndarray,
    learned: np.ndarray,
    fresh: np.ndarray,
) -> dict[str, float]:
    """W₂ of 3 000 against 3 000 points, the box scaled to [−1, 1]²; `fresh` people are the floor."""
    truth, raw, ours, floor = (to_unit(domain, p) for p in (private, received, learned, fresh))
    return {
        "w2_learned": round(sample_distance(ours, truth, repeats=3), 4),
        "w2_released": round(sample_distance(domain.unit.project(raw), truth, repeats=1), 4),
        "w2_released_raw": round(sample_distance(raw, truth, repeats=1), 4),
        "w2_floor": round(sample_distance(floor, truth, repeats=3), 4),
    }


def peak_memory_mb() -> float:
    """Largest resident size of this process so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3), 1)


def _draw(private: np.ndarray, received: np.ndarray, learned: np.ndarray) -> Figure:
    low, high = np.array(BOX).T
    inside = float(((received >= low) & (received <= high)).all(axis=1).mean())
    noised = f"noised by each owner; {1 - inside:.0%} fall off the map"
    panels = [
        Panel("Private", "where people live: nobody sees this", private),
        Panel("What the curator received", noised, received),
        Panel("What was learned", "samples, from the reports alone", learned),
    ]
    return draw_maps(panels, BOX)


def _points(table: pa.Table) -> np.ndarray:
    return np.stack([table.column(name).to_numpy() for name in ("longitude", "latitude")], axis=1)
