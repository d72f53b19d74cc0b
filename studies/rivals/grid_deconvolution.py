r"""Maximum-likelihood deconvolution on a grid, by expectation maximization: the oracle in the plane.

A density constant on the m × m cells of a two-dimensional box, with weights p, has the likelihood
$\prod_i \sum_{kl} p_{kl} f(y_i | c_{kl})$, concave in p. Noise that is independent by coordinate
makes $f(y_i|c_{kl}) = A_{ik} B_{il}$, so that a step of EM,

$$ p_{kl} ← p_{kl} \frac1n \sum_i \frac{A_{ik} B_{il}}{(A p B^⊤)_{ii}} , $$

is a few matrix products. EM converges slowly here (deconvolution is ill-conditioned), so two steps
are extrapolated by SQUAREM, and the extrapolation is kept only if the likelihood rises.

It needs a grid, so it ends at two or three dimensions; there it is what a generator should match.

References:
    Dempster, Laird, Rubin (1977). Varadhan, Roland, *Simple and globally convergent methods for
    accelerating the convergence of any EM algorithm* (2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.local.likelihood.cost import LikelihoodCost
from privot.release import Release
from privot.schema import Box, from_unit


@dataclass(frozen=True)
class GridDensity:
    """Cell probabilities on [−1, 1]², and the box that these unit coordinates stand for."""

    weights: np.ndarray
    domain: Box
    log_likelihood: float
    iterations: int

    def sample(self, num_rows: int, seed: int) -> np.ndarray:
        """Points (num_rows, 2) in the box's own units, uniform within their cell."""
        rng = np.random.default_rng(seed)
        size = len(self.weights)
        p = self.weights.ravel()
        cell = rng.choice(p.size, size=num_rows, p=p / p.sum())
        corner = np.stack([cell // size, cell % size], axis=1)
        return from_unit(self.domain, (corner + rng.random((num_rows, 2))) / size * 2 - 1)


@torch.no_grad()
def fit_grid(
    release: Release, name: str, size: int = 64, iterations: int = 1000, squarem: bool = True
) -> GridDensity:
    """Most likely density of one two-dimensional box column, given its reports.

    Arguments:
        release: Reports with additive noise.
        name: The vector column.
        size: Cells along each side.
        iterations: Number of EM steps (an extrapolation counts its own).
        squarem: Whether to extrapolate.

    Raises:
        PrivotError: if the column is not a vector of two coordinates in a box.
    """
    column = release.schema.columns.get(name)
    domain = getattr(column, "domain", None)
    if not isinstance(domain, Box) or domain.dimension != 2:
        raise PrivotError(f"column {name!r} is not a box of two coordinates: name one that is")
    first, second = _likelihoods(release, name, size)

    def step(p: Tensor) -> tuple[Tensor, float]:
        density = ((first @ p) * second).sum(dim=1)
        updated = p * ((first / density[:, None]).T @ second) / len(first)
        return updated, float(density.double().log().mean())

    p = torch.full((size, size), 1.0 / size**2)
    done, likelihood = 0, -np.inf
    while done < iterations:
        once, likelihood = step(p)
        if not squarem or iterations - done < 3:
            p, done = once, done + 1
            continue
        twice, _ = step(once)
        change, curve = once - p, twice - 2 * once + p
        stride = float(change.norm() / curve.norm().clamp_min(1e-12))
        leap = (p + 2 * stride * change + stride**2 * curve).clamp_min(1e-12)
        after, leapt = step(leap / leap.sum())
        p, done = (after if leapt > likelihood else twice), done + 3
    return GridDensity(p.double().numpy(), domain, likelihood, done)


def _likelihoods(release: Release, name: str, size: int) -> tuple[Tensor, Tensor]:
    """f(y_ij | center k) for each coordinate j, scaled by a factor that depends on i only."""
    model = LikelihoodCost(release.randomizer)
    channel, reports = model.channels[name], model.read(release, torch.device("cpu"))
    values, mask = reports.values[name], reports.reported[name]
    if mask is not None:
        values = values[mask > 0]
    centers = ((torch.arange(size) + 0.5) / size * 2 - 1)[:, None]
    costs = [channel.cost(centers, values[:, j : j + 1]).T for j in (0, 1)]
    first, second = (torch.exp(c.amin(dim=1, keepdim=True) - c) for c in costs)
    return first, second
