"""A multilayer perceptron from standard normal latents to features."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from privot.errors import PrivotError


class MLP(nn.Module):
    r"""The generator $G(z) = W_L\, φ(… φ(W_1 z + b_1) …) + b_L$ with $z ∼ N(0, I)$.

    φ is a leaky rectifier of slope 0.1: piecewise linear, so that sharp edges and isolated clusters
    are cheap to express.

    Arguments:
        latent_dim: Dimension of z.
        num_features: Dimension of G(z).
        hidden: Widths of the hidden layers.
        seed: Of the initial weights.

    Examples:
        >>> MLP(latent_dim=2, num_features=3, hidden=(8,), seed=0)(torch.zeros(5, 2)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        latent_dim: int,
        num_features: int,
        hidden: tuple[int, ...] = (256, 256),
        seed: int = 0,
    ) -> None:
        super().__init__()
        if latent_dim < 1 or num_features < 1 or any(width < 1 for width in hidden):
            raise PrivotError(
                f"latent_dim {latent_dim}, num_features {num_features}, hidden {hidden}: "
                "give sizes of at least 1"
            )
        self.latent_dim, self.num_features, self.hidden = latent_dim, num_features, tuple(hidden)
        widths = [latent_dim, *hidden]
        layers: list[nn.Module] = []
        # PyTorch's layers draw their weights from the global generator: lend it a seed, then restore.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for width_in, width_out in pairwise(widths):
                layers += [nn.Linear(width_in, width_out), nn.LeakyReLU(0.1)]
            layers.append(nn.Linear(widths[-1], num_features))
        self.layers = nn.Sequential(*layers)

    def forward(self, latent: Tensor) -> Tensor:
        """Features (n, num_features) of latents (n, latent_dim)."""
        features: Tensor = self.layers(latent)
        return features

    def draw_latent(self, num_rows: int, rng: torch.Generator) -> Tensor:
        """Standard normal latents (num_rows, latent_dim) on the generator's device."""
        latent = torch.randn(num_rows, self.latent_dim, generator=rng)
        return latent.to(next(self.parameters()).device)
