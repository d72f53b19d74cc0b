"""The demo: the home towns of 200 000 people, learned from Laplace noise at ε = 4.

The box of longitudes and latitudes, scaled to [−1, 1]², has ℓ1 diameter 4, so at ε = 4 each
coordinate's noise has scale 1: half the width of the country, and a standard deviation of 0.7 widths.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from privot.datasets import draw_people
from privot.datasets.places import SCHEMA_TOML
from privot.demo.homes_page import DemoMetrics, write_demo_report
from privot.evaluation import sample_distance
from privot.files import replacing_folder
from privot.local import FitSettings, LocalModel, fit
from privot.release import Randomizer, Release
from privot.schema import Schema, to_unit
from privot.training import Progress


@dataclass(frozen=True)
class HomeTowns:
    """What the demo made on its way."""

    people: pa.Table
    release: Release
    model: LocalModel
    metrics: DemoMetrics


def run_demo(
    folder: Path | None,
    *,
    num_people: int = 200_000,
    epsilon: float = 4.0,
    settings: FitSettings | None = None,
    say: Callable[[str], None] = print,
    progress: Progress | None = None,
) -> HomeTowns:
    """Draw people, privatize, fit, sample, measure, and write the report to `folder` if given."""
    settings = settings or FitSettings()
    schema = Schema.from_toml(SCHEMA_TOML)
    randomizer = Randomizer.calibrate(schema, epsilon)
    people = draw_people(num_people, seed=settings.seed)
    say(f"1  {num_people:,} people live in towns of the United Kingdom")
    release = randomizer.privatize(people)
    say(f"2  each noised their own location on their device: {randomizer.guarantee}")
    say(
        f"3  the curator, who sees only noise, trains a generator ({settings.schedule()[0]:,} steps)"
    )
    started = time.perf_counter()
    model = fit(release, settings, progress=progress)
    seconds = time.perf_counter() - started
    synthetic = model.sample(num_people, seed=settings.seed)
    say("4  samples of the model are compared with the truth, as only a demonstration can")
    fresh = draw_people(num_people, seed=settings.seed + 1)
    metrics = DemoMetrics(
        epsilon=epsilon,
        num_people=num_people,
        **distances(schema, people, fresh, release, synthetic),
        train_seconds=round(seconds, 2),
        peak_memory_mb=peak_memory_mb(),
        seed=settings.seed,
        steps=settings.schedule()[0],
    )
    if folder is not None:
        points = [_points(table) for table in (people, release.table, synthetic)]
        with replacing_folder(folder) as draft:
            write_demo_report(draft, model, metrics, *points)
            numbers = json.dumps(asdict(metrics), indent=2)
            (draft / "metrics.json").write_text(numbers + "\n", encoding="utf-8")
            model.save(draft / "model")
    return HomeTowns(people, release, model, metrics)


def distances(
    schema: Schema, people: pa.Table, fresh: pa.Table, release: Release, synthetic: pa.Table
) -> dict[str, float]:
    """W₂ of 3 000 against 3 000 points, the box scaled to [−1, 1]²; `fresh` people are the floor."""
    domain = schema.point_column("home").domain
    truth = to_unit(domain, _points(people))
    raw = to_unit(domain, _points(release.table))
    learned, floor = (to_unit(domain, _points(table)) for table in (synthetic, fresh))
    return {
        "w2_learned": round(sample_distance(learned, truth, repeats=3), 4),
        "w2_released": round(sample_distance(domain.unit.project(raw), truth, repeats=1), 4),
        "w2_released_raw": round(sample_distance(raw, truth, repeats=1), 4),
        "w2_floor": round(sample_distance(floor, truth, repeats=3), 4),
    }


def peak_memory_mb() -> float:
    """Largest resident size of this process so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3), 1)


def _points(table: pa.Table) -> np.ndarray:
    return np.stack([table.column(name).to_numpy() for name in ("longitude", "latitude")], axis=1)
