"""Labeled images by a few rounds of noisy sums: class means, their spread, components, what is left.

1. Pixel sums of each label: its mean and its number of images.
2. Products of low frequencies less the mean: each label's covariance, coarsely. Images are drawn of
   these Gaussians, and k-means on the *drawn* ones gives first centers, at no cost.
3. Lloyd's rounds: pixel sums of every component; centers follow, components that few images are in move
   next to the largest one. Each coefficient of a center is drawn to its label's mean as far as noise
   makes it (empirical Bayes).
4. Products of what is left: each label's covariance within components.

The noise of every released number is known in public, and everything here is a function of what was
released (`privot.central.sums`): Gaussian mechanisms of all rounds compose exactly.

References:
    Lloyd, *Least squares quantization in PCM* (1982); Blum, Dwork, McSherry, Nissim, *Practical privacy:
    the SuLQ framework* (2005), for k-means by noisy sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from privot.central.components import ImageMixture, LabeledVectors, VectorMixture
from privot.central.fitting import CentralModel, Run, SumSettings
from privot.central.moments import (
    LEVELS,
    Components,
    ImageRecipe,
    LiftedProducts,
    Moments,
    PixelSums,
    ResidualProducts,
    shrink_covariances,
)
from privot.central.records import ImageRecords, records_of
from privot.central.slice_fit import SliceSettings, train_network
from privot.central.slices import SlicingMechanism
from privot.central.sums import NoisySums, Rounds, SumPlan, open_ledger, sensitivity
from privot.core.errors import PrivotError
from privot.models import Checkpoint
from privot.privacy import calibrate_gaussian
from privot.privacy.rounding import at_most
from privot.training.parallel import threads_for

Floats = NDArray[np.float64]
_FEW = 20.0  # images of a component: fewer are taken for as many
_DRAWN = 200  # images a component, of the Gaussians that first centers are found on
_PASSES = 10  # of k-means on them


def fit_images(rounds: Rounds, images: ImageRecords, recipe: ImageRecipe) -> ImageMixture:
    """The mixture that the rounds of `recipe` tell.

    Arguments:
        rounds: Of a plan with the recipe's shares.
        images: Of the schema; their own frequencies play no part.
        recipe: How many components, which frequencies, which lengths.
    """
    fit = _Fit(rounds, images, recipe)
    rng = np.random.default_rng(recipe.seed)
    labels = images.num_labels
    centers, counts = fit.pixel_sums(np.zeros((labels, 1, fit.fine.num_coordinates)))
    if recipe.components > 1:
        roots = fit.products(centers, counts, fit.coarse)
        first = [fit.first_centers(centers[c, 0], roots[c], rng) for c in range(labels)]
        centers = np.array(first)
        for step in range(recipe.lloyd_rounds):
            centers, counts = fit.pixel_sums(centers)
            if step < recipe.lloyd_rounds - 1:
                centers = fit.revived(centers, counts, rng)
    roots = fit.products(centers, counts, fit.residual)
    return ImageMixture.of(images, fit.pixels(centers), counts, fit.residual, roots)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Rounds, and the frequencies in which their answers are read. Centers are (labels, K, p)."""

    rounds: Rounds
    images: ImageRecords
    recipe: ImageRecipe

    @property
    def fine(self) -> ImageRecords:
        """Frequencies of centers."""
        return self._kept(self.recipe.low_pass)

    @property
    def coarse(self) -> ImageRecords:
        """Frequencies of the first covariances."""
        return self._kept(self.recipe.first_low_pass)

    @property
    def residual(self) -> ImageRecords:
        """Frequencies of the last covariances."""
        return self._kept(self.recipe.residual_low_pass)

    def _kept(self, low_pass: int) -> ImageRecords:
        return ImageRecords(self.images.schema, low_pass=low_pass, degree=1)

    def pixels(self, centers: Floats) -> Floats:
        """Centers as images (labels, K, pixels) in [0, 1]."""
        return np.clip(_expand(self.fine, centers), 0.0, 1.0)

    def pixel_sums(self, centers: Floats) -> tuple[Floats, Floats]:
        """New centers (labels, K, p) and counts (labels, K)."""
        question = PixelSums(Components(self.fine, centers), self.recipe.norm)
        released = self.rounds.ask(question)
        sums = released.sums.reshape(*centers.shape[:2], -1)
        counts = np.maximum(sums[..., -1] / question.one, 1.0)
        size = np.maximum(counts, _FEW)[..., None]
        told = _coordinates(self.fine, sums[..., :-1] / LEVELS / size)
        noise = released.stddev / LEVELS / size
        share = (counts / counts.sum(axis=1, keepdims=True))[..., None]
        mean = (share * told).sum(axis=1, keepdims=True)
        signal = np.maximum((share * ((told - mean) ** 2 - noise**2)).sum(1, keepdims=True), 0.0)
        found = mean + signal / (signal + noise**2) * (told - mean)
        return _coordinates(self.fine, self.pixels(found)), counts

    def products(self, centers: Floats, counts: Floats, images: ImageRecords) -> Floats:
        """Roots (labels, p, p) of covariances within components, in the frequencies of `images`."""
        means = _coordinates(images, self.pixels(centers)).reshape(-1, images.num_coordinates)
        components = Components(self.fine, centers)
        question = ResidualProducts(components, means, images, self.recipe.residual_norm)
        released = self.rounds.ask(question)
        size = counts.sum(axis=1)
        scale = question.unit**2 / size
        spreads = released.sums * scale[:, None, None]
        values, vectors = np.linalg.eigh(
            shrink_covariances(spreads, released.stddev * scale, images.frequencies)
        )
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])

    def first_centers(self, mean: Floats, root: Floats, rng: np.random.Generator) -> Floats:
        """Centers (K, p) of k-means on images drawn of a label's Gaussian."""
        count = self.recipe.components
        noise = rng.standard_normal((_DRAWN * count, len(root))) @ root.T
        drawn = _expand(self.fine, mean[None]) + _expand(self.coarse, noise)
        return k_means(_coordinates(self.fine, np.clip(drawn, 0.0, 1.0)), count, rng)

    def revived(self, centers: Floats, counts: Floats, rng: np.random.Generator) -> Floats:
        """Centers of components that few images are in, moved next to their label's largest."""
        moved = centers.copy()
        for label, count in enumerate(counts):
            few = count < 2 * _FEW
            spread = centers[label].std(axis=0)
            jump = spread * rng.standard_normal((int(few.sum()), centers.shape[2]))
            moved[label][few] = centers[label][count.argmax()] + jump
        return moved


