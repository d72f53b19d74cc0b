r"""Optimal transport on the line, where sorting solves it.

For a cost that is convex in the difference, such as $|x − y|^p$ with p ≥ 1, the optimal coupling of
two laws on the line is the monotone one, and

$$ W_p^p(μ, ν) = \int_0^1 |F_μ^{-1}(t) − F_ν^{-1}(t)|^p\, dt . $$

The quantile functions of samples are steps. Merging the levels at which either of them jumps cuts
[0, 1] into at most n + m − 1 pieces on which both are constant: the integral is a sum, exact for any
sizes and weights, and of n terms for two samples of n points. Uniform weights have levels i/n and
j/m, which are merged as the integers i·m and j·n: no rounding decides which points meet.

The coupling is piecewise constant in the points, so the gradient is that of the matched gaps.

References:
    Santambrogio, *Optimal transport for applied mathematicians* (2015), section 2.2. Peyré, Cuturi,
    *Computational optimal transport* (2019), section 2.6.
"""

from __future__ import annotations

import torch
from torch import Tensor

from privot.errors import PrivotError


def transport_cost_1d(
    x: Tensor,
    y: Tensor,
    p: float = 2.0,
    weights_x: Tensor | None = None,
    weights_y: Tensor | None = None,
) -> Tensor:
    """$W_p^p$ of points x (n,) and y (m,) on the line, or of each column of (n, k) and (m, k).

    O((n + m) log(n + m)) a column; differentiable in x and y, not in the weights.

    Arguments:
        x: Points (n,), or k problems (n, k) at once.
        y: Points (m,) or (m, k).
        p: Exponent, at least 1.
        weights_x: Probabilities (n,) of the points x; uniform by default.
        weights_y: Probabilities (m,) of the points y; uniform by default.

    Returns:
        A scalar, or (k,) costs, in units of x to the power p.

    Examples:
        >>> x, y = torch.tensor([0.0, 1.0]), torch.tensor([5.0, 3.0, 4.0])
        >>> transport_cost_1d(x, y, p=1)
        tensor(3.5000)
    """
    _check(x, y, p)
    sorted_x, order_x = x.sort(dim=0)
    sorted_y, order_y = y.sort(dim=0)
    if weights_x is None and weights_y is None:
        if len(x) == len(y):
            return (sorted_x - sorted_y).abs().pow(p).mean(dim=0)
        i, j, mass = _merge_uniform(len(x), len(y), x)
        gaps = (sorted_x[i] - sorted_y[j]).abs().pow(p)
        return torch.tensordot(mass, gaps, dims=1)
    levels_x = _levels("weights_x", weights_x, order_x)
    levels_y = _levels("weights_y", weights_y, order_y)
    i, j, mass = _merge(levels_x, levels_y)
    gaps = (sorted_x.gather(0, i) - sorted_y.gather(0, j)).abs().pow(p)
    return (mass.to(gaps.dtype) * gaps).sum(dim=0)


def wasserstein_1d(
    x: Tensor,
    y: Tensor,
    p: float = 2.0,
    weights_x: Tensor | None = None,
    weights_y: Tensor | None = None,
) -> Tensor:
    """$W_p$ of points on the line, in units of x; arguments as for `transport_cost_1d`.

    Where the distance is zero, its gradient is taken to be zero.

    Examples:
        >>> wasserstein_1d(torch.tensor([0.0, 4.0]), torch.tensor([7.0, 3.0]))
        tensor(3.)
    """
    return root(transport_cost_1d(x, y, p, weights_x, weights_y), p)


def root(cost: Tensor, p: float) -> Tensor:
    """The p-th root of costs ≥ 0, with gradient zero (a subgradient) instead of NaN at zero."""
    positive = cost > 0
    return torch.where(positive, torch.where(positive, cost, 1.0).pow(1 / p), 0.0 * cost)


def _merge_uniform(n: int, m: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Ranks i, j that meet and their mass, for n and m points of equal weights."""
    jumps_x = torch.arange(1, n + 1, device=like.device) * m
    jumps_y = torch.arange(1, m + 1, device=like.device) * n
    levels = torch.unique(torch.cat([jumps_x, jumps_y]))
    mass = levels.diff(prepend=levels.new_zeros(1)).to(like.dtype) / (n * m)
    # The piece that ends at a level belongs to the first point whose jump is not before it.
    return torch.searchsorted(jumps_x, levels), torch.searchsorted(jumps_y, levels), mass


def _merge(levels_x: Tensor, levels_y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for cumulative weights (n, k) and (m, k), column by column."""
    columns_x, columns_y = (t.movedim(0, -1).contiguous() for t in (levels_x, levels_y))
    levels = torch.cat([columns_x, columns_y], dim=-1).sort(dim=-1).values
    mass = levels.diff(dim=-1, prepend=torch.zeros_like(levels[..., :1]))
    i, j = torch.searchsorted(columns_x, levels), torch.searchsorted(columns_y, levels)
    return i.movedim(-1, 0), j.movedim(-1, 0), mass.movedim(-1, 0)


def _levels(name: str, weights: Tensor | None, order: Tensor) -> Tensor:
    """Cumulative weights in the order of the points, in double precision, the last exactly 1."""
    n = len(order)
    if weights is None:
        weights = torch.full((n,), 1.0 / n, device=order.device, dtype=torch.float64)
    if weights.shape != (n,):
        raise PrivotError(f"{name} has shape {tuple(weights.shape)}: give ({n},)")
    if not bool((weights >= 0).all()) or abs(float(weights.sum()) - 1) > 1e-4:
        raise PrivotError(
            f"{name} adds up to {float(weights.sum()):.6g}, smallest {float(weights.min())}: "
            "give probabilities"
        )
    levels = weights.detach().double()[order].cumsum(dim=0)
    return levels / levels[-1:]


def _check(x: Tensor, y: Tensor, p: float) -> None:
    if not p >= 1:
        raise PrivotError(f"p {p} is below 1: sorting is optimal for convex costs only, p >= 1")
    if x.ndim not in (1, 2) or x.shape[1:] != y.shape[1:] or 0 in (len(x), len(y)):
        raise PrivotError(
            f"points have shapes {tuple(x.shape)} and {tuple(y.shape)}: "
            "give (n,) and (m,), or (n, k) and (m, k), with at least one point"
        )
