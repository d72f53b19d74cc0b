r"""Mixtures whose components have covariances of their own, and whose draws have each label's moments.

`privot.central` gives the components of a label one covariance. This recipe has four other rounds:

1. Pixel sums by label, as there.
2. Counts, sums and products of residuals by label, in all frequencies of what is left: each label's
   mean and covariance C. Noise is equal on all products, and variances of images fall with frequency
   f, so residuals are weighted by $(1 + f^2/4)^{1/4}$.
3. Pixel sums by component. First centers are those of k-means on samples of round 2's Gaussians.
4. Counts, sums and products of residuals by component k, in the 24 leading eigenvectors U of the label's
   covariance within components, W (C minus the covariance of centers). Sums correct the centers, and
   products become covariances $C_k = s_k W + U D_k U^\top$, with a scale $s_k$, and deviations $D_k$
   that are shrunk to 0 by empirical Bayes. Their diagonals and their other entries have prior variances
   $κ λ_i λ_j s_k^2$, with a κ each and the eigenvalues λ of W.

With one component, rounds 1 and 2 suffice. Otherwise a fifth of μ² is for two private linear
classifiers, of pixels and of a network's features, with which sets of draws agree
(`studies.sliced.borders`).

**Calibration.** Draws are clipped to [0, 1], centers are noisy, and components are few: draws do not
have the mean and covariance that round 2 released, though classifiers learn from these above all. So
they are moved by three affine maps, each followed by clipping. Each map is the optimal transport
between Gaussians, from a label's moments of simulated draws to the released ones. It is affine in the
leading eigenvectors of all labels' covariance, one for every 80 of the signal s = μ n/labels, at most
64, and a shift in other frequencies.

**Privacy.** Adjacency `replace_one`, or `zero_out`, where a blank replaces a record: adding or removing
one moves sums as much. Gaussian rounds compose exactly (`privot.central.sums`). To pixel
sums a record adds one non-negative vector of bounded norm; to the other rounds, one product $v v^\top$
of a vector $v = (r, a)$ of bounded norm, in the slot of its label or component. For both, Δ is √2 times
the largest contribution (`zero_out`: once); the mechanism computes it, and checks the norms. Bases,
centers, weights and norms depend on releases and public numbers alone, and so does everything after the
rounds, the simulation too.

Usage:
    python -m studies sliced.components --data fashion_mnist.npz --epsilon 10 -o out

References:
    Peyré, Cuturi, *Computational optimal transport* (2019), remark 2.31: transport between Gaussians.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privot.central import SumSettings
from privot.central.classifiers.adaptation import gaussian_map
from privot.central.mixture_fit import ImageFit, k_means
from privot.central.mixtures import DITHER, location_and_scale
from privot.central.moments import (
    AnchoredProducts,
    nearest_component,
    shrink_covariances,
    to_integers,
    with_constant,
)
from privot.central.records import ImageRecords
from privot.central.sums import Budget, Floats, Integers, Records, Rounds, SumMechanism
from privot.models import Checkpoint
from privot.privacy.ledger import Ledger
from studies.common.rows import write_row
from studies.sliced.borders import ROUNDS, Borders, Whitened, agreeing
from studies.sliced.images import (
    AUGMENT,
    DELTA,
    NUM_SYNTHETIC,
    SCHEMA,
    accuracies,
    convolutional_accuracy,
    declared,
    splits,
)

_SHARES_OF_ONE = 0.35, 0.65  # of μ², by round: for one component
_SHARES = 0.032, 0.288, 0.16, 0.32, *[0.15 / ROUNDS] * ROUNDS, *[0.05 / ROUNDS] * ROUNDS
_CANDIDATES = 6  # draws from which one is chosen
_ANCHOR = 0.35  # constant beside a residual, relative to its norm
_NORM, _OWN_NORM = 0.5, 0.18  # of residuals, relative to a white image: rounds 2 and 4
_LEADING = 24  # eigenvectors of a label's covariance within components
_LEAST_WITHIN = 0.1  # smallest eigenvalues of W, relative to those of C
_DRAWN = 200  # samples of a component, by which k-means finds first centers
_PASSES, _SMALLEST, _FEW = 20, 0.1, 20.0  # estimates of κ; smallest scale; smallest divisor of sums
_LARGEST, _TINY = 0.9, 1e-5  # largest variance of a pixel relative to m(1 − m), and smallest
# Calibration: maps, simulated draws of a label, signal of a direction, most directions, and a ridge.
_MAPS, _SIMULATED, _PER_DIRECTION, _MOST_DIRECTIONS, _RIDGE = 3, 6000, 80.0, 64, 1e-3


class Residuals(AnchoredProducts):
    """Query: counts, sums and products of residuals of images, by label or by component.

    Arguments:
        images: Map to the coordinates in which the nearest center is found.
        centers: Centers of each label's components (labels, K, p), in these coordinates.
        low: Map to the q frequencies of residuals.
        means: Centers (labels·K, q) in these frequencies.
        norm: Norm to which a mapped residual is clipped.
        maps: Matrix of each label (labels, q, w) that maps residuals.
        by_component: Whether slots are components, otherwise labels.
    """

    def __init__(
        self, images: ImageRecords, centers: Floats, low: ImageRecords, means: Floats, norm: float,
        maps: Floats, by_component: bool,
    ) -> None:  # fmt: skip
        super().__init__(norm)
        self.unit = norm * math.hypot(1.0, _ANCHOR) / self.radius  # as there, of a smaller anchor
        self.anchor = int(_ANCHOR * norm / self.unit)
        self.images, self.centers, self.low, self.means = images, centers, low, means
        self.maps, self.by_component = torch.from_numpy(maps), by_component
        self.slots = len(means) if by_component else len(centers)
        self.width = maps.shape[2] + 1

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        pixels, labels = map(torch.from_numpy, records)
        components = nearest_component(self.centers, self.images.prepare(pixels), labels)
        residuals = self.low.prepare(pixels).double() - torch.from_numpy(self.means[components])
        mapped = torch.empty(len(residuals), self.width - 1, dtype=torch.float64)
        for label in labels.unique():
            mapped[labels == label] = residuals[labels == label] @ self.maps[label]
        vectors = with_constant(to_integers(mapped, self.norm, self.unit), self.anchor)
        return components if self.by_component else labels.numpy(), vectors

    def released(self, rounds: Rounds) -> tuple[Floats, Floats, Floats, Floats]:
        """Release moments of slots.

        Returns:
            Counts (s,), means (s, w), covariances about these (s, w, w), and standard deviations (s,) of
            the errors on their diagonals. Means of components are shrunk to 0 by empirical Bayes.
        """
        answer = rounds.release(self)
        last, products = answer.sums[:, -1], answer.sums[:, :-1, :-1]
        raw = self._moments(last[:, -1], last[:, :-1], products, answer.stddev)
        sizes = np.maximum(raw.counts, _FEW)
        means, noise = raw.sums / sizes[:, None], raw.sum_error / sizes[:, None]
        if self.by_component:  # a variance by coordinate, over all components
            variance = np.maximum((means**2 - noise**2).mean(axis=0), 0.0)
            means *= variance / (variance + noise**2)
        covariances = raw.products / sizes[:, None, None] - means[:, :, None] * means[:, None]
        return raw.counts, means, covariances, raw.product_error / sizes


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


class CalibratedLaw:
    """Law whose draws are moved until they have each label's mean and covariance.

    Arguments:
        law: Law of draws.
        means: Means of labels (labels, q), in the frequencies of the law.
        covariances: Covariances of labels (labels, q, q).
        directions: Number of leading eigenvectors in which covariances are met.
        seed: Of the simulation.
    """

    def __init__(
        self, law: ComponentLaw, means: Floats, covariances: Floats, directions: int, seed: int
    ) -> None:
        self.law, self._maps = law, list[tuple[Tensor, Tensor]]()
        _, vectors = np.linalg.eigh(covariances.mean(axis=0))
        basis = vectors[:, -directions:]
        self._basis = torch.from_numpy(basis).float()
        targets, ridge = basis.T @ covariances @ basis, _RIDGE * np.eye(basis.shape[1])
        labels = torch.arange(len(means)).repeat_interleave(_SIMULATED)
        images = law.values(labels, torch.Generator().manual_seed(seed))
        for _ in range(_MAPS):
            drawn = law.low.transform(images).double().numpy().reshape(len(means), _SIMULATED, -1)
            centers = drawn.mean(axis=1)
            along = [(part - part.mean(axis=0)) @ basis for part in drawn]
            found = np.array([part.T @ part / _SIMULATED for part in along])
            pairs = zip(found + ridge, targets + ridge, strict=True)
            change = np.array([gaussian_map(*pair) for pair in pairs]) - np.eye(len(ridge))
            inside = np.einsum("lj,ljk,ik->li", centers @ basis, change, basis)
            step = (torch.from_numpy(x).float() for x in (change, means - centers - inside))
            self._maps.append((next(step), next(step)))
            images = self._moved(images, labels, *self._maps[-1])

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """Sample an image (n, *shape) of each label (n,)."""
        images = self.law.values(labels, rng)
        for change, shift in self._maps:
            images = self._moved(images, labels, change, shift)
        return images

    def _moved(self, images: Tensor, labels: Tensor, change: Tensor, shift: Tensor) -> Tensor:
        """Move images by (labels, j, j) in the basis and by (labels, q), and clip them."""
        along = self.law.low.transform(images) @ self._basis
        moves = shift[labels]
        for label in labels.unique():
            rows = labels == label
            moves[rows] += along[rows] @ change[label] @ self._basis.T
        return (images + self.law.low.expand(moves)).clamp(0.0, 1.0)


class ComponentFit(ImageFit):
    """Fit of images whose components have covariances of their own, and whose labels are calibrated."""

    @property
    def shares(self) -> tuple[float, ...]:
        return _SHARES_OF_ONE if self.components == 1 else _SHARES

    def law(
        self, rounds: Rounds, public: Callable[[Tensor], Tensor]
    ) -> tuple[CalibratedLaw, list[Borders]]:
        """Estimate the law of the records, and borders of labels, from rounds of the plan.

        `public` moves draws as those will be moved from which a set is chosen.
        """
        rng, labels = np.random.default_rng(self.settings.seed), self.records.num_labels
        origin = np.zeros((labels, 1, self._fine.num_coordinates))
        centers, counts = self._release_centers(rounds, origin)
        means, covariances = self._release_labels(rounds, centers)
        if self.components == 1:
            values, vectors = np.linalg.eigh(covariances)
            roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
            law = ComponentLaw(self._residual, self._pixels(centers), counts, roots[:, None])
        else:
            moments = zip(centers[:, 0], covariances, strict=True)
            centers = np.array([self._first_means(*label, rng) for label in moments])
            centers, counts = self._release_centers(rounds, centers)
            law = self._release_components(rounds, centers, counts, covariances)
        signal = self.budget.signal(labels)
        directions = min(max(int(signal / _PER_DIRECTION), 1), _MOST_DIRECTIONS)
        directions = min(directions, means.shape[1])
        calibrated = CalibratedLaw(law, means, covariances, directions, self.settings.seed + 1)
        if self.components == 1:
            return calibrated, []
        inputs = Whitened.of_pixels(self._residual, means, covariances)
        moved = lambda labels, rng: public(calibrated.values(labels, rng))  # noqa: E731
        return calibrated, self._release_borders(rounds, moved, inputs)

    def _release_borders(
        self, rounds: Rounds, values: Callable[[Tensor, torch.Generator], Tensor], pixels: Whitened
    ) -> list[Borders]:
        """Release classifiers of pixels, and of features of a network that draws have trained."""
        count, labels, seed = self.budget.records, self.records.num_labels, self.settings.seed
        each, rng = min(count // labels, _SIMULATED), torch.Generator().manual_seed(seed + 2)
        drawn = torch.arange(labels).repeat_interleave(each * _CANDIDATES)
        images, some = values(drawn, rng), slice(None, None, _CANDIDATES)
        first = Borders.release(rounds, pixels, images[some], drawn[some], count)
        images = agreeing([first], images, drawn, each, rng)
        network = Whitened.of_network(images, drawn[some], seed + 3)
        return [first, Borders.release(rounds, network, images, drawn[some], count)]

    def _coordinates(self, pixels: Floats, images: ImageRecords) -> Floats:
        """Coordinates (labels, K, p) of images (labels, K, pixels)."""
        flat = torch.from_numpy(pixels).reshape(-1, *images.shape)
        return np.asarray(images.transform(flat).reshape(*pixels.shape[:2], -1).numpy())

    def _release_labels(self, rounds: Rounds, centers: Floats) -> tuple[Floats, Floats]:
        """Release each label's mean (labels, q) and covariance (labels, q, q)."""
        low = self._residual
        weights = (1 + low.squared_frequencies / 4) ** 0.25
        origins = self._coordinates(self._pixels(centers), low)[:, 0]
        maps = np.repeat(np.diag(weights)[None], len(centers), axis=0)
        norm = _NORM * math.sqrt(low.outputs)
        query = Residuals(self._fine, centers, low, origins, norm, maps, by_component=False)
        _, means, noisy, errors = query.released(rounds)
        # Prior variances are ∝ 1/(1 + f²/4), and weighted ones here ∝ 1/w²: solve for f².
        shrunk = shrink_covariances(noisy, errors, 4 * (weights**2 - 1))
        return origins + means / weights, shrunk / np.outer(weights, weights)

    def _first_means(self, mean: Floats, covariance: Floats, rng: np.random.Generator) -> Floats:
        """Centers (K, p) by k-means on samples of a label's Gaussian."""
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        noise = rng.standard_normal((_DRAWN * self.components, len(root))) @ root.T
        spread, mean = (
            images.expand(torch.from_numpy(x)).flatten(1).numpy()
            for images, x in ((self._residual, noise), (self._fine, mean[None]))
        )
        drawn = np.clip(mean + spread, 0.0, 1.0)[None]
        return k_means(self._coordinates(drawn, self._fine)[0], self.components, rng)

    def _release_components(
        self, rounds: Rounds, centers: Floats, counts: Floats, covariances: Floats
    ) -> ComponentLaw:
        """Release moments of components, and return their law."""
        low, pixels = self._residual, self._pixels(centers)
        means = self._coordinates(pixels, low)
        shares = counts / counts.sum(axis=1, keepdims=True)
        apart = means - (shares[..., None] * means).sum(axis=1, keepdims=True)
        within = covariances - np.einsum("lk,lki,lkj->lij", shares, apart, apart)
        values, bases = (x[..., ::-1].copy() for x in np.linalg.eigh(within))
        floors = _LEAST_WITHIN * np.linalg.eigvalsh(covariances)[:, ::-1]
        values = np.maximum(values, np.maximum(floors, 1e-6))
        leading = bases[:, :, :_LEADING]
        norm = _OWN_NORM * math.sqrt(low.outputs)
        flat = means.reshape(-1, means.shape[2])
        query = Residuals(self._fine, centers, low, flat, norm, leading, by_component=True)
        sizes, offsets, products, errors = query.released(rounds)
        counts, errors = (x.reshape(counts.shape) for x in (sizes, errors))
        products = products.reshape(*counts.shape, *products.shape[1:])
        moves = np.einsum("lkw,liw->lki", offsets.reshape(*counts.shape, -1), leading)
        moved = low.expand(torch.from_numpy(moves).flatten(0, 1)).numpy().reshape(pixels.shape)
        own = [_own_roots(*label) for label in zip(products, errors, bases, values, strict=True)]
        return ComponentLaw(low, np.clip(pixels + moved, 0.0, 1.0), counts, np.array(own))


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


