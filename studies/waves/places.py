r"""What history is worth where places drift: maps of the last wave, with history and without.

    python -m studies waves.places --seeds 0 1 2 3 4 5 6 7 8 9 -o docs/results/waves

200 000 people in 24 waves of 8 333, ε = 2. One of three towns empties into another, which moves,
besides, by 0, .15 or .7 of a square of side 2. W₂ of the last density to the truth, on 40 × 40 cells,
the truth by a million points; *alone* is `privot.fit` of the last wave, *together* that of all waves.
The maps are those of the first seed, of the town that moves farthest.

Privacy's noise has no seed: numbers repeat up to its randomness.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privot.local import fit, fit_waves
from privot.randomizer import Randomizer
from privot.report.panels import Map, draw_maps, save_png
from privot.schema import Schema
from privot.schema.domains import Array
from studies.common.rows import Row, gather

WAVES, EPSILON, PEOPLE = 24, 2.0, 8_333
_BOX = {"kind": "vector", "columns": ["x", "y"], "bounds": [[-1, 1], [-1, 1]]}
SQUARE = Schema.from_dict({"columns": {"home": _BOX}})
MOVES, STEP = (0.0, 0.15, 0.7), 2 / 40
_DRAWN, _TRUE = 200_000, 1_000_000
_BOUNDS = ((-1.0, 1.0), (-1.0, 1.0))


def town(time_: float, num: int, seed: int, move: float) -> Array:
    """Points (n, 2) at a time from 0 to 1."""
    rng = np.random.default_rng(seed)
    which = rng.choice(3, num, p=[0.45 - 0.25 * time_, 0.25, 0.3 + 0.25 * time_])
    middle = np.array([[-0.5, 0.4], [0.45, -0.5], [-0.2 + move * time_, 0.1 + 0.6 * move * time_]])
    spread = np.array([0.08, 0.15, 0.06])
    points = middle[which] + spread[which, None] * rng.standard_normal((num, 2))
    return np.clip(points, -1, 1)


def cells(points: Array) -> Array:
    """Shares of 40 × 40 cells."""
    ends = np.linspace(-1, 1, round(2 / STEP) + 1)
    found, _, _ = np.histogram2d(points[:, 0], points[:, 1], bins=[ends, ends])
    return np.asarray(found / found.sum())


def w2(first: Array, second: Array) -> float:
    """Exact W₂ of two histograms, mass in the middle of cells."""
    middles = np.argwhere(np.ones_like(first)) * STEP
    a, b = first.ravel(), second.ravel()
    import ot  # POT, which no other recipe of waves needs

    costs = ot.dist(middles[a > 0], middles[b > 0])
    return float(ot.emd2(a[a > 0], b[b > 0], costs, numItermax=10_000_000) ** 0.5)


def measure(seed: int, move: float) -> tuple[Row, dict[str, Array]]:
    """A row, and points of the truth and of each estimate."""
    randomizer, waves = Randomizer.calibrate(SQUARE, EPSILON), []
    for number, when in enumerate(np.linspace(0, 1, WAVES)):
        points = town(float(when), PEOPLE, 1000 * seed + number, move)
        waves.append(randomizer.privatize({"x": points[:, 0], "y": points[:, 1]}))
    started = time.process_time()
    model = fit_waves(waves, seed=seed)
    seconds = time.process_time() - started
    drift: Any = model.drift
    truth = town(1.0, _TRUE, 10**6 + seed, move)
    found = {
        "alone": _points(fit(waves[-1], seed=seed).sample(_DRAWN, seed=seed)),
        "history": _points(model.sample(_DRAWN, seed=seed)),
        "together": _points(model.base.sample(_DRAWN, seed=seed)),
    }
    row = {
        "measure": "places",
        "epsilon": EPSILON,
        "move": move,
        "seed": seed,
        **{name: round(w2(cells(each), cells(truth)), 4) for name, each in found.items()},
        "reach": drift.reach,
        "seconds": round(seconds, 1),
    }
    return row, {"truth": truth, **found}


def _points(table: pa.Table) -> Array:
    return np.stack([table["x"].to_numpy(), table["y"].to_numpy()], axis=1)


def draw(row: Row, found: dict[str, Array], path: Path) -> None:
    """Maps of the truth and of three estimates."""
    titles = {
        "truth": "Last wave, true",
        "alone": "Last wave alone",
        "history": "With history",
        "together": "All waves together",
    }
    maps = [
        Map(title, "" if name == "truth" else f"W₂ {row[name]:.3f}", found[name])
        for name, title in titles.items()
    ]
    save_png(draw_maps(maps, _BOUNDS, geographic=False), path)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--moves", type=float, nargs="+", default=list(MOVES))
    parser.add_argument("-o", "--output", type=Path, help="Folder of the rows and the picture.")


def run(chosen: argparse.Namespace) -> None:
    """Measure, write rows, and draw."""

    def rows() -> Iterator[Row]:
        for seed in chosen.seeds:
            for move in chosen.moves:
                row, found = measure(seed, move)
                if chosen.output and (seed, move) == (chosen.seeds[0], max(chosen.moves)):
                    draw(row, found, chosen.output / "places.png")
                yield row

    gather(rows(), chosen.output and chosen.output / "places.json")
