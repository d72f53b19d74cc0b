r"""A real table: road accidents of Great Britain, of which a few integrally private draws are published.

    python -m studies integral.accidents --data FOLDER -o accidents.json --picture map.png

140 029 places (`uk_road_accidents_2d.csv.gz` in the folder of `--data` or `PRIVOT_DATA`); a tenth is
held out. The public reference is uniform on the box from 8° W to 2.5° E and 49.5° N to 61° N: that there
are no roads in the sea is public too, and not used. The clipped ratio is learned once, and clipped for
every ε of a draw.

Reported: what a draw gains over the reference on the held-out places (nats; the NLL's difference), the
distance W₂ of 3 000 draws from 3 000 held-out places in the box scaled to [−1, 1]², of independent
draws and of draws made 50 together (which cost the same), and the time. The picture shows 20 000 draws
for judging by eye, which is **not** something to publish: at ε = 1 a draw that would cost ε = 20 000.
Ten draws together at ε = 1 each cost 10, and are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privot.core.errors import PrivotError
from privot.evaluation import sample_distance
from privot.integral import ClippedRatioSettings
from privot.integral.density import make_grid
from privot.integral.learners import NetworkSettings, fit_log_ratio
from privot.integral.references import UniformBox
from privot.report.panels import Map, draw_maps, save_png
from privot.tables.files import read_table
from studies.common.densities import Array
from studies.common.rows import write_rows

ACCIDENTS = "uk_road_accidents_2d.csv.gz"
NUM_DRAWS, TOGETHER = 20_000, 50  # draws to judge by, and how many share a budget
LOWER, UPPER = (-8.0, 49.5), (2.5, 61.0)
SHOWN = ("ε = 1 a draw", "ε = 1 a draw, 50 together", "ε = 2 a draw, 50 together")
SETTINGS = ClippedRatioSettings(
    floor_share=0.35, network=NetworkSettings(hidden=(128, 128), steps=2000)
)


def places(folder: Path, seed: int) -> tuple[Array, Array]:
    """Nine tenths of the places to learn from, and one held out."""
    table = read_table(folder / ACCIDENTS)
    points = np.stack([table.column(n).to_numpy() for n in ("longitude", "latitude")], axis=1)
    order = np.random.default_rng([seed, 7]).permutation(len(points))
    held = len(points) // 10
    return points[order[held:]], points[order[:held]]


def to_square(points: Array) -> Array:
    """The box scaled to [−1, 1]²."""
    return 2 * (points - LOWER) / np.subtract(UPPER, LOWER) - 1


def measure(
    folder: Path, epsilons: Sequence[float], seed: int
) -> tuple[list[dict[str, Any]], dict[str, Array], Array]:
    """Rows, 20 000 draws by ε, and the held-out places."""
    records, held_out = places(folder, seed)
    reference = UniformBox(LOWER, UPPER)
    started = time.perf_counter()
    ratio = fit_log_ratio(records, reference, "mlp", SETTINGS.network, seed)
    learning = time.perf_counter() - started
    cells = make_grid(reference)
    assert cells is not None
    rows: list[dict[str, Any]] = []
    draws: dict[str, Array] = {}
    for epsilon in epsilons:
        started = time.perf_counter()
        density = SETTINGS.clipped(SETTINGS.untilted(reference, epsilon), ratio, records)
        clipping = time.perf_counter() - started
        log_normalizer = float(np.log(cells.mean(np.exp(density.log_tilt(cells.centers())))))
        started = time.perf_counter()
        alone = density.draw(NUM_DRAWS)
        drawing = time.perf_counter() - started
        sets = [density.draw_together(TOGETHER) for _ in range(NUM_DRAWS // TOGETHER)]
        together = np.concatenate(sets)
        draws[f"ε = {epsilon:g} a draw"] = alone
        draws[f"ε = {epsilon:g} a draw, {TOGETHER} together"] = together
        rows.append(
            {
                "epsilon": epsilon,
                "seed": seed,
                "gain": round(float(density.log_tilt(held_out).mean()) - log_normalizer, 4),
                "w2": round(sample_distance(to_square(alone), to_square(held_out)), 4),
                "w2_together": round(sample_distance(to_square(together), to_square(held_out)), 4),
                "fit_seconds": round(learning + clipping, 1),
                "draws_a_second": round(NUM_DRAWS / drawing),
                "ten_draws": np.round(density.draw_together(10), 2).tolist(),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    floor = sample_distance(to_square(records[: len(held_out)]), to_square(held_out))
    uniform = reference.sample(20_000, np.random.default_rng(seed))
    public = sample_distance(to_square(uniform), to_square(held_out))
    rows.append({"floor_w2": round(floor, 4), "reference_w2": round(public, 4)})
    print(json.dumps(rows[-1]), flush=True)
    return rows, draws, held_out


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0, 5.0, 10.0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--picture", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Command line."""
    if chosen.data is None:
        raise PrivotError(f"--data is missing: name the folder that holds {ACCIDENTS}")
    rows, draws, held_out = measure(Path(chosen.data), chosen.epsilons, chosen.seed)
    if chosen.output:
        write_rows(chosen.output, rows)
    if chosen.picture:
        panels = [Map("Accidents", "held out, never seen", held_out)]
        panels += [Map(name, "20 000 draws", draws[name]) for name in SHOWN if name in draws]
        bounds = ((LOWER[0], UPPER[0]), (LOWER[1], UPPER[1]))
        save_png(draw_maps(panels, bounds), chosen.picture, dpi=110)
