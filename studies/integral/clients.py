r"""A hundred mixtures on the line: the published method, ours, and the best that is possible.

    python -m studies integral.clients -o clients.json

Each of 100 clients has 10 000 records of its own mixture (`integral_targets.client`) and wants to
publish a draw with ε-integral privacy. Reported are the mean and the worst client's KL(p‖q), by
quadrature on [−4, 4] with 4 000 cells, for

- MBDE as published (its classifiers unbounded, so its ε does not hold) and with classifiers clipped as
  its proof demands, both from N(0, 1);
- our boosting with its budget spent in full, and our clipped ratio, from N(0, 1) too;
- the clipped ratio from a public density that fits the population better, N(0, 1.2²);
- the optimum for known densities: from the envelope of the class with the minimax constant (what Park,
  Asoodeh and Lee print), and with our references and constants.

All methods see the same records. Records of MBDE are rounded to 64 cells and counted, which makes one
fit of a hundred; `--check` compares with records as they are.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from privot.integral import BoostSettings, ClippedRatioSettings, boost, clip_ratio
from privot.integral.density import TiltedDensity
from privot.integral.references import Normal, ProductReference, Reference
from studies.common.densities import Array, Grid, kullback_leibler
from studies.common.rows import write_rows
from studies.integral.targets import Mixture, client, envelope
from studies.rivals.optimal_mollifier import minimax_floor, optimal_density
from studies.rivals.published_mbde import (
    PublishedSettings,
    fit_published,
    in_order,
    on_grid,
)

NUM_RECORDS = 10_000
LIMIT = 4.0
WIDE = 1.2
# Public: −log b as a share of ε. Of the optimum for known densities at N(0, 1) and N(0, 1.2²), .4 and
# .5 have about the least mean and the least worst KL at every ε.
SHARES = {1.0: 0.4, WIDE: 0.5}
_CELLS = 64


class Population:
    """The clients' densities on one grid, and their records."""

    def __init__(self, num_clients: int, seed: int) -> None:
        self.mixtures: list[Mixture] = [client(i) for i in range(num_clients)]
        self.grid: Grid = self.mixtures[0].grid()
        self.truth = np.stack([mixture.density(self.grid) for mixture in self.mixtures])
        self.records = np.stack(
            [
                mixture.draw(NUM_RECORDS, np.random.default_rng([seed, i, 4]))
                for i, mixture in enumerate(self.mixtures)
            ]
        )

    def divergences(self, log_densities: Sequence[Array]) -> list[float]:
        """KL(p‖q) of every client, its model normalized on the grid."""
        found = []
        for truth, logs in zip(self.truth, log_densities, strict=True):
            found.append(kullback_leibler(self.grid, truth, self.grid.normalized(logs)[0]))
        return found


def normal(stddev: float) -> Reference:
    """The public reference: N(0, stddev²) on [−4, 4]."""
    return ProductReference([Normal(0.0, stddev, -LIMIT, LIMIT)])


def published(population: Population, epsilon: float, clip: bool, seed: int) -> list[float]:
    """MBDE for all clients at once."""
    settings = PublishedSettings(clip=clip)
    batches = on_grid([-LIMIT], [LIMIT], _CELLS, settings.batch_size)
    records = torch.as_tensor(population.records, dtype=torch.float32)
    density = fit_published(records, epsilon, settings, batches, seed=seed)
    points = torch.as_tensor(population.grid.points, dtype=torch.float32)
    tilts = density.log_tilt(points.expand(len(records), -1, -1)).double().numpy()
    return population.divergences(list(tilts - population.grid.points[:, 0] ** 2 / 2))


def fitted(population: Population, fit: Callable[[Array], TiltedDensity]) -> list[float]:
    """One of our methods, client after client."""
    points = population.grid.points
    return population.divergences(
        [fit(records).log_unnormalized(points) for records in population.records]
    )


