r"""The sliced Wasserstein generator with privacy as published, but accounted exactly.

Every step releases noisy slices of a fresh batch, (U, XU + V), and the generator of
`studies.rivals.image_generator` follows them by the smoothed sliced loss of that one release:

$$ \mathrm{loss} = d · \overline{W_2^2}(XU + V,\ R_G U + V'), \qquad V, V' ∼ N(0, σ^2). $$

A record is the image with its weighted one-hot label **appended**, divided by its own norm and
multiplied by the public radius R = ½: r = R (x, w e_y)/‖(x, w e_y)‖. (The paper divides a batch by its
largest norm, which is private; it does not say how labels enter.) What is made goes through the same
map.

**What is promised.** Adjacency `replace_one`; records have no negative entry, so Δ = √2·R. σ is that of
the privacy-loss distribution, batches are drawn without replacement by the operating system's coins,
and `SlicingMechanism` alone sees records. Everything else is post-processing.

**What to expect.** A slice of one record is a signal of R/√d ≈ .018 in noise σ ≈ ½, and how pixels
go with labels is a second moment of the appended record: out of reach of first moments.

References:
    Rakotomamonjy, Ralaivola, *Differentially private sliced Wasserstein distance* (2021), algorithm 1
    and table 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privot.central.slice_fit import smoothed_sliced_loss
from privot.central.slices import SlicePlan, SlicingMechanism
from privot.privacy import ApproximateDP
from privot.privacy.ledger import Ledger
from privot.privacy.slice_accounting import SlicedAccounting
from privot.training.loop import TrainingSettings, threads_for, train
from studies.rivals.image_generator import NUM_LABELS, ImageGenerator


@dataclass(frozen=True)
class PublishedSlicesSettings:
    """Steps and sizes; `label_weight` multiplies the appended one-hot label, `radius` is public."""

    steps: int = 60_000
    batch_size: int = 100
    num_projections: int = 1000
    radius: float = 0.5
    label_weight: float = 5.0
    q: int = 2
    learning_rate: float = 1e-3
    averaging: float = 0.99


@dataclass(frozen=True)
class AppendedLabels:
    """Records R·r/‖r‖ of rows r = (pixels, weighted one-hot label); a `FeatureMap`."""

    width: int
    radius: float
    num_labels: int = 1
    non_negative: bool = True
    unit: str = "image"

    def prepare(self, values: Tensor) -> Tensor:
        """Rows as they come; see `FeatureMap`."""
        return values

    def features(self, prepared: Tensor) -> Tensor:
        """See `FeatureMap`."""
        return self.radius * prepared / prepared.norm(dim=1, keepdim=True).clamp_min(1e-12)


@dataclass(frozen=True, eq=False)
class PublishedSlices:
    """A trained generator, what it promises, and the noise σ of every slice."""

    generator: ImageGenerator
    guarantee: ApproximateDP
    stddev: float


def fit_published_slices(
    images: np.ndarray,
    labels: np.ndarray,
    epsilon: float,
    delta: float,
    settings: PublishedSlicesSettings | None = None,
    *,
    seed: int = 0,
) -> PublishedSlices:
    """Train a generator on images (n, 784) in [0, 1] and labels (n,), keeping (ε, δ).

    Arguments:
        images: Private.
        labels: Private, in range(10).
        epsilon: ε of the whole run.
        delta: δ of the whole run.
        settings: `PublishedSlicesSettings()` by default.
        seed: Of weights and latents, never of noise, batches or directions.

    Raises:
        PrivotError: if no noise keeps the promise.
    """
    settings = settings or PublishedSlicesSettings()
    rows = with_label(
        torch.from_numpy(images).float().clamp(0.0, 1.0),
        torch.from_numpy(labels).long(),
        settings.label_weight,
    )
    records = AppendedLabels(rows.shape[1], settings.radius)

    def accounting(grid: float) -> SlicedAccounting:
        return SlicedAccounting(
            dim=records.width,
            num_projections=settings.num_projections,
            records=len(rows),
            batch_size=settings.batch_size,
            radius=settings.radius,
            non_negative=True,
            grid=grid,
            unit=records.unit,
        )

    plan = SlicePlan.calibrate(epsilon, delta, settings.steps, accounting, "pld")
    ledger = Ledger(plan)
    mechanism = SlicingMechanism(rows, None, records, ledger)
    generator = ImageGenerator(seed)

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        released = mechanism.release()
        drawn = torch.randint(NUM_LABELS, (settings.batch_size,), generator=rng)
        made = with_label(generator.draw(drawn, rng), drawn, settings.label_weight)
        projected = records.features(made) @ released.directions
        loss = smoothed_sliced_loss(released.values, projected, plan.stddev, settings.q, rng)
        return records.width * loss, 0.0

    how = TrainingSettings(settings.steps, settings.learning_rate, settings.averaging, seed)
    with threads_for(0):
        train(generator, objective, how)
    return PublishedSlices(generator, plan.guarantee, plan.stddev)


def with_label(images: Tensor, labels: Tensor, weight: float) -> Tensor:
    """Images with their weighted one-hot labels appended, (n, 784 + 10)."""
    one_hot = torch.nn.functional.one_hot(labels, NUM_LABELS).to(images)
    return torch.cat([images, weight * one_hot], dim=1)
