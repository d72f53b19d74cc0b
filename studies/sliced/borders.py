r"""Sets of images from which a linear classifier learns what a private one knows.

A mixture describes each label by itself. What a classifier learns depends on where labels meet, and
there a mixture errs. So a private linear classifier is learned as well, and draws are made to agree
with it. Its inputs z are the low frequencies of an image, whitened by the released moments of the
mixture, and a constant.

1. **Classifier.** T = 20 rounds of gradients with momentum, from the classifier that draws of the
   mixture teach: a round releases $\sum (e_y − \mathrm{softmax}(W z))\, z^\top$ of all records.
2. **Weights.** A classifier learns W from draws if $\sum_i w_i r_i z_i^\top = 0$ with $r = e_y −
   \mathrm{softmax}(W z)$: the gradient of its loss vanishes, and the loss is convex. Of all weights of
   candidate draws with equal sums by label, those of least relative entropy with nearly this property
   are $w_i ∝ \exp(r_i^\top Λ z_i)$. As many images of each label are drawn by them systematically.
3. **Moves.** What is left of the gradient, in all pixels x, is removed by the shifts $B^\top (r_i −
   \bar r_{y_i})$, with $\bar r$ the means by label and $B = −Q^{-1} \sum_i r_i x_i^\top / n$, Q the
   covariance of r within labels. Draws that are far from a border have r ≈ 0 and do not move.

**Privacy.** Adjacency `replace_one`. Gradients are summed as by `privot.central.classifiers.linear`:
r zᵀ is clipped to a public norm ρ, and Δ is 2ρ, for r may be opposite. The rounds belong to the
mixture's plan and compose exactly with its other sums. Whitening, norm, step and number of rounds depend
on releases and public numbers alone, and so do weights and moves: they see draws, and no record.

References:
    Chen, Welling, Smola, *Super-samples from kernel herding* (2010), for sets of draws with given means.
    Csiszár, *I-divergence geometry of probability distributions* (1975), for weights of least entropy.
"""

from __future__ import annotations

import math
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

ROUNDS = 20
_MOMENTUM, _PROGRESS = 0.9, 800.0  # the latter is T times the step
_LEADING = 120  # the variance of this direction is added to all, before they are whitened
_NORM = 0.3  # of r zᵀ, relative to the root of the mean square of z
_PENALTY = 1e-4  # of classifiers of draws, and of Λ
_ITERATIONS, _MOVES, _RIDGE = 60, 4, 1e-3


@dataclass(frozen=True, eq=False)
class Whitened:
    """Map from images to inputs z of the linear classifier.

    Arguments:
        low: Map to q low frequencies.
        center: Mean (q,).
        matrix: Whitening (q, q).
        norm: Norm ρ to which r zᵀ of a record is clipped.
    """

    low: ImageRecords
    center: Tensor
    matrix: Tensor
    norm: float

    @classmethod
    def of(cls, low: ImageRecords, means: Floats, covariances: Floats) -> Self:
        """Whiten by labels' means (labels, q) and covariances (labels, q, q)."""
        center = means.mean(axis=0)
        total = covariances.mean(axis=0) + (means - center).T @ (means - center) / len(means)
        values, vectors = np.linalg.eigh(total)
        values = np.maximum(values, 0.0)
        floored = values + values[-min(_LEADING, len(values))]
        norm = _NORM * math.sqrt((values / floored).sum() + 1)
        matrix = (vectors / np.sqrt(floored)) @ vectors.T
        return cls(low, torch.from_numpy(center).float(), torch.from_numpy(matrix).float(), norm)

    def __call__(self, images: Tensor) -> Tensor:
        """Return z (n, q + 1) of images (n, *shape)."""
        whitened = (self.low.prepare(images).float() - self.center) @ self.matrix
        return torch.cat([whitened, torch.ones(len(images), 1)], dim=1)


class ImageGradients(Gradients):
    """Query: the sum of r zᵀ of images, as the product of r ‖z‖/ρ, clipped to norm 1, and of z/‖z‖.

    Arguments:
        weights: W (labels, q + 1).
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
    """Private linear classifier, and the sets of draws that teach it.

    Arguments:
        inputs: Map to z.
        weights: W (labels, q + 1).
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

    def chosen(self, images: Tensor, labels: Tensor, each: int, rng: torch.Generator) -> Tensor:
        """Return `each` images of every label, from candidates (n, *shape), in the order of labels."""
        z = self.inputs(images)
        slots = [torch.nonzero(labels == label)[:, 0] for label in range(len(self.weights))]
        logits = self._tilted(z, self._residuals(z, labels), slots)
        sample = []
        for slot in slots:
            places = torch.cumsum(logits[slot].double().softmax(dim=0), dim=0) * each
            steps = torch.arange(each) + torch.rand(1, generator=rng).double()
            sample.append(slot[torch.searchsorted(places, steps).clamp_max(len(slot) - 1)])
        rows = torch.cat(sample)
        return self._moved(images[rows], labels[rows])

    def _residuals(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return r (n, labels)."""
        named = torch.nn.functional.one_hot(labels, len(self.weights))
        return named - (z @ self.weights.T).softmax(dim=1)

    def _tilted(self, z: Tensor, residuals: Tensor, slots: list[Tensor]) -> Tensor:
        """Return rᵀ Λ z (n,), with Λ the minimum of the dual of the weights' problem."""
        dual = torch.zeros(self.weights.shape, requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [dual], max_iter=_ITERATIONS, history_size=15, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            logits = (residuals * (z @ dual.T)).sum(dim=1)
            means = torch.stack([logits[slot].logsumexp(dim=0) for slot in slots]).mean()
            value = means + _PENALTY / 2 * dual.square().sum()
            value.backward()
            return value

        optimizer.step(loss)
        return (residuals * (z @ dual.T)).sum(dim=1).detach()

    def _moved(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return images, moved until the gradient of the classifier vanishes in all pixels."""
        for _ in range(_MOVES):
            residuals = self._residuals(self.inputs(images), labels)
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
