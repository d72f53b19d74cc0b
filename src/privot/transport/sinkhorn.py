r"""Entropic optimal transport by Sinkhorn's algorithm: problem, solver, result and gradient.

A `Problem` minimizes $⟨π, C⟩ + λ\, \mathrm{KL}(π ‖ a ⊗ b)$ over the couplings π of the weights a and b.
The solution has the form $π_{ij} = a_i b_j\, e^{(f_i + g_j − C_{ij})/λ}$. Sinkhorn's algorithm updates
the potentials f and g in turn, each time fitting one marginal.

**The marginal error.** The returned plan has the form above, and exact columns. So it *is* the solution
of the same problem for row weights a′ = π1 instead of a, and `marginal_error` $= ‖a′ − a‖_1$ is the
distance between the two problems. With D the dual value and $π^*, D^*$ the optimum, the distance between
the plans, of mass 1, follows from

$$ λ\, \mathrm{KL}(π^* ‖ π) = D^* − D(f, g) , \qquad ‖π^* − π‖_1 ≤ \sqrt{2\, \mathrm{KL}(π^* ‖ π)} , $$

the latter by Pinsker's inequality. If an iteration reduces errors only by a factor ρ near 1, the
distance between the plans may be as large as the marginal error over $\sqrt{1−ρ}$.

**Precision.** Single precision sums thousands of terms with relative errors near 1e-6. For a tolerance
below 1e-5, or after an overflow, the solver uses double precision. If costs are so much larger than λ
that even double precision does not resolve the exponents to the tolerance, the status is `UNRESOLVED`
for any marginal error.

**Iterations.** With the kernel $K_{ij} = e^{(f_i + g_j − C_{ij})/λ}$ of the current potentials, and
scalings u and v, the plan is $a_i u_i K_{ij} v_j b_j$, and a step is $u ← 1/K(bv)$, $v ← 1/K^⊤(au)$.
Three measures keep the numbers in range:

1. **Shift.** The first potentials are the row minima of C, and then the column minima of the rest. So
   every row and every column of K has an entry 1.
2. **Absorption.** If a scaling leaves $[e^{−20}, e^{20}]$, scalings are added to the potentials, and K
   is computed again. After the first step, a plain step changes a scaling by at most a factor
   $1/\min(a, b)$ (in the worst case a column takes all of a row's mass). So scalings exceed the limit by
   no more than this factor, and no row or column of K vanishes. With a limit of $e^{60}$, entries of K
   that were rounded to zero would have mass in the plan, which would be wrong although its marginals
   are right.
3. **Potentials and exponents** are in double precision, for any precision of K.

On the CPU, `privot.transport.sweeps` iterates with over-relaxation, over parts of the rows, one for each
thread. Elsewhere, and for fewer than four rows, tensor operations iterate without it (Schmitzer 2019).

**Gradient.** By the envelope theorem, the derivative of the minimum (`entropic_cost`) with respect to C
is the optimal plan π. Nothing is propagated back through the iterations.

References:
    Cuturi, *Sinkhorn distances* (2013). Peyré, Cuturi, *Computational optimal transport* (2019).
    Schmitzer, *Stabilized sparse scaling algorithms* (2019). Reshetova, Chen, Özgür, *Training
    generative models from privatized data via entropic optimal transport* (2024), algorithm 1.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.core.errors import PrivotError
from privot.transport import sweeps
from privot.transport.ground import in_threads, runs_compiled
from privot.transport.sweeps import FEWEST_ROWS, Factors, IterationControl, Update

_MAX_SCALING = math.exp(20.0)
# With fewer pairs, an iteration takes less time than waking a thread.
_MIN_DIVIDED_PAIRS = 2**22
_MIN_SINGLE_TOLERANCE = 1e-5  # below it, rounding errors of single precision are too large

Array = NDArray[Any]


@dataclass(frozen=True)
class IterationResult:
    """Result of iterations: potentials f (n,) and g (m,) in double precision, plan (n, m), and errors.

    If numbers overflowed, `plan` is None and the errors of rows (`marginal_error`) and columns are NaN.
    """

    f: Tensor
    g: Tensor
    plan: Tensor | None
    marginal_error: float
    column_error: float
    iterations: int


def solve_compiled(problem: Problem, solver: SinkhornSolver, dtype: torch.dtype) -> IterationResult:
    """Iterate by compiled loops, on the CPU, with K of single or double precision.

    Each round computes K for the current potentials f and g, and iterates until scalings u and v leave
    their limits (`ABSORB`) or the iterations end. K and the plan share one array.
    """
    cost, reg = problem.cost.detach().contiguous().numpy(), problem.reg
    rows = RowParts.of(*cost.shape)
    a, b = problem.a.double().numpy(), problem.b.double().numpy()
    f, g = np.empty(len(a)), np.empty(len(b))
    finite = rows.shift(cost, f, g)
    plan = torch.empty(cost.shape, dtype=dtype)
    kernel = plan.numpy()
    u, v = np.ones(len(a)), np.ones(len(b))
    factors = Factors(kernel, a, b, u, v)
    control = IterationControl.begin(solver.tolerance, solver.max_iterations, _MAX_SCALING)
    state = control.state
    outcome = sweeps.ABSORB if finite else sweeps.BROKEN
    while outcome == sweeps.ABSORB:
        rows.build(cost, f, g, reg, kernel)
        outcome = rows.iterate(factors, control)
        if outcome != sweeps.BROKEN:
            f += reg * np.log(u)
            g += reg * np.log(v)
        elif state[sweeps.LARGEST] > 1.0 and np.isfinite(g).all():
            # Over-relaxation overflowed: continue by plain steps only (ω ≤ 1), from potentials for
            # which every row and every column of K has an entry 1.
            state[sweeps.OMEGA], state[sweeps.WAS_PLAIN], state[sweeps.LARGEST] = 1.0, 0.0, 1.0
            f[:] = (cost - g).min(axis=1)
            g[:] = (cost - f[:, None]).min(axis=0)
            outcome = sweeps.ABSORB
        if outcome == sweeps.ABSORB:
            u[:], v[:] = 1.0, 1.0
    potentials, iterations = (torch.from_numpy(f), torch.from_numpy(g)), int(state[sweeps.DONE])
    if outcome == sweeps.BROKEN:
        return IterationResult(*potentials, None, math.nan, math.nan, iterations)
    return IterationResult(*potentials, plan, *rows.write_plan(factors), iterations)


def solve_tensors(problem: Problem, solver: SinkhornSolver, dtype: torch.dtype) -> IterationResult:
    """Iterate by tensor operations, on the device of the costs, with K of type `dtype`."""
    cost, reg = problem.cost.detach(), problem.reg
    a, b = problem.a.to(dtype), problem.b.to(dtype)
    f = cost.amin(dim=1).double()
    g = (cost - f[:, None]).amin(dim=0)
    kernel = _kernel(cost, f, g, reg, dtype)
    u, v = torch.ones_like(a), torch.ones_like(b)
    iterations = 0
    while True:
        row_sums = kernel @ (b * v)
        error = float((a * (u * row_sums - 1)).abs().sum()) if iterations else math.inf
        if not error > solver.tolerance or iterations >= solver.max_iterations:
            break
        u = 1 / row_sums
        v = 1 / (kernel.T @ (a * u))
        iterations += 1
        if max(_largest_logarithm(u), _largest_logarithm(v)) > math.log(_MAX_SCALING):
            f, g = f + reg * u.double().log(), g + reg * v.double().log()
            kernel = _kernel(cost, f, g, reg, dtype)
            u, v = torch.ones_like(a), torch.ones_like(b)
    f, g = f + reg * u.double().log(), g + reg * v.double().log()
    plan = kernel.mul_((a * u)[:, None]).mul_((b * v)[None, :])
    if not bool(torch.isfinite(f).all() and torch.isfinite(g).all() and torch.isfinite(plan).all()):
        return IterationResult(f, g, None, math.nan, math.nan, iterations)
    row_error = float((plan.sum(dim=1, dtype=torch.float64) - problem.a).abs().sum())
    column_error = float((plan.sum(dim=0, dtype=torch.float64) - problem.b).abs().sum())
    return IterationResult(f, g, plan, row_error, column_error, iterations)


def _kernel(cost: Tensor, f: Tensor, g: Tensor, reg: float, dtype: torch.dtype) -> Tensor:
    """Return K (n, m), with negligible entries set to 0."""
    kernel = torch.exp_(((f[:, None] - cost) + g[None, :]).div_(reg).to(dtype))
    return torch.threshold_(kernel, sweeps.NEGLIGIBLE, 0.0)


def _largest_logarithm(scaling: Tensor) -> float:
    """Return the largest absolute logarithm of the entries of a scaling."""
    low, high = torch.aminmax(scaling)
    return max(abs(float(low.log())), abs(float(high.log())))


@dataclass(frozen=True)
class RowParts:
    """Division of the rows among threads."""

    parts: tuple[slice, ...]

    @classmethod
    def of(cls, num_rows: int, num_columns: int) -> RowParts:
        """Split rows into as many parts as torch has threads; into one if there are few pairs."""
        large = num_rows * num_columns >= _MIN_DIVIDED_PAIRS
        most = max(1, num_rows // sweeps.FEWEST_ROWS)
        count = min(torch.get_num_threads(), most) if large else 1
        edges = [num_rows * part // count for part in range(count + 1)]
        return cls(tuple(slice(*ends) for ends in pairwise(edges)))

    def shift(self, cost: Array, f: Array, g: Array) -> bool:
        """Run `sweeps.shift` on all parts; return whether all costs are finite."""
        lowest = np.empty((len(self.parts), len(g)))
        finite = self._each(lambda k, rows: sweeps.shift(cost[rows], f[rows], lowest[k]))
        lowest.min(axis=0, out=g)
        return all(finite)

    def build(self, cost: Array, f: Array, g: Array, reg: float, kernel: Array) -> None:
        """Run `sweeps.build` on all parts."""
        self._each(lambda _, rows: sweeps.build(cost[rows], f[rows], g, reg, kernel[rows]))

    def iterate(self, factors: Factors, control: IterationControl) -> int:
        """Run `sweeps.iterate`, with each sweep on all parts; return the outcome."""
        if len(self.parts) == 1:
            single: int = sweeps.iterate(factors, control)
            return single
        kernel, _, b, _, v = factors
        w, t = np.empty(len(v), kernel.dtype), np.empty((len(self.parts), len(v)), kernel.dtype)
        outcome = sweeps.CONTINUE
        while outcome == sweeps.CONTINUE:
            omega = sweeps.begin(b, v, w, t[0], control)
            t[1:] = 0
            swept = self._sweep(factors, w, t, omega, control.limit)
            outcome = sweeps.finish(b, v, t.sum(axis=0), swept, control)
        return outcome

    def _sweep(self, factors: Factors, w: Array, t: Array, omega: float, limit: float) -> Update:
        """Run `sweeps.sweep` on all parts, each with its own sums in a row of t (parts, m)."""
        kernel, a, _, u, _ = factors
        parts = self._each(
            lambda k, rows: sweeps.sweep(kernel[rows], a[rows], w, u[rows], t[k], omega, limit)
        )
        error = sum(part.error for part in parts)
        return Update(error, all(part.inside for part in parts), any(part.broken for part in parts))

    def write_plan(self, factors: Factors) -> tuple[float, float]:
        """Run `sweeps.write_plan` on all parts; return the rows' and the columns' marginal errors."""
        kernel, a, b, u, v = factors
        columns = np.zeros((len(self.parts), len(v)))
        parts = [Factors(kernel[rows], a[rows], b, u[rows], v) for rows in self.parts]
        errors = self._each(lambda k, _: sweeps.write_plan(parts[k], columns[k]))
        return sum(errors), float(np.abs(columns.sum(axis=0) - b).sum())

    def _each(self, work: Callable[[int, slice], Any]) -> list[Any]:
        """Return work(number of the part, its rows) of all parts, computed in threads."""
        return in_threads(lambda k: work(k, self.parts[k]), len(self.parts))


@dataclass(frozen=True)
class Problem:
    r"""Entropic transport: minimize $⟨π, C⟩ + λ\, \mathrm{KL}(π ‖ a ⊗ b)$ over couplings π of a and b.

    The KL term is the mutual information of the coupling.

    Arguments:
        cost: Ground costs C, shape (n, m), finite.
        reg: Entropic weight λ > 0, in units of the cost.
        weights_x: Probabilities a (n,) of the rows; uniform by default.
        weights_y: Probabilities b (m,) of the columns; uniform by default.

    Raises:
        PrivotError: if shapes do not match, λ is not positive, or weights are no positive probabilities.

    Examples:
        >>> Problem(torch.zeros(2, 4)).b
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    cost: Tensor
    reg: float = 1.0
    weights_x: Tensor | None = None
    weights_y: Tensor | None = None

    def __post_init__(self) -> None:
        if self.cost.ndim != 2 or 0 in self.cost.shape:
            raise PrivotError(
                f"cost has shape {tuple(self.cost.shape)}: give a matrix with at least one entry"
            )
        if not self.reg > 0:
            raise PrivotError(f"reg {self.reg} is not positive: give the entropic weight, > 0")
        for name, weights, size in (
            ("weights_x", self.weights_x, self.cost.shape[0]),
            ("weights_y", self.weights_y, self.cost.shape[1]),
        ):
            if weights is None:
                continue
            if weights.shape != (size,):
                raise PrivotError(f"{name} has shape {tuple(weights.shape)}: give ({size},)")
            if not bool((weights > 0).all()) or abs(float(weights.sum()) - 1) > 1e-4:
                raise PrivotError(
                    f"{name} adds up to {float(weights.sum()):.6g}, smallest {float(weights.min())}"
                    ": give positive probabilities, and leave points of no weight out"
                )

    @property
    def a(self) -> Tensor:
        """Row probabilities (n,)."""
        return _uniform(self.cost, 0) if self.weights_x is None else self.weights_x

    @property
    def b(self) -> Tensor:
        """Column probabilities (m,)."""
        return _uniform(self.cost, 1) if self.weights_y is None else self.weights_y


