r"""The entropic transport cost as a differentiable function of the ground costs.

By the envelope theorem, the derivative of

$$ \mathrm{OT}_λ(C) = \min_π\, ⟨π, C⟩ + λ\, \mathrm{KL}(π ‖ a ⊗ b) $$

with respect to $C$ is the optimal plan π itself. Nothing is propagated back through Sinkhorn's
iterations: the plan is held fixed and the gradient of $⟨π, C⟩$ taken, exact at the optimum.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from privot.transport.sinkhorn.solver import Problem, SinkhornResult, SinkhornSolver


def entropic_cost(
    cost: Tensor, reg: float = 1.0, solver: SinkhornSolver | None = None
) -> tuple[Tensor, SinkhornResult]:
    """Entropic cost of uniform weights on the rows and columns of `cost` (n, m), and how it ended.

    The first output is a scalar that can be differentiated with respect to `cost`.
    """
    solver = solver or SinkhornSolver()
    result = solver.solve(Problem(cost.detach(), reg))
    return _Envelope.apply(cost, result.plan, result.value), result


def entropic_cost_of_rows(
    cost: Tensor,
    first: int,
    gather: Callable[[Tensor], Tensor],
    solver: SinkhornSolver,
) -> tuple[Tensor, SinkhornResult]:
    """The entropic cost of a problem of which each process holds some rows.

    The problem is the whole one: `gather` puts the processes' rows together, every process solves it,
    and the gradient with respect to its own rows is its own part of the one plan. So the sum of the
    processes' gradients is that of `entropic_cost` on the whole matrix.

    Arguments:
        cost: This process's rows (n/p, m).
        first: Place of their first in the whole matrix.
        gather: Rows of all processes, in order, from those of each.
        solver: Settings of the solver.
    """
    result = solver.solve(Problem(gather(cost.detach()), 1.0))
    plan = result.plan[first : first + len(cost)]
    return _Envelope.apply(cost, plan, result.value), result


class _Envelope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cost: Tensor, plan: Tensor, value: Tensor) -> Tensor:
        ctx.plan = plan
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        plan: Tensor = ctx.plan
        if plan.device.type == "cpu":
            # By NumPy, which leaves the other cores to the loops of the costs' own gradient.
            return torch.from_numpy(plan.numpy() * grads[0].numpy()), None, None
        return plan * grads[0], None, None
