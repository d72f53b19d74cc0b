r"""Sinkhorn's iterations in the log domain: slow, and without a kernel, a reference.

$$ f_i ← −λ \log \sum_j b_j e^{(g_j − C_{ij})/λ}, \qquad
g_j ← −λ \log \sum_i a_i e^{(f_i − C_{ij})/λ} . $$

Always in double precision. Two `logsumexp` cost ten times as much as two products with a kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from privot.transport import Problem


@dataclass(frozen=True)
class Reference:
    """Potentials, plan, and the error of its rows."""

    f: Tensor
    g: Tensor
    plan: Tensor
    value: Tensor
    marginal_error: float
    iterations: int


def solve_log(problem: Problem, tolerance: float, most: int = 100_000) -> Reference:
    """Iterate until the row marginal's error is within the tolerance, or `most` times."""
    reg, a, b = problem.reg, problem.a.double(), problem.b.double()
    scores = -problem.cost.detach().double() / reg
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    iterations = 0
    while True:
        fitted = -torch.logsumexp(scores + (g + b.log())[None, :], dim=1)
        # π's row sums are a·exp(f − fitted): the new f would make them exact.
        error = float((a * torch.expm1(f - fitted)).abs().sum()) if iterations else math.inf
        if not error > tolerance or iterations >= most:
            break
        f = fitted
        g = -torch.logsumexp(scores + (f + a.log())[:, None], dim=0)
        iterations += 1
    plan = torch.exp(scores + f[:, None] + g[None, :]) * a[:, None] * b[None, :]
    error = float((plan.sum(1) - a).abs().sum())
    return Reference(reg * f, reg * g, plan, reg * (a @ f + b @ g), error, iterations)