class Status(enum.Enum):
    """Outcome of a solver.

    Examples:
        >>> print(Status.CONVERGED.value)
        the marginal error is within the tolerance
    """

    CONVERGED = "the marginal error is within the tolerance"
    MAX_ITERATIONS = "stopped at max_iterations before the tolerance was reached"
    UNRESOLVED = "costs exceed reg so far that double precision cannot tell plans apart: raise reg"
    NOT_FINITE = "numbers overflowed: the cost is not finite, or reg too small for this precision"


@dataclass(frozen=True)
class SinkhornResult:
    """Result of a solver: potentials and plan of the last step, and the marginal error.

    Arguments:
        problem: The solved problem.
        f: Row potentials (n,), in double precision.
        g: Column potentials (m,), in double precision.
        plan: The coupling π (n, m), in the precision of the costs; NaN if numbers overflowed.
        marginal_error: Σ_i |Σ_j π_ij − a_i| of the returned plan; NaN if numbers overflowed.
        iterations: Number of steps, each fitting the rows and then the columns.
        status: How the solver ended.
        precision: Precision of the last iterations, `"single"` or `"double"`.

    Examples:
        >>> result = SinkhornSolver().solve(Problem(torch.zeros(2, 2)))
        >>> result.status.name, result.plan.tolist()
        ('CONVERGED', [[0.25, 0.25], [0.25, 0.25]])
    """

    problem: Problem
    f: Tensor
    g: Tensor
    plan: Tensor
    marginal_error: float
    iterations: int
    status: Status
    precision: Literal["single", "double"]

    @property
    def value(self) -> Tensor:
        """Dual value D(f, g) = ⟨a, f⟩ + ⟨b, g⟩, equal to the entropic cost at convergence.

        Since the column marginal is exact, the plan has mass 1 and the dual has no further term.
        """
        a, b = self.problem.a.double(), self.problem.b.double()
        return (a @ self.f + b @ self.g).to(self.problem.cost.dtype)


