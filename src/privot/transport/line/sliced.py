r"""Sliced Wasserstein distances: the mean over directions of distances on the line.

$$ \mathrm{SW}_p^p(μ, ν) = \int_{‖u‖ = 1} W_p^p(⟨u, ·⟩_\# μ,\ ⟨u, ·⟩_\# ν)\, du $$

is a metric, is computed by sorting, and its sampling error is free of the dimension. The integral
is replaced by a mean over directions: unbiased for $\mathrm{SW}_p^p$ when they are drawn uniformly
and independently of the data. For two point masses $\mathrm{SW}_2^2 = ‖x − y‖^2 / d$.

References:
    Rabin, Peyré, Delon, Bernot, *Wasserstein barycenter and its application to texture mixing*
    (2011). Bonneel, Rabin, Peyré, Pfister, *Sliced and Radon Wasserstein barycenters of measures*
    (2015). Nadjahi et al., *Statistical and topological properties of sliced probability
    divergences* (2020).
"""

from __future__ import annotations

import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.transport.line.one_dimensional import root, transport_cost_1d


def random_directions(dimension: int, num_projections: int, rng: torch.Generator) -> Tensor:
    """Independent uniform directions, the unit columns of a (dimension, num_projections) matrix.

    In double precision and on the generator's device, so that one seed gives one set of directions.

    Examples:
        >>> directions = random_directions(3, 10, torch.Generator().manual_seed(0))
        >>> directions.norm(dim=0).allclose(torch.ones(10, dtype=torch.float64))
        True
    """
    if dimension < 1 or num_projections < 1:
        raise PrivotError(
            f"dimension {dimension} and num_projections {num_projections}: give at least 1 of each"
        )
    shape = (dimension, num_projections)
    normal = torch.randn(shape, generator=rng, dtype=torch.float64, device=rng.device)
    return normal / normal.norm(dim=0)


def sliced_wasserstein(
    x: Tensor,
    y: Tensor,
    directions: Tensor,
    p: float = 2.0,
    weights_x: Tensor | None = None,
    weights_y: Tensor | None = None,
) -> Tensor:
    """SW_p of points x (n, d) and y (m, d) along given directions, differentiable in the points.

    Arguments:
        x: Points (n, d).
        y: Points (m, d), as many as one likes.
        directions: Unit columns (d, k), such as `random_directions` draws; cast to x's type.
        p: Exponent, at least 1.
        weights_x: Probabilities (n,) of the points x; uniform by default.
        weights_y: Probabilities (m,) of the points y; uniform by default.

    Examples:
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
        >>> sliced_wasserstein(x, x + torch.tensor([3.0, 4.0]), torch.eye(2), p=1)
        tensor(3.5000)
    """
    if x.ndim != 2 or y.ndim != 2 or directions.ndim != 2:
        shapes = [tuple(t.shape) for t in (x, y, directions)]
        raise PrivotError(
            f"x, y and directions have shapes {shapes}: give (n, d), (m, d) and (d, k)"
        )
    if not len(directions) == x.shape[1] == y.shape[1]:
        raise PrivotError(
            f"x and y have {x.shape[1]} and {y.shape[1]} coordinates, "
            f"directions {len(directions)}: give as many"
        )
    directions = directions.to(x)
    costs = transport_cost_1d(x @ directions, y @ directions, p, weights_x, weights_y)
    return root(costs.mean(), p)
