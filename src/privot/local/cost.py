r"""The matched cost: where privacy theory meets transport theory.

Let record X ~ P_X be released as Y ~ M(·|X) with density f(y|x). For a generator G and the entropic
transport problem

$$ \mathrm{OT}(P_G, P_Y) = \min_π\; E_π[−\log f(Y|G)] + I_π(G; Y) , $$

whose cost is the mechanism's **negative log-likelihood** and whose entropic weight is 1:

**Theorem (recovery).** If P_X can be generated, and M is identifiable (M#P = M#Q only if P = Q: true
for additive noise whose characteristic function does not vanish, and for randomized response), then
every minimizer generates the distribution P_X of the *clean* records, not the noisy P_Y.

*Proof.* For any coupling π of P_G and P_Y, expanding the mutual information gives

$$ E_π[−\log f(Y|G)] + I_π(G;Y) = h(Y) + \mathrm{KL}(π ‖ P_G · f(y|g)) ≥ h(Y) , $$

with equality iff Y|G has density f under π, which forces M#P_G = P_Y = M#P_X, so P_G = P_X; and
P_G = P_X with π the law of (X, Y) attains it. ∎

The identity holds for every channel. For a generator that outputs *probabilities* p(v|z) of the
categories, the latent z takes the place of G, the cost is −log Σ_v p(v|z) f(y|v), and the excess of
the loss bounds the excess of a latent-variable likelihood. Columns are randomized independently, so
their costs add up; a column that was not reported says nothing about x and adds 0.

Terms of −log f that do not depend on x shift the loss by a constant and are left out: for Laplace
noise of scale b the cost is ‖x − y‖₁/b, for Gaussian noise ‖x − y‖₂²/(2σ²). Both are the densities of
continuous noise; on the grid that the mechanisms draw from, 2^−19 of the noise or finer, they agree
with the exact probabilities up to relative errors of the same size.

Privacy: everything here is computed from a release, so it is post-processing and costs nothing.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), theorem 1. Rigollet, Weed, *Entropic optimal transport is maximum-likelihood
    deconvolution* (2018).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.local.heads import Outputs
from privot.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse
from privot.release import Randomizer, Release
from privot.transport import manhattan, squared_euclidean


@dataclass(frozen=True)
class Reports:
    """A batch of reports as tensors: by column, noisy values and a mask of who reported them.

    Values are unit coordinates (m, d) or category indices (m,); a mask is None where everybody
    reported the column.
    """

    values: Mapping[str, Tensor]
    reported: Mapping[str, Tensor | None]

    @classmethod
    def of(cls, release: Release, device: torch.device) -> Self:
        """All reports of a release."""
        values: dict[str, Tensor] = {}
        reported: dict[str, Tensor | None] = {}
        for name in release.schema.columns:
            reports, mask = release.reports(name)
            dtype = torch.int64 if name in release.schema.categorical else torch.float32
            values[name] = torch.as_tensor(reports).to(device, dtype)
            reported[name] = None if mask.all() else torch.as_tensor(mask).to(device, torch.float32)
        return cls(values, reported)

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def rows(self, index: Tensor) -> Reports:
        """The reports at some indices."""
        return Reports(
            {name: values[index] for name, values in self.values.items()},
            {name: None if m is None else m[index] for name, m in self.reported.items()},
        )


class LikelihoodCost:
    """Costs −log f(y_j | output_i) between a head's outputs and a batch of reports.

    Arguments:
        randomizer: Whose mechanisms made the reports.
    """

    def __init__(self, randomizer: Randomizer) -> None:
        self.channels = {
            name: _channel(mechanism) for name, mechanism in randomizer.mechanisms.items()
        }

    def __call__(self, outputs: Outputs, reports: Reports) -> Tensor:
        """Costs (n, m) of n outputs and m reports, up to a constant; differentiable in the outputs."""
        total: Tensor | None = None
        for name, channel in self.channels.items():
            cost = channel.cost(outputs[name], reports.values[name])
            mask = reports.reported[name]
            if mask is not None:
                cost = cost * mask
            total = cost if total is None else total + cost
        assert total is not None
        return total

    @torch.no_grad()
    def simulate(self, outputs: Outputs, like: Reports, rng: torch.Generator) -> Reports:
        """Reports that people with these outputs as records would send, one a row.

        Which columns they report is taken from `like` (of as many rows): it is drawn independently
        of the records. The noise is only a simulation, from a seeded generator: it protects nobody.
        """
        values = {
            name: channel.simulate(outputs[name], rng) for name, channel in self.channels.items()
        }
        return Reports(values, like.reported)


class _LaplaceChannel:
    def __init__(self, mechanism: Laplace) -> None:
        self.scale = mechanism.scale

    def cost(self, x: Tensor, y: Tensor) -> Tensor:
        return manhattan(x / self.scale, y / self.scale)

    def simulate(self, x: Tensor, rng: torch.Generator) -> Tensor:
        uniform = torch.rand(x.shape, generator=rng).to(x.device) - 0.5
        magnitude = -torch.log1p(-2 * uniform.abs().clamp_max(0.5 - 2.0**-26))
        return x + self.scale * uniform.sign() * magnitude


class _GaussianChannel:
    def __init__(self, mechanism: Gaussian) -> None:
        self.stddev = mechanism.stddev

    def cost(self, x: Tensor, y: Tensor) -> Tensor:
        return squared_euclidean(x / self.stddev, y / self.stddev) / 2

    def simulate(self, x: Tensor, rng: torch.Generator) -> Tensor:
        return x + self.stddev * torch.randn(x.shape, generator=rng).to(x.device)


class _ResponseChannel:
    """k-ary randomized response: f(y|v) is `keep` if y = v, else `other`."""

    def __init__(self, mechanism: RandomizedResponse) -> None:
        self.keep, self.other = mechanism.probabilities

    def cost(self, log_probabilities: Tensor, y: Tensor) -> Tensor:
        # Σ_v p(v) f(y|v) = other + (keep − other) p(y), one value a category, then looked up.
        p = log_probabilities.exp()
        return -torch.log(self.other + (self.keep - self.other) * p)[:, y]

    def simulate(self, log_probabilities: Tensor, rng: torch.Generator) -> Tensor:
        p = self.other + (self.keep - self.other) * log_probabilities.exp()
        drawn = torch.multinomial(p.cpu(), 1, replacement=True, generator=rng)
        return drawn[:, 0].to(log_probabilities.device)


_CHANNELS: dict[type[Mechanism], Callable[[Any], Any]] = {
    Laplace: _LaplaceChannel,
    Gaussian: _GaussianChannel,
    RandomizedResponse: _ResponseChannel,
}


def _channel(mechanism: Mechanism) -> Any:
    if type(mechanism) not in _CHANNELS:
        raise PrivotError(
            f"mechanism {type(mechanism).__name__} has no likelihood here: "
            f"use one of {', '.join(known.__name__ for known in _CHANNELS)}"
        )
    return _CHANNELS[type(mechanism)](mechanism)
