r"""NLL and mode coverage over ε, of densities that are known: the paper's figure 5, with more rivals.

    python -m studies integral.curves ring --epsilons 0.1 1 10 --seeds 0 1 2 -o ring.json

For each target (`integral_targets`), ε and seed (records, weights, batches), 10 000 records are learned
by

- the clipped ratio and our boosting, from N(0, I), and the clipped ratio from N(0, 1.5² I), a public
  density that covers these targets better;
- both clipped ratios with 50 draws together (`--draws`) that cost 50 ε: what is judged is the density of
  one of them;
- MBDE as published (its ε does not hold: see the module of the baseline), and clipped.

The Bernstein mechanism, for which ε is one **person's** and not everybody's, sees the same records in
`integral.bernstein`.

Beside them the optimum for known densities in the same mollifier, and N(0, I) itself. Densities are
compared on grids (4 000 cells a line, 300² a plane).
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from privot.integral import BoostSettings, ClippedRatioSettings, boost
from privot.integral.density import Tilt, TiltedDensity
from privot.integral.learners import NetworkSettings, fit_log_ratio
from privot.integral.methods import clip_ratio
from privot.integral.references import Normal, ProductReference, Reference, StandardNormal
from studies.common.densities import (
    Array,
    Grid,
    mode_coverage,
    negative_log_likelihood,
    variation_distance,
)
from studies.common.rows import gather
from studies.integral.targets import TARGETS, Mixture
from studies.rivals.optimal_mollifier import optimal_density
from studies.rivals.published_mbde import PublishedSettings, fit_published, on_grid

NUM_RECORDS = 10_000
WIDE = 1.5
SETTINGS = ClippedRatioSettings(floor_share=0.35, network=NetworkSettings(hidden=(128, 128)))
METHODS = ("ratio", "boost", "together", "published", "reference")
TOGETHER = 50  # draws that share a budget
_PATHS_OF = 2000  # draws by which the windows of draws together are averaged
_CELLS = {1: 250, 2: 64}


def boost_settings(seed: int) -> BoostSettings:
    """Boosting with the floor of the clipped ratio."""
    return BoostSettings(floor_share=SETTINGS.floor_share, seed=seed)


def references(dim: int) -> dict[str, Reference]:
    """Public references, by the name of the row that starts from them."""
    wide = ProductReference([Normal(0.0, WIDE, -8.0, 8.0)] * dim)
    return {"clipped ratio": StandardNormal(dim), "clipped ratio, N(0, 1.5² I)": wide}


def records_of(target: str, seed: int) -> Array:
    """The records that all methods see."""
    return TARGETS[target](seed).draw(NUM_RECORDS, np.random.default_rng([seed, 5]))


@lru_cache
def learned_ratio(target: str, seed: int, name: str) -> Tilt:
    """The log ratio p/q₀: learned once, for it knows nothing of ε."""
    records, settings = records_of(target, seed), SETTINGS
    reference = references(records.shape[1])[name]
    return fit_log_ratio(records, reference, settings.estimator, settings.network, seed)


def fit_ratio(target: str, seed: int, name: str, epsilon: float) -> TiltedDensity:
    """The clipped ratio from a reference of `references`, for one draw of ε."""
    records = records_of(target, seed)
    start, ratio = references(records.shape[1])[name], learned_ratio(target, seed, name)
    return SETTINGS.clipped(SETTINGS.untilted(start, epsilon), ratio, records)


def mean_of_draws(density: TiltedDensity, grid: Grid, num_draws: int) -> Array:
    """The density of one of `num_draws` draws together, in random order: the mean of their windows'.

    Draws are simulated by fresh coins, so that the result has no seed.
    """
    used: Counter[tuple[float, float]] = Counter()
    windows = {}
    for _ in range(-(-_PATHS_OF // num_draws)):
        total, left = 0.0, num_draws
        while left:
            block = -(-left // 64)
            window = density.window(num_draws, left, block, total)
            windows[window.low, window.high] = window
            used[window.low, window.high] += block
            total += float(window.accepted_tilt(window.draw(block)).sum())
            left -= block
    parts = [
        share * grid.normalized(windows[limits].log_unnormalized(grid.points))[0]
        for limits, share in used.items()
    ]
    return np.asarray(np.sum(parts, axis=0) / sum(used.values()))


def densities(
    target: str,
    mixture: Mixture,
    grid: Grid,
    epsilon: float,
    seed: int,
    chosen: Sequence[str],
    num_draws: int = TOGETHER,
) -> Iterator[tuple[str, Array]]:
    """(method, its density at the nodes) for the methods chosen."""
    records = records_of(target, seed)
    reference = StandardNormal(mixture.dim)
    if "ratio" in chosen:
        for name in references(mixture.dim):
            fitted = fit_ratio(target, seed, name, epsilon)
            yield name, grid.normalized(fitted.log_unnormalized(grid.points))[0]
    if "together" in chosen:
        for name in references(mixture.dim):
            model = mean_of_draws(fit_ratio(target, seed, name, epsilon), grid, num_draws)
            yield f"{name}, {num_draws} draws together", model
    if "boost" in chosen:
        fitted = boost(records, reference, epsilon, boost_settings(seed))
        yield "boost", grid.normalized(fitted.log_unnormalized(grid.points))[0]
    if "published" in chosen:
        for clip in (False, True):
            logs = published_log_density(mixture, records, grid, epsilon, clip, seed)
            yield f"MBDE, {'clipped' if clip else 'published'}", grid.normalized(logs)[0]
    if "reference" in chosen:
        public = grid.normalized(reference.log_density(grid.points))[0]
        yield "N(0, I)", public
        best = optimal_density(
            mixture.density(grid),
            public,
            grid.cell_volume,
            epsilon,
            math.exp(-SETTINGS.floor_share * epsilon),
        )
        yield "optimum", best


def published_log_density(
    mixture: Mixture, records: Array, grid: Grid, epsilon: float, clip: bool, seed: int
) -> Array:
    """MBDE on its standard Gaussian; records are rounded to 250 cells a line, 64² a plane."""
    settings = PublishedSettings(clip=clip)
    cells = _CELLS[mixture.dim]
    batches = on_grid(mixture.lower, mixture.upper, cells, settings.batch_size)
    stack = torch.as_tensor(records, dtype=torch.float32)[None]
    density = fit_published(stack, epsilon, settings, batches, seed=seed)
    points = torch.as_tensor(grid.points, dtype=torch.float32)[None]
    tilt = density.log_tilt(points)[0].double().numpy()
    return np.asarray(tilt - (grid.points**2).sum(axis=1) / 2)


def measure(
    target: str, epsilon: float, seed: int, chosen: Sequence[str], num_draws: int = TOGETHER
) -> Iterator[dict[str, Any]]:
    """One row a method."""
    mixture = TARGETS[target](seed)
    grid = mixture.grid()
    truth = mixture.density(grid)
    started = time.perf_counter()
    for method, model in densities(target, mixture, grid, epsilon, seed, chosen, num_draws):
        seconds = round(time.perf_counter() - started, 2)
        named = {"epsilon": epsilon, "seed": seed, "method": method, "seconds": seconds}
        yield row_of(target, grid, truth, model) | named
        started = time.perf_counter()


def row_of(target: str, grid: Grid, truth: Array, model: Array) -> dict[str, Any]:
    """What is measured of a density at the grid's nodes."""
    loss = negative_log_likelihood(grid, truth, model)
    return {
        "target": target,
        "nll": round(loss, 5),
        "kl": round(loss - negative_log_likelihood(grid, truth, truth), 5),
        "variation": round(variation_distance(grid, truth, model), 5),
        "coverage": round(mode_coverage(grid, truth, model), 5),
        "stretch": round(stretch(grid, model), 4),
    }