@dataclass(frozen=True)
class SinkhornSolver:
    """Sinkhorn solver with settings that apply to any number of problems.

    Arguments:
        tolerance: Marginal error at which the iterations stop, > 0.
        max_iterations: Number of steps, ≥ 1, after which they stop with `Status.MAX_ITERATIONS`.
    """

    tolerance: float = 1e-3
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        if not self.tolerance > 0 or self.max_iterations < 1:
            raise PrivotError(
                f"tolerance {self.tolerance} and max_iterations {self.max_iterations}: "
                "give a tolerance > 0 and at least one iteration"
            )

    @torch.no_grad()
    def solve(self, problem: Problem) -> SinkhornResult:
        """Solve one problem; gradients do not flow through the iterations (see `entropic_cost`)."""
        cost = problem.cost.detach()
        compiled = runs_compiled(cost) and len(cost) >= FEWEST_ROWS
        iterate = solve_compiled if compiled else solve_tensors
        single = cost.dtype != torch.float64 and self.tolerance >= _MIN_SINGLE_TOLERANCE
        result = iterate(problem, self, torch.float32 if single else torch.float64)
        if result.plan is None and single:
            single, result = False, iterate(problem, self, torch.float64)
        plan = torch.full_like(cost, torch.nan) if result.plan is None else result.plan
        return SinkhornResult(
            problem=problem,
            f=result.f,
            g=result.g,
            plan=plan.to(cost.dtype),
            marginal_error=result.marginal_error,
            iterations=result.iterations,
            status=self._status(problem, result),
            precision="single" if single else "double",
        )

    def _status(self, problem: Problem, result: IterationResult) -> Status:
        """Return the status of a problem with this result."""
        if result.plan is None:
            return Status.NOT_FINITE
        # Rounding errors of the exponents are a few units in the last place of the potentials, over reg.
        largest = max(float(result.f.abs().max()), float(result.g.abs().max()))
        if 4 * torch.finfo(torch.float64).eps * largest > self.tolerance * problem.reg:
            return Status.UNRESOLVED
        # Columns are exact up to rounding; if they are not, the rows' error alone is meaningless.
        error = max(result.marginal_error, result.column_error)
        return Status.CONVERGED if error <= self.tolerance else Status.MAX_ITERATIONS


