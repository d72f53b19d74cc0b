"""Demo of places: the distribution of 200 000 people's home towns, learned from reports at ε = 4.

Longitude and latitude, scaled to [−1, 1]², are reported by two mechanisms: Laplace noise, whose scale at
ε = 4 is half the width of the country, and the most informative mechanism at the same ε. Each is fitted
by its best estimator. `mechanism="laplace"` runs only the papers' version (Reshetova, Chen, Özgür 2024):
Laplace noise, and a generator trained by entropic optimal transport.

**People** (`draw_people`) are simulated: their home towns are drawn in proportion to population from
5 383 populated places of the United Kingdom (© GeoNames, https://www.geonames.org, CC BY 4.0, derived by
`scripts/derive_places.py`).
"""

import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from privot.core.errors import MOST_ROWS, require_choice, require_count
from privot.core.processes import map_threads
from privot.evaluation import sample_distance
from privot.local import FitSettings, LocalModel, fit
from privot.privacy.rounding import at_most
from privot.randomizer import Randomizer, Release
from privot.report.pages import write_results
from privot.report.panels import KILOMETERS_PER_DEGREE, Map, draw_maps
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
BOX = ((-8.7, 1.8), (49.8, 60.9))  # bounds of longitude and of latitude, in degrees
PLACES_FILE = Path(__file__).with_name("places.csv")
SCHEMA_TOML = f"""\
unit = "person"

[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = {[list(limits) for limits in BOX]}
"""
PAPERS = "laplace"  # mechanism of the papers' version
_KINDS = ("auto", "window", PAPERS)
_SCHEMA = Schema.from_toml(SCHEMA_TOML)
_DOMAIN = _SCHEMA.point_column("home").domain


@dataclass(frozen=True)
class MapMetrics:
    """Errors of one mechanism: W₂ in units where bounds are ±1 (`w2_…`), or in kilometers (`km_…`)."""

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


class Distances(NamedTuple):
    """W₂ between 3 000 and 3 000 points, in units where bounds are ±1 (mean of 3 draws), and in km."""

    units: float
    kilometers: float


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
        settings: Settings of the fits.
        say: Callback for messages.
        progress: Callback after the steps of a generator.
    """
    require_choice("mechanism", mechanism, _KINDS)
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
    maps = [_learn(release, settings, progress) for release in releases]
    say("4  samples of the model are compared with the truth, as only a demonstration can")
    others = _points(draw_people(num_people, seed=settings.seed + 1))
    floor, *learned = measure_maps(private, [others, *(fitted.samples for fitted in maps)])
    released = measure_reports(private, releases)
    distances = zip(maps, learned, released, strict=True)
    metrics = DemoMetrics(
        epsilon=epsilon,
        num_people=num_people,
        w2_floor=floor.units,
        km_floor=floor.kilometers,
        peak_memory_mb=peak_memory_mb(),
        seed=settings.seed,
        maps=[fitted.metrics(error, sent) for fitted, error, sent in distances],
    )
    picture = ("maps.png", _draw(private, maps, metrics))
    noise = randomizers[-1].expected_noise()[0]["in_words"]
    fields = {"noise": noise, "commands": COMMANDS}
    write_results(folder, "demo.html", picture, maps[-1].model, metrics, fields)
    return metrics


def _learn(release: Release, settings: FitSettings, progress: Progress | None) -> _FittedMap:
    """Fit a model, and sample as many records as there are people."""
    started = time.perf_counter()
    model = fit(release, settings, progress=progress)
    seconds = time.perf_counter() - started
    samples = _points(model.sample(len(release), seed=settings.seed))
    return _FittedMap(release, model, samples, seconds)


def measure_maps(truth: np.ndarray, maps: Sequence[np.ndarray]) -> list[Distances]:
    """Return the distances of maps from the true one; all are points (n, 2) in degrees."""
    scaled = [to_unit(_DOMAIN, points) for points in maps]
    units = _measure(to_unit(_DOMAIN, truth), scaled, repeats=3)
    kilometers = _measure(to_kilometers(truth), map(to_kilometers, maps), repeats=1)
    pairs = zip(units, kilometers, strict=True)
    return [Distances(round(unit, 4), round(km, 1)) for unit, km in pairs]


def measure_reports(truth: np.ndarray, releases: Sequence[Release]) -> list[float]:
    """Return the distances, in units, of reports from the truth, after projection to the domain."""
    reports = [to_unit(_DOMAIN, _points(release.table)) for release in releases]
    inside = map(_DOMAIN.unit.project, reports)
    return [round(w2, 4) for w2 in _measure(to_unit(_DOMAIN, truth), inside, repeats=1)]


def _measure(truth: np.ndarray, samples: Iterable[np.ndarray], repeats: int) -> list[float]:
    """Return the distance of each sample from the truth, computed in threads."""
    # BLAS itself uses one thread: several would wait for each other.
    with threadpool_limits(1, user_api="blas"):
        distance = partial(sample_distance, y=truth, repeats=repeats)
        return list(map_threads(distance, [(sample,) for sample in samples]))


def draw_people(num_people: int, seed: int) -> pa.Table:
    """Draw home towns of simulated people in proportion to population, as longitude and latitude."""
    num_people = require_count("people", num_people, MOST_ROWS)
    places = pa_csv.read_csv(PLACES_FILE)
    population = places["population"].to_numpy().astype(float)
    town = np.random.default_rng(seed).choice(
        len(population), size=num_people, p=population / population.sum()
    )
    return places.select(["longitude", "latitude"]).take(town)


def to_kilometers(points: np.ndarray) -> np.ndarray:
    """Project degrees (n, 2) to kilometers east and north, exactly at the middle latitude of the map.

    Examples:
        >>> to_kilometers(np.array([[0.0, 1.0]])).round()
        array([[  0., 111.]])
    """
    cosine = np.cos(np.deg2rad(np.mean(BOX[1])))
    return points * (KILOMETERS_PER_DEGREE * np.array([cosine, 1.0]))


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
        name = "Laplace noise, the papers’" if kind == PAPERS else f"Privot’s {kind}"
        group = f"{name}, ε = {at_most(metrics.epsilon)}"
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
