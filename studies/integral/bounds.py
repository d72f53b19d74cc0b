r"""What boosting is proven to gain, beside what it gains: equations 8 to 13 of the paper, measured.

    python -m studies integral.bounds ring --seeds 0 1 2 -o bounds_ring.json

Known densities are boosted from N(0, I) with 10 000 records, three rounds and coefficients that spend ε,
without the normalizer, as in the paper.
Everything is measured by quadrature on the grid of `integral.curves`: each round's edges with the
**truth** as P, which is what the theorems speak of; what it gains; and what its edges prove
(`studies.integral.published_gains`). The edges that a curator sees, from
records and draws, stand beside them.

A row is a fit. Its `modes` are the discs of two standard deviations around each component, and all of
them together: the truth's mass P(B), the model's Q(B), and the least that is proven. `fat` is the mass
from which equation 13 would promise half of it; null outside of the high boosting regime.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from privot.core.errors import PrivotError
from privot.integral import BoostSettings
from privot.integral.density import TiltedDensity
from privot.integral.learners import BOUND
from privot.integral.methods import boost_in_rounds
from privot.integral.references import StandardNormal
from studies.common.densities import Array, Grid, kullback_leibler
from studies.common.rows import gather
from studies.integral.curves import records_of, row_of
from studies.integral.published_gains import (
    Edges,
    fat_enough,
    gain,
    gain_limit,
    is_high,
    least_gain,
    least_mass,
    paper_coefficients,
    published_gain,
    total_gain,
)
from studies.integral.targets import TARGETS, Mixture

LOST, ROUNDS = 0.5, 3
_PROPOSALS = 2**16
_REACH = 2.0  # standard deviations of a mode's disc


def measure(target: str, epsilon: float, seed: int) -> dict[str, Any]:
    """One fit: its rounds, its total, its modes."""
    mixture: Mixture = TARGETS[target](seed)
    grid = mixture.grid()
    truth, reference = mixture.density(grid), StandardNormal(mixture.dim)
    records, thetas = records_of(target, seed), paper_coefficients(epsilon, ROUNDS)
    started = time.perf_counter()
    tilt = boost_in_rounds(records, reference, thetas, BoostSettings(seed=seed))
    seconds = time.perf_counter() - started
    before = grid.normalized(reference.log_density(grid.points))[0]
    public, edges, rounds = before, [], []
    rng = np.random.default_rng([seed, 7])
    proposals = reference.sample(_PROPOSALS, rng)
    logs = np.zeros(_PROPOSALS)  # of the model over the reference, at the proposals
    for theta, member in zip(thetas, tilt.members, strict=True):
        c = member(grid.points)
        edges.append(edges_of(grid, truth, before, c))
        at_proposals = member(proposals)
        weights = np.exp(logs)
        seen = Edges(
            float(member(records).mean()) / BOUND,
            -float(np.average(at_proposals, weights=weights)) / BOUND,
        )
        after = grid.normalized(np.log(before) + theta * c)[0]
        rounds.append(round_of(theta, edges[-1], seen))
        rounds[-1]["gain"] = round(gained(grid, truth, before, after), 5)
        before, logs = after, logs + theta * at_proposals
    model = TiltedDensity(reference, tilt, -epsilon / 4, epsilon / 4)
    delta = gained(grid, truth, public, before)
    row = row_of(target, grid, truth, before)
    row |= {
        "method": "boost, unknown normalizer",
        "epsilon": epsilon,
        "seed": seed,
        "seconds": round(seconds, 2),
    }
    row |= totals(model, thetas, edges, kullback_leibler(grid, truth, public))
    least = Edges(min(e.gamma_p for e in edges), min(e.gamma_q for e in edges))
    modes = [
        mode_of(grid, (truth, public, before), inside, delta, model, (thetas, least))
        for inside in discs(mixture, grid)
    ]
    return row | {"rounds": rounds, "modes": modes}


def edges_of(grid: Grid, truth: Array, model: Array, c: Array) -> Edges:
    """A classifier's edges by quadrature."""
    return Edges(grid.integral(truth * c) / BOUND, -grid.integral(model * c) / BOUND)


def gained(grid: Grid, truth: Array, before: Array, after: Array) -> float:
    """KL(p‖before) − KL(p‖after), nats."""
    return grid.integral(truth * (np.log(after) - np.log(before)))


def round_of(theta: float, edges: Edges, seen: Edges) -> dict[str, Any]:
    """A round's edges, true and seen by the curator, and what they prove; null beyond θ = 1."""
    published = published_gain(theta, edges) if theta <= 1 else None
    return {
        "theta": round(theta, 5),
        "gamma_p": round(edges.gamma_p, 5),
        "gamma_q": round(edges.gamma_q, 5),
        "seen_p": round(seen.gamma_p, 5),
        "seen_q": round(seen.gamma_q, 5),
        "proven": round(gain(theta, edges), 5),
        "published": None if published is None else round(published, 5),
    }


def totals(
    model: TiltedDensity, thetas: Sequence[float], edges: Sequence[Edges], start: float
) -> dict[str, Any]:
    """KL(p‖q₀), and what is left of it at most and at least, by each equation."""
    least = Edges(min(e.gamma_p for e in edges), min(e.gamma_q for e in edges))
    published = all(theta <= 1 for theta in thetas)
    found: dict[str, Any] = {
        "kl_reference": round(start, 5),
        "kl_at_most": round(start - total_gain(thetas, edges), 5),
        "kl_at_least": round(start - gain_limit(model), 5),
        "kl_published": None,
        "kl_high_regime": None,
    }
    if published:
        rounds = zip(thetas, edges, strict=True)
        found["kl_published"] = round(start - sum(published_gain(*pair) for pair in rounds), 5)
    if published and is_high(least):
        found["kl_high_regime"] = round(start - least_gain(thetas, least), 5)
    return found


def discs(mixture: Mixture, grid: Grid) -> Iterator[Array]:
    """Nodes within two standard deviations of each component, and of any."""
    distances = np.linalg.norm(grid.points[:, None] - mixture.means, axis=2) / mixture.stddevs
    yield from (distances < _REACH).T
    yield (distances < _REACH).any(axis=1)


def mode_of(
    grid: Grid,
    densities: tuple[Array, Array, Array],
    inside: Array,
    delta: float,
    model: TiltedDensity,
    boosted: tuple[Sequence[float], Edges],
) -> dict[str, Any]:
    """A set's mass by truth and model, and what is proven of the model's."""
    truth, public, learned = (density[inside] for density in densities)
    mass, captured = grid.integral(truth), grid.integral(learned)
    far = grid.integral(truth * np.log(truth / public))
    proven = least_mass(mass, far, delta, gain_limit(model))
    try:
        fat: float | None = round(fat_enough(model.epsilon, *boosted, far, LOST), 5)
    except PrivotError:
        fat = None
    return {
        "mass": round(mass, 5),
        "captured": round(captured, 5),
        "proven": round(proven, 5),
        "fat": fat,
    }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("target", choices=list(TARGETS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0, 5.0, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every ε and seed."""
    pairs = product(chosen.epsilons, chosen.seeds)
    gather((measure(chosen.target, *pair) for pair in pairs), chosen.output)
