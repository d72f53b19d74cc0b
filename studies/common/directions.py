"""Random directions of sliced distances."""

from __future__ import annotations

import torch
from torch import Tensor


def random_directions(dimension: int, num_projections: int, rng: torch.Generator) -> Tensor:
    """Draw independent uniform directions, the unit columns of a (dimension, num_projections) matrix.

    They are in double precision and on the generator's device, so that they depend on the seed only.
    """
    shape = (dimension, num_projections)
    normal = torch.randn(shape, generator=rng, dtype=torch.float64, device=rng.device)
    return normal / normal.norm(dim=0)
