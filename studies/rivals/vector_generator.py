"""A small dense generator of labeled vectors in the unit cube: DP-MERF's, where records are no images.

Code z ∼ N(0, I_10) and one-hot label → FC 200, batch norm, ReLU, twice → FC d, sigmoid. Batch norm is
harmless here: its batches are latents, nobody's records.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from studies.rivals.image_generator import LATENT_DIM, NUM_LABELS

_WIDTH = 200
_CHUNK = 2000


class VectorGenerator(nn.Module):
    """Vectors (n, d) in [0, 1]^d of latents and labels.

    Arguments:
        dimension: Their number d of coordinates.
        seed: Of the initial weights.
    """

    def __init__(self, dimension: int, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            widths, layers = (LATENT_DIM + NUM_LABELS, _WIDTH, _WIDTH), []
            for before, after in pairwise(widths):
                layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
            self.layers = nn.Sequential(*layers, nn.Linear(_WIDTH, dimension), nn.Sigmoid())

    def draw(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """One vector (n, d) for each label, from fresh latents; differentiable in the weights."""
        latent = torch.randn(len(labels), LATENT_DIM, generator=rng)
        one_hot = nn.functional.one_hot(labels, NUM_LABELS).to(latent)
        vectors: Tensor = self.layers(torch.cat([latent, one_hot], dim=1))
        return vectors

    @torch.no_grad()
    def sample(self, labels: Tensor, seed: int = 0) -> np.ndarray:
        """Vectors (n, d) as an array, with the batch norm's running statistics."""
        self.eval()
        rng = torch.Generator().manual_seed(seed)
        return torch.cat([self.draw(part, rng) for part in labels.split(_CHUNK)]).numpy()
