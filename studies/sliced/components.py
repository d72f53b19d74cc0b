r"""Mixtures whose components have covariances of their own, judged as in `studies.sliced.images`.

`privot.central` gives the components of a label one covariance C. Here a fifth round releases products
of residuals by component k, in the label's leading eigenvectors U (those of the noisy C, 48 of them):

$$ C_k = s_k C + U D_k U^\top , $$

with a scale $s_k$, and deviations $D_k$ that are shrunk to 0 by empirical Bayes. Their diagonals and
their other entries have prior variances $κ λ_i λ_j s_k^2$, with a κ each and the eigenvalues λ of C. At
ε = 1 a label has one component, and nothing changes.

**Privacy.** As in `privot.central.mixture_fit`: adjacency `replace_one`, five Gaussian rounds that
compose exactly. A record adds one product $v v^\top$ of a vector of bounded norm to the slot of its
component; the mechanism computes Δ and checks the norm. Bases, centers and the clipping norm depend on
releases and public numbers alone; everything after the rounds is post-processing.

Usage:
    python -m studies sliced.components --data fashion_mnist.npz --epsilon 10 --cnn -o out
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privot.central import SumSettings
from privot.central.mixture_fit import ImageFit
from privot.central.mixtures import DITHER, location_and_scale
from privot.central.moments import ResidualProducts, nearest_component, to_integers
from privot.central.records import ImageRecords
from privot.central.sums import Budget, Floats, Integers, Records, Rounds, SumMechanism
from privot.models import Checkpoint
from privot.privacy.ledger import Ledger
from studies.common.rows import write_row
from studies.sliced.images import (
    DELTA,
    NUM_SYNTHETIC,
    SCHEMA,
    accuracies,
    convolutional_accuracy,
    splits,
)

_SHARES = 0.05, 0.1, 0.25, 0.25, 0.35  # of μ², by round
_LEADING = 48  # eigenvectors of a label's covariance
_NORM = 0.2  # to which a residual there is clipped, relative to a white image
_PASSES, _SMALLEST, _FEW = 20, 0.1, 20.0  # estimates of κ; smallest scale; smallest divisor of sums
_LARGEST, _TINY = 0.9, 1e-5  # largest variance of a pixel relative to m(1 − m), and smallest


class ComponentProducts(ResidualProducts):
    """Query: sums of r rᵀ by component, of residuals in a label's leading eigenvectors.

    Arguments:
        bases: Leading eigenvectors of each label (labels, q, w).
        others: Arguments of `ResidualProducts`.
    """

    def __init__(self, bases: Floats, *others: Any) -> None:
        super().__init__(*others)
        self.bases = torch.from_numpy(bases)
        self.slots, self.width = len(self.means), bases.shape[2]

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        pixels, labels = map(torch.from_numpy, records)
        components = nearest_component(self.centers, self.images.prepare(pixels), labels)
        residuals = self.low.prepare(pixels).double() - torch.from_numpy(self.means[components])
        leading = torch.empty(len(residuals), self.width, dtype=torch.float64)
        for label in labels.unique():
            leading[labels == label] = residuals[labels == label] @ self.bases[label]
        return components, to_integers(leading, self.norm, self.unit)


@dataclass(frozen=True, eq=False)
class ComponentLaw:
    """Mixture of Gaussians clipped to [0, 1].

    Arguments:
        low: Map to the frequencies of covariances.
        means: Means of components (labels, K, pixels).
        counts: Numbers of images (labels, K).
        roots: Roots A of covariances A Aᵀ (labels, K, q, q).
    """

    low: ImageRecords
    means: Floats
    counts: Floats
    roots: Floats

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """Sample an image (n, *shape) of each label (n,), as `privot.central.mixtures` does."""
        drawn = torch.empty(len(labels), self.means.shape[2])
        for label in labels.unique().tolist():
            weights = torch.from_numpy(self.counts[label])
            rows = torch.nonzero(labels == label)[:, 0]
            components = torch.multinomial(weights, len(rows), replacement=True, generator=rng)
            for component in components.unique().tolist():
                own = rows[components == component]
                mean = self.means[label, component]
                root = torch.from_numpy(self.roots[label, component]).float()
                factors = self.low.expand(root.T.contiguous()).flatten(1)
                spread = factors.square().sum(dim=0).clamp_min(_TINY)
                variance = np.minimum(spread.numpy(), _LARGEST * mean * (1 - mean))
                location, scale = map(torch.from_numpy, location_and_scale(mean, variance))
                noise = torch.randn(len(own), len(factors), generator=rng)
                drawn[own] = (location + scale * (noise @ factors / spread.sqrt())).float()
        drawn += DITHER * torch.randn(drawn.shape, generator=rng)
        return drawn.clamp(0.0, 1.0).reshape(-1, *self.low.shape)


class ComponentFit(ImageFit):
    """Fit of images whose components have covariances of their own, by a fifth round."""

    @property
    def shares(self) -> tuple[float, ...]:
        return super().shares if self.components == 1 else _SHARES

    def law(self, rounds: Rounds) -> Any:
        """Estimate the law of the records from rounds of the plan."""
        if self.components == 1:
            return self.estimate(rounds)
        rng = np.random.default_rng(self.settings.seed)
        origin = np.zeros((self.records.num_labels, 1, self._fine.num_coordinates))
        centers, counts = self._release_centers(rounds, origin)
        roots = self._release_covariances(rounds, centers, counts, self._coarse)
        moments = zip(centers[:, 0], roots, strict=True)
        centers = np.array([self._first_centers(mean, root, rng) for mean, root in moments])
        centers, counts = self._release_centers(rounds, centers)
        roots = self._release_covariances(rounds, centers, counts, self._residual)
        bases, values, _ = np.linalg.svd(roots)
        low, means = self._residual, self._pixels(centers)
        coordinates = low.transform(torch.from_numpy(means).reshape(-1, *low.shape)).numpy()
        norm = _NORM * np.sqrt(low.outputs)
        leading = bases[:, :, :_LEADING]
        query = ComponentProducts(leading, self._fine, centers, low, coordinates, norm)
        released = rounds.release(query)
        sizes = np.maximum(counts, _FEW)
        products = released.sums.reshape(*counts.shape, query.width, query.width)
        products = products * (query.unit**2 / sizes)[..., None, None]
        errors = released.stddev * query.unit**2 / sizes
        own = [_own_roots(*label) for label in zip(products, errors, bases, values**2, strict=True)]
        return ComponentLaw(low, means, counts, np.array(own))


def _own_roots(products: Floats, errors: Floats, basis: Floats, values: Floats) -> Floats:
    """Roots (K, q, q) of the covariances of a label's components.

    Arguments:
        products: Noisy products (K, w, w), in leading eigenvectors.
        errors: Standard deviations of the noise on their diagonals (K,).
        basis: Eigenvectors (q, q) of the label's covariance, by decreasing eigenvalue.
        values: Its eigenvalues (q,).
    """
    leading = values[: products.shape[1]]
    diagonal = np.eye(len(leading), dtype=bool)
    precision = 1 / (errors[:, None] ** 2 / leading**2 + 0.1)
    ratios = np.diagonal(products, axis1=1, axis2=2) / leading
    scales = np.maximum((precision * ratios).sum(axis=1) / precision.sum(axis=1), _SMALLEST)
    prior = np.outer(leading, leading) * scales[:, None, None] ** 2
    noise = (errors**2)[:, None, None] * (0.5 + 0.5 * diagonal)
    deviations = products - scales[:, None, None] * np.diag(leading)
    shrunk = np.zeros_like(deviations)
    for part in (diagonal, ~diagonal):
        kappa = 0.1
        for _ in range(_PASSES):  # moments, weighted by their precision at the κ before
            weights = part / (noise / prior + kappa) ** 2
            estimate = (weights * (deviations**2 - noise) / prior).sum() / weights.sum()
            kappa = max(float(estimate), 1e-4)
        shrunk = np.where(part, deviations * kappa * prior / (kappa * prior + noise), shrunk)
    covariances = scales[:, None, None] * (basis * values @ basis.T)
    front = basis[:, : len(leading)]
    eigenvalues, vectors = np.linalg.eigh(covariances + front @ shrunk @ front.T)
    return np.asarray(vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :], np.float32)


def judged(chosen: argparse.Namespace) -> dict[str, Any]:
    """Fit, draw, train classifiers on the draws, test them."""
    (x, y), test = splits(chosen.data, chosen.held_out)
    budget = Budget(chosen.epsilon, DELTA, len(x), SCHEMA.unit)
    settings = SumSettings(residual_low_pass=chosen.residual_low_pass, seed=chosen.seed)
    started = time.perf_counter()
    fit = ComponentFit(SCHEMA, settings, budget)
    plan = fit.plan()
    mechanism = SumMechanism((x.numpy(), y.numpy()), Ledger(plan))
    law = fit.law(Rounds(mechanism, Checkpoint(None, {}, resume=False)))
    seconds = round(time.perf_counter() - started, 1)
    labels = torch.arange(10).repeat_interleave(chosen.count // 10)
    images = law.values(labels, torch.Generator().manual_seed(chosen.seed))
    judge = convolutional_accuracy if chosen.cnn else accuracies
    return {
        "method": "mixture, by component",
        "data": chosen.data.stem,
        "epsilon": plan.guarantee.epsilon,
        "delta": plan.guarantee.delta,
        "neighboring": plan.guarantee.neighboring,
        "seed": chosen.seed,
        "components": fit.components,
        "residual_low_pass": fit.residual_low_pass,
        "releases": plan.uses,
        "held_out": chosen.held_out,
        "fit_seconds": seconds,
    } | judge(images, labels, *test, chosen.seed)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, required=True, help="npz of x_train, y_train, …")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--residual-low-pass", type=int, help="frequencies of what is left")
    parser.add_argument("--cnn", action="store_true", help="judge by a convolutional network alone")
    parser.add_argument("--held-out", action="store_true", help="judge by training images")
    parser.add_argument("--count", type=int, default=NUM_SYNTHETIC, help="synthetic images")
    parser.add_argument("--seed", type=int, default=0, help="of starts, draws and classifiers")
    parser.add_argument("-o", "--output", type=Path, default=Path("sliced_components"))


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    row = judged(chosen)
    print(row)
    kind = "components_cnn" if chosen.cnn else "components"
    write_row(chosen.output / f"{kind}_{row['data']}_{chosen.epsilon:g}_{chosen.seed}.json", row)
