r"""Fits of mixtures to labeled images and to labeled vectors, by rounds of noisy sums.

**Images** take four rounds, or only rounds 1 and 4 if a label has a single component:

1. Pixel sums by label estimate each label's mean and its number of images.
2. Second moments of residuals, in few low frequencies, estimate each label's covariance. Images are
   sampled from these Gaussians, and k-means on the *samples* finds first centers (post-processing).
3. Pixel sums by component estimate new centers, one step of Lloyd's algorithm. Each coefficient of a
   center is shrunk to its label's mean according to its noise (empirical Bayes).
4. Second moments of residuals estimate each label's covariance within components.

**Images in one round**, as two servers sum them (`privot.aggregated`): the round releases second moments
of all images in low frequencies, and sums and counts by label (`LabeledProducts`). Each label has one
component with its own mean. All have the same covariance: that of all images minus that of the means.

**Vectors** take two rounds:

1. Moments of each label estimate its count, mean and covariance (`privot.central.moments`). Points are
   sampled from these Gaussians, and k-means on the *samples* finds centers (post-processing).
2. Moments of residuals from the nearest center estimate the count, mean and covariance of every
   component. Residuals, and so their noise, are small: they are clipped to 1.25 times the mean norm of
   sampled residuals in the widest label.

The noise of every released number has a public standard deviation. According to it, means of components
are shrunk to the centers found by k-means, and covariances to their average.

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
from privot.central.sums import Budget, Floats, NoisySums, Rounds, SumPlan
from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.training.loop import threads_for

_DRAWN = 200  # samples of a component, by which k-means finds first centers
_PASSES = 10  # iterations of k-means
_MAX_COMPONENTS = 20
# Largest planned noise of a label's mean: of a pixel in [0, 1], or of a coordinate in [−1, 1].
_MAX_NOISE = 0.35
_MIN_SIZE = 20.0  # smallest number of images by which a component's sums are divided

# Images in rounds: how settings grow with the signal s, and how the rounds share μ² (see `ImageFit`).
_ONE_COMPONENT, _PER_COMPONENT, _PER_FREQUENCY = 1200.0, 600.0, 2000.0
_FREQUENCIES, _FIRST_FREQUENCIES, _MAX_FREQUENCIES = 14, 7, 18
_RESIDUAL_NORM = 0.25  # relative to the norm of a white image
_SHARES_OF_ONE = 0.35, 0.65  # for one component: rounds 1 and 4
_SHARES_OF_SEVERAL = 0.05, 0.15, 1 - 0.05 - 0.15 - 0.45, 0.45
# Images in one round: largest number of frequencies along each axis, for one channel.
_FREQUENCIES_AT_ONCE = 16

# Vectors
_PER_COORDINATE = 32.0  # signal s for each component and coordinate
_SHARES = 0.25, 0.75  # of μ², by round
_RESIDUAL_LENGTH = 1.25  # clipping norm of residuals, relative to the widest label's mean norm
_FLOOR = 1e-6  # smallest variance


class ImageFit(SumFit):
    r"""Fit of labeled images; settings that are None follow from ε, δ and the number of images.

    The signal-to-noise ratio of a label's mean grows with $s = μ n/\text{labels}$, μ = Δ/σ of the whole
    run. Up to s = 1200 a label has one component, and one more for every 600 above, up to 20. Residuals
    have 14 frequencies along each axis, and one more for every 2000 above s = 1200, up to 18. Means have
    14 frequencies for any s. More frequencies improve classifiers of clothes (texture), slightly worsen
    those of digits (blurred edges), and help less where noise is large. These numbers and the shares of
    μ² were chosen on held-out *training* images of two data sets at ε = 1 and 10. One exception: that 14
    frequencies suffice at ε = 1 was first observed on test images, then confirmed on held-out ones.

    Attributes:
        components: Number K of components of each label.
        low_pass: Number of frequencies of components' means, along each axis.
        residual_low_pass: Number of frequencies of covariances within components, along each axis.
        norm: Norm to which an image is clipped, for pixels in [0, 1].
        residual_norm: Norm to which a residual is clipped.
    """

    records: ImageRecords  # whose low_pass is not used

    def __init__(self, schema: Schema, settings: SumSettings, budget: Budget) -> None:
        self.records = images = ImageRecords(schema, degree=1)
        self.budget, self.settings = budget, settings
        excess = max(budget.signal(images.num_labels) - _ONE_COMPONENT, 0.0)
        components = min(1 + int(excess / _PER_COMPONENT), _MAX_COMPONENTS)
        self.components = settings.components or components
        residual_low_pass = min(_FREQUENCIES + int(excess / _PER_FREQUENCY), _MAX_FREQUENCIES)
        side, white = min(images.shape[-2:]), math.sqrt(images.outputs)
        self.low_pass = min(settings.low_pass or _FREQUENCIES, side)
        self.residual_low_pass = min(settings.residual_low_pass or residual_low_pass, side)
        self.norm, self.residual_norm = settings.norm * white, _RESIDUAL_NORM * white
        # Maps to the frequencies of means, of first covariances, and of covariances within components.
        self._fine, self._coarse, self._residual = (
            ImageRecords(schema, low_pass=low_pass, degree=1)
            for low_pass in (self.low_pass, min(_FIRST_FREQUENCIES, side), self.residual_low_pass)
        )

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of μ², by round."""
        return _SHARES_OF_ONE if self.components == 1 else _SHARES_OF_SEVERAL

    def plan(self) -> SumPlan:
        """See `CentralFit`; refuse noise of a label's mean above .35 on pixels, in its frequencies."""
        plan, images = self.budget.plan(self.shares), self.records
        origin = np.zeros((images.num_labels, 1, 1))
        query = PixelSums(images, origin, self.norm)
        retained = min(self.low_pass**2 / math.prod(images.shape[-2:]), 1.0)  # share of variance
        error = plan.released_stddev(query) / LEVELS * math.sqrt(retained)
        remedy = "fewer frequencies (low_pass)"
        _require_clear_means(self, error, "images", "on every pixel", remedy)
        products = ResidualProducts(images, origin, images, origin, self.residual_norm)
        _ = plan.stddev(products, 1)  # the round of most noise
        return plan

    @threads_for(0)  # one thread: results do not depend on the number of cores
    def estimate(self, rounds: Rounds) -> ImageMixture:
        rng = np.random.default_rng(self.settings.seed)
        origin = np.zeros((self.records.num_labels, 1, self._fine.num_coordinates))
        centers, counts = self._release_centers(rounds, origin)
        if self.components > 1:
            roots = self._release_covariances(rounds, centers, counts, self._coarse)
            moments = zip(centers[:, 0], roots, strict=True)
            centers = np.array([self._first_centers(mean, root, rng) for mean, root in moments])
            centers, counts = self._release_centers(rounds, centers)
        roots = self._release_covariances(rounds, centers, counts, self._residual)
        return ImageMixture.of(self.records, self._pixels(centers), counts, self._residual, roots)

    def _pixels(self, centers: Floats) -> Floats:
        """Return centers (labels, K, p) as images (labels, K, pixels) in [0, 1]."""
        return np.clip(_to_pixels(self._fine, centers), 0.0, 1.0)

    def _release_centers(self, rounds: Rounds, centers: Floats) -> tuple[Floats, Floats]:
        """Release pixel sums by nearest center; return new centers and counts (labels, K)."""
        query = PixelSums(self._fine, centers, self.norm)
        released = rounds.release(query)
        sums = released.sums.reshape(*centers.shape[:2], -1)
        counts = np.maximum(sums[..., -1] / query.one, 1.0)  # each image adds the constant `one`
        size = np.maximum(counts, _MIN_SIZE)[..., None]
        noisy = _to_coordinates(self._fine, sums[..., :-1] / LEVELS / size)
        shrunk = _shrink_to_label(noisy, released.stddev / LEVELS / size, counts)
        return _to_coordinates(self._fine, self._pixels(shrunk)), counts

    def _release_covariances(
        self, rounds: Rounds, centers: Floats, counts: Floats, low: ImageRecords
    ) -> Floats:
        """Release products of residuals; return roots (labels, q, q) of covariances in `low`."""
        means = _to_coordinates(low, self._pixels(centers)).reshape(-1, low.num_coordinates)
        query = ResidualProducts(self._fine, centers, low, means, self.residual_norm)
        released = rounds.release(query)
        scale = query.unit**2 / counts.sum(axis=1)  # `unit` is the length of an integer step
        noisy, errors = released.sums * scale[:, None, None], released.stddev * scale
        return _roots(shrink_covariances(noisy, errors, low.squared_frequencies), 0.0)

    def _first_centers(self, mean: Floats, root: Floats, rng: np.random.Generator) -> Floats:
        """Return centers (K, p), found by k-means on images sampled from a label's Gaussian."""
        noise = rng.standard_normal((_DRAWN * self.components, len(root))) @ root.T
        drawn = _to_pixels(self._fine, mean[None]) + _to_pixels(self._coarse, noise)
        return k_means(_to_coordinates(self._fine, np.clip(drawn, 0.0, 1.0)), self.components, rng)