def optimal(population: Population, reference: Array, epsilon: float, floor: float) -> list[float]:
    """The best density of the mollifier, for densities as they are."""
    volume = population.grid.cell_volume
    best = [optimal_density(p, reference, volume, epsilon, floor) for p in population.truth]
    pairs = zip(population.truth, best, strict=True)
    return [kullback_leibler(population.grid, p, q) for p, q in pairs]


def methods(
    population: Population, epsilon: float, seed: int
) -> dict[str, Callable[[], list[float]]]:
    """Name of a row to what computes its divergences."""
    covering, bound = envelope(population.grid)
    points = population.grid.points

    def ratio(stddev: float) -> list[float]:
        settings = ClippedRatioSettings(floor_share=SHARES[stddev], seed=seed)
        return fitted(population, lambda x: clip_ratio(x, normal(stddev), epsilon, settings))

    def best(stddev: float) -> list[float]:
        density = population.grid.normalized(normal(stddev).log_density(points))[0]
        return optimal(population, density, epsilon, float(np.exp(-SHARES[stddev] * epsilon)))

    def boosted() -> list[float]:
        settings = BoostSettings(seed=seed)
        return fitted(population, lambda x: boost(x, normal(1.0), epsilon, settings))

    return {
        "MBDE, published": lambda: published(population, epsilon, False, seed),
        "MBDE, clipped": lambda: published(population, epsilon, True, seed),
        "boost, N(0, 1)": boosted,
        "clipped ratio, N(0, 1)": lambda: ratio(1.0),
        "optimum, N(0, 1)": lambda: best(1.0),
        "clipped ratio, N(0, 1.2²)": lambda: ratio(WIDE),
        "optimum, N(0, 1.2²)": lambda: best(WIDE),
        "optimum, minimax": lambda: optimal(
            population, covering, epsilon, minimax_floor(epsilon, bound)
        ),
    }


def measure(
    population: Population, epsilon: float, seed: int, only: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Rows of all methods at one ε."""
    rows = []
    for name, run in methods(population, epsilon, seed).items():
        if only and not any(part in name for part in only):
            continue
        started = time.perf_counter()
        found = run()
        rows.append(
            {
                "epsilon": epsilon,
                "method": name,
                "mean": round(float(np.mean(found)), 5),
                "worst": round(float(np.max(found)), 5),
                "seconds": round(time.perf_counter() - started, 1),
                "seed": seed,
                "clients": [round(value, 5) for value in found],
            }
        )
        shown = {key: value for key, value in rows[-1].items() if key != "clients"}
        print(json.dumps(shown, ensure_ascii=False), flush=True)
    return rows


def check_rounding(population: Population, epsilon: float, seed: int) -> dict[str, Any]:
    """The published method with records as they are and with rounded ones, two clients each."""
    records = torch.as_tensor(population.records[:2], dtype=torch.float32)
    points = torch.as_tensor(population.grid.points, dtype=torch.float32).expand(2, -1, -1)
    found: dict[str, Any] = {"epsilon": epsilon}
    for name, batches in (
        ("as they are", in_order(5000)),
        ("rounded", on_grid([-LIMIT], [LIMIT], _CELLS, 5000)),
    ):
        density = fit_published(records, epsilon, batches=batches, seed=seed)
        logs = density.log_tilt(points).double().numpy() - population.grid.points[:, 0] ** 2 / 2
        pairs = zip(population.truth[:2], logs, strict=True)
        found[name] = [
            round(kullback_leibler(population.grid, p, population.grid.normalized(q)[0]), 5)
            for p, q in pairs
        ]
    return found


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0, 5.0])
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="parts of the methods' names")
    parser.add_argument("--check", action="store_true", help="what rounding does to MBDE")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Command line."""
    population = Population(chosen.clients, chosen.seed)
    rows: list[dict[str, Any]] = []
    for epsilon in chosen.epsilons:
        if chosen.check:
            rows.append(check_rounding(population, epsilon, chosen.seed))
            print(json.dumps(rows[-1]), flush=True)
        else:
            rows += measure(population, epsilon, chosen.seed, chosen.only)
    if chosen.output:
        write_rows(chosen.output, rows)