def stretch(grid: Grid, model: Array) -> float:
    """Largest |log q/q₀| on the grid: what ε a draw spends at least, if some data leave q₀ as it is."""
    public = grid.normalized(StandardNormal(grid.dim).log_density(grid.points))[0]
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(model) - np.log(public)).max())


def timing(target: str, epsilon: float, seed: int) -> Iterator[dict[str, Any]]:
    """Seconds to fit our methods, and to draw 10 000 records from each."""
    records = records_of(target, seed)
    reference = StandardNormal(records.shape[1])
    fits: dict[str, Callable[[], TiltedDensity]] = {
        "clipped ratio": lambda: clip_ratio(records, reference, epsilon, SETTINGS),
        "boost": lambda: boost(records, reference, epsilon, boost_settings(seed)),
    }
    for method, fit in fits.items():
        started = time.perf_counter()
        density = fit()
        fitted = time.perf_counter()
        density.draw(10_000)
        drawn = time.perf_counter()
        yield {
            "target": target,
            "epsilon": epsilon,
            "method": method,
            "fit_seconds": round(fitted - started, 2),
            "draw_seconds": round(drawn - fitted, 3),
        }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("target", choices=list(TARGETS))
    parser.add_argument(
        "--epsilons", type=float, nargs="+", default=[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--draws", type=int, default=TOGETHER, help="draws together")
    parser.add_argument("--timing", action="store_true", help="seconds of our methods, no more")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every method at every ε and seed; or how long ours take."""
    if chosen.timing:
        gather(timing(chosen.target, chosen.epsilons[0], chosen.seeds[0]), None)
        return
    rows = (
        row
        for epsilon, seed in product(chosen.epsilons, chosen.seeds)
        for row in measure(chosen.target, epsilon, seed, chosen.methods, chosen.draws)
    )
    gather(rows, chosen.output)