def _uniform(cost: Tensor, dim: int) -> Tensor:
    """Return the uniform probabilities of the rows (dim 0) or columns (dim 1) of the cost."""
    size = cost.shape[dim]
    return torch.full((size,), 1.0 / size, dtype=cost.dtype, device=cost.device)


def entropic_cost(
    cost: Tensor, reg: float = 1.0, solver: SinkhornSolver | None = None
) -> tuple[Tensor, SinkhornResult]:
    """Return the entropic cost and the result of a problem with uniform weights.

    The entropic cost is a scalar, in units of `cost` (n, m), with respect to which it is differentiable.

    Examples:
        >>> cost, result = entropic_cost(torch.ones(3, 3))
        >>> round(float(cost), 4), result.status.name
        (1.0, 'CONVERGED')
    """
    result = (solver or SinkhornSolver()).solve(Problem(cost.detach(), reg))
    return _Envelope.apply(cost, result.plan, result.value), result


def entropic_cost_of_rows(
    cost: Tensor, first: int, gather: Callable[[Tensor], Tensor], solver: SinkhornSolver
) -> tuple[Tensor, SinkhornResult]:
    """Return `entropic_cost`, with reg = 1, of a matrix whose rows are distributed over processes.

    Every process solves the whole problem. The gradient with respect to its rows is its part of the
    plan, so the sum of all processes' gradients is the gradient of `entropic_cost` on the whole matrix.

    Arguments:
        cost: This process's rows (n/p, m).
        first: Index of the first of these rows in the whole matrix.
        gather: Function that returns the rows of all processes, in order, given those of this process.
        solver: Settings of the solver.
    """
    result = solver.solve(Problem(gather(cost.detach()), 1.0))
    return _Envelope.apply(cost, result.plan[first : first + len(cost)], result.value), result


class _Envelope(torch.autograd.Function):
    """Value whose derivative with respect to the costs is the plan."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, plan: Tensor, value: Tensor) -> Tensor:
        ctx.plan = plan
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        plan: Tensor = ctx.plan
        if plan.device.type == "cpu":
            # NumPy uses one core, and leaves the others to the loops of the ground cost's gradient.
            return torch.from_numpy(plan.numpy() * grads[0].numpy()), None, None
        return plan * grads[0], None, None
