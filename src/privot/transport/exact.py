r"""Exact Wasserstein distances of tensors: by assignment, on the line, and sliced.

**Assignment** gives the distance of two samples of equal size, for p = 1 and 2
(`privot.transport.assignment`).

**On the line**, for a cost that is convex in the difference, such as $|x − y|^p$ with p ≥ 1, the
monotone coupling of two distributions is optimal, and

$$ W_p^p(μ, ν) = \int_0^1 |F_μ^{-1}(t) − F_ν^{-1}(t)|^p\, dt . $$

The quantile functions of samples are step functions. Their levels i/n and j/m divide [0, 1] into at most
n + m − 1 pieces on which the two functions are constant, so the integral is a sum, exact for any sizes.
Levels are merged as the integers i·m and j·n, without rounding.

**Sliced Wasserstein distances** average distances on the line over uniform directions u:

$$ \mathrm{SW}_p^p(μ, ν) = \int_{‖u‖ = 1} W_p^p(⟨u, ·⟩_\# μ,\ ⟨u, ·⟩_\# ν)\, du . $$

SW is a metric. Its computation is by sorting, and its sampling error does not depend on the dimension. A
mean over directions that are drawn uniformly and independently of the data is an unbiased estimate of
$\mathrm{SW}_p^p$. For two point masses $\mathrm{SW}_2^2 = ‖x − y‖^2 / d$.

References:
    Santambrogio, *Optimal transport for applied mathematicians* (2015), section 2.2. Peyré, Cuturi,
    *Computational optimal transport* (2019), section 2.6. Rabin, Peyré, Delon, Bernot, *Wasserstein
    barycenter and its application to texture mixing* (2011). Bonneel, Rabin, Peyré, Pfister, *Sliced and
    Radon Wasserstein barycenters of measures* (2015). Nadjahi et al., *Statistical and topological
    properties of sliced probability divergences* (2020).
"""

import torch
from torch import Tensor

from privot.core.errors import PrivotError
from privot.transport.assignment import assignment


def wasserstein(x: Tensor, y: Tensor, p: int = 2) -> Tensor:
    """Return W_p of samples x and y (n, d), differentiable in x and y; p is 1 or 2.

    Examples:
        >>> x = torch.tensor([[0.0], [1.0]])
        >>> float(wasserstein(x, x.flip(0) + 3.0))
        3.0
    """
    first, second = (points.detach().double().cpu().numpy() for points in (x, y))
    difference = x - y[torch.as_tensor(assignment(first, second, p), device=x.device)]
    if p == 1:
        return difference.abs().sum(dim=1).mean()
    return (difference * difference).sum(dim=1).mean().sqrt()


def transport_cost_1d(x: Tensor, y: Tensor, p: float = 2.0) -> Tensor:
    """Return $W_p^p$ of points on the line, or of each column of points; differentiable in x and y.

    Arguments:
        x: Points (n,), or k problems (n, k) at once.
        y: Points (m,) or (m, k).
        p: Exponent, at least 1.

    Returns:
        A scalar, or (k,) costs, in units of x to the power p. Each takes O((n + m) log(n + m)).

    Raises:
        PrivotError: if p is below 1, or the shapes do not match.

    Examples:
        >>> x, y = torch.tensor([0.0, 1.0]), torch.tensor([5.0, 3.0, 4.0])
        >>> transport_cost_1d(x, y, p=1)
        tensor(3.5000)
    """
    if not p >= 1:
        raise PrivotError(f"p {p} is below 1: sorting is optimal for convex costs only, p >= 1")
    if x.ndim not in (1, 2) or x.shape[1:] != y.shape[1:] or 0 in (len(x), len(y)):
        raise PrivotError(
            f"points have shapes {tuple(x.shape)} and {tuple(y.shape)}: "
            "give (n,) and (m,), or (n, k) and (m, k), with at least one point"
        )
    x, y = x.sort(dim=0).values, y.sort(dim=0).values
    if len(x) == len(y):
        return (x - y).abs().pow(p).mean(dim=0)
    i, j, mass = _merge(len(x), len(y), x)
    return torch.tensordot(mass, (x[i] - y[j]).abs().pow(p), dims=1)


def _merge(n: int, m: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the monotone coupling of n and m equally weighted points: ranks i, ranks j, and masses."""
    jumps_x = torch.arange(1, n + 1, device=like.device) * m
    jumps_y = torch.arange(1, m + 1, device=like.device) * n
    levels = torch.unique(torch.cat([jumps_x, jumps_y]))
    mass = levels.diff(prepend=levels.new_zeros(1)).to(like.dtype) / (n * m)
    # On the piece below a level, a quantile function is the first point whose jump is not below it.
    return torch.searchsorted(jumps_x, levels), torch.searchsorted(jumps_y, levels), mass


def sliced_wasserstein(x: Tensor, y: Tensor, directions: Tensor, p: float = 2.0) -> Tensor:
    """Return SW_p, averaged over given directions, differentiable in x and y.

    Arguments:
        x: Points (n, d).
        y: Points (m, d).
        directions: Unit columns (d, k); they are cast to x's type.
        p: Exponent, at least 1.

    Raises:
        PrivotError: if p is below 1, or the shapes do not match.

    Examples:
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
        >>> sliced_wasserstein(x, x + torch.tensor([3.0, 4.0]), torch.eye(2), p=1)
        tensor(3.5000)
    """
    shapes = [tuple(tensor.shape) for tensor in (x, y, directions)]
    if {len(shape) for shape in shapes} != {2} or not len(directions) == x.shape[1] == y.shape[1]:
        raise PrivotError(f"x, y and directions have shapes {shapes}: give (n, d), (m, d), (d, k)")
    directions = directions.to(x)
    cost = transport_cost_1d(x @ directions, y @ directions, p).mean()
    # At distance zero the gradient is zero, a subgradient, instead of NaN.
    positive = cost > 0
    return torch.where(positive, torch.where(positive, cost, 1.0).pow(1 / p), 0.0 * cost)
