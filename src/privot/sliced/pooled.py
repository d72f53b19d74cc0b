r"""The mean record, pooled over all releases so far: what slices tell best.

A release of n rows along U has column means s = Uᵀμ + noise, with noise N(0, σ²/n). Back-projection
(d/k)·U s is unbiased for μ, but its variance holds ‖μ‖²/k of the directions' own. Following the
residual does away with it: with μ̂_0 = 0,

$$ \hat μ_t = \hat μ_{t-1} + γ_t \tfrac{d}{k} U_t (s_t - U_t^\top \hat μ_{t-1}),
\qquad γ_t = \frac{1}{t + d/k}. $$

As U_t is independent of the past and E (d/k) U Uᵀ = I, the error's mean shrinks by exactly 1 − γ_t a
step, so μ̂_t/(1 − Π(1 − γ)) is unbiased for every t. Its variance per coordinate tends to

$$ \frac{σ^2 d}{T n k} $$

(all steps weighted alike), to which the padding of Poisson batches adds the factor rows/batch:
blank rows bring noise. Post-processing of releases: no cost of privacy.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from privot.sliced.ledger import Plan
from privot.sliced.mechanism import Slices


class PooledMean(nn.Module):
    """An unbiased running estimate of the mean record (d,); its state travels with a checkpoint.

    Arguments:
        plan: Of the releases to come.
    """

    mean: Tensor
    bias: Tensor
    count: Tensor

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.ratio = max(1.0, plan.accounting.dim / plan.accounting.num_projections)
        # Rows hold the mean record times batch_size/rows: blanks count as zeros.
        self.padding = plan.rows / plan.accounting.batch_size
        accounting = plan.accounting
        self._one = plan.stddev * math.sqrt(
            self.padding * accounting.dim / (accounting.batch_size * accounting.num_projections)
        )
        self.register_buffer("mean", torch.zeros(accounting.dim))
        self.register_buffer("bias", torch.ones((), dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def add(self, slices: Slices) -> None:
        """Take one release into account."""
        self.count += 1
        gain = 1.0 / (float(self.count) + self.ratio)
        told = slices.values.mean(dim=0) * self.padding
        residual = told - slices.directions.T @ self.mean
        self.mean += gain * self.ratio * (slices.directions @ residual)
        self.bias *= 1.0 - gain

    @property
    def estimate(self) -> Tensor:
        """The unbiased mean record (d,); zeros before the first release."""
        return self.mean / max(float(1.0 - self.bias), 1e-12)

    @property
    def stddev(self) -> float:
        """Standard deviation of a coordinate's error, from the noise alone; public."""
        return self._one / math.sqrt(max(float(self.count), 1.0))
