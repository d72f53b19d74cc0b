r"""The Sinkhorn divergence: the entropic cost without its bias, a distance between laws.

$$ S_λ(α, β) = \mathrm{OT}_λ(α, β) − \tfrac12 \mathrm{OT}_λ(α, α) − \tfrac12 \mathrm{OT}_λ(β, β) $$

The entropic cost of a law against itself is not zero, and its minimizer over α is not β: for the
cost matched to a noise, it is the law whose noised version is β. The two self-terms take that
away. Where $e^{−c/λ}$ is a positive definite kernel, as for `squared_euclidean` and `manhattan`,
$S_λ ≥ 0$, convex in each argument, and zero only if α = β. So a generator trained on it learns the
law it is shown, *with* the privacy noise: a rival and a measure, not the loss.

It goes to the unregularized cost $\min_π ⟨π, C⟩$ as λ → 0, and as λ → ∞ to
$E c(X, Y) − \frac12 E c(X, X′) − \frac12 E c(Y, Y′)$, for squares the squared distance of the means.

References:
    Genevay, Peyré, Cuturi, *Learning generative models with Sinkhorn divergences* (2018). Feydy,
    Séjourné, Vialard, Amari, Trouvé, Peyré, *Interpolating between optimal transport and MMD using
    Sinkhorn divergences* (2019), theorem 1.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from privot.transport import SinkhornResult, SinkhornSolver, entropic_cost, squared_euclidean


def sinkhorn_divergence(
    x: Tensor,
    y: Tensor,
    ground: Callable[[Tensor, Tensor], Tensor] = squared_euclidean,
    reg: float = 1.0,
    solver: SinkhornSolver | None = None,
) -> tuple[Tensor, tuple[SinkhornResult, SinkhornResult, SinkhornResult]]:
    """$S_λ$ of points x (n, d) and y (m, d) of equal weights, and how its three problems ended.

    Differentiable in x and y. Each of the three terms is off by what its marginal error allows, so
    near x = y the sum can come out slightly negative: ask the solver for a smaller tolerance there.

    Arguments:
        x: Points (n, d).
        y: Points (m, d).
        ground: Makes the costs (n, m) of two clouds; `squared_euclidean` or `manhattan`.
        reg: Entropic weight λ > 0, in units of the cost.
        solver: Solves each of the three problems.

    Returns:
        The divergence, a scalar in units of the cost; and the results for (x, y), (x, x), (y, y).
    """
    cross, result = entropic_cost(ground(x, y), reg, solver)
    self_x, result_x = entropic_cost(ground(x, x), reg, solver)
    self_y, result_y = entropic_cost(ground(y, y), reg, solver)
    return cross - self_x / 2 - self_y / 2, (result, result_x, result_y)
