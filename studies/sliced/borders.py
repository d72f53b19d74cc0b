r"""Sets of images from which classifiers learn what private linear ones know.

A mixture describes each label by itself. What a classifier learns depends on where labels meet, and
there a mixture errs. So two private linear classifiers are learned as well, and draws are made to agree
with both. Inputs z of the first are the low frequencies of an image, whitened by the released moments
of the mixture, and a constant. Those of the second are features of a convolutional network, which is
trained on draws: its last layer but one, in the 256 leading principal components of draws, whitened.

1. **Classifiers.** T = 20 rounds each of gradients with momentum, from the classifier that draws
   teach: a round releases $\sum (e_y − \mathrm{softmax}(W z))\, z^\top$ of all records. The network
   is trained on draws that agree with the first classifier already.
2. **Weights.** A classifier learns W from draws if $\sum_i w_i r_i z_i^\top = 0$ with $r = e_y −
   \mathrm{softmax}(W z)$: the gradient of its loss vanishes, and the loss is convex. Of all weights of
   candidate draws with equal sums by label, those of least relative entropy with nearly this property
   for both classifiers k are $w_i ∝ \exp \sum_k r_{ik}^\top Λ_k z_{ik}$. As many images of each label
   are drawn by them systematically.
3. **Moves.** What is left of the first gradient, in all pixels x, is removed by shifts $B^\top (r_i −
   \bar r_{y_i})$, with $\bar r$ the means by label and $B = −Q^{-1} \sum_i r_i x_i^\top / n$, Q the
   covariance of r within labels. Draws that are far from a border have r ≈ 0 and do not move.

**Privacy.** Adjacency `replace_one`, or `zero_out` by the plan. Gradients are summed as by
`privot.central.classifiers.linear`: r zᵀ is clipped to a public norm ρ, and Δ is 2ρ, for r may be
opposite (`zero_out`: ρ). The rounds belong to the mixture's plan and compose exactly with its other
sums. Whitening, network, norm, step and number of rounds depend on releases and public numbers alone,
and so do weights and moves: they see draws, and no record.

References:
    Chen, Welling, Smola, *Super-samples from kernel herding* (2010), for sets of draws with given means.
    Csiszár, *I-divergence geometry of probability distributions* (1975), for weights of least entropy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from privot.central.classifiers.linear import _SCALE, Gradients, to_steps
from privot.central.records import ImageRecords
from privot.central.sums import Floats, Records, Rounds
from studies.sliced.images import trained_network

ROUNDS = 20  # of each classifier
_MOMENTUM, _PROGRESS = 0.9, 800.0  # the latter is T times the step
# Leading directions of low frequencies (all of them), and of a network's features; the variance of the
# direction that is named second is added to all, before they are whitened.
_PIXELS, _FEATURES = (1 << 20, 120), (256, 60)
_FLOOR = 1e-6  # least of what is added, relative to the largest variance
_NORM = 0.3  # of r zᵀ, relative to the root of the mean square of z
_PENALTY = 1e-4  # of classifiers of draws, and of Λ
_ITERATIONS, _MOVES, _RIDGE = 60, 4, 1e-3
_AT_ONCE = 4096  # images whose features are computed at once


@dataclass(frozen=True, eq=False)
class Whitened:
    """Map from images to inputs z of a linear classifier.

    Arguments:
        features: Map from images (n, *shape) to features (n, q), each computed from one image.
        center: Mean (q,).
        matrix: Whitening (q, w).
        norm: Norm ρ to which r zᵀ of a record is clipped.
    """

    features: Callable[[Tensor], Tensor]
    center: Tensor
    matrix: Tensor
    norm: float

    @classmethod
    def of(
        cls, features: Callable[[Tensor], Tensor], center: Floats, covariance: Floats,
        directions: tuple[int, int],
    ) -> Self:  # fmt: skip
        """Whiten leading eigenvectors by their eigenvalues and the one that is named second."""
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = np.maximum(values[-directions[0] :], 0.0), vectors[:, -directions[0] :]
        floored = values + max(values[-min(directions[1], len(values))], _FLOOR * values[-1])
        norm = _NORM * math.sqrt((values / floored).sum() + 1)
        matrix = torch.from_numpy(vectors / np.sqrt(floored)).float()
        return cls(features, torch.from_numpy(center).float(), matrix, norm)

    @classmethod
    def of_pixels(cls, low: ImageRecords, means: Floats, covariances: Floats) -> Self:
        """Whiten low frequencies by labels' means (labels, q) and covariances (labels, q, q)."""
        center = means.mean(axis=0)
        total = covariances.mean(axis=0) + (means - center).T @ (means - center) / len(means)
        return cls.of(lambda images: low.prepare(images).float(), center, total, _PIXELS)

    @classmethod
    def of_network(cls, images: Tensor, labels: Tensor, seed: int) -> Self:
        """Whiten features of a network, trained on draws and their labels, by moments of these."""
        layers = trained_network(images, labels, seed)[:-1]

        @torch.no_grad()
        def features(images: Tensor) -> Tensor:
            return torch.cat([layers(part.float()) for part in images.split(_AT_ONCE)])

        found = features(images).double().numpy()
        return cls.of(features, found.mean(axis=0), np.cov(found.T), _FEATURES)

    def __call__(self, images: Tensor) -> Tensor:
        """Return z (n, w + 1) of images (n, *shape)."""
        parts = [(self.features(x) - self.center) @ self.matrix for x in images.split(_AT_ONCE)]
        return torch.cat([torch.cat(parts), torch.ones(len(images), 1)], dim=1)


