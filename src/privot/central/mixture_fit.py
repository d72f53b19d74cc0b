r"""Mixtures of labeled images and of labeled vectors, fitted by rounds of noisy sums.

**Images** take four rounds, or only rounds 1 and 4 if a label has a single component:

1. Pixel sums of each label: its mean and its number of images.
2. Second moments of residuals in few low frequencies: each label's covariance. Images are sampled from
   these Gaussians, and k-means on the *samples* gives first centers (post-processing).
3. One step of Lloyd's algorithm: the pixel sums of every component give its new center. Each coefficient
   of a center is shrunk to its label's mean according to its noise (empirical Bayes).
4. Second moments of residuals: each label's covariance within components.

**Images in one round**, which two servers sum (`privot.aggregated`): second moments of all images in
low frequencies, with sums and counts of each label (`LabeledProducts`). Each label has one component
and its own mean; all share the covariance of all images less that of the means.

**Vectors** take two rounds:

1. Count, mean and covariance of each label (`privot.central.moments`). Points are sampled from these
   Gaussians, and k-means on the *samples* gives centers (post-processing).
2. Count, mean and covariance of every component, the cell of a center. Residuals are small, and so is
   their noise: they are clipped to 1.25 times the mean norm of sampled residuals in the widest label.

The noise of every released number has a public standard deviation. By it, means of components are
shrunk to the centers of round 1, and covariances to their average.

**Privacy review.** Adjacency `replace_one`; rounds are Gaussian mechanisms and compose exactly
(`privot.central.sums`). Everything here is a function of releases and of public numbers: the schema, ε,
δ, and the number of records.

References:
    Lloyd, *Least squares quantization in PCM* (1982); Blum, Dwork, McSherry, Nissim, *Practical privacy:
    the SuLQ framework* (2005), for k-means by noisy sums.
"""

import math
from dataclasses import replace

import numpy as np
import torch

from privot.central.fitting import OneSumFit, SumFit, SumSettings
from privot.central.mixtures import ImageMixture, VectorMixture
from privot.central.moments import (
    LEVELS,
    LabeledProducts,
    LiftedProducts,
    PixelSums,
    ResidualProducts,
    shrink_covariances,
)
from privot.central.records import ImageRecords, VectorRecords
from privot.central.sums import (
    DIAGONAL,
    Budget,
    Floats,
    NoisySums,
    Rounds,
    SumPlan,
    sensitivity,
)
from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.training.parallel import threads_for

_DRAWN = 200  # samples of a component, by which k-means finds first centers
_PASSES = 10  # iterations of k-means
_MAX_COMPONENTS = 20
# Largest noise of a plan on a label's mean: on a pixel, in units of white, or on a coordinate of a
# vector, in units of half its range.
_MAX_NOISE = 0.35

# Images: signal s above which there are several components, and s for each more component or frequency.
_ONE_COMPONENT, _PER_COMPONENT, _PER_FREQUENCY = 1200.0, 600.0, 2000.0
_FREQUENCIES, _FIRST_FREQUENCIES, _MAX_FREQUENCIES = 14, 7, 18
_RESIDUAL_NORM = 0.25
# Shares of μ² for means, first and last covariances with several components; for means with one.
_MEANS, _FIRST, _LAST = 0.05, 0.15, 0.45
_MEANS_ALONE = 0.35
_MIN_SIZE = 20.0  # smallest number of images by which a component's sums are divided
# Images in one round: largest number of frequencies along each axis, for one channel.
_FREQUENCIES_AT_ONCE = 16

# Vectors: signal s for each component and coordinate, shares of μ² by round, clipping norm of residuals
# relative to the widest label's mean norm, and smallest variance.
_PER_COORDINATE = 32.0
_SHARES = 0.25, 0.75
_RESIDUAL_LENGTH = 1.25
_FLOOR = 1e-6


