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

`solve_compiled` runs compiled loops, over parts of the rows, one part a thread: what rows have in common
is a sum or a minimum over rows, which each thread forms for its own part. Problems of fewer than four
million pairs are one part: an iteration of theirs takes less time than waking a thread, and runs in
compiled code throughout. `solve_tensors` does the same mathematics by plain tensor operations, on any
device, without over-relaxation (Schmitzer 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.transport.sinkhorn import kernel_entries, sweeps
from privot.transport.sinkhorn.sweeps import Pace, Scaled, Swept
from privot.transport.threads import in_threads

_WIDEST = math.exp(20.0)
_NEGLIGIBLE = 1e-30
_ONE_PART = 2**22

Array = NDArray[Any]


class Setup(NamedTuple):
    """Costs (n, m) in single or double precision, weights a (n,) and b (m,), λ, and when to stop."""

    cost: Tensor
    a: Tensor
    b: Tensor
    reg: float
    tolerance: float
    most: int


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


def solve_compiled(setup: Setup, dtype: torch.dtype) -> Iterated:
    """Iterate by compiled loops, on the CPU, with K in single or double precision."""
    cost, reg = setup.cost.contiguous().numpy(), setup.reg
    rows = RowParts.of(*cost.shape)
    a, b = setup.a.double().numpy(), setup.b.double().numpy()
    f, g = np.empty(len(a)), np.empty(len(b))
    finite = rows.shift(cost, f, g)
    plan = torch.empty(cost.shape, dtype=dtype)
    kernel = plan.numpy()
    u, v = np.ones(len(a)), np.ones(len(b))
    scaled = Scaled(kernel, a, b, u, v)
    state = np.array([1.0, 0.0, 0.0, 0.0, setup.tolerance, 2.0])
    errors = np.full(setup.most + 1, np.inf)
    pace = Pace(state, errors, setup.tolerance, setup.most, _WIDEST)
    outcome = sweeps.ABSORB if finite else sweeps.BROKEN
    while outcome == sweeps.ABSORB:
        rows.build(cost, f, g, reg, kernel)
        outcome = rows.iterate(scaled, pace)
        if outcome != sweeps.BROKEN:
            f += reg * np.log(u)
            g += reg * np.log(v)
        elif state[5] > 1.0 and np.isfinite(g).all():
            # Over-relaxation overflowed: plain steps go on from where every row and every column of K
            # holds a 1 again.
            state[0], state[3], state[5] = 1.0, 0.0, 1.0
            f[:] = (cost - g).min(axis=1)
            g[:] = (cost - f[:, None]).min(axis=0)
            outcome = sweeps.ABSORB
        if outcome == sweeps.ABSORB:
            u[:], v[:] = 1.0, 1.0
    potentials = torch.from_numpy(f), torch.from_numpy(g)
    if outcome == sweeps.BROKEN:
        return Iterated(*potentials, None, math.nan, math.nan, int(state[1]))
    row_error, column_error = rows.write_plan(scaled)
    return Iterated(*potentials, plan, row_error, column_error, int(state[1]))


def solve_tensors(setup: Setup, dtype: torch.dtype) -> Iterated:
    """Iterate by tensor operations, on the device of the costs, with K in that precision."""
    cost, reg = setup.cost, setup.reg
    a, b = setup.a.to(dtype), setup.b.to(dtype)
    f = cost.amin(dim=1).double()
    g = (cost - f[:, None]).amin(dim=0)
    kernel = _kernel(cost, f, g, reg, dtype)
    u, v = torch.ones_like(a), torch.ones_like(b)
    iterations = 0
    while True:
        row = kernel @ (b * v)
        error = float((a * (u * row - 1)).abs().sum()) if iterations else math.inf
        if not error > setup.tolerance or iterations >= setup.most:
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
    row_error = float((plan.sum(dim=1, dtype=torch.float64) - setup.a).abs().sum())
    column_error = float((plan.sum(dim=0, dtype=torch.float64) - setup.b).abs().sum())
    return Iterated(f, g, plan, row_error, column_error, iterations)


def _kernel(cost: Tensor, f: Tensor, g: Tensor, reg: float, dtype: torch.dtype) -> Tensor:
    kernel = torch.exp_(((f[:, None] - cost) + g[None, :]).div_(reg).to(dtype))
    return torch.threshold_(kernel, _NEGLIGIBLE, 0.0)


def _spread(scaling: Tensor) -> float:
    low, high = torch.aminmax(scaling)
    return max(abs(float(low.log())), abs(float(high.log())))


@dataclass(frozen=True)
class RowParts:
    """Which rows each thread works on."""

    parts: tuple[slice, ...]

    @classmethod
    def of(cls, num_rows: int, num_columns: int) -> RowParts:
        """As many parts, as torch has threads, or one."""
        large = num_rows * num_columns >= _ONE_PART
        most = max(1, num_rows // sweeps.FEWEST_ROWS)
        count = min(torch.get_num_threads(), most) if large else 1
        edges = [num_rows * part // count for part in range(count + 1)]
        return cls(tuple(slice(*ends) for ends in pairwise(edges)))

    def shift(self, cost: Array, f: Array, g: Array) -> bool:
        """`kernel_entries.shift`."""
        lowest = np.empty((len(self.parts), len(g)))
        finite = self._each(lambda k, rows: kernel_entries.shift(cost[rows], f[rows], lowest[k]))
        lowest.min(axis=0, out=g)
        return all(finite)

    def build(self, cost: Array, f: Array, g: Array, reg: float, kernel: Array) -> None:
        """`kernel_entries.build`."""
        self._each(lambda _, rows: kernel_entries.build(cost[rows], f[rows], g, reg, kernel[rows]))

    def iterate(self, scaled: Scaled, pace: Pace) -> int:
        """`sweeps.iterate`."""
        if len(self.parts) == 1:
            single: int = sweeps.iterate(scaled, pace)
            return single
        kernel, a, b, u, v = scaled
        w, t = np.empty(len(v), kernel.dtype), np.empty((len(self.parts), len(v)), kernel.dtype)
        outcome = -1
        while outcome < 0:
            omega = sweeps.begin(b, v, w, t[0], pace)
            t[1:] = 0

            def work(k: int, rows: slice, omega: float = omega) -> Swept:
                ended: Swept = sweeps.sweep(
                    kernel[rows], a[rows], w, u[rows], t[k], omega, pace.widest
                )
                return ended

            ended = self._each(work)
            swept = Swept(
                sum(part.error for part in ended),
                all(part.inside for part in ended),
                any(part.broken for part in ended),
            )
            outcome = sweeps.finish(b, v, t.sum(axis=0), swept, pace)
        return outcome

    def write_plan(self, scaled: Scaled) -> tuple[float, float]:
        """`sweeps.write_plan`: the rows' and the columns' marginal errors."""
        kernel, a, b, u, v = scaled
        columns = np.zeros((len(self.parts), len(v)))

        def write(k: int, rows: slice) -> float:
            error: float = sweeps.write_plan(
                Scaled(kernel[rows], a[rows], b, u[rows], v), columns[k]
            )
            return error

        return sum(self._each(write)), float(np.abs(columns.sum(axis=0) - b).sum())

    def _each(self, work: Callable[[int, slice], Any]) -> list[Any]:
        return in_threads(lambda k: work(k, self.parts[k]), len(self.parts))
