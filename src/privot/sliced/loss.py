r"""The smoothed sliced Wasserstein loss, on noisy slices.

With noise N(0, σ²) on the slices of both sides, the mean over directions of W_q^q between them is the
sliced Wasserstein distance of the two laws convolved with N(0, σ²I): a metric for every σ ≥ 0
(Rakotomamonjy, Ralaivola 2021, theorem 3). The private side is a constant; gradient flows to the
generated side alone, through the sort: optimal transport on the line matches ranks, and the matching is
constant where no two points tie.

**Mean first.** For q = 2 the loss splits exactly,

$$ W_2^2(P, Q) = (m_P - m_Q)^2 + W_2^2(P - m_P, Q - m_Q), $$

and averaging the first part over uniform directions gives ‖m_P − m_Q‖²/d of the laws in R^d. Each part
may use a different estimate: `spread_loss` is the second part, of one release; the first is far better
estimated from all releases so far (`PooledMean`).

**The mean record**, pooled over all releases so far, is what slices tell best. A release of n rows
along U has column means s = Uᵀμ + noise, with noise N(0, σ²/n). Back-projection (d/k)·U s is unbiased
for μ, but its variance holds ‖μ‖²·d/k of the directions' own. Following the residual does away with it:
with μ̂_0 = 0 and A = (d/k) U Uᵀ, E A = I,

$$ \hat μ_t = \hat μ_{t-1} + γ_t \tfrac{d}{k} U_t (s_t - U_t^\top \hat μ_{t-1}),
\qquad γ_t = \frac{1}{t + d/k}. $$

U_t is independent of the past, so the error's mean shrinks by exactly 1 − γ_t a step, and with
β = Π(1 − γ) the estimate μ̂_t/(1 − β) is unbiased for every t.

**Its error**, exactly. E A² = a·I with a = (d + k − 1)/k for independent unit columns, d/k for a frame.
Errors of the noise (variance ν), of the batch's mean record (trace τ of its covariance) and of the
start (‖μ‖²) obey one recursion, E‖(I − γA)e‖² = (1 − 2γ + γ²a) ‖e‖²:

$$ E‖\hat μ − μ‖^2 = \frac{V·(d^2 ν / k + a τ) + (D − β^2) ‖μ‖^2}{(1 − β)^2},
\quad V_t = (1 − 2γ + γ^2 a) V_{t-1} + γ^2, \quad D_t = (1 − 2γ + γ^2 a) D_{t-1}, $$

V_0 = 0, D_0 = 1. Directions spread it evenly over the coordinates. Here ν = σ²·rows/batch² (blank rows
of padded batches bring noise), and τ = (1 − (b−1)/(n−1))·(R² − ‖μ‖²)/b for batches of fixed size,
(1 − q)·R²/b for Poisson batches, 0 for all records: R² bounds the mean square of a record's norm, and is
it for squares. ‖μ‖² is estimated from ‖μ̂‖² less its own error. For large T all but the noise vanishes
against σ²d·rows/(T k batch²). Post-processing of releases: no cost of privacy.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from privot.errors import PrivotError
from privot.sliced.releases.mechanism import Slices
from privot.sliced.releases.plan import SlicePlan
from privot.transport.exact import transport_cost_1d


def with_blanks(projected: Tensor, plan: SlicePlan) -> Tensor:
    """Rows (n, k) with as large a share of zeros as a plan's batch has of blank ones."""
    blanks = round(len(projected) * (plan.rows / plan.accounting.batch_size - 1))
    return torch.cat([projected, projected.new_zeros(blanks, projected.shape[1])])


