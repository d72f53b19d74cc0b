"""Privot's steps, the references and the physical floors of privot_benchmarks/solver.py."""

from collections.abc import Callable
from dataclasses import replace

import numba
import numpy as np
import torch
from solver_rivals import Step
from solver_settings import DENSE_UP_TO, Setting, certified_gradient, reference_gradient
from torch import Tensor

from privot.transport import SinkhornSolver, entropic_cost, manhattan, squared_euclidean
from privot.transport.ground import product
from studies.full_batch.solver import FullBatchResult, full_batch_cost

REFERENCE_ERROR = 1e-6
# From loose to tight: the knob of our steps, as rivals have theirs.
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
_GROUNDS = {1: manhattan, 2: squared_euclidean}


def step(setting: Setting, tolerance: float) -> Step:
    """One step: full batch in the plane, a matrix of costs elsewhere."""
    solver = SinkhornSolver(tolerance=tolerance)
    if setting.matrix is not None:
        return lambda: _from_matrix(setting.matrix, setting.reg, solver)
    if setting.x.shape[1] <= 2:
        return lambda: _in_the_plane(setting, None, tolerance)[0]

    def dense() -> Tensor:
        x = setting.x.detach().requires_grad_()
        value, _ = entropic_cost(_GROUNDS[setting.p](x, setting.y), setting.reg, solver)
        return torch.autograd.grad(value, x)[0]

    return dense


def warm_step(setting: Setting, tolerance: float) -> Step:
    """The same from the potentials of one optimizer's step before."""
    start = _in_the_plane(replace(setting, x=setting.before), None, tolerance)[1]
    return lambda: _in_the_plane(setting, start, tolerance)[0]


def _from_matrix(matrix: Tensor, reg: float, solver: SinkhornSolver) -> Tensor:
    cost = matrix.detach().requires_grad_()
    value, _ = entropic_cost(cost, reg, solver)
    return torch.autograd.grad(value, cost)[0]


def _in_the_plane(
    setting: Setting, start: FullBatchResult | None, tolerance: float
) -> tuple[Tensor, FullBatchResult]:
    x, ground = setting.x.detach().requires_grad_(), _GROUNDS[setting.p].__name__
    value, result = full_batch_cost(
        x, setting.y, ground=ground, reg=setting.reg, tolerance=tolerance, start=start
    )
    return torch.autograd.grad(value, x)[0], result


def reference(setting: Setting) -> Tensor:
    """The converged gradient in double precision, of all rows or of some."""
    if max(setting.shape) <= DENSE_UP_TO:
        gradient, error, _ = reference_gradient(setting)
    else:
        result = _in_the_plane(setting, None, tolerance=1e-8)[1]
        gradient, error = certified_gradient(setting, result.f, result.g)
    if not error < REFERENCE_ERROR:
        raise RuntimeError(f"the reference's marginal error is {error:.1e}: not a reference")
    return gradient


def floors(setting: Setting) -> dict[str, Callable[[], object]]:
    """What no step of that kind can be faster than, given the library's products and sweeps."""
    if setting.matrix is not None:
        return {"floor: one exp of the matrix": lambda: torch.exp(setting.matrix)}
    x, y = setting.x, setting.y
    if x.shape[1] <= 2:
        return {}
    if setting.p == 2:
        plan = torch.full((len(x), len(y)), 1.0 / (len(x) * len(y)))
        return {"floor: products XYᵀ and πY": lambda: (product(x, y), product(plan, y.T))}
    few = np.ascontiguousarray(x[:8].numpy())
    return {"floor: |x − y|, forth and back, in cache": lambda: _sweep(few, len(x), len(y))}


@numba.njit(parallel=True, fastmath=True)
def _sweep(few: np.ndarray, n: int, m: int) -> float:
    """2·n·m·d absolute differences, summed, of rows that stay in the cache."""
    sums = np.zeros(n, dtype=np.float32)
    for i in numba.prange(n):
        a = few[i % 4]
        total = np.float32(0)
        for j in range(2 * m):
            b = few[4 + j % 4]
            gap = np.float32(0)
            for k in range(a.size):
                gap += abs(a[k] - b[k])
            total += gap
        sums[i] = total
    return sums.sum()
