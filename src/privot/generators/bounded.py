r"""Outputs between −1 and 1, starting from a given mean.

$$ G(z) = \tanh\big(N(z) + o\big), \qquad o = \mathrm{artanh}(m) \text{ at the start,} $$

with a network N and learned offsets o. Pixels have public limits, and a generator that cannot leave
them need not learn them. Noise is centered, so the mean of many reports is near the mean of the records:
m costs nothing that was not released, and the first steps need not look for it.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from privot.errors import PrivotError
from privot.generators.mlp import MLP

_NEAREST = 0.995


class Bounded(nn.Module):
    """An MLP behind tanh, its latents normal or uniform on [0, 1].

    Arguments:
        network: Maps latents (n, latent_dim) to numbers (n, d).
        mean: Where outputs start (d,), clamped to ±0.995.
        latent: `"normal"`, or the papers' `"uniform"`.

    Examples:
        >>> network = Bounded(MLP(latent_dim=2, num_features=3), torch.zeros(3))
        >>> images = network(network.draw_latent(4, torch.Generator().manual_seed(0)))
        >>> images.shape, bool(images.abs().max() < 1)
        (torch.Size([4, 3]), True)
    """

    def __init__(
        self, network: MLP, mean: Tensor, latent: Literal["normal", "uniform"] = "normal"
    ) -> None:
        super().__init__()
        if mean.shape != (network.num_features,):
            raise PrivotError(
                f"mean has shape {tuple(mean.shape)}: give ({network.num_features},), one a feature"
            )
        if latent not in ("normal", "uniform"):
            raise PrivotError(f"latent {latent!r} is not known: use 'normal' or 'uniform'")
        self.network, self.latent = network, latent
        self.latent_dim, self.num_features = network.latent_dim, network.num_features
        self.offset = nn.Parameter(mean.clamp(-_NEAREST, _NEAREST).atanh())

    def forward(self, latent: Tensor) -> Tensor:
        """Features (n, d) in (−1, 1) of latents (n, latent_dim)."""
        return torch.tanh(self.network(latent) + self.offset)

    def draw_latent(self, num_rows: int, rng: torch.Generator) -> Tensor:
        """Latents (num_rows, latent_dim) on the generator's device."""
        if self.latent == "normal":
            return self.network.draw_latent(num_rows, rng)
        return torch.rand(num_rows, self.latent_dim, generator=rng).to(self.offset.device)
