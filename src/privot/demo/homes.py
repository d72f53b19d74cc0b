"""Demo of places: the distribution of 200 000 people's home towns, learned from reports at ε = 4.

Longitude and latitude, scaled to [−1, 1]², are reported by two mechanisms: the papers' Laplace noise,
whose scale at ε = 4 is half the width of the country, and the most informative mechanism at the same ε.
Each is fitted by its best estimator. `mechanism="laplace"` runs only the papers' version: Laplace noise,
and a generator trained by entropic optimal transport.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from privot.core.errors import PrivotError
from privot.core.processes import num_threads
from privot.demo.datasets import BOX, SCHEMA_TOML, draw_people
from privot.evaluation import sample_distance
from privot.local import FitSettings, LocalModel, fit
from privot.privacy.rounding import at_most
from privot.randomizer import Randomizer, Release
from privot.report.pages import write_results
from privot.report.panels import KILOMETERS, Map, draw_maps
from privot.schema import Schema
from privot.schema.domains import to_unit
from privot.training import Progress

COMMANDS = """\
privot schema check schema.toml
privot calibrate schema.toml --epsilon 4 -o randomizer.json
privot privatize people.csv --randomizer randomizer.json -o release.parquet
privot fit release.parquet -o model/
privot sample model/ --num-rows 10000 -o synthetic.csv
privot evaluate model/ --against holdout.csv -o report.html"""
PAPERS = "laplace"
_KINDS = ("auto", "window", PAPERS)
_SCHEMA = Schema.from_toml(SCHEMA_TOML)
_DOMAIN = _SCHEMA.point_column("home").domain


@dataclass(frozen=True)
class MapMetrics:
    """Errors of one mechanism: W₂ in units where bounds are ±1 (`w2_…`), and in kilometers (`km_…`)."""

    mechanism: str
    estimator: str
    w2_learned: float
    km_learned: float
    w2_released: float
    train_seconds: float
    steps: int


@dataclass(frozen=True)
class DemoMetrics:
    """Contents of `metrics.json`; the last map is of the chosen mechanism, after the papers' map."""

    epsilon: float
    num_people: int
    w2_floor: float
    km_floor: float
    peak_memory_mb: float
    seed: int
    maps: list[MapMetrics]


@dataclass(frozen=True)
class _FittedMap:
    """Model of one mechanism's reports, points (n, 2) sampled from it, and the seconds of the fit."""

    release: Release
    model: LocalModel
    samples: np.ndarray
    seconds: float

    def metrics(self, learned: Distances, released: float) -> MapMetrics:
        """Return the metrics, given the distances of samples and of reports from the truth."""
        return MapMetrics(
            mechanism=self.release.randomizer.mechanisms["home"].kind,
            estimator=self.model.made_with["estimator"],
            w2_learned=learned.units,
            km_learned=learned.kilometers,
            w2_released=released,
            train_seconds=round(self.seconds, 2),
            steps=self.model.made_with["steps"],
        )


def run_demo(
    folder: Path,
    *,
    num_people: int = 200_000,
    epsilon: float = 4.0,
    mechanism: str = "auto",
    settings: FitSettings | None = None,
    say: Callable[[str], None] = print,
    progress: Progress | None = None,
) -> DemoMetrics:
    """Draw people, privatize, fit, sample, measure, and write the report to `folder`.

    Arguments:
        folder: Folder of the results.
        num_people: Number of people.
        epsilon: Privacy loss of each person's report.
        mechanism: `"window"` or `"auto"`, which are compared with Laplace noise; `"laplace"` for Laplace
            noise alone, learned by a generator as in the papers.
        settings: Settings of the fits; defaults otherwise.
        say: Callback for messages.
        progress: Callback after the steps of a generator.
    """
    if mechanism not in _KINDS:
        raise PrivotError(
            f"mechanism {mechanism!r} does not report places on a map: use one of {', '.join(_KINDS)}"
        )
    settings = settings or FitSettings()
    kinds = list(dict.fromkeys([PAPERS, mechanism]))
    if mechanism == PAPERS and settings.estimator == "auto":
        settings = replace(settings, estimator="generator")
    randomizers = [Randomizer.calibrate(_SCHEMA, epsilon, mechanism=kind) for kind in kinds]
    people = draw_people(num_people, seed=settings.seed)
    private = _points(people)
    say(f"1  {num_people:,} people live in towns of the United Kingdom")
    releases = [randomizer.privatize(people) for randomizer in randomizers]
    say(f"2  each randomized their own location on their device: {releases[-1].guarantee}")
    named = " and ".join(randomizer.mechanisms["home"].kind for randomizer in randomizers)
    say(f"3  the curator, who sees only reports, learns from each mechanism's: {named}")
    with Comparison(private) as comparison:
        comparison.add_map(_points(draw_people(num_people, seed=settings.seed + 1)))  # the floor
        comparison.add_reports(releases)
        maps = [_learn(release, comparison, settings, progress) for release in releases]
        say("4  samples of the model are compared with the truth, as only a demonstration can")
        (floor, *learned), released = comparison.results()
    distances = zip(maps, learned, released, strict=True)
    metrics = DemoMetrics(
        epsilon=epsilon,
        num_people=num_people,
        w2_floor=floor.units,
        km_floor=floor.kilometers,
        peak_memory_mb=peak_memory_mb(),
        seed=settings.seed,
        maps=[fitted.metrics(own, sent) for fitted, own, sent in distances],
    )
    picture = ("maps.png", _draw(private, maps, metrics))
    noise = randomizers[-1].expected_noise()[0]["in_words"]
    fields = {"noise": noise, "commands": COMMANDS}
    write_results(folder, "demo.html", picture, maps[-1].model, metrics, fields)
    return metrics