def k_means(points: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Centers (count, p) of points (n, p), by Lloyd's passes from points drawn at random."""
    centers = points[rng.choice(len(points), count, replace=False)]
    for _ in range(_PASSES):
        nearest = ((centers**2).sum(axis=1) / 2 - points @ centers.T).argmin(axis=1)
        number = np.bincount(nearest, minlength=count)
        sums = np.zeros_like(centers)
        np.add.at(sums, nearest, points)
        held = number > 0
        centers[held] = sums[held] / number[held, None]
    return centers


def _expand(images: ImageRecords, coordinates: Floats) -> Floats:
    """Pixels (…, pixels) of coordinates (…, p)."""
    flat = torch.from_numpy(coordinates.reshape(-1, coordinates.shape[-1]))
    return images.expand(flat).flatten(1).numpy().reshape(*coordinates.shape[:-1], -1)


def _coordinates(images: ImageRecords, pixels: Floats) -> Floats:
    """Coordinates (…, p) of pixels (…, pixels), whatever values they have."""
    flat = torch.from_numpy(pixels.reshape(-1, *images.shape))
    return images.transform(flat).numpy().reshape(*pixels.shape[:-1], -1)


# Labeled vectors by two rounds of noisy sums: moments of labels, then of their components.
#
# 1. Count, mean and covariance of each label (`privot.central.moments`). Points are drawn of these
#    Gaussians, and k-means on the *drawn* ones gives centers, at no cost.
# 2. The same of every component: a cell of its label's, whose own moments a Gaussian is given. What is
#    left of a point is short, and its noise with it: lengths are cut at 1.25 times the widest
#    label's mean one, of what is drawn.
#
# The noise of every released number is known in public: means are drawn to the first ones, and
# covariances to their average, as far as noise makes them differ (empirical Bayes,
# `privot.central.moments`). A covariance of d coordinates is told by so many rows as make $s = μ
# n/\text{labels}$, μ = Δ/σ of the whole run, a few times d: there is a component for every 32 d of s,
# up to 20.
#
# **Privacy review.** Adjacency `replace_one`; rounds compose exactly (`privot.central.sums`).
# Everything here is a function of what was released and of public numbers: of the schema, ε, δ, and
# the number of rows.


_PER_COMPONENT, _MOST_COMPONENTS = 32.0, 20
_SHARES = 0.25, 0.75  # of μ², by round
_MOST_NOISE = 0.35  # on a coordinate of a label's mean, of half of its range
_LONGEST = 1.25  # times what residuals of the widest label have on the average
_LEAST = 1e-6


@dataclass(frozen=True, kw_only=True)
class VectorRecipe:
    """What the rounds of a fit of vectors ask.

    Arguments:
        components: For each label.
        norm: Length of a point, in half sides of the box, beyond which it is made shorter.
        seed: Of what is drawn in public.
    """

    components: int
    norm: float
    seed: int

    @classmethod
    def of(
        cls,
        settings: SumSettings,
        epsilon: float,
        delta: float,
        count: int,
        vectors: LabeledVectors,
    ) -> Self:
        """What is asked of so many rows."""
        signal = count / calibrate_gaussian(1.0, epsilon, delta) / vectors.num_labels
        heard = int(signal / _PER_COMPONENT / vectors.dimension)
        return cls(
            components=settings.components or min(max(heard, 1), _MOST_COMPONENTS),
            norm=settings.norm * math.sqrt(vectors.dimension),
            seed=settings.seed,
        )

    def plan(self, epsilon: float, delta: float, count: int, vectors: LabeledVectors) -> SumPlan:
        """Its rounds, under (ε, δ); nothing is spent on what noise would drown.

        Raises:
            PrivotError: if noise on the mean of a label of average size would be .35 of half a
                coordinate's range: a public computation.
        """
        plan = SumPlan.calibrate(epsilon, delta, _SHARES, count, vectors.schema.unit)
        question = LiftedProducts(np.zeros((vectors.num_labels, 1, vectors.dimension)), self.norm)
        stddev = sensitivity(question) / plan.ratios[0] / 29
        nothing = np.zeros((vectors.num_labels, question.width, question.width))
        of_sums = question.moments(NoisySums(nothing, stddev)).of_sums
        noise = of_sums / (count / vectors.num_labels)
        if noise > _MOST_NOISE:
            raise PrivotError(
                f"epsilon {at_most(epsilon)} for {count:,} rows: noise of {noise:.2g} of half its range "
                f"on every coordinate would drown a label's mean; give "
                f"{math.ceil(count * noise / _MOST_NOISE):,} rows, as much more epsilon, or fewer "
                "coordinates"
            )
        return plan


def fit_vectors(rounds: Rounds, vectors: LabeledVectors, recipe: VectorRecipe) -> VectorMixture:
    """The mixture that the rounds of `recipe` tell.

    Arguments:
        rounds: Of the recipe's plan.
        vectors: Of the schema.
        recipe: How many components, and which length.
    """
    rng = np.random.default_rng(recipe.seed)
    centers = np.zeros((vectors.num_labels, 1, vectors.dimension))
    _, means, roots = _asked(rounds, centers, recipe.norm)
    points = _points(means[:, 0], roots[:, 0], recipe.components, rng)
    centers = np.array([k_means(own, recipe.components, rng) for own in points])
    gaps = [_nearest(own, each).mean() for own, each in zip(points, centers, strict=True)]
    counts, means, roots = _asked(rounds, centers, _LONGEST * float(max(gaps)))
    found = {
        "shares": counts.sum(axis=1) / counts.sum(),
        "weights": counts / counts.sum(axis=1, keepdims=True),
        "means": np.clip(means, -1.0, 1.0),
        "roots": roots,
    }
    return VectorMixture(**{name: torch.from_numpy(part).float() for name, part in found.items()})


def _asked(rounds: Rounds, centers: Floats, norm: float) -> tuple[Floats, Floats, Floats]:
    """Counts (labels, K), means (labels, K, d) and roots of covariances of components."""
    question = LiftedProducts(centers, norm)
    told = question.moments(rounds.ask(question))
    offsets = _shrunk_offsets(told)
    size = told.counts[..., None]
    spreads = told.products / size[..., None] - offsets[..., None] * offsets[..., None, :]
    flat = spreads.reshape(-1, *spreads.shape[2:])
    errors = told.of_products / told.counts.ravel()
    covariances = shrink_covariances(flat, errors, np.zeros(centers.shape[2]))
    values, vectors = np.linalg.eigh(covariances)
    roots = vectors * np.sqrt(np.maximum(values, _LEAST))[:, None, :]
    return told.counts, centers + offsets, roots.reshape(spreads.shape)


def _shrunk_offsets(told: Moments) -> Floats:
    """Means of residuals (labels, K, d), drawn to 0 as far as noise makes them."""
    size = told.counts[..., None]
    offsets, noise = told.sums / size, told.of_sums / size
    precision = noise**-4.0
    signal = np.maximum((precision * (offsets**2 - noise**2)).sum() / precision.sum(), 0.0)
    signal /= offsets.shape[2]
    return np.asarray(signal / (signal + noise**2) * offsets)


def _points(means: Floats, roots: Floats, components: int, rng: np.random.Generator) -> Floats:
    """Points (labels, n, d) drawn of each label's Gaussian, in the cube."""
    noise = rng.standard_normal((len(means), _DRAWN * components, means.shape[1]))
    return np.clip(means[:, None] + noise @ roots.swapaxes(1, 2), -1.0, 1.0)


def _nearest(points: Floats, centers: Floats) -> Floats:
    """Distance of points (n, d) to the nearest center (K, d)."""
    squares = (points**2).sum(1)[:, None] + (centers**2).sum(1) - 2 * points @ centers.T
    return np.sqrt(np.maximum(squares.min(axis=1), 0.0))


# Fits of images and vectors by noisy sums, and of networks by noisy slices: what needs PyTorch.


def fit_image_sums(run: Run, settings: SumSettings) -> CentralModel:
    """A mixture of labeled images, by rounds of noisy sums."""
    count, records = len(run.table), ImageRecords(run.schema, degree=1)
    recipe = ImageRecipe.of(settings, run.epsilon, run.delta, count, records)
    plan = recipe.plan(run.epsilon, run.delta, count, records)
    values, labels = records.encode(run.table)
    if labels is None:
        labels = torch.zeros(count, dtype=torch.int64)
    parts = (values.numpy(), labels.numpy())
    with threads_for(0), run.rounds(plan, parts, settings) as rounds:
        return run.model(fit_images(rounds, records, recipe), records, plan, settings)


def fit_vector_sums(run: Run, settings: SumSettings) -> CentralModel:
    """A mixture of labeled vectors, by two rounds of noisy sums."""
    count, vectors = len(run.table), LabeledVectors(run.schema)
    recipe = VectorRecipe.of(settings, run.epsilon, run.delta, count, vectors)
    plan = recipe.plan(run.epsilon, run.delta, count, vectors)
    values, labels = vectors.encode(run.table)
    parts = (values.numpy(), labels.numpy())
    records = records_of(run.schema, degree=1)
    with threads_for(0), run.rounds(plan, parts, settings) as rounds:
        return run.model(fit_vectors(rounds, vectors, recipe), records, plan, settings)


def fit_slices(run: Run, settings: SliceSettings) -> CentralModel:
    """A network, trained on noisy slices."""
    records = records_of(run.schema, **settings.features)
    values, labels = records.encode(run.table)
    plan = settings.plan(run.epsilon, run.delta, len(values), records)
    ledger = open_ledger(plan, run.path, run.resume)
    mechanism = SlicingMechanism(values, labels, records, ledger)
    state = Checkpoint(run.path, {"ledger": ledger.id}, run.resume)
    try:
        with threads_for(0):
            law, history = train_network(mechanism, records, settings, state, run.progress)
    finally:
        ledger.close()
    return run.model(law, records, plan, settings, ledger.spent, history)
