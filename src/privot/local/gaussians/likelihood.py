r"""The likelihood of Gaussian classes given candidates, in closed form.

A report's y has a part for each label c: one number $y_{c0}$ for the label itself and q numbers $y_c$
for the point, so that of a record with label c and point z

$$ u = \sqrt{a_0} \, y_{c0} + \sqrt{a_1} \, ⟨y_c, z⟩ , $$

and for a Gaussian z′ ([`law`][privot.local.gaussians.law]) u is normal, with mean $μ = \sqrt{a_0}
y_{c0} + \sqrt{a_1} k_c ⟨y_c, m_c⟩$ and variance $v = a_1 k_c^2 \, y_c^⊤ P_c (A A^⊤ + D) P_c \, y_c$. So
the mean of the smooth step ([`channel`][privot.local.gaussians.channel]) is a smooth step, and

$$ p(y) = \sum_c w_c \, \frac{1}{Z_c} \Big( b + (a − b) Φ\Big( \frac{μ − t}{\sqrt{v + τ^2}} \Big)
\Big) , \qquad Z_c = \mathbb E \, Z(a_0 + a_1 ‖z'‖^2) $$

is a density for all parameters: without $Z_c$, longer and longer points would explain more and more.
$‖z'‖^2$ is taken as log-normal, with its own mean, 1, and its own variance, by Gauss–Hermite quadrature.
Missing points are a class of each label whose only point is their own feature.

*Why not moments alone.* Means of reports are linear in the features' moments, and unbiased. But f is
far from linear where ε is large: its k-th Hermite coefficient tells about k-th moments, and the second
is $g/\sqrt2$ times the first. The likelihood takes all of them. On 60 000 images with ten labels it
needs no second moments in a report, which are therefore all about first ones.

**The prior** shrinks what reports say little about. Deviations of class means from their common mean
are normal, with the variance that the linear estimate has beyond its known noise; factors are normal
about 0, variances log-normal about typical ones: narrowly those of a point's direction, widely those of
its length and brightness, of which there are few, and which differ most between data sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from privot.local.gaussians.channel import SmoothChannel
from privot.local.gaussians.law import GaussianClasses
from privot.schema import Array

_NODES, _SHORTEST = 9, 1e-6
# Standard deviations of logarithms, of shares, and of the variances' level.
_SHARE_SPREAD, _LEVEL_SPREAD = 1.0, 0.5
# A factor's numbers are that much less than a variance's share, in units of its standard deviation.
_FACTOR_PRECISION = 1.5


@dataclass(frozen=True)
class LabelParts:
    """Reports y (n, D), part by part.

    Arguments:
        labels: $y_{c0}$ (n, C); zeros without labels.
        points: $y_c$ (n, C, q).
        missing: The number of missing points (n,); zeros where none may be.
    """

    labels: Tensor
    points: Tensor
    missing: Tensor


@dataclass(frozen=True)
class Start:
    """Where a fit starts, and what it shrinks to.

    Arguments:
        shares: w (C,).
        missing: Share of missing points.
        means: m (C, q).
        deviation: Variance of a number's deviation from the common mean, between classes.
        variances: Typical ones (q,) of z given the class.
        spreads: How far off these are (q,), in logarithms of standard deviations.
    """

    shares: Array
    missing: float
    means: Array
    deviation: float
    variances: Array
    spreads: Array


class ClassParameters(nn.Module):
    """Parameters of Gaussian classes, their likelihood, and their prior.

    Arguments:
        channel: Of the reports.
        start: Where to start.
        num_factors: r.
        nullable: Whether points may be missing.
        seed: Of the factors' start.
    """

    base: Tensor
    spreads: Tensor
    nodes: Tensor
    weights: Tensor

    def __init__(
        self, channel: SmoothChannel, start: Start, num_factors: int, nullable: bool, seed: int
    ) -> None:
        super().__init__()
        self.channel, self.nullable, self.deviation = channel, nullable, start.deviation
        count, size = start.means.shape
        rng = torch.Generator().manual_seed(seed)
        self.logits = nn.Parameter(_single(np.log(start.shares)))
        self.missing = nn.Parameter(
            torch.full((count,), math.log(start.missing / (1 - start.missing)))
        )
        self.means = nn.Parameter(_single(start.means))
        # Half of a variance is for the factors together, to begin with.
        self.register_buffer("base", _single(start.variances / 2))
        self.register_buffer("spreads", _single(start.spreads))
        spread = torch.sqrt(self.base / num_factors)[:, None]
        self.factors = nn.Parameter(spread * torch.randn(size, num_factors, generator=rng))
        self.log_ratios = nn.Parameter(torch.zeros(size))
        self.log_level = nn.Parameter(torch.zeros(()))
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        self.register_buffer("nodes", _single(nodes))
        self.register_buffer("weights", _single(weights / weights.sum()))

    @property
    def variances(self) -> Tensor:
        """Of D (q,)."""
        return self.base * torch.exp(2 * (self.log_ratios + self.log_level))

    def log_densities(self, y: LabelParts) -> Tensor:
        """Ln p of reports, (n,)."""
        channel, variances = self.channel, self.variances
        one, linear = channel.label_weight, 1 - channel.label_weight
        lengths = self.means.norm(dim=1).clamp_min(_SHORTEST)
        directions = self.means / lengths[:, None]
        flatness, trace, square = self._traces(lengths, directions, variances)
        squared_scales = 1 / (lengths**2 + trace)
        along = (y.points * directions).sum(dim=2)
        across = y.points - (flatness * along)[:, :, None] * directions
        label = math.sqrt(one) * y.labels
        mean = label + math.sqrt(linear) * along * lengths * squared_scales.sqrt()
        spread = ((across @ self.factors) ** 2).sum(dim=2) + across**2 @ variances
        density = self._smooth_step(mean, linear * squared_scales * spread)
        density = density / self._mass(linear, squared_scales**2 * square)
        if self.nullable:
            absent = torch.sigmoid(self.missing)
            alone = self._smooth_step(label + math.sqrt(linear) * y.missing[:, None], 0.0)
            density = (1 - absent) * density + absent * alone
        return torch.log((torch.softmax(self.logits, dim=0) * density).sum(dim=1))

    def penalty(self) -> Tensor:
        """−ln of the prior, but for constants."""
        away = self.means - self.means.mean(dim=0)
        total = (away**2).sum() / self.deviation
        total = total + ((self.logits - self.logits.mean()) ** 2).sum() / _SHARE_SPREAD**2
        total = total + ((self.log_ratios / self.spreads) ** 2).sum()
        total = total + self.log_level**2 / _LEVEL_SPREAD**2
        variance = 2 * self.base[:, None] / self.factors.shape[1]
        return (total + _FACTOR_PRECISION * (self.factors**2 / variance).sum()) / 2

    @torch.no_grad()
    def law(self) -> GaussianClasses:
        """What the parameters stand for."""
        absent = torch.sigmoid(self.missing) if self.nullable else torch.zeros_like(self.missing)
        shares = torch.softmax(self.logits.double(), dim=0)
        parts = (shares, absent, self.means, self.factors, self.variances)
        return GaussianClasses(self.channel, *(part.double().numpy().copy() for part in parts))

    def _smooth_step(self, mean: Tensor, variance: Tensor | float) -> Tensor:
        channel = self.channel
        width = torch.sqrt(torch.as_tensor(channel.width**2 + variance))
        step = torch.special.ndtr((mean - channel.threshold) / width)
        return channel.outside + (channel.inside - channel.outside) * step

    def _traces(
        self, lengths: Tensor, directions: Tensor, variances: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """ρ, the trace of $P_c S P_c$, S being $A A^⊤ + D$, and the variance of $‖z'‖^2 / k_c^2$."""
        factors = self.factors
        product = factors.T @ factors
        scaled = directions @ factors @ factors.T + directions * variances
        along = (scaled * directions).sum(dim=1)
        whole = product.diagonal().sum() + variances.sum()
        flatness = lengths**2 / (lengths**2 + whole)
        removed = 2 * flatness - flatness**2
        square = (product**2).sum() + 2 * (factors**2).sum(dim=1) @ variances + (variances**2).sum()
        square = square - 2 * removed * (scaled**2).sum(dim=1) + (removed * along) ** 2
        radial = lengths**2 * (1 - flatness) ** 2 * along
        return flatness, whole - removed * along, 2 * square + 4 * radial

    def _mass(self, linear: float, variance: Tensor) -> Tensor:
        """$Z_c$ (C,), of squared lengths of mean 1 and this variance."""
        channel = self.channel
        logarithmic = torch.log1p(variance)[:, None]
        lengths = torch.exp(torch.sqrt(logarithmic) * self.nodes - logarithmic / 2)
        total = channel.label_weight + linear * lengths + channel.width**2
        below = torch.special.ndtr(-channel.threshold / total.sqrt()) @ self.weights
        return channel.outside + (channel.inside - channel.outside) * below


def _single(values: Array) -> Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)