class ImageRoundFit(OneSumFit):
    """Fit of labeled images by one round, for sums that several servers compute.

    Images have 16 frequencies along each axis, or fewer, so that all channels have at most 256 numbers.
    This number and the query's weights and norm were chosen on held-out *training* images of two data
    sets at ε = 1, with the noise of two servers. They depend on the schema alone, which devices know.

    Raises:
        PrivotError: if settings other than the seed are given.
    """

    records: ImageRecords  # whose low_pass is not used
    query: LabeledProducts

    def __init__(self, schema: Schema, settings: SumSettings, budget: Budget) -> None:
        if replace(settings, seed=0) != SumSettings():
            raise PrivotError(
                f"{settings}: devices have summed by the default ones; give a seed alone"
            )
        self.records = images = ImageRecords(schema, degree=1)
        self.budget, self.settings = budget, settings
        channels, (height, width) = math.prod(images.shape[:-2]), images.shape[-2:]
        low_pass = max(int(_FREQUENCIES_AT_ONCE / math.sqrt(channels)), 1)
        low = ImageRecords(schema, low_pass=min(low_pass, height, width), degree=1)
        self.query = LabeledProducts(low, settings.norm * math.sqrt(images.outputs))

    def plan(self) -> SumPlan:
        """See `CentralFit`; refuse noise of a label's mean above .35 on pixels."""
        plan, query = self.budget.plan((1.0,)), self.query
        # Root mean square over all pixels; sums of frequencies are divided by their weights.
        share = (query.weights**-2.0).sum() / self.records.outputs
        error = query.sum_error(plan.released_stddev(query)) * math.sqrt(share)
        _require_clear_means(self, error, "images", "on every pixel", "fewer labels")
        return plan

    def law(self, released: NoisySums) -> ImageMixture:
        query, moments = self.query, self.query.moments(released)
        counts, total = moments.counts, moments.counts.sum()
        means = moments.sums / np.maximum(counts, _MIN_SIZE)[:, None]
        covariance = (moments.products - (means * counts[:, None]).T @ means) / total
        error = np.array([moments.product_error / total])
        # Prior variances are ∝ 1/(1 + f²/4), and weighted ones here ∝ 1/w²: solve for f².
        squared_frequencies = 4.0 * (query.weights**2 - 1.0)
        (root,) = _roots(shrink_covariances(covariance[None], error, squared_frequencies), 0.0)
        roots = np.repeat(root[None] / query.weights[:, None], len(means), axis=0)
        pixels = np.clip(_to_pixels(query.images, means / query.weights), 0.0, 1.0)
        return ImageMixture.of(self.records, pixels[:, None], counts[:, None], query.images, roots)


