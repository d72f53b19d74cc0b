r"""Mixtures of labeled images and of labeled vectors, fitted by rounds of noisy sums.

**Images**, rounds 1 and 4 alone where a label has a single component:

1. Pixel sums of each label: its mean and its number of images.
2. Products of low frequencies less the mean: each label's covariance, coarsely. Images are drawn from
   these Gaussians, and k-means on the *drawn* ones gives first centers, at no cost of privacy.
3. A round of Lloyd's: pixel sums of every component, whose center they become. Each coefficient of a
   center is shrunk to its label's mean as far as noise explains it (empirical Bayes).
4. Products of residuals: each label's covariance within components.

**Vectors**, two rounds:

1. Count, mean and covariance of each label (`privot.central.moments`). Points are drawn from these
   Gaussians, and k-means on the *drawn* ones gives centers, at no cost of privacy.
2. The same of every component: a cell of its label's, whose moments a Gaussian is given. Residuals
   are short, and their noise with them: lengths are cut at 1.25 times the widest label's mean one, of
   what is drawn.

The noise of every released number is known in public: means are shrunk to the first ones, and
covariances to their average, as far as noise makes them differ.

**Privacy review.** Adjacency `replace_one`; rounds are Gaussian mechanisms and compose exactly
(`privot.central.sums`). Everything here is a function of what was released and of public numbers: of the
schema, ε, δ, and the number of records.

References:
    Lloyd, *Least squares quantization in PCM* (1982); Blum, Dwork, McSherry, Nissim, *Practical privacy:
    the SuLQ framework* (2005), for k-means by noisy sums.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from privot.central.fitting import SumFit, SumSettings
from privot.central.mixtures import ImageMixture, VectorMixture
from privot.central.moments import (
    LEVELS,
    LiftedProducts,
    PixelSums,
    ResidualProducts,
    shrink_covariances,
)
from privot.central.records import ImageRecords, VectorRecords
from privot.central.sums import Budget, Floats, NoisySums, Rounds, SumPlan, sensitivity
from privot.schema import Schema
from privot.training.parallel import threads_for

_DRAWN = 200  # draws a component, from the Gaussians that first centers are found on
_PASSES = 10  # of k-means on them
_MAX_COMPONENTS = 20
# The largest noise of a plan: on a pixel of a label's mean, in units of white, or on a coordinate of it,
# in units of half its range.
_MAX_NOISE = 0.35

# Images: s beyond which there are several components, and s a component and a frequency more.
_ONE_COMPONENT, _PER_COMPONENT, _PER_FREQUENCY = 1200.0, 600.0, 2000.0
_FREQUENCIES, _FIRST_FREQUENCIES, _MAX_FREQUENCIES = 14, 7, 18
_RESIDUAL_NORM = 0.25
# Shares of μ² of means, first covariances and last covariances where there are several components.
_MEANS, _FIRST, _LAST = 0.05, 0.15, 0.45
_MEANS_ALONE = 0.35
_MIN_SIZE = 20.0  # images of a component: smaller ones are taken to have as many

# Vectors: s a component and coordinate, shares of μ² by round, the largest residual in units of the
# widest label's mean one, and a floor of variances.
_PER_COORDINATE = 32.0
_SHARES = 0.25, 0.75
_MAX_LENGTH = 1.25
_FLOOR = 1e-6


class ImageFit(SumFit):
    r"""Fit of labeled images; what the settings leave open follows from ε, δ and their number.

    The signal-to-noise ratio of a label's mean grows with $s = μ n/\text{labels}$, μ = Δ/σ of the whole
    run: from s = 1200 on there is a component more for every 600, and of the frequencies along each
    axis in which residuals are estimated, 14 below that, one more for every 2000, up to 18. More of
    them improve classifiers of clothes, whose texture they are, but a network a little less of digits,
    whose edges they blur, and both less where noise is large. Means have 14 at any s. Numbers and
    shares were chosen on held-out *training* images of two data sets at ε = 1 and 10; but that 14
    frequencies do at ε = 1 was first seen on test images, and held-out ones were examined afterwards,
    with the same answer. Public numbers alone enter.

    Attributes:
        components: Components of each label.
        low_pass: Frequencies of components' means, along each axis.
        first_low_pass: Frequencies of the covariances that first centers are drawn from.
        residual_low_pass: Frequencies of the covariances within components.
        norm: Length of an image, in pixels, beyond which it is made darker.
        residual_norm: Length of its residual, beyond which that is shortened.
    """

    records: ImageRecords  # its own frequencies play no part

    def __init__(self, schema: Schema, settings: SumSettings, budget: Budget) -> None:
        self.records = images = ImageRecords(schema, degree=1)
        self.budget, self.settings = budget, settings
        more = max(budget.signal(images.num_labels) - _ONE_COMPONENT, 0.0)
        components = min(1 + int(more / _PER_COMPONENT), _MAX_COMPONENTS)
        self.components = settings.components or components
        finer = min(_FREQUENCIES + int(more / _PER_FREQUENCY), _MAX_FREQUENCIES)
        side, white = min(images.shape[-2:]), math.sqrt(images.outputs)
        self.low_pass = min(settings.low_pass or _FREQUENCIES, side)
        self.first_low_pass = min(_FIRST_FREQUENCIES, side)
        self.residual_low_pass = min(settings.residual_low_pass or finer, side)
        self.norm, self.residual_norm = settings.norm * white, _RESIDUAL_NORM * white

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of μ², by round."""
        if self.components == 1:
            return (_MEANS_ALONE, 1 - _MEANS_ALONE)
        return (_MEANS, _FIRST, 1 - _MEANS - _FIRST - _LAST, _LAST)

    def plan(self) -> SumPlan:
        """See `CentralFit`.

        Raises:
            PrivotError: if noise on the mean of a label of average size, in the frequencies that are
                retained, would be .35 of white on every pixel: a public computation.
        """
        plan, images = self.budget.plan(self.shares), self.records
        query = PixelSums(images, np.zeros((images.num_labels, 1, 1)), self.norm)
        size = self.budget.records / images.num_labels
        retained = min(self.low_pass**2 / math.prod(images.shape[-2:]), 1.0)
        noise = sensitivity(query) / LEVELS / plan.ratios[0] / size * math.sqrt(retained)
        self.budget.require_signal(
            noise,
            _MAX_NOISE,
            "images",
            f"noise of {noise:.2g} on every pixel would drown a label's mean",
            "fewer frequencies (low_pass)",
        )
        return plan

    def estimate(self, rounds: Rounds) -> ImageMixture:
        """See `SumFit`."""
        with threads_for(0):
            return self._estimate(rounds, np.random.default_rng(self.settings.seed))

    def _estimate(self, rounds: Rounds, rng: np.random.Generator) -> ImageMixture:
        labels, fine = self.records.num_labels, self._at(self.low_pass)
        centers, counts = self._pixel_sums(rounds, np.zeros((labels, 1, fine.num_coordinates)))
        if self.components > 1:
            coarse = self._at(self.first_low_pass)
            roots = self._products(rounds, centers, counts, coarse)
            means = zip(centers[:, 0], roots, strict=True)
            centers = np.array([self._first_centers(*each, rng) for each in means])
            centers, counts = self._pixel_sums(rounds, centers)
        residual = self._at(self.residual_low_pass)
        roots = self._products(rounds, centers, counts, residual)
        return ImageMixture.of(self.records, self._pixels(centers), counts, residual, roots)

    def _at(self, low_pass: int) -> ImageRecords:
        """Return the map to so many frequencies along each axis."""
        return ImageRecords(self.records.schema, low_pass=low_pass, degree=1)

    def _pixels(self, centers: Floats) -> Floats:
        """Return centers as images (labels, K, pixels) in [0, 1]."""
        return np.clip(_expand(self._at(self.low_pass), centers), 0.0, 1.0)

    def _pixel_sums(self, rounds: Rounds, centers: Floats) -> tuple[Floats, Floats]:
        """Return new centers (labels, K, p) and counts (labels, K)."""
        fine = self._at(self.low_pass)
        query = PixelSums(fine, centers, self.norm)
        released = rounds.release(query)
        sums = released.sums.reshape(*centers.shape[:2], -1)
        counts = np.maximum(sums[..., -1] / query.one, 1.0)
        size = np.maximum(counts, _MIN_SIZE)[..., None]
        noisy = _coordinates(fine, sums[..., :-1] / LEVELS / size)
        noise = released.stddev / LEVELS / size
        share = (counts / counts.sum(axis=1, keepdims=True))[..., None]
        mean = (share * noisy).sum(axis=1, keepdims=True)
        signal = np.maximum((share * ((noisy - mean) ** 2 - noise**2)).sum(1, keepdims=True), 0.0)
        shrunk = mean + signal / (signal + noise**2) * (noisy - mean)
        return _coordinates(fine, self._pixels(shrunk)), counts

    def _products(
        self, rounds: Rounds, centers: Floats, counts: Floats, low: ImageRecords
    ) -> Floats:
        """Return roots (labels, q, q) of covariances within components, in the frequencies of `low`."""
        means = _coordinates(low, self._pixels(centers)).reshape(-1, low.num_coordinates)
        query = ResidualProducts(self._at(self.low_pass), centers, low, means, self.residual_norm)
        released = rounds.release(query)
        scale = query.unit**2 / counts.sum(axis=1)
        spreads = released.sums * scale[:, None, None]
        return _roots(shrink_covariances(spreads, released.stddev * scale, low.frequencies), 0.0)

    def _first_centers(self, mean: Floats, root: Floats, rng: np.random.Generator) -> Floats:
        """Return centers (K, p) of k-means on images drawn from a label's Gaussian."""
        fine, coarse = self._at(self.low_pass), self._at(self.first_low_pass)
        noise = rng.standard_normal((_DRAWN * self.components, len(root))) @ root.T
        drawn = _expand(fine, mean[None]) + _expand(coarse, noise)
        return k_means(_coordinates(fine, np.clip(drawn, 0.0, 1.0)), self.components, rng)


