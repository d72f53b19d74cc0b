r"""How far windows are from the best sets of places, for a linear estimate on a small grid.

    python -m studies reports.designs --epsilon .5 1 2 -o docs/results/best_report/designs.json

A report is a set S of the cells of a k × k grid over [−1, 1]², from a public family, with

$$ P(S | x) = w_S v_S(x), \qquad v_S = 1 + (e^ε − 1) 1_S, \qquad \sum_S w_S v_S(x) = 1
\text{ for every } x ; $$

every ε-private channel of extremal reports is of this form (Kairouz, Oh, Viswanath 2016). At the
uniform law n people's reports have the Fisher information
$J(w) = n \sum_S w_S v_S v_S^⊤ / \bar v_S$, with the mean $\bar v_S$ over cells. Changes of the density
have the prior precision Λ of clustered places, $(1 + ω^2)/s$ for a wave of frequency ω, s = .3
(`privot.mechanisms.choice.planned_error`). The expected square of the dual Sobolev norm, which
approximates W₂² for small changes, is

$$ E(w) = \operatorname{tr} \big( \operatorname{diag}(ω^{−2}) (J(w) + Λ)^{-1} \big) , $$

convex in w. **Windows** are disks of one radius around the report's cell, whose centers go on beyond the
square by the radius; `corners` are the reports of that square which no record is near. **The optimum**
is over weights of disks of all radii and centers, half planes and complements, by sequential quadratic
programming over the orbits of the square's symmetries.

References:
    Kairouz, Oh, Viswanath, *Extremal mechanisms for local differential privacy* (2016).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy

from privot.mechanisms.window_cells import window_plan
from privot.schema.domains import Array
from studies.common.rows import Row, gather

_CELLS = 8
_PRIOR = 0.3
_RADII = (0.3, 0.45, 0.6, 0.75, 0.9, 1.1, 1.35, 1.7, 2.1)


@dataclass(frozen=True, eq=False)
class Designs:
    """Errors of mixtures of sets on a grid of k × k cells."""

    epsilon: float
    people: int
    cells: int = _CELLS

    @cached_property
    def middles(self) -> Array:
        """Middles of the cells (k², 2)."""
        axis = (np.arange(self.cells) + 0.5) * 2 / self.cells - 1
        return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)

    @cached_property
    def _waves(self) -> tuple[Array, Array]:
        """Cosines (k², k² − 1) of unit length and their squared frequencies."""
        axis = scipy.fft.idct(np.eye(self.cells), axis=0, norm="ortho")
        square = (np.arange(self.cells) * np.pi / 2) ** 2
        waves, squares = np.kron(axis, axis), np.add.outer(square, square).ravel()
        return waves[:, 1:], squares[1:]

    def sent(self, weights: Array, sets: Array) -> tuple[float, Array, Array]:
        """The error, its gradient in the weights (sets,), and the probabilities' sums (k²,)."""
        waves, squares = self._waves
        factors = 1 + np.expm1(self.epsilon) * sets  # (sets, k²)
        means = factors.mean(axis=1)
        seen = factors @ waves / self.cells  # of a law 1 + Σ c_k φ_k, φ_k of unit mean square
        information = self.people * (seen.T * (weights / means)) @ seen
        precision = (1 + squares) / _PRIOR
        covariance = np.linalg.inv(information + np.diag(precision))
        error = float((np.diag(covariance) / squares).sum())
        moved = (covariance / squares) @ covariance  # Σ M Σ with M = diag(1/ω²)
        gradient = -self.people * np.einsum("si,ij,sj->s", seen, moved, seen) / means
        return error, gradient, weights @ factors

    def windows(self, radius: float) -> Array:
        """Disks (sets, k²) of one radius around all report cells that reach the square."""
        reach = int(np.ceil(radius * self.cells / 2))
        axis = (np.arange(-reach, self.cells + reach) + 0.5) * 2 / self.cells - 1
        centers = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        return self._disks(centers, radius)

    def window_error(self, radius: float, *, corners: bool = False) -> float:
        """Error of windows of one radius, with or without reports that no record is near."""
        sets = self.windows(radius)
        sets = sets if corners else sets[sets.any(axis=1)]
        weight = 1 / (len(sets) + np.expm1(self.epsilon) * sets.sum(axis=0).max())
        return self.sent(np.full(len(sets), weight), sets)[0]

    def _disks(self, centers: Array, radius: float) -> Array:
        lengths = np.linalg.norm(centers[:, None] - self.middles, axis=-1)
        return np.asarray((lengths <= radius).astype(float))

    def family(self) -> Array:
        """Distinct sets (sets, k²): disks of all radii, half planes, and complements."""
        found = [self.windows(radius) for radius in _RADII]
        angles = np.arange(16) * np.pi / 8
        along = self.middles @ np.stack([np.cos(angles), np.sin(angles)])
        for cut in np.linspace(-0.9, 0.9, 13):
            found.append((cut < along.T).astype(float))
        sets = np.concatenate(found)
        sets = np.unique(np.concatenate([sets, 1 - sets]), axis=0)
        share = sets.mean(axis=1)
        return sets[(share > 0.02) & (share < 0.9)]

    def orbits(self, sets: Array) -> list[Array]:
        """Sets, grouped by the symmetries of the square."""
        grids = sets.reshape(-1, self.cells, self.cells)
        turned = [np.rot90(each, k, (1, 2)) for each in (grids, grids[:, ::-1]) for k in range(4)]
        keys = np.stack([np.packbits(t.reshape(len(sets), -1) > 0, axis=1) for t in turned])
        names = [min(bytes(keys[i, j]) for i in range(8)) for j in range(len(sets))]
        groups: dict[bytes, list[int]] = {}
        for j, name in enumerate(names):
            groups.setdefault(name, []).append(j)
        return [sets[group] for group in groups.values()]