class VectorFit(SumFit):
    r"""Fit of labeled vectors; settings that are None follow from ε, δ and the number of rows.

    A covariance of d coordinates is estimated well if $s = μ n/\text{labels}$, μ = Δ/σ of the whole run,
    is several times d. So a label has one component for every 32 d of s, at least 1 and at most 20.

    Attributes:
        components: Number K of components of each label.
        norm: Norm to which a point in [−1, 1]^d is clipped.
    """

    records: VectorRecords

    def __init__(self, schema: Schema, settings: SumSettings, budget: Budget) -> None:
        self.records = vectors = VectorRecords(schema)
        self.budget, self.settings = budget, settings
        supported = int(budget.signal(vectors.num_labels) / _PER_COORDINATE / vectors.dimension)
        self.components = settings.components or min(max(supported, 1), _MAX_COMPONENTS)
        self.norm = settings.norm * math.sqrt(vectors.dimension)
        # Centers of round 1 (labels, 1, d).
        self._origin = np.zeros((vectors.num_labels, 1, vectors.dimension))

    def plan(self) -> SumPlan:
        """See `CentralFit`; refuse noise of a label's mean above .35 of half a coordinate's range."""
        plan, query = self.budget.plan(_SHARES), LiftedProducts(self._origin, self.norm)
        error = query.sum_error(plan.released_stddev(query))
        scope = "of half its range on every coordinate"
        _require_clear_means(self, error, "rows", scope, "fewer coordinates")
        return plan

    @threads_for(0)  # one thread: results do not depend on the number of cores
    def estimate(self, rounds: Rounds) -> VectorMixture:
        rng = np.random.default_rng(self.settings.seed)
        _, means, roots = _release_components(rounds, self._origin, self.norm)
        # Samples (labels, n, d) of each label's Gaussian, clipped to the cube.
        shape = (self.records.num_labels, _DRAWN * self.components, self.records.dimension)
        noise = rng.standard_normal(shape) @ roots[:, 0].swapaxes(1, 2)
        points = np.clip(means + noise, -1.0, 1.0)
        centers = np.array([k_means(sample, self.components, rng) for sample in points])
        norm = _RESIDUAL_LENGTH * max(map(_mean_distance, points, centers))
        return VectorMixture.of(*_release_components(rounds, centers, norm))


