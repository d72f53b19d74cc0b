r"""The sliced Wasserstein generator without privacy: what noise is to be compared with.

The generator of `studies.rivals.image_generator` follows batches of as many images of every label, x_c,
label by label along k fresh uniform directions a step,

$$ \mathrm{loss} = d · \frac1{10} \sum_c \overline{W_2^2}(x_c U,\ G_c U), $$

exact by sorting. (How labels enter is a choice of ours: the paper does not say. One-hot labels appended
to the pixels of mixed batches of 100 taught 75 and 74 %.) There is no noise, no clipping and no
guarantee: raw records decide every step.

References:
    Rakotomamonjy, Ralaivola, *Differentially private sliced Wasserstein distance* (2021), rows "SWD".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privot.training.loop import TrainingSettings, threads_for, train
from studies.common.directions import random_directions
from studies.rivals.image_generator import NUM_LABELS, ImageGenerator


@dataclass(frozen=True)
class SlicedGeneratorSettings:
    """Steps and sizes; a batch holds `images_a_label` of each label."""

    steps: int = 4000
    images_a_label: int = 50
    num_projections: int = 200
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

    of_label = [torch.where(y == label)[0] for label in range(NUM_LABELS)]
    shape = (NUM_LABELS, settings.images_a_label, settings.num_projections)
    wanted = torch.arange(NUM_LABELS).repeat_interleave(settings.images_a_label)

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        rows = [
            found[torch.randint(len(found), (settings.images_a_label,), generator=rng)]
            for found in of_label
        ]
        directions = random_directions(x.shape[1], settings.num_projections, rng).to(x)
        made = (generator.draw(wanted, rng) @ directions).reshape(shape).sort(dim=1).values
        real = (x[torch.cat(rows)] @ directions).reshape(shape).sort(dim=1).values
        return x.shape[1] * ((made - real) ** 2).mean(), 0.0

    with threads_for(0):
        train(
            generator,
            objective,
            TrainingSettings(settings.steps, settings.learning_rate, settings.averaging, seed),
        )
    return generator
