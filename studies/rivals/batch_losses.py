r"""Losses of a batch that the entropic papers compare with: two learn the noise, one is slow.

Points $x_i = G_θ(z_i)$ against reports $y_j = x_j^* + n_j$, b of each:

 - **unregularized** $W_p^p(x, y)$, by exact assignment: zero only where $P_G = P_Y$, the noisy law;
 - **Sinkhorn divergence** at the matched weight: zero only where $P_G = P_Y$ as well, since the two
   self-terms take away the very bias that removes noise;
 - **noisy Wasserstein** $W_p^p(x + n', y)$ with fresh noise of the mechanism: zero only where
   $P_G * f = P_Y$, so it has the right answer; but the empirical distance converges like $n^{-1/d}$,
   and a batch's says little in hundreds of dimensions.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), sections IV-C and IV-F.
"""

from __future__ import annotations

from torch import Tensor

from privot.transport import (
    SinkhornSolver,
    manhattan,
    sinkhorn_divergence,
    squared_euclidean,
    wasserstein,
)


def unregularized(x: Tensor, y: Tensor, p: int) -> Tensor:
    """$W_p^p$ of points x and y (b, d), ℓ1 for p = 1 and squared Euclidean for p = 2.

    Examples:
        >>> import torch
        >>> float(unregularized(torch.zeros(3, 2), torch.ones(3, 2), p=1))
        2.0
    """
    return wasserstein(x, y, p) ** p


def debiased(x: Tensor, y: Tensor, p: int, reg: float, solver: SinkhornSolver) -> Tensor:
    """Sinkhorn divergence with the cost of `unregularized` and entropic weight `reg` in its units."""
    ground = manhattan if p == 1 else squared_euclidean
    value, _ = sinkhorn_divergence(x, y, ground, reg, solver)
    return value


def noisy_wasserstein(x: Tensor, fresh_noise: Tensor, y: Tensor, p: int) -> Tensor:
    """$W_p^p$ of the points x privatized once more (b, d) and the reports y (b, d)."""
    return wasserstein(x + fresh_noise, y, p) ** p
