r"""The ratio of two models of opposite data sets: below e^ε everywhere, and in draws.

    python -m studies integral.audit -o audit.json

Half of the records N(−1.5, 0.3²) against half N(1.5, 0.3²) (10 000 each, none in common), one record
against 10 000 equal ones at the other end, and in the plane the left against the right half of a ring.
For each method and ε:

- **search**: the largest |log q/q′| over the reference's own cells (16 384 of a line, 1 024² of a plane)
  within 6 standard deviations. The clipped ratio is constant on each, so that this sees all of it and
  the normalizers are finite sums; for the others both are quadrature;
- **audit**: from 10⁶ draws of each model (`--draws`), a lower bound of ε that holds with 99.9 % (Clopper
  and Pearson, events chosen on one half of the draws and tested on the other).

**Draws together** (`--together`): three draws of the clipped ratio on the line, whose ε is three times
that of one, audited by 2·10⁴ such triples of each model; `pytest tests/integral/test_together.py`
enumerates small domains.

A guarantee must not be exceeded by either. Published MBDE is searched too, and its claim refuted.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from privot.audit.statistics import audit
from privot.integral import boost, clip_ratio
from privot.integral.density import TiltedDensity, make_grid
from privot.integral.references import StandardNormal
from studies.common.densities import Array
from studies.common.rows import gather
from studies.integral.targets import ring
from studies.rivals.published_mbde import PublishedSettings, fit_published, on_grid

NUM_RECORDS = 10_000
_REACH = 6.0
_PUBLISHED_CELLS = {1: 250, 2: 64}
TOGETHER = 3  # draws that share a budget
Fit = Callable[[Array, float], TiltedDensity]
FITS: dict[str, Fit] = {
    "clipped ratio": lambda x, epsilon: clip_ratio(x, StandardNormal(x.shape[1]), epsilon),
    "boost": lambda x, epsilon: boost(x, StandardNormal(x.shape[1]), epsilon),
}


def opposites(seed: int) -> dict[str, tuple[Array, Array]]:
    """Name to two data sets without a record in common."""
    rng = np.random.default_rng([seed, 6])
    narrow = 0.3 * rng.standard_normal((2, NUM_RECORDS, 1))
    circle = ring().draw(3 * NUM_RECORDS, rng)
    left, right = circle[circle[:, 0] < 0], circle[circle[:, 0] > 0]
    return {
        "two sides of a line": (narrow[0] - 1.5, narrow[1] + 1.5),
        "one record, and many": (np.array([[-2.5]]), np.full((NUM_RECORDS, 1), 2.5)),
        "two halves of a ring": (left[:NUM_RECORDS], right[:NUM_RECORDS]),
    }


def largest_log_ratio(first: Array, second: Array, log_normalizers: tuple[float, float]) -> float:
    """Largest |log q/q′| from both models' tilts at the same points."""
    offset = log_normalizers[0] - log_normalizers[1]
    return float(np.abs(first - second - offset).max())


def audit_pair(models: tuple[TiltedDensity, TiltedDensity], num_draws: int) -> float:
    """A lower bound of ε from draws, scored by the true log ratio."""

    def score(outputs: Array, one: int, other: int) -> Array:
        return models[one].log_tilt(outputs) - models[other].log_tilt(outputs)

    found = audit(lambda i, n: models[i].draw(n), [(0, 1)], num_draws=num_draws, score=score)
    return found.epsilon_lower


def audit_together(models: tuple[TiltedDensity, TiltedDensity], num_sets: int) -> float:
    """A lower bound of ε of `TOGETHER` draws together, scored by the sum of their wide log ratios."""
    wide = [model.window(TOGETHER, TOGETHER, 1, 0.0) for model in models]

    def draw(i: int, n: int) -> Array:
        return np.stack([models[i].draw_together(TOGETHER)[:, 0] for _ in range(n)])

    def score(outputs: Array, one: int, other: int) -> Array:
        points = outputs.reshape(-1, 1)
        ratios = wide[one].log_tilt(points) - wide[other].log_tilt(points)
        return np.asarray(ratios.reshape(outputs.shape).sum(axis=1))

    return audit(draw, [(0, 1)], num_draws=num_sets, score=score).epsilon_lower


def measure_together(epsilon: float, num_sets: int, seed: int) -> dict[str, Any]:
    """One row, of opposite data sets on a line."""
    name, pair = next(iter(opposites(seed).items()))
    models = tuple(FITS["clipped ratio"](x, epsilon) for x in pair)
    return {
        "epsilon": TOGETHER * epsilon,
        "data": name,
        "method": f"clipped ratio, {TOGETHER} draws together",
        "promised": TOGETHER * max(model.epsilon for model in models),
        "audited": round(audit_together((models[0], models[1]), num_sets), 4),
        "draws": num_sets,
    }


def published_tilts(pair: tuple[Array, Array], points: Array, epsilon: float) -> list[Array]:
    """MBDE with the published code's unbounded classifiers, on both data sets of equal size."""
    settings, dim = PublishedSettings(), points.shape[1]
    box = [-_REACH] * dim, [_REACH] * dim
    batches = on_grid(*box, _PUBLISHED_CELLS[dim], settings.batch_size)
    stack = torch.as_tensor(np.stack(pair), dtype=torch.float32)
    density = fit_published(stack, epsilon, settings, batches, seed=0)
    found = []
    for part in np.array_split(points, 16):
        at = torch.as_tensor(part, dtype=torch.float32).expand(2, -1, -1)
        found.append(density.log_tilt(at).double().numpy())
    return list(np.concatenate(found, axis=1))


def measure(
    epsilon: float, num_draws: int, names: Sequence[str], seed: int
) -> Iterator[dict[str, Any]]:
    """Rows of every method on every pair."""
    for name, pair in opposites(seed).items():
        cells = make_grid(StandardNormal(pair[0].shape[1]))
        assert cells is not None
        points = cells.centers()
        inside = (np.abs(points) < _REACH).all(axis=1)
        for method in names:
            row: dict[str, Any] = {"epsilon": epsilon, "data": name, "method": method}
            if method in FITS:
                models = (FITS[method](pair[0], epsilon), FITS[method](pair[1], epsilon))
                tilts = [model.log_tilt(points) for model in models]
                row["promised"] = max(model.epsilon for model in models)
                row["audited"] = round(audit_pair(models, num_draws), 4)
                row["draws"] = num_draws
            elif len(pair[0]) == len(pair[1]):
                tilts = published_tilts(pair, points, epsilon)
                row["promised"] = epsilon
            else:
                continue
            logs = (math.log(cells.mean(np.exp(tilts[0]))), math.log(cells.mean(np.exp(tilts[1]))))
            row["searched"] = largest_log_ratio(tilts[0][inside], tilts[1][inside], logs)
            yield row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0, 5.0])
    parser.add_argument("--methods", nargs="+", default=[*FITS, "MBDE, published"])
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument(
        "--together", action="store_true", help="three draws together, --draws times"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every method at every ε."""
    if chosen.together:
        gather(
            (measure_together(epsilon, chosen.draws, chosen.seed) for epsilon in chosen.epsilons),
            chosen.output,
        )
        return
    rows = (
        row
        for epsilon in chosen.epsilons
        for row in measure(epsilon, chosen.draws, chosen.methods, chosen.seed)
    )
    gather(rows, chosen.output)
