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

from typing import Any

import torch
from torch import Tensor

from privot.transport.problem import Problem
from privot.transport.sinkhorn import Potentials, SinkhornResult, SinkhornSolver


def entropic_cost(
    cost: Tensor,
    reg: float = 1.0,
    solver: SinkhornSolver | None = None,
    start: SinkhornResult | Potentials | None = None,
) -> tuple[Tensor, SinkhornResult]:
    """Entropic cost of uniform weights on the rows and columns of `cost` (n, m), and how it ended.

    The first output is a scalar that can be differentiated with respect to `cost`. `start` is where
    the solver starts, as in `SinkhornSolver.solve`.
    """
    solver = solver or SinkhornSolver()
    result = solver.solve(Problem(cost.detach(), reg), start)
    return _Envelope.apply(cost, result), result


class _Envelope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cost: Tensor, result: SinkhornResult) -> Tensor:
        ctx.plan = result.plan
        return result.value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        plan: Tensor = ctx.plan
        if plan.device.type == "cpu":
            # By NumPy, which leaves the other cores to the loops of the costs' own gradient.
            return torch.from_numpy(plan.numpy() * grads[0].numpy()), None
        return plan * grads[0], None
