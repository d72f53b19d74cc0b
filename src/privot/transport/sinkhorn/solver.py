r"""The solver of entropic problems: settings, choice of precision, and an honest account of the end.

The solution has the form $π_{ij} = a_i b_j\, e^{(f_i + g_j − C_{ij})/λ}$; Sinkhorn's algorithm
alternates between the potentials f and g, each time fitting one marginal (`kernel_domain` and
`log_domain` do it).

**What the marginal error says.** The plan returned has the form above, and exact columns. So it *is* the
solution of the same problem for row weights a′ = π1 instead of a, and `marginal_error`
$= ‖a′ − a‖_1$ is how far that problem is from the one asked for. How far the plans are apart follows
from the identity, for plans of mass 1,

$$ λ\, \mathrm{KL}(π^* ‖ π) = D^* − D(f, g) $$

of the dual value D, and Pinsker's $‖π^* − π‖_1 ≤ \sqrt{2\, \mathrm{KL}(π^* ‖ π)}$: slow problems, of
contraction ρ near 1, can be off by $1/\sqrt{1 − ρ}$ times the marginal error.

**Precision.** Single precision sums thousands of terms with relative errors near 1e-6. A tolerance below
1e-5, or numbers that overflow, make the solver work in double precision by itself; the result says in
which. Where costs exceed λ so far that even double precision does not resolve the exponents to the
tolerance, the result says so too, whatever its marginals look like.

References:
    Cuturi, *Sinkhorn distances* (2013). Peyré, Cuturi, *Computational optimal transport* (2019).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.transport.compiled import runs_compiled
from privot.transport.sinkhorn.kernel_domain import Iterated, solve_compiled, solve_tensors
from privot.transport.sinkhorn.log_domain import solve_log
from privot.transport.sinkhorn.problem import Problem
from privot.transport.sinkhorn.sweeps import FEWEST_ROWS

Potentials = tuple[Tensor, Tensor]

_SINGLE_DOWN_TO = 1e-5


class Status(enum.Enum):
    """How a solver ended."""

    CONVERGED = "the marginal error is within the tolerance"
    MAX_ITERATIONS = "stopped at max_iterations before the tolerance was reached"
    UNRESOLVED = "costs exceed reg so far that double precision cannot tell plans apart: raise reg"
    NOT_FINITE = (
        "numbers overflowed: the cost is not finite, or reg is too small for this precision"
    )


@dataclass(frozen=True)
class SinkhornResult:
    """Potentials and plan of the last step, and how far the plan is from a coupling.

    Arguments:
        problem: What was solved.
        f: Row potentials (n,), in double precision.
        g: Column potentials (m,), in double precision.
        plan: The coupling π (n, m), in the precision of the costs; NaN if numbers overflowed.
        marginal_error: Σ_i |Σ_j π_ij − a_i|, of the plan returned; NaN if numbers overflowed.
        iterations: Number of steps, each fitting the rows and then the columns.
        status: How the solver ended.
        precision: What the iterations ended in, `"single"` or `"double"`.
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
        """The dual value ⟨a, f⟩ + ⟨b, g⟩, equal to the entropic cost at convergence.

        The columns' marginal being exact, the plan has mass 1 and no further term is left.
        """
        a, b = self.problem.a.double(), self.problem.b.double()
        return (a @ self.f + b @ self.g).to(self.problem.cost.dtype)


@dataclass(frozen=True)
class SinkhornSolver:
    """Settings only; one solver serves any number of problems.

    Arguments:
        tolerance: Largest marginal error to stop at.
        max_iterations: Number of steps to give up after, with `Status.MAX_ITERATIONS`.
        domain: `"kernel"` (fast) or `"log"` (the reference, in double precision).
    """

    tolerance: float = 1e-3
    max_iterations: int = 1000
    domain: Literal["kernel", "log"] = "kernel"

    def __post_init__(self) -> None:
        if self.domain not in ("kernel", "log"):
            raise PrivotError(f"domain {self.domain!r} is not known: use 'kernel' or 'log'")
        if not self.tolerance > 0 or self.max_iterations < 1:
            raise PrivotError(
                f"tolerance {self.tolerance} and max_iterations {self.max_iterations}: "
                "give a tolerance > 0 and at least one iteration"
            )

    @torch.no_grad()
    def solve(
        self, problem: Problem, start: SinkhornResult | Potentials | None = None
    ) -> SinkhornResult:
        """Solve one problem; gradients do not flow through the iterations (see `entropic_cost`).

        Arguments:
            problem: What to solve.
            start: Potentials (f, g) to start from, or the result of a similar problem. The state of
                the iterations is g alone; potentials that are not finite are not used.
        """
        start_g = _start(problem, start)
        single = problem.cost.dtype != torch.float64 and self.tolerance >= _SINGLE_DOWN_TO
        if self.domain == "log":
            single, ended = False, solve_log(problem, self.tolerance, self.max_iterations, start_g)
        else:
            ended = self._kernel_domain(problem, single, start_g)
            if ended.plan is None and single:
                single, ended = False, self._kernel_domain(problem, False, start_g)
        plan = torch.full_like(problem.cost, torch.nan) if ended.plan is None else ended.plan
        return SinkhornResult(
            problem, ended.f, ended.g, plan.to(problem.cost.dtype), ended.marginal_error,
            ended.iterations, self._status(problem, ended), "single" if single else "double",
        )  # fmt: skip

    def _kernel_domain(self, problem: Problem, single: bool, start_g: Tensor | None) -> Iterated:
        compiled = runs_compiled(problem.cost) and len(problem.cost) >= FEWEST_ROWS
        iterate = solve_compiled if compiled else solve_tensors
        dtype = torch.float32 if single else torch.float64
        return iterate(problem, dtype, self.tolerance, self.max_iterations, start_g)

    def _status(self, problem: Problem, ended: Iterated) -> Status:
        if ended.plan is None:
            return Status.NOT_FINITE
        largest = max(float(ended.f.abs().max()), float(ended.g.abs().max()))
        if 4 * torch.finfo(torch.float64).eps * largest > self.tolerance * problem.reg:
            return Status.UNRESOLVED
        # Columns are exact up to rounding; where they are not, the error of the rows says nothing.
        error = max(ended.marginal_error, ended.column_error)
        return Status.CONVERGED if error <= self.tolerance else Status.MAX_ITERATIONS


def _start(problem: Problem, start: SinkhornResult | Potentials | None) -> Tensor | None:
    if start is None:
        return None
    f, g = (start.f, start.g) if isinstance(start, SinkhornResult) else start
    shapes = tuple(f.shape) + tuple(g.shape)
    if shapes != tuple(problem.cost.shape):
        raise PrivotError(
            f"start has potentials of shapes {tuple(f.shape)} and {tuple(g.shape)}: "
            f"give one number for each of {problem.cost.shape[0]} rows and "
            f"{problem.cost.shape[1]} columns"
        )
    return g if bool(torch.isfinite(g).all()) else None
