r"""Convolutional generators of images: DCGAN, with and without batch norm.

A latent becomes a small image of many channels, which transposed convolutions of stride 2 double in
size again and again while their channels are halved; rectifiers in between, tanh at the end:

 - 28 × 28: 7 → 14 → 28;
 - 32 × 32: 4 → 8 → 16 → 32;
 - 64 × 64: 4 → 8 → 16 → 32 → 64, for instance with 3 channels.

Batch norm makes each image depend on its batch. In a generator that is a matter of quality only (no
private record passes through it); Bie, Kamath and Zhang leave it out with large batches.

References:
    Radford, Metz, Chintala, *Unsupervised representation learning with deep convolutional generative
    adversarial networks* (2016). Bie, Kamath, Zhang, *Private GANs, revisited* (2023).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from privot.errors import PrivotError

_SMALLEST = {28: 7, 32: 4, 64: 4}


class DCGAN(nn.Module):
    """Images (n, channels · size²) in [−1, 1], channels first, of latents (n, latent_dim).

    Arguments:
        size: Height and width: 28, 32 or 64.
        channels: 1 for gray, 3 for color.
        latent_dim: Dimension of the latent; 100 in the papers.
        width: Channels of the last hidden layer; each layer before has twice as many.
        batch_norm: Whether to normalize over the batch.
        latent: `"uniform"` on [0, 1], as in the papers, or `"normal"`.
        seed: Of the initial weights.

    Examples:
        >>> generator = DCGAN(size=32, channels=3, latent_dim=8, width=4)
        >>> generator(generator.draw_latent(2, torch.Generator())).shape
        torch.Size([2, 3072])
    """

    def __init__(
        self,
        size: int = 28,
        channels: int = 1,
        *,
        latent_dim: int = 100,
        width: int = 64,
        batch_norm: bool = True,
        latent: Literal["uniform", "normal"] = "uniform",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if size not in _SMALLEST:
            raise PrivotError(f"size {size} is not known: use one of {sorted(_SMALLEST)}")
        if latent not in ("uniform", "normal"):
            raise PrivotError(f"latent {latent!r} is not known: use 'uniform' or 'normal'")
        if min(channels, latent_dim, width) < 1:
            raise PrivotError(
                f"channels {channels}, latent_dim {latent_dim}, width {width}: give at least 1 of each"
            )
        self.size, self.channels, self.latent_dim, self.latent = size, channels, latent_dim, latent
        self.num_features = channels * size * size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = self._build(width, batch_norm)

    def _build(self, width: int, batch_norm: bool) -> nn.Sequential:
        smallest = _SMALLEST[self.size]
        doublings = (self.size // smallest).bit_length() - 1
        wide = width * 2 ** (doublings - 1)
        layers: list[nn.Module] = [
            nn.Linear(self.latent_dim, wide * smallest**2),
            nn.Unflatten(1, (wide, smallest, smallest)),
        ]
        for doubling in range(doublings):
            layers += [nn.BatchNorm2d(wide)] if batch_norm else []
            narrower = self.channels if doubling == doublings - 1 else wide // 2
            layers += [nn.ReLU(), nn.ConvTranspose2d(wide, narrower, 4, stride=2, padding=1)]
            wide = narrower
        return nn.Sequential(*layers, nn.Tanh(), nn.Flatten())

    def forward(self, latent: Tensor) -> Tensor:
        """Images (n, channels · size²) of latents (n, latent_dim)."""
        images: Tensor = self.layers(latent)
        return images

    def draw_latent(self, num_rows: int, rng: torch.Generator) -> Tensor:
        """Latents (num_rows, latent_dim) on the generator's device."""
        draw = torch.rand if self.latent == "uniform" else torch.randn
        latent = draw(num_rows, self.latent_dim, generator=rng)
        return latent.to(next(self.parameters()).device)
