r"""Sinkhorn's algorithm in the kernel domain, with shifts and absorption, and in the log domain.

The solution of the entropic problem has the form

$$ π_{ij} = a_i b_j\, e^{(f_i + g_j − C_{ij})/λ} , $$

and Sinkhorn's algorithm alternates between the potentials f and g, each time fitting one marginal.
With $K_{ij} = e^{(f_i + g_j − C_{ij})/λ}$ for the current potentials and scalings $u = v = 1$, a
step in the *kernel domain* is two matrix-vector products,

$$ u ← 1 / K(bv), \qquad v ← 1 / K^⊤(au) . $$

Single precision is safe because (1) the initial potentials, row minima and then column minima of C,
give every row and column of K an entry 1, and (2) as soon as a scaling leaves $[e^{−10}, e^{10}]$ it
is *absorbed* into the potentials and K is rebuilt (Schmitzer 2019). The *log domain* replaces the
products by `logsumexp`: ten times slower, no kernel, the reference that tests compare with.

The row marginal's error Σ_i |Σ_j π_ij − a_i| comes free with the next product; the columns' is zero
after each step.

References:
    Cuturi, *Sinkhorn distances* (2013). Schmitzer, *Stabilized sparse scaling algorithms for entropy
    regularized transport problems* (2019). Peyré, Cuturi, *Computational optimal transport* (2019).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.transport.problem import Problem

_ABSORB_ABOVE = 10.0
# Kernel entries below this cannot matter beside the 1 in their row, and denormals slow sweeps 9×.
_NEGLIGIBLE = 1e-30


class Status(enum.Enum):
    """How a solver ended."""

    CONVERGED = "the marginal error is within the tolerance"
    MAX_ITERATIONS = "stopped at max_iterations before the tolerance was reached"
    NOT_FINITE = (
        "numbers overflowed: the cost is not finite, or reg is too small for this precision"
    )


@dataclass(frozen=True)
class SinkhornResult:
    """Potentials of the last step, and how far their plan is from a coupling.

    Arguments:
        problem: What was solved.
        f: Row potentials (n,).
        g: Column potentials (m,).
        marginal_error: Σ_i |Σ_j π_ij − a_i|, of the plan returned.
        iterations: Number of steps, each fitting the rows and then the columns.
        status: How the solver ended.
    """

    problem: Problem
    f: Tensor
    g: Tensor
    marginal_error: float
    iterations: int
    status: Status

    @property
    def plan(self) -> Tensor:
        """The coupling π (n, m)."""
        p = self.problem
        kernel = torch.exp((self.f[:, None] + self.g[None, :] - p.cost) / p.reg)
        return kernel.mul_(p.a[:, None]).mul_(p.b[None, :])

    @property
    def value(self) -> Tensor:
        """The dual value ⟨a, f⟩ + ⟨b, g⟩, equal to the entropic cost at convergence.

        The columns' marginal being exact, the plan has mass 1 and no further term is left.
        """
        return self.problem.a @ self.f + self.problem.b @ self.g


@dataclass(frozen=True)
class SinkhornSolver:
    """Settings only; one solver serves any number of problems.

    Arguments:
        tolerance: Largest marginal error to stop at.
        max_iterations: Number of steps to give up after, with `Status.MAX_ITERATIONS`.
        domain: `"kernel"` (fast) or `"log"` (the reference).
    """

    tolerance: float = 1e-3
    max_iterations: int = 1000
    domain: str = "kernel"

    def __post_init__(self) -> None:
        if self.domain not in ("kernel", "log"):
            raise PrivotError(f"domain {self.domain!r} is not known: use 'kernel' or 'log'")
        if not self.tolerance > 0 or self.max_iterations < 1:
            raise PrivotError(
                f"tolerance {self.tolerance} and max_iterations {self.max_iterations}: "
                "give a tolerance > 0 and at least one iteration"
            )

    @torch.no_grad()
    def solve(self, problem: Problem) -> SinkhornResult:
        """Solve one problem; gradients do not flow through the iterations (see `entropic_cost`)."""
        step = self._solve_kernel if self.domain == "kernel" else self._solve_log
        f, g, error, iterations = step(problem)
        finite = bool(torch.isfinite(f).all() and torch.isfinite(g).all())
        if not finite:
            status = Status.NOT_FINITE
        else:
            status = Status.CONVERGED if error <= self.tolerance else Status.MAX_ITERATIONS
        return SinkhornResult(problem, f, g, error, iterations, status)

    def _solve_kernel(self, problem: Problem) -> tuple[Tensor, Tensor, float, int]:
        cost, reg, a, b = problem.cost, problem.reg, problem.a, problem.b
        f = cost.amin(dim=1)
        g = (cost - f[:, None]).amin(dim=0)
        kernel = _kernel(cost, f, g, reg)
        u, v = torch.ones_like(a), torch.ones_like(b)
        error, iterations = float("inf"), 0
        while True:
            row = kernel @ (b * v)
            if iterations:
                error = float((a * (u * row - 1)).abs().sum())
                if error <= self.tolerance or iterations >= self.max_iterations:
                    break
                if error != error:
                    break
            u = 1 / row
            v = 1 / (kernel.T @ (a * u))
            iterations += 1
            if max(_spread(u), _spread(v)) > _ABSORB_ABOVE:
                f, g = f + reg * u.log(), g + reg * v.log()
                kernel = _kernel(cost, f, g, reg)
                u, v = torch.ones_like(a), torch.ones_like(b)
        return f + reg * u.log(), g + reg * v.log(), error, iterations

    def _solve_log(self, problem: Problem) -> tuple[Tensor, Tensor, float, int]:
        reg, log_a, log_b = problem.reg, problem.a.log(), problem.b.log()
        scores = -problem.cost / reg
        g = torch.zeros_like(log_b)
        f = torch.zeros_like(log_a)
        error, iterations = float("inf"), 0
        while True:
            fitted = -torch.logsumexp(scores + (g + log_b)[None, :], dim=1)
            if iterations:
                # π's row sums are a·exp(f − fitted): the new f would make them exact.
                error = float((problem.a * torch.expm1(f - fitted)).abs().sum())
                if not error > self.tolerance or iterations >= self.max_iterations:
                    break
            f = fitted
            g = -torch.logsumexp(scores + (f + log_a)[:, None], dim=0)
            iterations += 1
        return reg * f, reg * g, error, iterations


def _kernel(cost: Tensor, f: Tensor, g: Tensor, reg: float) -> Tensor:
    kernel = torch.exp_((f[:, None] + g[None, :] - cost).div_(reg))
    return torch.threshold_(kernel, _NEGLIGIBLE, 0.0)


def _spread(scaling: Tensor) -> float:
    low, high = torch.aminmax(scaling)
    return max(abs(float(low.log())), abs(float(high.log())))