class ImageFit(SumFit):
    r"""Fit of labeled images; settings that are None follow from ε, δ and the number of images.

    The signal-to-noise ratio of a label's mean grows with $s = μ n/\text{labels}$, μ = Δ/σ of the whole
    run. Up to s = 1200 there is one component, and one more for every 600 above. Residuals have 14
    frequencies along each axis, and one more for every 2000 above s = 1200, up to 18. More frequencies
    improve classifiers of clothes (texture), slightly worsen those of digits (blurred edges), and help
    less where noise is large. Means have 14 frequencies for any s. These numbers and the shares of μ²
    were chosen on held-out *training* images of two data sets at ε = 1 and 10. One exception: that 14
    frequencies suffice at ε = 1 was first observed on test images, and then confirmed on held-out ones.
    All choices depend on public numbers alone.

    Attributes:
        components: Number of components of each label.
        low_pass: Number of frequencies of components' means, along each axis.
        first_low_pass: Number of frequencies of covariances from which first centers are sampled.
        residual_low_pass: Number of frequencies of covariances within components.
        norm: Norm to which an image is clipped, for pixels in [0, 1].
        residual_norm: Norm to which a residual is clipped.
    """

    records: ImageRecords  # whose low_pass is not used

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
            PrivotError: if the noise on the mean of a label of average size, in the retained
                frequencies, exceeds .35 of white on every pixel.
        """
        plan, images = self.budget.plan(self.shares), self.records
        query = PixelSums(images, np.zeros((images.num_labels, 1, 1)), self.norm)
        size = self.budget.records / images.num_labels
        retained = min(self.low_pass**2 / math.prod(images.shape[-2:]), 1.0)
        stddev = sensitivity(query) / plan.ratios[0] / LEVELS  # of a sum: ratio is Δ/σ, white 1
        noise = stddev / size * math.sqrt(retained)
        _require_means(self.budget, noise, "fewer frequencies (low_pass)")
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
        """Return the map to coordinates with `low_pass` frequencies along each axis."""
        return ImageRecords(self.records.schema, low_pass=low_pass, degree=1)

    def _pixels(self, centers: Floats) -> Floats:
        """Return centers as images (labels, K, pixels) in [0, 1]."""
        return np.clip(_expand(self._at(self.low_pass), centers), 0.0, 1.0)

    def _pixel_sums(self, rounds: Rounds, centers: Floats) -> tuple[Floats, Floats]:
        """Release pixel sums; return new centers (labels, K, p) and counts (labels, K)."""
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
        """Release products of residuals; return roots (labels, q, q) of covariances in `low`."""
        means = _coordinates(low, self._pixels(centers)).reshape(-1, low.num_coordinates)
        query = ResidualProducts(self._at(self.low_pass), centers, low, means, self.residual_norm)
        released = rounds.release(query)
        scale = query.unit**2 / counts.sum(axis=1)
        spreads = released.sums * scale[:, None, None]
        return _roots(shrink_covariances(spreads, released.stddev * scale, low.frequencies), 0.0)

    def _first_centers(self, mean: Floats, root: Floats, rng: np.random.Generator) -> Floats:
        """Return centers (K, p) by k-means on images sampled from a label's Gaussian."""
        fine, coarse = self._at(self.low_pass), self._at(self.first_low_pass)
        noise = rng.standard_normal((_DRAWN * self.components, len(root))) @ root.T
        drawn = _expand(fine, mean[None]) + _expand(coarse, noise)
        return k_means(_coordinates(fine, np.clip(drawn, 0.0, 1.0)), self.components, rng)


class ImageRoundFit(OneSumFit):
    """Fit of labeled images by one round, for sums that several servers compute.

    Images have 16 frequencies along each axis, or as many fewer as leave at most 256 numbers for all
    channels. This number and the query's weights and norm were chosen on held-out *training* images of
    two data sets at ε = 1, with the noise of two servers; they depend on nothing else, so that devices
    know them from the schema alone.

    Raises:
        PrivotError: if settings other than the seed are given.
    """

    records: ImageRecords  # whose low_pass is not used
    query: LabeledProducts

    def __init__(self, schema: Schema, settings: SumSettings, budget: Budget) -> None:
        if replace(settings, seed=0) != SumSettings():
            raise PrivotError(
                f"{settings}: devices have summed by the default ones; give a seed, or none"
            )
        self.records = images = ImageRecords(schema, degree=1)
        self.budget, self.settings = budget, settings
        channels, (height, width) = math.prod(images.shape[:-2]), images.shape[-2:]
        most = max(int(_FREQUENCIES_AT_ONCE / math.sqrt(channels)), 1)
        low = ImageRecords(schema, low_pass=min(most, height, width), degree=1)
        self.query = LabeledProducts(low, settings.norm * math.sqrt(images.outputs))

    def plan(self) -> SumPlan:
        """See `CentralFit`.

        Raises:
            PrivotError: if the noise on the mean of a label of average size exceeds .35 of white on
                every pixel.
        """
        plan, query = self.budget.plan((1.0,)), self.query
        nothing = np.zeros((1, query.width, query.width))
        stddev = sensitivity(query) / plan.ratios[0] / DIAGONAL  # of a diagonal sum
        error = query.moments(NoisySums(nothing, stddev)).sum_error
        size = self.budget.records / self.records.num_labels
        share = (query.weights**-2.0).sum() / self.records.outputs
        _require_means(self.budget, error / size * math.sqrt(share), "fewer labels")
        return plan

    def law(self, released: NoisySums) -> ImageMixture:
        """See `OneSumFit`."""
        query, moments = self.query, self.query.moments(released)
        counts, total = moments.counts, moments.counts.sum()
        means = moments.sums / np.maximum(counts, _MIN_SIZE)[:, None]
        spread = (moments.products - (means * counts[:, None]).T @ means) / total
        errors = np.array([moments.product_error / total])
        # Prior variances are ∝ 1/(1 + f²/4), and weighted ones here ∝ 1/w²: solve for f².
        squares = 4.0 * (query.weights**2 - 1.0)
        (root,) = _roots(shrink_covariances(spread[None], errors, squares), 0.0)
        roots = np.repeat(root[None] / query.weights[:, None], len(means), axis=0)
        pixels = np.clip(_expand(query.images, means / query.weights), 0.0, 1.0)
        return ImageMixture.of(self.records, pixels[:, None], counts[:, None], query.images, roots)