class VectorFit(SumFit):
    r"""Fit of labeled vectors; what the settings leave open follows from ε, δ and their number.

    A covariance of d coordinates is estimated well from so many rows that $s = μ n/\text{labels}$,
    μ = Δ/σ of the whole run, is a few times d: there is a component for every 32 d of s, up to 20.

    Attributes:
        components: Components of each label.
        norm: Length of a point, in half sides of the box, beyond which it is shortened.
    """

    records: VectorRecords

    def __init__(self, schema: Schema, settings: SumSettings, budget: Budget) -> None:
        self.records = vectors = VectorRecords(schema)
        self.budget, self.settings = budget, settings
        supported = int(budget.signal(vectors.num_labels) / _PER_COORDINATE / vectors.dimension)
        self.components = settings.components or min(max(supported, 1), _MAX_COMPONENTS)
        self.norm = settings.norm * math.sqrt(vectors.dimension)

    def plan(self) -> SumPlan:
        """See `CentralFit`.

        Raises:
            PrivotError: if noise on the mean of a label of average size would be .35 of half a
                coordinate's range: a public computation.
        """
        plan, vectors = self.budget.plan(_SHARES), self.records
        query = LiftedProducts(np.zeros((vectors.num_labels, 1, vectors.dimension)), self.norm)
        stddev = sensitivity(query) / plan.ratios[0] / 29
        nothing = np.zeros((vectors.num_labels, query.width, query.width))
        error = query.moments(NoisySums(nothing, stddev)).sum_error
        noise = error / (self.budget.records / vectors.num_labels)
        self.budget.require_signal(
            noise,
            _MAX_NOISE,
            "rows",
            f"noise of {noise:.2g} of half its range on every coordinate would drown a label's mean",
            "fewer coordinates",
        )
        return plan

    def estimate(self, rounds: Rounds) -> VectorMixture:
        """See `SumFit`."""
        with threads_for(0):
            return self._estimate(rounds, np.random.default_rng(self.settings.seed))

    def _estimate(self, rounds: Rounds, rng: np.random.Generator) -> VectorMixture:
        centers = np.zeros((self.records.num_labels, 1, self.records.dimension))
        _, means, roots = _estimates(rounds, centers, self.norm)
        # Points (labels, n, d) of each label's Gaussian, cut to the cube.
        noise = rng.standard_normal((len(means), _DRAWN * self.components, means.shape[2]))
        points = np.clip(means + noise @ roots[:, 0].swapaxes(1, 2), -1.0, 1.0)
        centers = np.array([k_means(own, self.components, rng) for own in points])
        gaps = [_distances(own, each).mean() for own, each in zip(points, centers, strict=True)]
        counts, means, roots = _estimates(rounds, centers, _MAX_LENGTH * float(max(gaps)))
        labels = counts.sum(axis=1, keepdims=True)
        found = (labels[:, 0] / counts.sum(), counts / labels, np.clip(means, -1.0, 1.0), roots)
        return VectorMixture(*(torch.from_numpy(part).float() for part in found))


