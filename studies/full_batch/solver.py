r"""Entropic optimal transport between whole clouds of points of one or two dimensions.

Sinkhorn's algorithm needs the cost matrix only through sums over the kernel: with $φ = f/λ$ and
$γ = g/λ$,

$$ φ_i ← -\log \sum_j b_j e^{γ_j - c(x_i,y_j)/λ}, \qquad
   γ_j ← -\log \sum_i a_i e^{φ_i - c(x_i,y_j)/λ} . $$

Few dimensions allow these sums in O(n log n) without the matrix: exactly for the ℓ1 cost
(`laplace_kernel`), to a proven accuracy for the squared Euclidean one (`gaussian_kernel`). What
mini-batches can only estimate is thus computed for the whole data, without their bias.

**Over-relaxation.** Near the solution a step multiplies the error by θ, the squared second
singular value of the plan, near 1 for small λ. Steps longer by ω converge at rate μ with
$(μ + ω - 1)^2 = μ ω^2 θ$, best for $ω = 2/(1 + \sqrt{1 - θ})$, where $μ = ω - 1$. θ is read off the
errors of plain steps, and again under way from μ and ω; errors that grow bring back plain steps. The
last step is always plain: the columns' marginal of what is returned is exact.

**Gradient.** By the envelope theorem the derivative with respect to $x_i$ is $a_i$ times the mean of
$∇_x c(x_i, y)$ under the plan's row i, another kernel sum.

References:
    Lehmann, von Renesse, Sambale, Uschmajew, *A note on overrelaxation in the Sinkhorn algorithm*
    (2022). Thibault, Chizat, Dossal, Papadakis, *Overrelaxed Sinkhorn–Knopp algorithm* (2021).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from privot.core.errors import PrivotError
from privot.transport.sinkhorn import Status
from studies.full_batch.clouds import Clouds, Ground, Kernel, points_of

Array = NDArray[np.float64]

# Steps between two looks at the rate of convergence; what counts as divergence; the longest steps.
_WINDOW = 4
_DIVERGED = 4.0
_MOST_OMEGA = 1.97


@dataclass(frozen=True)
class FullBatchResult:
    """Potentials, and how far their plan is from a coupling.

    Arguments:
        value: Dual value ⟨a, f⟩ + ⟨b, g⟩, the entropic cost at convergence.
        f: Potentials (n,) of x, float64.
        g: Potentials (m,) of y, float64.
        marginal_error: Σ_i |Σ_j π_ij − a_i|; the other marginal is exact.
        iterations: Number of steps, each fitting the rows and then the columns.
        status: How the solver ended.
        clouds: What was solved.
        accuracy: Largest relative error of a kernel sum.
    """

    value: float
    f: Tensor
    g: Tensor
    marginal_error: float
    iterations: int
    status: Status
    clouds: Clouds = field(repr=False)
    accuracy: float = field(repr=False)

    def potential_x(self, points: Tensor) -> Tensor:
        """Potential f of any points (k, d): $-λ \\log Σ_j b_j e^{(g_j - c(x,y_j))/λ}$."""
        c = replace(self.clouds, x=points_of("points", points))
        sums = c.kernel(self.accuracy).at_x(np.log(c.b) + self.g.cpu().numpy() / c.reg)
        return _like(-c.reg * sums, self.g)

    def potential_y(self, points: Tensor) -> Tensor:
        """Potential g of any points (k, d): $-λ \\log Σ_i a_i e^{(f_i - c(x_i,y))/λ}$."""
        c = replace(self.clouds, y=points_of("points", points))
        sums = c.kernel(self.accuracy).at_y(np.log(c.a) + self.f.cpu().numpy() / c.reg)
        return _like(-c.reg * sums, self.f)


def full_batch_cost(
    x: Tensor,
    y: Tensor,
    ground: Ground = "squared_euclidean",
    reg: float = 1.0,
    *,
    weights_x: Tensor | None = None,
    weights_y: Tensor | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 1000,
    start: FullBatchResult | None = None,
) -> tuple[Tensor, FullBatchResult]:
    r"""Entropic cost $\min_π ⟨π, C⟩ + λ\, \mathrm{KL}(π ‖ a ⊗ b)$ of two clouds, differentiable in both.

    Arguments:
        x: Points (n, d) with d ∈ {1, 2}; computed in float64 on the CPU, wherever they are.
        y: Points (m, d).
        ground: `"manhattan"` or `"squared_euclidean"`.
        reg: Entropic weight λ > 0, in units of the cost.
        weights_x: Probabilities a (n,); uniform by default.
        weights_y: Probabilities b (m,); uniform by default.
        tolerance: Largest marginal error to stop at.
        max_iterations: Number of steps to give up after, with `Status.MAX_ITERATIONS`.
        start: An earlier result to continue from, of other x and perhaps other y.

    Raises:
        PrivotError: Shapes, values or weights cannot be used; numba is missing; or a squared
            Euclidean reg is so small beside the spread that sums over many points are out of reach.

    Examples:
        >>> x = torch.tensor([[0.0], [1.0]])
        >>> value, result = full_batch_cost(x, x + 1.0, reg=100.0)
        >>> round(float(value), 2), result.status.name
        (1.5, 'CONVERGED')
    """
    if not tolerance > 0 or max_iterations < 1:
        raise PrivotError(
            f"tolerance {tolerance} and max_iterations {max_iterations}: "
            "give a tolerance > 0 and at least one iteration"
        )
    clouds = Clouds.between(x, y, ground, reg, weights_x, weights_y)
    accuracy = float(np.clip(tolerance / 1000, 1e-10, 1e-6))
    kernel = clouds.kernel(accuracy)
    first = kernel.start if start is None else _continued(start, y, clouds) / reg
    phi, gamma, error, iterations = _sinkhorn(kernel, clouds, first, tolerance, max_iterations)
    value = reg * float((clouds.a * phi).sum() + (clouds.b * gamma).sum())
    largest = max(kernel.magnitude, float(np.abs(phi).max()), float(np.abs(gamma).max()))
    if not np.isfinite(value + error):
        status = Status.NOT_FINITE
    elif 4 * np.finfo(float).eps * largest > tolerance:
        status = Status.UNRESOLVED
    else:
        status = Status.CONVERGED if error <= tolerance else Status.MAX_ITERATIONS
    f, g = (torch.from_numpy(reg * p).to(x.device) for p in (phi, gamma))
    result = FullBatchResult(value, f, g, error, iterations, status, clouds, accuracy)
    return _Envelope.apply(x, y, result, kernel), result


def _continued(start: FullBatchResult, y: Tensor, clouds: Clouds) -> Array:
    """An earlier g, carried over to other points where they changed."""
    same = np.array_equal(start.clouds.y, clouds.y)
    return np.asarray((start.g if same else start.potential_y(y)).cpu().numpy())


class _Envelope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, result: FullBatchResult, kernel: Kernel) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.result, ctx.kernel = result, kernel
        return x.new_tensor(result.value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, y), result, clouds = ctx.saved_tensors, ctx.result, ctx.result.clouds
        grad_x = grad_y = None
        if ctx.needs_input_grad[0]:
            slope = ctx.kernel.slope_x(np.log(clouds.b) + result.g.cpu().numpy() / clouds.reg)
            grad_x = grads[0] * _like(clouds.a[:, None] * slope, x)
        if ctx.needs_input_grad[1]:
            slope = ctx.kernel.slope_y(np.log(clouds.a) + result.f.cpu().numpy() / clouds.reg)
            grad_y = grads[0] * _like(clouds.b[:, None] * slope, y)
        return grad_x, grad_y, None, None


def _sinkhorn(
    kernel: Kernel, clouds: Clouds, gamma: Array, tolerance: float, max_iterations: int
) -> tuple[Array, Array, float, int]:
    """φ, γ, error of the rows and number of steps; the columns of what is returned are exact."""
    log_a, log_b = np.log(clouds.a), np.log(clouds.b)
    pace = _Pace()
    phi = -kernel.at_x(log_b + gamma)
    gamma = -kernel.at_y(log_a + phi)
    omega, iterations = 1.0, 1
    while True:
        fitted = -kernel.at_x(log_b + gamma)
        # π's row sums are a·exp(φ − fitted): the new φ would make them exact.
        error = float((clouds.a * np.abs(np.expm1(np.minimum(phi - fitted, 700.0)))).sum())
        small = not error > tolerance
        if (small and omega == 1.0) or iterations >= max_iterations:
            return phi, gamma, error, iterations
        last = small or iterations == max_iterations - 1
        omega = 1.0 if last else pace(error)
        phi = phi + omega * (fitted - phi)
        gamma = gamma + omega * (-kernel.at_y(log_a + phi) - gamma)
        iterations += 1


class _Pace:
    """How much longer than plain the next step is, from the errors so far."""

    def __init__(self) -> None:
        self._errors: list[float] = []
        self._omega, self._most = 1.0, _MOST_OMEGA

    def __call__(self, error: float) -> float:
        self._errors.append(error)
        excess = self._omega - 1
        if excess > 0 and error > _DIVERGED * min(self._errors):
            self._omega, self._most = 1 + excess / 2, 1 + 0.9 * excess
            self._errors = [error]
        if len(self._errors) > _WINDOW:
            rate = (error / self._errors[0]) ** (1 / _WINDOW)
            self._errors = [error]
            if rate >= 1:
                self._omega = 1 + 0.8 * excess
            # At a rate of ω − 1 or faster, ω is large enough.
            elif rate > excess:
                theta = min((rate + excess) ** 2 / (rate * self._omega**2), 1.0)
                best = 2 / (1 + np.sqrt(1 - theta))
                self._omega = max(self._omega, min(best, self._most))
                self._most += 0.1 * (_MOST_OMEGA - self._most)
        return self._omega


def _like(array: Array, tensor: Tensor) -> Tensor:
    return torch.from_numpy(array).to(tensor)