def _require_clear_means(
    fit: ImageFit | ImageRoundFit | VectorFit, error: float, noun: str, scope: str, remedy: str
) -> None:
    """Refuse a plan whose noise would drown the mean of a label of average size.

    `error` is the standard deviation of the planned noise on a coordinate of a label's sum. The last
    three arguments are words of the message.
    """
    noise = error / (fit.budget.records / fit.records.num_labels)
    effect = f"noise of {noise:.2g} {scope} would drown a label's mean"
    fit.budget.require_signal(noise, _MAX_NOISE, noun, effect, remedy)


def _shrink_to_label(noisy: Floats, noise: Floats, counts: Floats) -> Floats:
    """Shrink noisy means of components (labels, K, p) to their label's mean, by empirical Bayes.

    The prior variance of a coefficient is the variance of the label's noisy means, weighted by counts
    (labels, K), minus the variance of their noise, of standard deviations `noise` (labels, K, 1).
    """
    share = (counts / counts.sum(axis=1, keepdims=True))[..., None]
    mean = (share * noisy).sum(axis=1, keepdims=True)
    variance = (share * ((noisy - mean) ** 2 - noise**2)).sum(axis=1, keepdims=True)
    variance = np.maximum(variance, 0.0)
    return np.asarray(mean + variance / (variance + noise**2) * (noisy - mean))


def _release_components(
    rounds: Rounds, centers: Floats, norm: float
) -> tuple[Floats, Floats, Floats]:
    """Release moments of residuals from centers (labels, K, d), clipped to `norm`.

    Returns:
        Counts (labels, K), means (labels, K, d) and roots of covariances (labels, K, d, d).
    """
    query = LiftedProducts(centers, norm)
    moments = query.moments(rounds.release(query))
    size = moments.counts[..., None]
    # Means of residuals are shrunk to 0 by empirical Bayes. The prior variance of a coordinate is the
    # mean of its squares minus the noise's variance, weighted by the precision of squares ∝ noise⁻⁴.
    offsets, noise = moments.sums / size, moments.sum_error / size
    precision = noise**-4.0
    variance = np.maximum((precision * (offsets**2 - noise**2)).sum() / precision.sum(), 0.0)
    variance /= offsets.shape[2]  # the numerator is a sum over coordinates
    offsets = variance / (variance + noise**2) * offsets
    noisy = moments.products / size[..., None] - offsets[..., None] * offsets[..., None, :]
    errors = moments.product_error / moments.counts.ravel()
    flat = noisy.reshape(-1, *noisy.shape[2:])
    covariances = shrink_covariances(flat, errors, np.zeros(centers.shape[2]))
    roots = _roots(covariances, _FLOOR).reshape(noisy.shape)
    return moments.counts, centers + offsets, roots


def _roots(covariances: Floats, floor: float) -> Floats:
    """Return roots A (n, p, p) with A Aᵀ = covariances, eigenvalues below the floor raised to it."""
    values, vectors = np.linalg.eigh(covariances)
    return np.asarray(vectors * np.sqrt(np.maximum(values, floor))[:, None, :])


def k_means(points: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return centers (count, p) of points (n, p) by Lloyd's algorithm from random points."""
    centers = points[rng.choice(len(points), count, replace=False)]
    for _ in range(_PASSES):
        # ‖x − c‖²/2 without ‖x‖²/2, which is the same for all centers c.
        nearest = ((centers**2).sum(axis=1) / 2 - points @ centers.T).argmin(axis=1)
        sizes = np.bincount(nearest, minlength=count)
        sums = np.zeros_like(centers)
        np.add.at(sums, nearest, points)
        present = sizes > 0
        centers[present] = sums[present] / sizes[present, None]
    return centers


def _mean_distance(points: Floats, centers: Floats) -> float:
    """Return the mean distance of points (n, d) to the nearest center (K, d)."""
    squares = (points**2).sum(1)[:, None] + (centers**2).sum(1) - 2 * points @ centers.T
    return float(np.sqrt(np.maximum(squares.min(axis=1), 0.0)).mean())


def _to_pixels(images: ImageRecords, coordinates: Floats) -> Floats:
    """Return pixels (…, pixels) of coordinates (…, p)."""
    flat = torch.from_numpy(coordinates.reshape(-1, coordinates.shape[-1]))
    return images.expand(flat).flatten(1).numpy().reshape(*coordinates.shape[:-1], -1)


def _to_coordinates(images: ImageRecords, pixels: Floats) -> Floats:
    """Return coordinates (…, p) of pixels (…, pixels), which may exceed [0, 1]."""
    flat = torch.from_numpy(pixels.reshape(-1, *images.shape))
    return images.transform(flat).numpy().reshape(*pixels.shape[:-1], -1)