def moves(augment: bool, seed: int) -> Callable[[Tensor], Tensor]:
    """Map that moves images at random and in public, or leaves them as they are."""
    if not augment:
        return lambda images: images
    declaration = declared(augment=AUGMENT).images["image"].augment
    assert declaration is not None
    rng = np.random.default_rng(seed)
    return lambda images: torch.cat([
        torch.from_numpy(declaration.moved(part.numpy(), rng)).float()
        for part in images.split(_SIMULATED)
    ])  # fmt: skip


def judged(chosen: argparse.Namespace) -> dict[str, Any]:
    """Fit, draw, train classifiers on the draws, test them."""
    (x, y), test = splits(chosen.data, chosen.held_out)
    budget = Budget(chosen.epsilon, DELTA, len(x), SCHEMA.unit)
    settings = SumSettings(residual_low_pass=chosen.residual_low_pass, seed=chosen.seed)
    public = moves(chosen.augment, chosen.seed)
    started = time.process_time()
    fit = ComponentFit(SCHEMA, settings, budget)
    plan = replace(fit.plan(), neighboring=chosen.neighboring)
    mechanism = SumMechanism((x.numpy(), y.numpy()), Ledger(plan))
    law, borders = fit.law(Rounds(mechanism, Checkpoint(None, {}, resume=False)), public)
    seconds = round(time.process_time() - started, 1)
    each, rng = chosen.count // 10, torch.Generator().manual_seed(chosen.seed)
    labels = torch.arange(10).repeat_interleave(each * (_CANDIDATES if borders else 1))
    images = public(law.values(labels, rng))
    if borders:
        images = agreeing(borders, images, labels, each, rng)
        labels = torch.arange(10).repeat_interleave(each)
    return {
        "method": "mixture, calibrated"
        + ", borders" * bool(borders)
        + ", augmented" * chosen.augment,
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
        **convolutional_accuracy(images, labels, *test, chosen.seed),
        **accuracies(images, labels, *test, chosen.seed),
    }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, required=True, help="npz of x_train, y_train, …")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--neighboring", default="replace_one", help="or zero_out")
    parser.add_argument("--residual-low-pass", type=int, help="frequencies of what is left")
    parser.add_argument("--augment", action="store_true", help="move draws at random, in public")
    parser.add_argument("--held-out", action="store_true", help="judge by training images")
    parser.add_argument("--count", type=int, default=NUM_SYNTHETIC, help="synthetic images")
    parser.add_argument("--seed", type=int, default=0, help="of starts, draws and classifiers")
    parser.add_argument("-o", "--output", type=Path, default=Path("sliced_components"))


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    row = judged(chosen)
    print(row)
    kind = "components" + "_augmented" * chosen.augment
    kind += "_zero_out" * (row["neighboring"] == "zero_out") + "_held_out" * chosen.held_out
    write_row(chosen.output / f"{kind}_{row['data']}_{chosen.epsilon:g}_{chosen.seed}.json", row)