def _learn(
    release: Release, comparison: Comparison, settings: FitSettings, progress: Progress | None
) -> _FittedMap:
    """Fit a model, sample as many records as there are people, and begin to measure them."""
    started = time.perf_counter()
    model = fit(release, settings, progress=progress)
    seconds = time.perf_counter() - started
    samples = _points(model.sample(len(release), seed=settings.seed))
    comparison.add_map(samples)
    return _FittedMap(release, model, samples, seconds)


class Distances(NamedTuple):
    """W₂ of 3 000 from 3 000 points, in units where bounds are ±1 (mean of 3 draws), and in km."""

    units: float
    kilometers: float


class _Task(NamedTuple):
    """A distance that is computed by another thread, or by the main thread if no other has begun."""

    compute: Callable[[], float]
    future: Future[float]

    def result(self) -> float:
        """Return the distance, computed here if no other thread has begun."""
        return self.compute() if self.future.cancel() else self.future.result()


class Comparison:
    """W₂ of maps and of reports from the truth, computed while the main thread fits models.

    One core is left to the main thread, so that a fit takes no longer than alone. The computations
    release Python's lock. Leaving the context cancels the computations that have not begun.

    Arguments:
        truth: Points (n, 2) in degrees.
    """

    def __init__(self, truth: np.ndarray) -> None:
        self._units, self._kilometers = to_unit(_DOMAIN, truth), to_kilometers(truth)
        self._pool = ThreadPoolExecutor(max(1, num_threads() - 1))
        self._maps: list[tuple[_Task, _Task]] = []
        self._reports: list[_Task] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _begin(self, points: np.ndarray, truth: np.ndarray, repeats: int) -> _Task:
        compute = partial(sample_distance, points, truth, repeats=repeats)
        return _Task(compute, self._pool.submit(compute))

    def add_map(self, points: np.ndarray) -> None:
        """Measure points (n, 2) in degrees, in units and in kilometers."""
        units = self._begin(to_unit(_DOMAIN, points), self._units, repeats=3)
        kilometers = self._begin(to_kilometers(points), self._kilometers, repeats=1)
        self._maps.append((units, kilometers))

    def add_reports(self, releases: Sequence[Release]) -> None:
        """Measure the reports of each release in units, moved into the domain."""
        for release in releases:
            points = _DOMAIN.unit.project(to_unit(_DOMAIN, _points(release.table)))
            self._reports.append(self._begin(points, self._units, repeats=1))

    def results(self) -> tuple[list[Distances], list[float]]:
        """Return the distances of maps and of reports, each in the order in which they were added."""
        # Several threads of BLAS would wait for each other. The other threads take tasks in order, and
        # the main thread takes them from the last one on.
        with threadpool_limits(1, user_api="blas"):
            maps = [(units.result(), km.result()) for units, km in reversed(self._maps)]
            reports = [round(task.result(), 4) for task in self._reports]
        return [Distances(round(units, 4), round(km, 1)) for units, km in reversed(maps)], reports


def to_kilometers(points: np.ndarray) -> np.ndarray:
    """Project degrees (n, 2) to kilometers east and north, exact at the middle latitude of the map.

    Examples:
        >>> to_kilometers(np.array([[0.0, 1.0]])).round()
        array([[  0., 111.]])
    """
    cosine = np.cos(np.deg2rad(np.mean(BOX[1])))
    return points * (KILOMETERS * np.array([cosine, 1.0]))


def peak_memory_mb() -> float:
    """Return the largest resident memory of this process so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3), 1)


def _draw(private: np.ndarray, maps: list[_FittedMap], metrics: DemoMetrics) -> Figure:
    """Draw the map of people, and for each mechanism the maps of reports and of the model."""
    low, high = np.array(BOX).T
    floor = f"nobody sees it; two samples: {metrics.km_floor:.0f} km"
    panels = [Map("Where people live", floor, private)]
    for fitted, errors in zip(maps, metrics.maps, strict=True):
        received = _points(fitted.release.table)
        off = 1 - float(((received >= low) & (received <= high)).all(axis=1).mean())
        kind = errors.mechanism
        whose = "Laplace noise, the papers’" if kind == PAPERS else f"Privot’s {kind}"
        group = f"{whose}, ε = {at_most(metrics.epsilon)}"
        error = f"W₂ {errors.w2_learned:.3f}: {errors.km_learned:.0f} km off"
        # Reports are on a grid; jitter of less than a grid cell avoids stripes in the map's cells.
        jitter = np.random.default_rng(0).uniform(-0.5, 0.5, received.shape) * (high - low) / 256
        panels += [
            Map("What is sent", f"{off:.0%} fall off the map", received + jitter, group),
            Map("What is learned", error, fitted.samples, group),
        ]
    return draw_maps(panels, BOX)


def _points(table: pa.Table) -> np.ndarray:
    return np.stack([table.column(name).to_numpy() for name in ("longitude", "latitude")], axis=1)
