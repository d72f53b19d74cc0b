r"""DP-SWD's generator at the noise that its paper prints, with labels inside or outside the record.

The paper does not say how labels enter. Two readings:

- **overall**: a record is the image with its weighted one-hot label appended,
  r = R (x, w e_y)/‖(x, w e_y)‖, R = ½, and a release holds slices of a mixed batch;
- **by label**: r = R x / max(C, ‖x‖), C public, a release holds slices of ten images of every label, and
  slices of a label are compared with those of generated images of this label. **Labels are public.**

Either way the loss of a step is $d · \overline{W_2^2}(XU + V, R_G U + V')$, V, V′ ∼ N(0, σ²), σ given.

**What is promised: nothing.** Noise comes from a seed, for comparisons only. What σ would be worth if it
did not, of an image whose label is public where slices are by label, `studies.sliced.accounts` says.

**What to expect.** B rows give a mean along a direction with noise σ/√B; k directions in d dimensions
and T releases tell every coordinate of a mean to σ √(d/(kBT)): .001 of all images for σ = 2.94, B = 100,
and .0034 of a label, B = 10, beside values of about R/√d = .018. So means by label are learned, and
what an appended label says is a second moment, and is not.

References:
    Rakotomamonjy, Ralaivola, *Differentially private sliced Wasserstein distance* (2021), tables 2 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privot.training.loop import TrainingSettings, threads_for, train
from studies.rivals.image_generator import NUM_LABELS, ImageGenerator
from studies.rivals.published_slices import AppendedLabels, with_label

RADIUS = 0.5


@dataclass(frozen=True)
class PrintedSlicesSettings:
    """Public numbers.

    Arguments:
        stddev: σ of every slice.
        by_label: Whether slices are compared label by label.
        steps: Releases.
        batch_size: Rows of a release, a multiple of ten.
        num_projections: k.
        cut: C, the norm at which images are cut by label: about a batch's largest, by which the
            paper divides.
        label_weight: w of an appended label.
        learning_rate: Peak of Adam's.
        averaging: Decay of the moving average of the weights.
    """

    stddev: float = 2.94
    by_label: bool = True
    steps: int = 60_000
    batch_size: int = 100
    num_projections: int = 1000
    cut: float = 14.0
    label_weight: float = 5.0
    learning_rate: float = 1e-3
    averaging: float = 0.999

    def records(self, images: Tensor, labels: Tensor) -> Tensor:
        """Records of norm ½ at most, of images (n, 784) in [0, 1] and labels (n,)."""
        if self.by_label:
            return RADIUS * images / images.norm(dim=1, keepdim=True).clamp_min(self.cut)
        rows = with_label(images, labels, self.label_weight)
        return AppendedLabels(rows.shape[1], RADIUS).features(rows)


def fit_printed_slices(
    images: np.ndarray, labels: np.ndarray, settings: PrintedSlicesSettings, *, seed: int = 0
) -> ImageGenerator:
    """Train a generator on noisy slices of images (n, 784) in [0, 1] and labels (n,)."""
    x, y = torch.from_numpy(images).float(), torch.from_numpy(labels).long()
    of_label = [torch.where(y == label)[0] for label in range(NUM_LABELS)]
    each, k = settings.batch_size // NUM_LABELS, settings.num_projections
    in_turn = torch.arange(NUM_LABELS).repeat_interleave(each)
    generator = ImageGenerator(seed)

    def noisy(rows: Tensor, directions: Tensor, rng: torch.Generator) -> Tensor:
        noise = settings.stddev * torch.randn(len(rows), k, generator=rng)
        groups = NUM_LABELS if settings.by_label else 1
        return (rows @ directions + noise).reshape(groups, -1, k).sort(dim=1).values

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        if settings.by_label:
            wanted = in_turn
            drawn = [own[torch.randint(len(own), (each,), generator=rng)] for own in of_label]
            rows = torch.cat(drawn)
        else:
            wanted = torch.randint(NUM_LABELS, (settings.batch_size,), generator=rng)
            rows = torch.randint(len(x), (settings.batch_size,), generator=rng)
        real = settings.records(x[rows], y[rows])
        made = settings.records(generator.draw(wanted, rng), wanted)
        directions = torch.randn(real.shape[1], k, generator=rng)
        directions /= directions.norm(dim=0)
        distance = noisy(made, directions, rng) - noisy(real, directions, rng)
        return real.shape[1] * distance.square().mean(), 0.0

    how = TrainingSettings(settings.steps, settings.learning_rate, settings.averaging, seed)
    with threads_for(0):
        train(generator, objective, how)
    return generator
