r"""DP-MERF: a generator that matches one noisy mean embedding, its noise calibrated exactly.

Features have ‖φ(x)‖ = 1 for every x: random Fourier features, as published, or others
(`studies.rivals.embeddings`). The record of (x, y) is

$$ r(x, y) = e_y ⊗ (φ(x), 1), \qquad \hat μ = \frac1n \sum_i r(x_i, y_i) + N(0, σ^2 I), $$

so that μ̂ holds every class's mean feature and its share. The generator minimizes the squared distance
of mean features, class by class, each divided by its share: post-processing, for ever.

**Adjacency** is `replace_one`, n public. **Δ.** Same label: the shares cancel and ‖φ(x) − φ(x′)‖ ≤ 2.
Other label: the blocks are orthogonal, each of norm √2, so the distance is 2. Hence Δ = 2/n, and the
shares cost nothing. **σ** is the smallest for (ε, δ) by the exact curve of one Gaussian release
(Balle, Wang 2018), the rounding to the grid of its noise included.
**Noise** comes from the operating system's entropy; features, weights and latents from `seed`. **Who
sees what**: μ̂ alone leaves. Pixels lie in [0, 1] by public convention, and settings are public numbers.

References:
    Harder, Adamczewski, Park, *DP-MERF: differentially private mean embeddings with random features for
    practical privacy-preserving data generation* (2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from privot.core.errors import PrivotError
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.privacy import ApproximateDP
from privot.privacy.curves import calibrate_gaussian
from privot.training.loop import TrainingSettings, threads_for, train
from studies.rivals.embeddings import Embedding, FourierFeatures, TangentFeatures
from studies.rivals.image_generator import NUM_LABELS, ImageGenerator
from studies.rivals.vector_generator import VectorGenerator

_CHUNK = 2000
_SMALLEST_SHARE = 1e-3
_GRID_BITS = 20  # the grid is this many bits below the noise


@dataclass(frozen=True)
class DPMERFSettings:
    """Public numbers: of the features, and of the generator's training.

    Arguments:
        features: `"fourier"`, or `"tangent"`, which have no bandwidth.
        num_frequencies: m, or hidden units of tangents.
        bandwidth: ℓ.
        low_pass: Cosine frequencies along each axis that features see; None for pixels.
        steps: Of the optimizer.
        batch_size: Draws a step.
        learning_rate: Peak of Adam's.
        averaging: Decay of the moving average of the weights.
    """

    features: Literal["fourier", "tangent"] = "fourier"
    num_frequencies: int = 1000
    bandwidth: float = 10.0
    low_pass: int | None = None
    steps: int = 1000
    batch_size: int = 500
    learning_rate: float = 1e-2
    averaging: float = 0.99

    def embedding(self, dim: int, seed: int) -> Embedding:
        """The features of points of a dimension, drawn from a seed."""
        if self.features == "tangent":
            return TangentFeatures(dim, self.num_frequencies, seed, self.low_pass)
        return FourierFeatures(dim, self.num_frequencies, self.bandwidth, seed, self.low_pass)


@dataclass(frozen=True, eq=False)
class DPMERF:
    """A trained generator, the noise it was made with, and what it promises."""

    generator: ImageGenerator | VectorGenerator
    guarantee: ApproximateDP
    stddev: float


def fit_dp_merf(
    images: np.ndarray,
    labels: np.ndarray,
    epsilon: float,
    delta: float,
    settings: DPMERFSettings | None = None,
    *,
    seed: int = 0,
    generator: ImageGenerator | VectorGenerator | None = None,
) -> DPMERF:
    """Train a generator of 28 × 28 images, or of vectors, in 10 classes on their noisy mean embedding.

    Arguments:
        images: (n, 784), or (n, d) of vectors, in [0, 1].
        labels: (n,) in 0 to 9.
        epsilon: ε under replace_one.
        delta: δ.
        settings: `DPMERFSettings()` by default.
        seed: of frequencies, weights and latents; never of the noise.
        generator: What is trained; `ImageGenerator(seed)` by default.

    Raises:
        PrivotError: if images or labels do not fit, or (ε, δ) is out of range.
    """
    settings = settings or DPMERFSettings()
    if images.ndim != 2 or labels.shape != (len(images),) or len(images) == 0:
        raise PrivotError(
            f"images of shape {images.shape} and labels of shape {labels.shape} do not fit: "
            "give (n, 784) and (n,)"
        )
    if labels.min() < 0 or labels.max() >= NUM_LABELS or not np.isfinite(images).all():
        raise PrivotError(f"labels or images out of range: give 0 to {NUM_LABELS - 1} and numbers")
    features = settings.embedding(images.shape[1], seed)
    with threads_for(0):
        exact = mean_record(torch.from_numpy(images), torch.from_numpy(labels).long(), features)
        released, stddev = noisy_mean(exact, len(images), epsilon, delta)
        trained = generator or ImageGenerator(seed)
        follow_embedding(released, features, trained, settings, seed)
    return DPMERF(trained, ApproximateDP(epsilon, delta, "replace_one"), stddev)


def mean_record(images: Tensor, labels: Tensor, features: Embedding) -> Tensor:
    """The exact mean record (10, width + 1), in double precision: private."""
    total = torch.zeros(NUM_LABELS, features.width, dtype=torch.float64)
    for x, y in zip(images.split(_CHUNK), labels.split(_CHUNK), strict=True):
        total += features.sums(x.double(), y, NUM_LABELS)
    counts = torch.bincount(labels, minlength=NUM_LABELS)
    return torch.cat([total, counts[:, None]], dim=1) / len(images)


def noisy_mean(exact: Tensor, count: int, epsilon: float, delta: float) -> tuple[Tensor, float]:
    """One Gaussian release of the mean record of `count` records, on a grid; and its σ.

    The grid g moves every coordinate by g/2 on each side, and Δ by g·√dim at most.
    """
    sensitivity = 2.0 / count
    rough = calibrate_gaussian(sensitivity, epsilon, delta)
    grid = 2.0 ** (math.floor(math.log2(rough)) - _GRID_BITS)
    stddev = calibrate_gaussian(sensitivity + grid * math.sqrt(exact.numel()), epsilon, delta)
    steps = np.rint(exact.numpy() / grid).astype(np.int64)
    noise = sample_rounded_gaussian(steps.shape, stddev / grid)
    return torch.from_numpy((steps + noise) * grid), stddev


def follow_embedding(
    released: Tensor,
    features: Embedding,
    generator: ImageGenerator | VectorGenerator,
    settings: DPMERFSettings,
    seed: int,
) -> None:
    """Train a generator so that its class-wise mean features come near; by the release alone."""
    shares = released[:, -1:].clamp_min(_SMALLEST_SHARE)
    target = (released[:, :-1] / shares).float()
    each = max(1, settings.batch_size // NUM_LABELS)
    labels = torch.arange(NUM_LABELS).repeat(each)

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        means = features.sums(generator.draw(labels, rng), labels, NUM_LABELS) / each
        return (means - target).square().sum(), 0.0

    train(
        generator,
        objective,
        TrainingSettings(settings.steps, settings.learning_rate, settings.averaging, seed),
    )
