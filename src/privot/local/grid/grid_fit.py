"""Fitting a density on a grid to a release of one column of points, of one to three coordinates.

Reports of windows have a likelihood without a slope, so that no generator learns from them; of Laplace
and Gaussian noise the grid is at least as near to the truth as a generator, and faster. A grid's nodes
grow with the power of the coordinates, so beyond three, and of several columns, a generator learns.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from privot.core.errors import PrivotError
from privot.local.grid.channels import GridDensity, GridSampler, grid_channel, has_grid
from privot.local.grid.deconvolution import STRENGTH, average_by_evidence, deconvolve
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.local.settings import FitSettings, Run
from privot.randomizer import Randomizer
from privot.schema import Domain
from privot.training import Patience

_SPACINGS = {1: 256, 2: 128, 3: 32}  # K at most, by dimension


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


def fit_density(releases: Releases, settings: FitSettings, run: Run) -> LocalModel:
    """A model whose sampler is a density on a grid; `steps` bounds those of an ascent.

    Raises:
        PrivotError: if a release is not one that a grid serves, or their domains differ.
    """
    if not all(map(serves_grid, releases.randomizers)):
        raise PrivotError(
            "estimator 'grid' needs reports of one column of points of at most three coordinates, by "
            "windows or noise: use estimator 'auto'"
        )
    start = time.perf_counter()
    randomizer = releases.newest.randomizer
    ((name, mechanism),) = randomizer.mechanisms.items()
    domain = mechanism.report_domain(randomizer.schema.point_column(name).domain)
    _require_domain(releases, name)
    channel = grid_channel(releases.parts, name, _SPACINGS[domain.dimension])
    nodes = allowed_nodes(domain, channel.spacings)
    roughness: float | str
    patience = Patience(settings.minutes)
    how: dict[str, Any] = {"most_steps": settings.steps, "patience": patience}
    # Threads of BLAS wait for each other at every small product: one is up to four times as fast.
    with patience.deferring(), threadpool_limits(1, user_api="blas"):
        if domain.dimension == 1:
            found, roughness = average_by_evidence(channel, **how), "averaged by evidence"
        else:
            found, roughness = deconvolve(channel, nodes, **how), STRENGTH
    density = GridDensity(
        found.weights[: nodes.size].reshape(nodes.shape), float(found.weights[nodes.size :].sum())
    )
    made_with = {
        "estimator": "grid",
        "loss": "penalized likelihood",
        "reason": "one column of few coordinates: its likelihood on a grid is exact",
        "steps": found.steps,
        "nodes": list(nodes.shape),
        "roughness": roughness,
        "num_reports": len(releases),
        "seconds": time.perf_counter() - start,
        **patience.facts(),
    }
    return patience.finish(
        LocalModel.of(releases, GridSampler(density, name, randomizer), made_with)
    )


def _require_domain(releases: Releases, name: str) -> None:
    domains = [part.schema.point_column(name).domain for part in releases.parts]
    if any(domain != domains[-1] for domain in domains):
        raise PrivotError(
            f"column {name!r} has other bounds in another release, so that what lies beyond them was "
            "projected there: fit the releases apart"
        )


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
