r"""The small convolutional generator of labeled images that DP-MERF and DP-SWD share.

Code z ∼ N(0, I_10) and one-hot label → FC 200, batch norm, ReLU → FC 784, batch norm, ReLU →
16 × 7 × 7 → twice as large, 5 × 5 convolution to 8, ReLU → twice as large, 5 × 5 convolution to 1,
sigmoid: 28 × 28
pixels in [0, 1], about 180 000 weights. Batch norm is harmless here: its batches are latents, nobody's
records.

References:
    Harder, Adamczewski, Park, *DP-MERF: differentially private mean embeddings with random features for
    practical privacy-preserving data generation* (2021); Rakotomamonjy, Ralaivola, *Differentially
    private sliced Wasserstein distance* (2021), table 3.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

LATENT_DIM = 10
NUM_LABELS = 10
SIDE = 28
_CHUNK = 2000


class ImageGenerator(nn.Module):
    """Images (n, 784) in [0, 1] of latents and labels.

    Arguments:
        seed: Of the initial weights.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.dense = nn.Sequential(
                nn.Linear(LATENT_DIM + NUM_LABELS, 200),
                nn.BatchNorm1d(200),
                nn.ReLU(),
                nn.Linear(200, 16 * 7 * 7),
                nn.BatchNorm1d(16 * 7 * 7),
                nn.ReLU(),
            )
            self.convolutions = nn.Sequential(
                nn.Upsample(scale_factor=2),
                nn.Conv2d(16, 8, 5, padding=2),
                nn.ReLU(),
                nn.Upsample(scale_factor=2),
                nn.Conv2d(8, 1, 5, padding=2),
                nn.Sigmoid(),
            )

    def draw(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """One image (n, 784) for each label, from fresh latents; differentiable in the weights."""
        latent = torch.randn(len(labels), LATENT_DIM, generator=rng)
        one_hot = nn.functional.one_hot(labels, NUM_LABELS).to(latent)
        maps = self.dense(torch.cat([latent, one_hot], dim=1)).reshape(-1, 16, 7, 7)
        # In this format convolutions take half the time.
        maps = maps.contiguous(memory_format=torch.channels_last)
        images: Tensor = self.convolutions(maps)
        return images.flatten(1)

    @torch.no_grad()
    def sample(self, labels: Tensor, seed: int = 0) -> np.ndarray:
        """Images (n, 784) as an array, with the batch norm's running statistics."""
        self.eval()
        rng = torch.Generator().manual_seed(seed)
        return torch.cat([self.draw(part, rng) for part in labels.split(_CHUNK)]).numpy()
