r"""The sliced Wasserstein generator without privacy: what noise is to be compared with.

The generator of `studies.rivals.image_generator` follows batches of records r(x, y) = (x, w e_y), the
one-hot label **appended** to the pixels (a choice of ours: the paper does not say how labels enter),
along k fresh uniform directions a step:

$$ \mathrm{loss} = d · \overline{W_q^q}(R U,\ G U), $$

exact by sorting. There is no noise, no clipping and no guarantee: raw records decide every step.

References:
    Rakotomamonjy, Ralaivola, *Differentially private sliced Wasserstein distance* (2021), rows "SWD".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privot.sliced.loss import smoothed_sliced_loss
from privot.training import TrainingSettings, train
from privot.training.parallel import threads_for
from privot.transport.exact import random_directions
from studies.rivals.image_generator import NUM_LABELS, ImageGenerator


@dataclass(frozen=True)
class SlicedGeneratorSettings:
    """Steps and sizes; `label_weight` multiplies the appended one-hot label."""

    steps: int = 6000
    batch_size: int = 100
    num_projections: int = 1000
    label_weight: float = 5.0
    q: int = 2
    learning_rate: float = 1e-3
    averaging: float = 0.99


def fit_sliced_generator(
    images: np.ndarray,
    labels: np.ndarray,
    settings: SlicedGeneratorSettings | None = None,
    *,
    seed: int = 0,
) -> ImageGenerator:
    """Train a generator on images (n, 784) in [0, 1] and labels (n,); no privacy."""
    settings = settings or SlicedGeneratorSettings()
    x, y = torch.from_numpy(images).float(), torch.from_numpy(labels).long()
    generator = ImageGenerator(seed)

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        rows = torch.randint(len(x), (settings.batch_size,), generator=rng)
        drawn = torch.randint(NUM_LABELS, (settings.batch_size,), generator=rng)
        real = with_label(x[rows], y[rows], settings.label_weight)
        made = with_label(generator.draw(drawn, rng), drawn, settings.label_weight)
        dim = real.shape[1]
        directions = random_directions(dim, settings.num_projections, rng).to(real)
        loss = smoothed_sliced_loss(real @ directions, made @ directions, 0.0, settings.q, rng)
        return dim * loss, 0.0

    with threads_for(0):
        train(
            generator,
            objective,
            TrainingSettings(settings.steps, settings.learning_rate, settings.averaging, seed),
        )
    return generator


def with_label(images: Tensor, labels: Tensor, weight: float) -> Tensor:
    """Images with their weighted one-hot labels appended, (n, 784 + 10)."""
    one_hot = torch.nn.functional.one_hot(labels, NUM_LABELS).to(images)
    return torch.cat([images, weight * one_hot], dim=1)
