r"""Sinkhorn's iterations in the kernel domain, with shifts, absorption and over-relaxation.

With $K_{ij} = e^{(f_i + g_j − C_{ij})/λ}$ for the current potentials, the plan is
$a_i u_i K_{ij} v_j b_j$, and a step is $u ← 1/K(bv)$, $v ← 1/K^⊤(au)$. Three things make this safe:

1. **Shift.** The first potentials are the row minima of C and then the column minima of the rest, so
   that every row and every column of K holds an entry 1.
2. **Absorption.** A scaling that leaves $[e^{−20}, e^{20}]$ moves into the potentials, and K is rebuilt.
   After the first step, a plain step changes a scaling by at most $1/\min(a, b)$ (a column takes all of
   a row's mass at worst), so a scaling never gets far beyond, and no row or column of K vanishes.
   The limit matters: at $e^{60}$ entries of K that were rounded to zero carry mass in the plan, which is
   then wrong while its marginals look right.
3. **Potentials in double precision**, and exponents too, whatever the precision of K.

`solve_compiled` runs the loops of `sweeps`, the rows of large problems shared among threads;
`solve_tensors` the same mathematics by plain tensor operations, on any device, without
over-relaxation (Schmitzer 2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privot.transport.sinkhorn import sweeps
from privot.transport.sinkhorn.problem import Problem
from privot.transport.sinkhorn.row_parts import RowParts

_WIDEST = math.exp(20.0)
_NEGLIGIBLE = 1e-30


@dataclass(frozen=True)
class Iterated:
    """What iterations end with: potentials in double precision, the plan, and its errors.

    `plan` is None, and the errors NaN, where numbers overflowed.
    """

    f: Tensor
    g: Tensor
    plan: Tensor | None
    marginal_error: float
    column_error: float
    iterations: int


def solve_compiled(
    problem: Problem, dtype: torch.dtype, tolerance: float, most: int, start_g: Tensor | None
) -> Iterated:
    """Iterate by compiled loops, on the CPU, with K in single or double precision.

    Arguments:
        problem: Costs in single or double precision.
        dtype: Precision of K.
        tolerance: Row marginal's error to stop at.
        most: Iterations to stop at.
        start_g: Column potentials (m,) to start from.
    """
    cost = problem.cost.detach().contiguous().numpy()
    rows = RowParts.of(*cost.shape)
    a, b = problem.a.double().numpy(), problem.b.double().numpy()
    f, g = np.empty(len(a)), np.empty(len(b))
    if start_g is None:
        finite = rows.shift(cost, f, g)
    else:
        g[:] = start_g.double().numpy()
        finite = rows.fit(cost, g, f)
    plan = torch.empty(cost.shape, dtype=dtype)
    kernel = plan.numpy()
    u, v = np.ones(len(a)), np.ones(len(b))
    scaled = sweeps.Scaled(kernel, a, b, u, v)
    state = np.array([1.0, 0.0, 0.0, 0.0, tolerance, 2.0])
    pace = sweeps.Pace(state, np.full(most + 1, np.inf), tolerance, most, _WIDEST)
    outcome = sweeps.ABSORB if finite else sweeps.BROKEN
    while outcome == sweeps.ABSORB:
        rows.build(cost, f, g, problem.reg, kernel)
        outcome = rows.iterate(scaled, pace)
        if outcome != sweeps.BROKEN:
            f += problem.reg * np.log(u)
            g += problem.reg * np.log(v)
        elif state[5] > 1.0 and np.isfinite(g).all():
            # Over-relaxation, or a far start, overflowed: plain steps go on from where every row and
            # every column of K holds a 1 again.
            state[0], state[3], state[5] = 1.0, 0.0, 1.0
            rows.fit(cost, g, f)
            g[:] = (cost - f[:, None]).min(axis=0)
            outcome = sweeps.ABSORB
        if outcome == sweeps.ABSORB:
            u[:], v[:] = 1.0, 1.0
    potentials = torch.from_numpy(f), torch.from_numpy(g)
    if outcome == sweeps.BROKEN:
        return Iterated(*potentials, None, math.nan, math.nan, int(state[1]))
    row_error, column_error = rows.write_plan(scaled)
    return Iterated(*potentials, plan, row_error, column_error, int(state[1]))


def solve_tensors(
    problem: Problem, dtype: torch.dtype, tolerance: float, most: int, start_g: Tensor | None
) -> Iterated:
    """Iterate by tensor operations, on the device of the costs; arguments as in `solve_compiled`."""
    cost, reg = problem.cost.detach(), problem.reg
    a, b = problem.a.to(dtype), problem.b.to(dtype)
    if start_g is None:
        f = cost.amin(dim=1).double()
        g = (cost - f[:, None]).amin(dim=0)
    else:
        g = start_g.to(cost.device).double()
        f = (cost - g[None, :]).amin(dim=1)
    kernel = _kernel(cost, f, g, reg, dtype)
    u, v = torch.ones_like(a), torch.ones_like(b)
    iterations = 0
    while True:
        row = kernel @ (b * v)
        error = float((a * (u * row - 1)).abs().sum()) if iterations else math.inf
        if not error > tolerance or iterations >= most:
            break
        u = 1 / row
        v = 1 / (kernel.T @ (a * u))
        iterations += 1
        if max(_spread(u), _spread(v)) > math.log(_WIDEST):
            f, g = f + reg * u.double().log(), g + reg * v.double().log()
            kernel = _kernel(cost, f, g, reg, dtype)
            u, v = torch.ones_like(a), torch.ones_like(b)
    f, g = f + reg * u.double().log(), g + reg * v.double().log()
    plan = kernel.mul_((a * u)[:, None]).mul_((b * v)[None, :])
    if not bool(torch.isfinite(f).all() and torch.isfinite(g).all() and torch.isfinite(plan).all()):
        return Iterated(f, g, None, math.nan, math.nan, iterations)
    row_error = float((plan.sum(dim=1, dtype=torch.float64) - problem.a).abs().sum())
    column_error = float((plan.sum(dim=0, dtype=torch.float64) - problem.b).abs().sum())
    return Iterated(f, g, plan, row_error, column_error, iterations)


def _kernel(cost: Tensor, f: Tensor, g: Tensor, reg: float, dtype: torch.dtype) -> Tensor:
    kernel = torch.exp_(((f[:, None] - cost) + g[None, :]).div_(reg).to(dtype))
    return torch.threshold_(kernel, _NEGLIGIBLE, 0.0)


def _spread(scaling: Tensor) -> float:
    low, high = torch.aminmax(scaling)
    return max(abs(float(low.log())), abs(float(high.log())))