def optimum(designs: Designs) -> tuple[float, list[tuple[float, Array]]]:
    """The least error over weights of a family, and the weights of its orbits with one set of each."""
    orbits = designs.orbits(designs.family())
    sets, sizes = np.concatenate(orbits), [len(orbit) for orbit in orbits]
    starts = np.cumsum([0, *sizes[:-1]])
    spread = np.repeat(1 / np.array(sizes), sizes)
    # Sums of probabilities of one cell of each orbit of cells: the others follow by symmetry.
    half = designs.cells // 2
    own = [i * designs.cells + j for i in range(half) for j in range(i, half)]
    factors = 1 + np.expm1(designs.epsilon) * sets
    law = np.add.reduceat(factors * spread[:, None], starts, axis=0)[:, own].T

    def error(weights: Array) -> tuple[float, Array]:
        value, gradient, _ = designs.sent(np.repeat(weights, sizes) * spread, sets)
        return 1e3 * value, 1e3 * np.add.reduceat(gradient * spread, starts)

    start = scipy.optimize.nnls(law, np.ones(len(own)))[0]
    mixed = np.full(len(sizes), 1e-4) + start
    found = scipy.optimize.minimize(
        error,
        mixed,
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * len(sizes),
        constraints={"type": "eq", "fun": lambda w: law @ w - 1, "jac": lambda _: law},
        options={"maxiter": 300, "ftol": 1e-6},
    )
    weights = found.x
    order = np.argsort(-weights)
    return float(found.fun) / 1e3, [(float(weights[i]), orbits[i][0]) for i in order]


def compare(chosen: argparse.Namespace) -> Iterator[Row]:
    """A row for each ε: root errors of windows by radius, and of the optimum."""
    for epsilon in chosen.epsilon:
        designs = Designs(epsilon, chosen.people)
        common = {"epsilon": epsilon, "people": chosen.people, "cells": _CELLS}
        steps, cells = window_plan(2, epsilon)
        for radius in sorted({*_RADII, round(2 * cells / steps, 3)}):
            for corners in (False, True):
                error = designs.window_error(radius, corners=corners)
                row = {"radius": radius, "corners": corners, "error": round(error**0.5, 5)}
                yield common | row
        least, sets = optimum(designs)
        shares = [[round(weight, 4), int(each.sum())] for weight, each in sets[:8]]
        yield common | {"optimum": round(least**0.5, 5), "sets": shares}


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Command line."""
    gather(compare(chosen), chosen.output)
