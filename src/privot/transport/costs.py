r"""Ground costs between two clouds of points, as matrices that autograd can differentiate.

`manhattan` is $‖x − y‖_1$; `squared_euclidean` is $‖x − y‖_2^2$, without the factor ½ that some
libraries hide. Matched to noise of density $f(n) ∝ e^{−‖n‖_1/b}$ or $e^{−‖n‖_2^2/(2σ^2)}$, the
entropic weights are $b$ and $2σ^2$.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Up to this many coordinates, summing |x_j − y_j| coordinate by coordinate is faster than `cdist`.
_FEW_COORDINATES = 8


def manhattan(x: Tensor, y: Tensor) -> Tensor:
    """Costs $‖x_i − y_j‖_1$ of points x (n, d) and y (m, d), shape (n, m)."""
    if x.shape[1] > _FEW_COORDINATES:
        return torch.cdist(x, y, p=1)
    cost = (x[:, 0, None] - y[None, :, 0]).abs()
    for j in range(1, x.shape[1]):
        cost = cost + (x[:, j, None] - y[None, :, j]).abs()
    return cost


def squared_euclidean(x: Tensor, y: Tensor) -> Tensor:
    """Costs $‖x_i − y_j‖_2^2$ of points x (n, d) and y (m, d), shape (n, m).

    Expanded into one matrix product, after centering on the mean of y: the square of a common
    offset would otherwise cancel digits.
    """
    center = y.mean(dim=0, keepdim=True).detach()
    x, y = x - center, y - center
    squares = (x * x).sum(dim=1, keepdim=True) + (y * y).sum(dim=1)[None]
    return (squares - 2 * (x @ y.T)).clamp_min(0)
