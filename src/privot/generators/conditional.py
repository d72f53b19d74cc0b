r"""Generators that know which class they draw: a label beside the latent.

$$ G(z, c) = N\big((z, \mathrm{e}_c)\big), \qquad c ∼ p $$

with $e_c$ the unit vector of class c: any network whose latent is `num_labels` wider than z. The output
is the image followed by $e_c$, so that a labeled image is *one* record: what the privatized label says
about c and what the privatized pixels say about the image enter the same cost.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from privot.errors import PrivotError


class Network(Protocol):
    """What can be made conditional, as an `MLP`."""

    latent_dim: int
    num_features: int

    def __call__(self, latent: Tensor) -> Tensor:
        """Features (n, num_features) of latents (n, latent_dim)."""

    def draw_latent(self, num_rows: int, rng: torch.Generator) -> Tensor:
        """Latents (num_rows, latent_dim)."""


class Conditional(nn.Module):
    """Features (n, network.num_features + num_labels), the last ones a unit vector of the label.

    Arguments:
        network: With `num_labels` latent coordinates more than z has.
        shares: Probability of each label, public or estimated from private reports.

    Examples:
        >>> from privot.generators import MLP
        >>> generator = Conditional(MLP(latent_dim=2 + 3, num_features=4), torch.ones(3) / 3)
        >>> latent = generator.draw_latent(5, torch.Generator(), labels=torch.tensor([0, 1, 2, 2, 1]))
        >>> generator(latent).shape, generator(latent)[:, 4:].argmax(dim=1).tolist()
        (torch.Size([5, 7]), [0, 1, 2, 2, 1])
    """

    shares: Tensor

    def __init__(self, network: Network, shares: Tensor) -> None:
        super().__init__()
        if shares.ndim != 1 or not 1 <= len(shares) < network.latent_dim:
            raise PrivotError(
                f"shares of shape {tuple(shares.shape)} beside a latent of {network.latent_dim}: give "
                "one a label, fewer than the latent's coordinates"
            )
        if not (bool((shares >= 0).all()) and abs(float(shares.sum()) - 1) < 1e-4):
            raise PrivotError(f"shares {shares.tolist()} are no probabilities: make them sum to 1")
        self.network = network
        self.register_buffer("shares", shares.clone())
        self.num_labels = len(shares)
        self.latent_dim = network.latent_dim
        self.num_features = network.num_features + self.num_labels

    def forward(self, latent: Tensor) -> Tensor:
        """Features and the unit vectors of labels, of latents that end with those vectors."""
        return torch.cat([self.network(latent), latent[:, -self.num_labels :]], dim=1)

    def draw_latent(
        self, num_rows: int, rng: torch.Generator, labels: Tensor | None = None
    ) -> Tensor:
        """Latents (num_rows, latent_dim) whose end is the label's unit vector.

        Arguments:
            num_rows: How many.
            rng: Draws z, and the labels where none are given.
            labels: Classes (num_rows,) wanted.
        """
        if labels is None:
            labels = torch.multinomial(self.shares.cpu(), num_rows, replacement=True, generator=rng)
        z = self.network.draw_latent(num_rows, rng)[:, : -self.num_labels]
        hot = functional.one_hot(labels.to(z.device), self.num_labels)
        return torch.cat([z, hot.to(z)], dim=1)
