"""Fitting a density on a grid to a release of one column of points, of one to three coordinates.

Reports of windows have a likelihood without a slope, so that no generator learns from them; of Laplace
and Gaussian noise the grid is at least as near to the truth as a generator, and faster. A grid's nodes
grow with the power of the coordinates, so beyond three, and of several columns, a generator learns.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.local.grid.channels import grid_channel, has_grid
from privot.local.grid.deconvolution import STRENGTHS, deconvolve
from privot.local.grid.density import GridDensity, GridSampler
from privot.local.model import LocalModel
from privot.local.settings import FitSettings, Run
from privot.release import Randomizer, Release
from privot.schema import Domain

_SPACINGS = {1: 1024, 2: 128, 3: 32}  # K at most, by dimension


def serves_grid(randomizer: Randomizer) -> bool:
    """Whether reports are of one column of points, few of whose coordinates are noised on their own."""
    if randomizer.joint is not None or len(randomizer.mechanisms) != 1:
        return False
    ((name, mechanism),) = randomizer.mechanisms.items()
    column = randomizer.schema.columns[name]
    if column.domain is None or column.declares_codes or column.image_shape is not None:
        return False
    few = mechanism.report_domain(column.domain).dimension in _SPACINGS
    return few and has_grid(mechanism.point_form(column))


def fit_density(release: Release, settings: FitSettings, run: Run) -> LocalModel:
    """A model whose sampler is a density on a grid; `steps` bounds those of EM.

    Raises:
        PrivotError: if the release is not one that a grid serves.
    """
    if not serves_grid(release.randomizer):
        raise PrivotError(
            "estimator 'grid' needs reports of one column of points of at most three coordinates, by "
            "windows or noise: use estimator 'auto'"
        )
    start = time.perf_counter()
    ((name, mechanism),) = release.randomizer.mechanisms.items()
    domain = mechanism.report_domain(release.schema.point_column(name).domain)
    channel = grid_channel(release, name, _SPACINGS[domain.dimension])
    nodes = allowed_nodes(domain, channel.spacings)
    found = deconvolve(channel, nodes, most_steps=settings.steps)
    density = GridDensity(
        found.weights[: nodes.size].reshape(nodes.shape), float(found.weights[nodes.size :].sum())
    )
    made_with = {
        "estimator": "grid",
        "loss": "penalized likelihood",
        "reason": "one column of few coordinates: its likelihood on a grid is exact",
        "steps": found.steps,
        "nodes": list(nodes.shape),
        "roughness": STRENGTHS[domain.dimension],
        "num_reports": len(release),
        "seconds": time.perf_counter() - start,
    }
    return LocalModel(GridSampler(density, name, release.randomizer), release.randomizer, made_with)


def allowed_nodes(domain: Domain, spacings: int) -> NDArray[np.bool_]:
    """Which nodes of the grid (K+1, …, K+1) are in the unit domain, or no farther than the next node.

    Examples:
        >>> from privot.schema import Box
        >>> allowed_nodes(Box((0.0,), (9.0,)), 2)
        array([ True,  True,  True])
    """
    axis = np.linspace(-1, 1, spacings + 1)
    grid = np.stack(np.meshgrid(*[axis] * domain.dimension, indexing="ij"), axis=-1)
    points = grid.reshape(-1, domain.dimension)
    outside = np.abs(domain.unit.project(points) - points).max(axis=1)
    return np.asarray((outside <= 2 / spacings).reshape(grid.shape[:-1]))