class ImageGradients(Gradients):
    """Query: the sum of r zᵀ of images, as the product of r ‖z‖/ρ, clipped to norm 1, and of z/‖z‖.

    Arguments:
        weights: W (labels, w + 1).
        inputs: Map to z, and the norm ρ to which r zᵀ is clipped.
    """

    def __init__(self, weights: Floats, inputs: Whitened) -> None:
        super().__init__(weights)
        self.inputs = inputs

    def factors(self, records: Records) -> tuple[Floats, Floats]:
        z = self.inputs(torch.from_numpy(records[0])).double().numpy()
        lengths = np.linalg.norm(z, axis=1, keepdims=True)  # at least the constant's
        residuals = -softmax(z @ self.weights.T, axis=1)
        residuals[np.arange(len(z)), records[1]] += 1.0
        residuals *= lengths / self.inputs.norm
        clipped = residuals / np.maximum(np.linalg.norm(residuals, axis=1, keepdims=True), 1.0)
        r, unit = (to_steps(x).astype(np.float64) for x in (clipped, z / lengths))
        return r, unit


@dataclass(frozen=True, eq=False)
class Borders:
    """Private linear classifier.

    Arguments:
        inputs: Map to z.
        weights: W (labels, w + 1).
    """

    inputs: Whitened
    weights: Tensor

    @classmethod
    def release(
        cls, rounds: Rounds, inputs: Whitened, images: Tensor, labels: Tensor, count: int
    ) -> Self:
        """Release gradients of `count` records, from the classifier of draws and their labels (n,)."""
        drawn = LogisticRegression(
            C=1 / _PENALTY / len(images), fit_intercept=False, max_iter=_ITERATIONS, tol=1e-3
        ).fit(inputs(images).numpy(), labels.numpy())
        weights = np.asarray(drawn.coef_, np.float64)
        velocity, total = np.zeros_like(weights), np.zeros_like(weights)
        scale = inputs.norm / (count * float(_SCALE) ** 2)
        for t in range(ROUNDS):
            released = rounds.release(ImageGradients(weights, inputs))
            gradient = released.sums.reshape(weights.shape) * scale
            velocity = _MOMENTUM * velocity + (1 - _MOMENTUM) * gradient
            weights = weights + _PROGRESS / ROUNDS * velocity
            total += weights if 2 * t >= ROUNDS else 0.0
        return cls(inputs, torch.from_numpy(total / (ROUNDS // 2)).float())

    def residuals(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return r (n, labels)."""
        named = torch.nn.functional.one_hot(labels, len(self.weights))
        return named - (z @ self.weights.T).softmax(dim=1)

    def moved(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return images, moved until the gradient of the classifier vanishes in all pixels."""
        for _ in range(_MOVES):
            residuals = self.residuals(self.inputs(images), labels)
            flat = images.flatten(1)
            gradient = residuals.T @ (flat - flat.mean(dim=0)) / len(flat)
            apart = residuals.clone()
            for label in range(len(self.weights)):
                apart[labels == label] -= residuals[labels == label].mean(dim=0)
            spread = apart.T @ apart / len(flat)
            spread += _RIDGE * spread.trace() / len(spread) * torch.eye(len(spread))
            move = apart @ torch.linalg.solve(spread, gradient)
            images = (images - move.reshape(images.shape)).clamp(0.0, 1.0)
        return images


def agreeing(
    borders: Sequence[Borders], images: Tensor, labels: Tensor, each: int, rng: torch.Generator
) -> Tensor:
    """Return `each` images of every label, from candidates (n, *shape), in the order of labels.

    Weights agree with all classifiers, and moves with the first.
    """
    slots = [torch.nonzero(labels == label)[:, 0] for label in range(len(borders[0].weights))]
    parts = []
    for border in borders:
        z = border.inputs(images)
        parts.append((border.residuals(z, labels), z))
    logits = _tilted(parts, slots)
    sample = []
    for slot in slots:
        places = torch.cumsum(logits[slot].double().softmax(dim=0), dim=0) * each
        steps = torch.arange(each) + torch.rand(1, generator=rng).double()
        sample.append(slot[torch.searchsorted(places, steps).clamp_max(len(slot) - 1)])
    rows = torch.cat(sample)
    return borders[0].moved(images[rows], labels[rows])


def _tilted(parts: Sequence[tuple[Tensor, Tensor]], slots: list[Tensor]) -> Tensor:
    """Return Σ rᵀ Λ z (n,) over pairs of r and z, with Λ the minimum of the weights' dual problem."""
    duals = [torch.zeros(r.shape[1], z.shape[1], requires_grad=True) for r, z in parts]
    optimizer = torch.optim.LBFGS(
        duals, max_iter=_ITERATIONS, history_size=15, line_search_fn="strong_wolfe"
    )

    def logits() -> Tensor:
        pairs = zip(parts, duals, strict=True)
        return torch.stack([(r * (z @ dual.T)).sum(dim=1) for (r, z), dual in pairs]).sum(dim=0)

    def loss() -> Tensor:
        optimizer.zero_grad()
        all_logits = logits()
        means = torch.stack([all_logits[slot].logsumexp(dim=0) for slot in slots]).mean()
        value = means + _PENALTY / 2 * torch.stack([x.square().sum() for x in duals]).sum()
        value.backward()
        return value

    optimizer.step(loss)
    return logits().detach()