def _require_means(budget: Budget, noise: float, remedy: str) -> None:
    """Refuse noise on every pixel of a label's mean that would drown it."""
    budget.require_signal(
        noise,
        _MAX_NOISE,
        "images",
        f"noise of {noise:.2g} on every pixel would drown a label's mean",
        remedy,
    )


class VectorFit(SumFit):
    r"""Fit of labeled vectors; settings that are None follow from ε, δ and the number of rows.

    A covariance of d coordinates is estimated well if $s = μ n/\text{labels}$, μ = Δ/σ of the whole run,
    is several times d: there is a component for every 32 d of s, up to 20.

    Attributes:
        components: Number of components of each label.
        norm: Norm to which a point in [−1, 1]^d is clipped.
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
            PrivotError: if the noise on the mean of a label of average size exceeds .35 of half a
                coordinate's range.
        """
        plan, vectors = self.budget.plan(_SHARES), self.records
        query = LiftedProducts(np.zeros((vectors.num_labels, 1, vectors.dimension)), self.norm)
        stddev = sensitivity(query) / plan.ratios[0] / DIAGONAL  # of a diagonal sum
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
        # Samples (labels, n, d) of each label's Gaussian, clipped to the cube.
        noise = rng.standard_normal((len(means), _DRAWN * self.components, means.shape[2]))
        points = np.clip(means + noise @ roots[:, 0].swapaxes(1, 2), -1.0, 1.0)
        centers = np.array([k_means(own, self.components, rng) for own in points])
        gaps = [_distances(own, each).mean() for own, each in zip(points, centers, strict=True)]
        counts, means, roots = _estimates(rounds, centers, _RESIDUAL_LENGTH * float(max(gaps)))
        labels = counts.sum(axis=1, keepdims=True)
        found = (labels[:, 0] / counts.sum(), counts / labels, np.clip(means, -1.0, 1.0), roots)
        return VectorMixture(*(torch.from_numpy(part).float() for part in found))


def _estimates(rounds: Rounds, centers: Floats, norm: float) -> tuple[Floats, Floats, Floats]:
    """Release moments of components; return counts, means (labels, K, d) and roots of covariances."""
    query = LiftedProducts(centers, norm)
    moments = query.moments(rounds.release(query))
    size = moments.counts[..., None]
    # Means of residuals are shrunk to 0 by their noise; squares weigh by their inverse variance.
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
    """Return roots A (n, p, p), A Aᵀ = covariances, whose eigenvalues are raised to the floor."""
    values, vectors = np.linalg.eigh(covariances)
    return np.asarray(vectors * np.sqrt(np.maximum(values, floor))[:, None, :])


def k_means(points: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return centers (count, p) of points (n, p) by Lloyd's algorithm from random points."""
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
    """Return coordinates (…, p) of pixels (…, pixels), which may exceed [0, 1]."""
    flat = torch.from_numpy(pixels.reshape(-1, *images.shape))
    return images.transform(flat).numpy().reshape(*pixels.shape[:-1], -1)
