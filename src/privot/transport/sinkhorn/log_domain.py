r"""Sinkhorn's iterations in the log domain: slow, without a kernel, the reference of the tests.

$$ f_i ← −λ \log \sum_j b_j e^{(g_j − C_{ij})/λ}, \qquad
g_j ← −λ \log \sum_i a_i e^{(f_i − C_{ij})/λ} . $$

Always in double precision. Two `logsumexp` cost ten times as much as two products with a kernel.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privot.transport.sinkhorn.kernel_domain import Iterated
from privot.transport.sinkhorn.problem import Problem


def solve_log(problem: Problem, tolerance: float, most: int, start_g: Tensor | None) -> Iterated:
    """Iterate until the row marginal's error is within the tolerance, or `most` times."""
    reg, a, b = problem.reg, problem.a.double(), problem.b.double()
    scores = -problem.cost.detach().double() / reg
    g = torch.zeros_like(b) if start_g is None else start_g.to(b) / reg
    f = torch.zeros_like(a)
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
    if not bool(torch.isfinite(f).all() and torch.isfinite(g).all()):
        return Iterated(reg * f, reg * g, None, math.nan, math.nan, iterations)
    plan = torch.exp(scores + f[:, None] + g[None, :]) * a[:, None] * b[None, :]
    errors = float((plan.sum(1) - a).abs().sum()), float((plan.sum(0) - b).abs().sum())
    return Iterated(reg * f, reg * g, plan, *errors, iterations)