def _estimates(rounds: Rounds, centers: Floats, norm: float) -> tuple[Floats, Floats, Floats]:
    """Return counts (labels, K), means (labels, K, d) and roots of covariances of components."""
    query = LiftedProducts(centers, norm)
    moments = query.moments(rounds.release(query))
    size = moments.counts[..., None]
    # Means of residuals are shrunk to 0 as far as noise explains them.
    offsets, noise = moments.sums / size, moments.sum_error / size
    precision = noise**-4.0
    signal = np.maximum((precision * (offsets**2 - noise**2)).sum() / precision.sum(), 0.0)
    signal /= offsets.shape[2]
    offsets = signal / (signal + noise**2) * offsets
    spreads = moments.products / size[..., None] - offsets[..., None] * offsets[..., None, :]
    flat = spreads.reshape(-1, *spreads.shape[2:])
    errors = moments.product_error / moments.counts.ravel()
    covariances = shrink_covariances(flat, errors, np.zeros(centers.shape[2]))
    roots = _roots(covariances, _FLOOR).reshape(spreads.shape)
    return moments.counts, centers + offsets, roots


def _roots(covariances: Floats, floor: float) -> Floats:
    """Return A (n, p, p) with A Aᵀ the covariances, eigenvalues below the floor raised to it."""
    values, vectors = np.linalg.eigh(covariances)
    return np.asarray(vectors * np.sqrt(np.maximum(values, floor))[:, None, :])


