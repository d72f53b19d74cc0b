r"""DPGAN on the ring of eight Gaussians, by the measures of the page on integral privacy.

    python -m studies integral.dpgan -o ring_dpgan.json

Its ε is one **person's**, with δ = 10⁻⁵: not the ε of `integral_curves`, whose records, truth and grid
are used. It has no density, so that its NLL is that of a kernel density estimate: 100 000 draws,
counted in the grid's cells, under a Gaussian kernel. Draws outside of the box are left out, and their
share is reported. The learning rate (of three) and the kernel's bandwidth (of four) are those that
turn out best on the truth at that ε, in the mean over seeds: a favor that no user could do it, and
that its ε does not pay for. Beside it stand 100 000 draws from the truth under the same kernels: what
the estimate itself costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.ndimage import gaussian_filter

from studies.common.densities import (
    Array,
    Grid,
    mode_coverage,
    negative_log_likelihood,
    variation_distance,
)
from studies.common.rows import gather, write_rows
from studies.integral.curves import records_of
from studies.integral.targets import TARGETS
from studies.rivals.dpgan import DPGANSettings, fit_dpgan

TARGET = "ring"
DELTA = 1e-5
NUM_DRAWS = 100_000
LEARNING_RATES = (2e-3, 3e-3, 5e-3)
BANDWIDTHS = (0.05, 0.1, 0.2, 0.4)
# Beyond 38 standard deviations a Gaussian is below the smallest float.
_REACH = 38.0


def smoothed(draws: Array, grid: Grid, bandwidth: float) -> Array:
    """The kernel density estimate at the nodes of a grid, its integral 1 there."""
    box = list(zip(grid.lower, grid.upper, strict=True))
    counts, _ = np.histogramdd(draws, bins=grid.num_cells, range=box)
    cells = [bandwidth * grid.num_cells / (high - low) for low, high in box]
    values = gaussian_filter(counts, cells, mode="constant", truncate=_REACH).ravel()
    return np.asarray(values / grid.integral(values))


def drawn(
    epsilons: Sequence[float], seeds: Sequence[int]
) -> Iterator[tuple[dict[str, Any], Array]]:
    """What was drawn from, and the draws."""
    for epsilon, seed, rate in product(epsilons, seeds, LEARNING_RATES):
        started = time.perf_counter()
        settings = DPGANSettings(learning_rate=rate)
        model = fit_dpgan(records_of(TARGET, seed), epsilon, DELTA, settings, seed=seed)
        seconds = round(time.perf_counter() - started, 1)
        row = {"epsilon": epsilon, "seed": seed, "method": f"DPGAN|{rate}", "seconds": seconds}
        row |= {"delta": DELTA, "noise_multiplier": round(model.noise_multiplier, 4)}
        yield row, model.sample(NUM_DRAWS, torch.Generator().manual_seed(seed))
    for epsilon, seed in product(epsilons, seeds):
        rng = np.random.default_rng([seed, 6])
        row = {"epsilon": epsilon, "seed": seed, "method": "truth's own draws|"}
        yield row, TARGETS[TARGET](seed).draw(NUM_DRAWS, rng)


def measure(epsilons: Sequence[float], seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """One row a model and bandwidth."""
    mixture = TARGETS[TARGET](0)
    grid = mixture.grid()
    truth = mixture.density(grid)
    for row, draws in drawn(epsilons, seeds):
        outside = ((draws < grid.lower) | (draws > grid.upper)).any(axis=1).mean()
        for bandwidth in BANDWIDTHS:
            model = smoothed(draws, grid, bandwidth)
            yield row | {
                "target": TARGET,
                "method": f"{row['method']}|{bandwidth}",
                "nll": round(negative_log_likelihood(grid, truth, model), 5),
                "variation": round(variation_distance(grid, truth, model), 5),
                "coverage": round(mode_coverage(grid, truth, model), 5),
                "outside": round(float(outside), 5),
            }


def best_in_hindsight(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of methods with settings in their names, those of least mean NLL at each ε."""
    losses: dict[tuple[float, str], dict[str, list[float]]] = {}
    for row in rows:
        name, _, settings = row["method"].partition("|")
        losses.setdefault((row["epsilon"], name), {}).setdefault(settings, []).append(row["nll"])
    kept = []
    for row in rows:
        name, _, settings = row["method"].partition("|")
        means = {s: np.mean(v) for s, v in losses[row["epsilon"], name].items()}
        if settings == min(means, key=lambda s: means[s]):
            kept.append(row | {"method": name, "settings": settings})
    return kept


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A table of means ± standard deviations over seeds."""
    lines = [
        "| method | ε | NLL | variation | mode coverage | settings |",
        "|---|---|---|---|---|---|",
    ]
    for epsilon, method in dict.fromkeys((row["epsilon"], row["method"]) for row in rows):
        chosen = [row for row in rows if (row["epsilon"], row["method"]) == (epsilon, method)]
        cells = []
        for measured in ("nll", "variation", "coverage"):
            values = [row[measured] for row in chosen]
            cells.append(f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}")
        settings = chosen[0]["settings"].strip("|").replace("|", ", ")
        lines.append(f"| {method} | {epsilon:g} | {' | '.join(cells)} | {settings} |")
    return "\n".join(lines)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every ε and seed, and the truth's own draws."""
    torch.set_num_threads(1)
    best = best_in_hindsight(gather(measure(chosen.epsilons, chosen.seeds), None))
    print(markdown(best))
    if chosen.output:
        write_rows(chosen.output, best)