class PooledMean(nn.Module):
    """An unbiased running estimate of the mean record (d,); its state travels with a checkpoint.

    Arguments:
        plan: Of the releases to come.
    """

    mean: Tensor
    bias: Tensor
    count: Tensor
    gathered: Tensor
    memory: Tensor

    def __init__(self, plan: SlicePlan) -> None:
        super().__init__()
        accounting = plan.accounting
        self._dim, self._radius = accounting.dim, accounting.radius
        self.ratio = accounting.dim / accounting.num_projections
        # a of the recursion.
        count = accounting.num_projections
        self._second = self.ratio if accounting.orthonormal else self.ratio + (count - 1) / count
        # Rows hold the mean record times batch_size/rows: blanks count as zeros.
        self.padding = plan.rows / accounting.batch_size
        noise = plan.stddev**2 * self.padding / accounting.batch_size
        self._noise = self.ratio * accounting.dim * noise
        self._fixed_size = accounting.sampling == "without_replacement"
        others = max(accounting.records - 1, 1)
        left_out = (
            1 - (accounting.batch_size - 1) / others if self._fixed_size else 1 - accounting.rate
        )
        self._batch = self._second * left_out / accounting.batch_size
        self.register_buffer("mean", torch.zeros(accounting.dim))
        for name, start in (("bias", 1.0), ("count", 0.0), ("gathered", 0.0), ("memory", 1.0)):
            self.register_buffer(name, torch.tensor(start, dtype=torch.float64))

    @torch.no_grad()
    def add(self, slices: Slices) -> None:
        """Take one release into account."""
        self.count += 1
        gain = 1.0 / (float(self.count) + self.ratio)
        told = slices.values.mean(dim=0) * self.padding
        residual = told - slices.directions.T @ self.mean
        self.mean += gain * self.ratio * (slices.directions @ residual)
        self.bias *= 1.0 - gain
        kept = 1.0 - 2.0 * gain + gain**2 * self._second
        self.gathered.mul_(kept).add_(gain**2)
        self.memory *= kept

    @property
    def estimate(self) -> Tensor:
        """The unbiased mean record (d,); zeros before the first release."""
        return self.mean / max(float(1.0 - self.bias), 1e-12)

    @property
    def stddev(self) -> float:
        """Standard deviation of a coordinate's error: noise, batches and directions; ∞ before any.

        A function of releases: it may be published.
        """
        if not self.count:
            return math.inf
        bias, gathered, memory = float(self.bias), float(self.gathered), float(self.memory)
        scale = (1.0 - bias) ** 2
        noise = gathered * self._noise / scale
        batch = gathered * self._batch / scale
        start = max(memory - bias**2, 0.0) / scale
        longest = self._radius**2
        # ‖μ̂‖² = ‖μ‖² + error on average, where the error itself holds ‖μ‖².
        slope = start - batch if self._fixed_size else start
        seen = float(self.estimate.double().square().sum())
        length = (seen - noise - batch * longest) / (1.0 + slope)
        error = noise + batch * longest + slope * min(max(length, 0.0), longest)
        return math.sqrt(error / self._dim)


def smoothed_sliced_loss(
    private: Tensor, generated: Tensor, stddev: float, q: int, rng: torch.Generator
) -> Tensor:
    """Mean over k slices of W_q^q between `private` (n, k), noisy, and `generated` (m, k) plus noise.

    Arguments:
        private: Released slices; constants.
        generated: Projections of what the generator made, along the same directions.
        stddev: Standard deviation σ of the noise that the released slices carry.
        q: 1 or 2.
        rng: Of the generated side's noise.

    Examples:
        >>> x = torch.tensor([[0.0], [1.0]])
        >>> smoothed_sliced_loss(x + 2, x, 0.0, 2, torch.Generator())
        tensor(4.)
    """
    if q not in (1, 2):
        raise PrivotError(f"q is {q}: the sliced loss is made for 1 and 2")
    noise = torch.randn(generated.shape, generator=rng, dtype=generated.dtype)
    noisy = generated + stddev * noise
    if len(private) != len(generated):
        return transport_cost_1d(noisy, private.detach(), q).mean()
    # Sorting contiguous rows is several times faster than sorting columns.
    target = np.sort(private.detach().numpy().T, axis=1)
    columns = noisy.T.contiguous()
    order = torch.from_numpy(np.argsort(columns.detach().numpy(), axis=1))
    gaps = columns.gather(1, order) - torch.from_numpy(target)
    return gaps.square().mean() if q == 2 else gaps.abs().mean()


def spread_loss(private: Tensor, generated: Tensor, stddev: float, rng: torch.Generator) -> Tensor:
    """Mean over slices of W_2² between the two sides, each moved to mean 0."""
    centered = private - private.mean(dim=0)
    return smoothed_sliced_loss(centered, generated - generated.mean(dim=0), stddev, 2, rng)
