"""Fit of a density on a grid to releases of one column of points with one to three coordinates.

Window reports can only be fitted on a grid: their likelihood is piecewise constant in the point, so it
has no gradient that a generator could follow. For Laplace and Gaussian noise a grid is at least as
accurate as a generator, and faster. The number of nodes grows exponentially with the number of
coordinates, so points with more coordinates are fitted by a generator.
"""

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from privot.core.errors import PrivotError
from privot.local.deconvolution import STRENGTH, average_by_evidence, deconvolve
from privot.local.grid_channels import GridDensity, GridSampler, grid_channel
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.mechanisms.forms import SPACINGS
from privot.randomizer.reports.counts import grid_form
from privot.schema import Domain
from privot.training import FitMonitor


def fit_density(releases: Releases, max_steps: int | None, monitor: FitMonitor) -> LocalModel:
    """Fit a model whose sampler is a density on a grid, with at most `max_steps` steps of each ascent.

    Raises:
        PrivotError: if a release cannot be fitted on a grid, or the domains of releases differ.
    """
    if None in map(grid_form, releases.randomizers):
        raise PrivotError(
            "estimator 'grid' needs reports of one column of points of at most three coordinates, by "
            "windows or noise: use estimator 'auto'"
        )
    randomizer = releases.newest.randomizer
    ((name, mechanism),) = randomizer.mechanisms.items()
    domains = [part.schema.point_column(name).domain for part in releases.parts]
    if any(domain != domains[-1] for domain in domains):
        raise PrivotError(
            f"column {name!r} has other bounds in another release, so that what lies beyond them was "
            "projected there: fit the releases apart"
        )
    domain = mechanism.report_domain(domains[-1])
    channel = grid_channel(releases.counts, SPACINGS[domain.dimension])
    nodes = allowed_nodes(domain, channel.spacings)
    roughness: float | str = STRENGTH
    # BLAS threads synchronize at every small product: one thread is up to four times as fast.
    with threadpool_limits(1, user_api="blas"):
        if domain.dimension == 1:
            fit = average_by_evidence(channel, max_steps=max_steps, monitor=monitor)
            roughness = "averaged by evidence"
        else:
            fit = deconvolve(channel, nodes, max_steps=max_steps, monitor=monitor)
    made_with = {
        "estimator": "grid",
        "loss": "penalized likelihood",
        "reason": "one column of few coordinates: its likelihood on a grid is exact",
        "steps": fit.steps,
        "nodes": list(nodes.shape),
        "roughness": roughness,
        "num_reports": len(releases),
    }
    sampler = GridSampler(GridDensity.of(fit.weights, nodes.shape), name, randomizer)
    return LocalModel.of(releases, sampler, made_with)


def allowed_nodes(domain: Domain, spacings: int) -> NDArray[np.bool_]:
    """Return the mask (K+1, …, K+1) of nodes within one of K spacings of the unit domain.

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