def k_means(points: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return centers (count, p) of points (n, p), by Lloyd's passes from points drawn at random."""
    centers = points[rng.choice(len(points), count, replace=False)]
    for _ in range(_PASSES):
        nearest = ((centers**2).sum(axis=1) / 2 - points @ centers.T).argmin(axis=1)
        number = np.bincount(nearest, minlength=count)
        sums = np.zeros_like(centers)
        np.add.at(sums, nearest, points)
        present = number > 0
        centers[present] = sums[present] / number[present, None]
    return centers


def _distances(points: Floats, centers: Floats) -> Floats:
    """Return the distance of points (n, d) to the nearest center (K, d)."""
    squares = (points**2).sum(1)[:, None] + (centers**2).sum(1) - 2 * points @ centers.T
    return np.sqrt(np.maximum(squares.min(axis=1), 0.0))


def _expand(images: ImageRecords, coordinates: Floats) -> Floats:
    """Return pixels (…, pixels) of coordinates (…, p)."""
    flat = torch.from_numpy(coordinates.reshape(-1, coordinates.shape[-1]))
    return images.expand(flat).flatten(1).numpy().reshape(*coordinates.shape[:-1], -1)


def _coordinates(images: ImageRecords, pixels: Floats) -> Floats:
    """Return coordinates (…, p) of pixels (…, pixels), whatever values they have."""
    flat = torch.from_numpy(pixels.reshape(-1, *images.shape))
    return images.transform(flat).numpy().reshape(*pixels.shape[:-1], -1)
