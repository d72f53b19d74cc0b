r"""Moments of mixtures by noisy sums: the queries about images and vectors, and their estimates.

Three queries assign each record to a slot: its label, or its label and the component of that label whose
center is nearest (for images by low frequencies). A slot is a function of one record, of public numbers
and of released centers. The fourth needs no earlier release.

- `PixelSums`: sums of images by component.
- `ResidualProducts`: second moments of images' residuals from their component's center, by label.
- `LiftedProducts`: counts, means and covariances of vectors by component, in one round.
- `LabeledProducts`: counts and means of images by label, and products of all images, in one round.

`shrink_covariances` and `shrink_to_zero` reduce the noise of released moments by empirical Bayes.

**Privacy review.** Adjacency `replace_one`; the mechanism computes Δ from the radius, and checks the
radius (`privot.central.sums`). Products r rᵀ of any two records have a non-negative inner product, for
all signs of r, and pixels are non-negative: so Δ is √2 times the radius instead of 2 times.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privot.central.records import ImageRecords
from privot.central.sums import Floats, Integers, NoisySums, Query, Records

LEVELS = 1024  # integer steps of a pixel
LENGTH = 4096  # norm of the longest residual, in integer steps
_FLOOR = 0.02  # smallest eigenvalue of the average, relative to the smallest prior variance
# The constant by which images are counted, relative to the clipping norm: a larger one makes counts
# less noisy and pixels noisier.
_COUNT = 0.3
_ANCHOR = 0.7  # relative to the clipping norm of residuals
_TINY = 1e-12


def shrink_covariances(noisy: Floats, errors: Floats, frequencies: Floats) -> Floats:
    r"""Estimate covariances (classes, p, p) from noisy symmetric matrices; results may be indefinite.

    A released covariance has Gaussian noise with a public standard deviation e. There are two steps:

    1. The average C̄ over classes has entries $C̄_{ij} = Λ_{ij} + N(0, e^2/2)$: it is shrunk towards a
       diagonal prior $Λ_{ii} ∝ 1/(1 + f_i^2/4)$, the fall-off of natural images with frequency f
       (public), with prior variances $κ Λ_{ii} Λ_{jj}$ as under a Wishart law; κ by moments.
    2. Each class deviates from C̄ by a matrix whose entries, in the eigenbasis of C̄ with eigenvalues
       λ, have prior variances $κ′ λ_i λ_j$: they are shrunk by $κ′λ_iλ_j/(κ′λ_iλ_j + e_c^2/2)$.

    Arguments:
        noisy: The released matrices.
        errors: Standard deviation (classes,) of the noise of diagonal entries; of others it is e/√2.
        frequencies: Squared frequency of each coordinate (p,).

    References:
        Chen, *Estimation of a covariance matrix under conjugate priors* (1979), for the Wishart shape.
    """
    weights = errors**-2.0 / (errors**-2.0).sum()
    average = (weights[:, None, None] * noisy).sum(axis=0)
    shape = 1.0 / (1.0 + frequencies / 4.0)
    prior = shape * max(float(np.trace(average)), 1e-12) / shape.sum()
    pooled = np.array([(errors**-2.0).sum() ** -0.5])
    center = np.diag(prior) + shrink_to_zero((average - np.diag(prior))[None], pooled, prior)[0]
    values, basis = np.linalg.eigh(center)
    values = np.maximum(values, _FLOOR * prior.min())
    deviations = basis.T @ (noisy - average) @ basis
    shrunk = shrink_to_zero(deviations, errors, values)
    return np.asarray(basis @ (np.diag(values) + shrunk) @ basis.T)


def shrink_to_zero(noisy: Floats, errors: Floats, scale: Floats) -> Floats:
    """Return posterior means (classes, p, p) of entries with prior variance κ·scale_i·scale_j.

    κ is estimated by moments, with classes weighted by the precision of their squared entries.
    """
    product = np.outer(scale, scale)
    noise = (errors**2)[:, None, None] * (0.5 + 0.5 * np.eye(len(scale)))
    estimates = (product * (noisy**2 - noise)).mean(axis=(1, 2)) / (product**2).mean()
    kappa = max(float(np.average(estimates, weights=errors**-4.0)), 0.0)
    return np.asarray(noisy * (kappa * product / (kappa * product + noise)))


def to_integers(values: Tensor, norm: float, unit: float) -> Integers:
    """Clip vectors (n, w) to `norm`, and return them in integer units, rounded towards zero."""
    shorter = (norm / values.norm(dim=1, keepdim=True).clamp_min(_TINY)).clamp_max(1.0)
    return np.asarray(torch.trunc(values * shorter / unit).long().numpy())


def with_constant(vectors: Integers, constant: int) -> Integers:
    """Return vectors (n, w + 1) with a constant last coordinate, whose sum counts them."""
    return np.concatenate([vectors, np.full((len(vectors), 1), constant)], axis=1)


def nearest_component(centers: Floats, coordinates: Tensor, labels: Tensor) -> Integers:
    """Return label · K + k (n,), with k the nearest of the K centers (labels, K, p) of a row's label."""
    num_labels, count, _ = centers.shape
    flat = torch.from_numpy(centers).flatten(0, 1).to(coordinates)
    gaps = flat.square().sum(dim=1) / 2 - coordinates @ flat.T
    own = gaps.unflatten(1, (num_labels, count))[torch.arange(len(labels)), labels].argmin(dim=1)
    return (labels * count + own).numpy()


class PixelSums(Query):
    """Query: sums of pixels by component, and counts of images.

    The vector of an image is its pixels, clipped to [0, 1] and rounded **down** to multiples of 1/1024,
    and a constant c, whose sum counts images. Pixels are non-negative, so ⟨u, u′⟩ ≥ 0 for any two
    vectors. An image with a larger norm than the public ρ is scaled to ρ; so $R^2 = ρ^2 + c^2$.

    Arguments:
        images: Map to the coordinates in which the nearest center is found.
        centers: Centers of each label's components (labels, K, p), in these coordinates.
        norm: Norm ρ to which an image is clipped.
    """

    moment, non_negative = 1, True

    def __init__(self, images: ImageRecords, centers: Floats, norm: float) -> None:
        self.images, self.centers, self.norm = images, centers, norm
        self.slots, self.width = math.prod(centers.shape[:2]), images.outputs + 1
        self.one = int(_COUNT * norm * LEVELS)  # c, the constant that counts
        self.radius = int(np.ceil(np.hypot(norm * LEVELS, self.one)))

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Query`."""
        pixels, labels = map(torch.from_numpy, records)
        slots = nearest_component(self.centers, self.images.prepare(pixels), labels)
        flat = pixels.clamp(0.0, 1.0).flatten(1).double()
        darker = (self.norm / flat.norm(dim=1, keepdim=True).clamp_min(_TINY)).clamp_max(1.0)
        vectors = torch.floor(flat * darker * LEVELS).long().numpy()
        return slots, with_constant(vectors, self.one)


class ResidualProducts(Query):
    """Query: sums of r rᵀ by label, for residuals r of images from their component's center.

    Residuals are in low frequencies, clipped to a public norm and rounded towards zero; moment 2.

    Arguments:
        images: Map to the coordinates in which the nearest center is found.
        centers: Centers of each label's components (labels, K, p), in these coordinates.
        low: Map to the low frequencies of residuals.
        means: The centers (labels·K, q) in low frequencies.
        norm: Norm to which a residual is clipped.

    Attributes:
        unit: Length of one integer step.
    """

    moment, non_negative, radius = 2, True, LENGTH

    def __init__(
        self, images: ImageRecords, centers: Floats, low: ImageRecords, means: Floats, norm: float
    ) -> None:
        self.images, self.centers, self.low, self.means = images, centers, low, means
        self.norm, self.unit = norm, norm / LENGTH
        self.slots, self.width = low.num_labels, low.num_coordinates

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Query`."""
        pixels, labels = map(torch.from_numpy, records)
        own = nearest_component(self.centers, self.images.prepare(pixels), labels)
        residuals = self.low.prepare(pixels).double() - torch.from_numpy(self.means[own])
        return labels.numpy(), to_integers(residuals, self.norm, self.unit)


@dataclass(frozen=True, eq=False)
class Moments:
    """Released moments of components, with the standard deviations of their errors.

    Shapes are those of `LiftedProducts`.

    Arguments:
        counts: Number of rows of each component (labels, K), at least 1.
        sums: Sums of residuals r (labels, K, d).
        products: Sums of r rᵀ (labels, K, d, d).
        sum_error: Standard deviation of the errors of `sums`.
        product_error: Standard deviation e of the errors on diagonals of `products`; e/√2 elsewhere.
    """

    counts: Floats
    sums: Floats
    products: Floats
    sum_error: float
    product_error: float


class LiftedProducts(Query):
    r"""Query: count, sum and products of each component's residuals.

    The vector of a row is $z = (r, a)$, with the residual r = x − c from the nearest center c of its
    label, clipped to the public norm ρ, and the anchor a = .7 ρ, rounded towards zero. The sum of
    $z z^\top$ contains the number of rows times a², the sum of r times a, and the sum of $r r^\top$, so
    one query of moment 2 gives all three.

    Arguments:
        centers: Centers of each label's components (labels, K, d).
        norm: Norm ρ to which a residual is clipped.

    Attributes:
        unit: Length of one integer step.
        anchor: The anchor a, in integer steps.
    """

    moment, non_negative, radius = 2, True, LENGTH

    def __init__(self, centers: Floats, norm: float) -> None:
        self.centers, self.norm = centers, norm
        labels, components, dimension = centers.shape
        self.slots, self.width = labels * components, dimension + 1
        self.unit = norm * math.hypot(1.0, _ANCHOR) / LENGTH
        self.anchor = int(_ANCHOR * norm / self.unit)

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Query`."""
        points, labels = map(torch.from_numpy, records)
        own = nearest_component(self.centers, points, labels)
        residuals = points - torch.from_numpy(self.centers).flatten(0, 1)[own]
        return own, with_constant(to_integers(residuals, self.norm, self.unit), self.anchor)

    def moments(self, released: NoisySums) -> Moments:
        """Return the released moments in the units of points."""
        noisy = released.sums.reshape(*self.centers.shape[:2], self.width, self.width)
        return Moments(
            counts=np.maximum(noisy[..., -1, -1] / self.anchor**2, 1.0),
            sums=noisy[..., :-1, -1] / self.anchor * self.unit,
            products=noisy[..., :-1, :-1] * self.unit**2,
            sum_error=released.stddev / math.sqrt(2.0) / self.anchor * self.unit,
            product_error=released.stddev * self.unit**2,
        )


class LabeledProducts(Query):
    r"""Query: counts and sums of images by label, and second moments of all images together.

    The vector of an image x with label y is $z = (W B x, a e_y)$: its low frequencies B x, weighted by
    the public diagonal W with $w_i = (1 + f_i^2/4)^{1/4}$, clipped to the norm ρ and rounded towards
    zero; and the one-hot label times the anchor a = .7 ρ. So $‖z‖^2 ≤ ρ^2 + a^2$, and the sum of
    $z z^\top$ over all images contains the products of frequencies, for each label a times the sum of
    its frequencies, and a² times its number of images. Noise is equal on all products, and variances
    of images fall with frequency: weights relate the one to the other.

    Arguments:
        images: Map to the low frequencies.
        norm: Norm ρ to which weighted frequencies are clipped.

    Attributes:
        weights: The diagonal (p,) of W.
        unit: Length of one integer step.
        anchor: The anchor a, in integer steps.
    """

    slots, moment, non_negative, radius = 1, 2, True, LENGTH

    def __init__(self, images: ImageRecords, norm: float) -> None:
        self.images, self.norm = images, norm
        self.weights: Floats = (1.0 + images.frequencies / 4.0) ** 0.25
        self.width = images.num_coordinates + images.num_labels
        self.unit = norm * math.hypot(1.0, _ANCHOR) / LENGTH
        self.anchor = int(_ANCHOR * norm / self.unit)

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Query`."""
        pixels, labels = map(torch.from_numpy, records)
        waves = self.images.prepare(pixels).double() * torch.from_numpy(self.weights)
        ones = np.eye(self.images.num_labels, dtype=np.int64)[labels.numpy()]
        vectors = [to_integers(waves, self.norm, self.unit), self.anchor * ones]
        return np.zeros(len(labels), np.int64), np.concatenate(vectors, axis=1)

    def moments(self, released: NoisySums) -> Moments:
        """Return counts (labels,), sums (labels, p) and products (p, p) of weighted frequencies."""
        noisy, waves = released.sums[0], self.images.num_coordinates
        return Moments(
            counts=np.maximum(np.diag(noisy)[waves:] / self.anchor**2, 1.0),
            sums=noisy[waves:, :waves] / self.anchor * self.unit,
            products=noisy[:waves, :waves] * self.unit**2,
            sum_error=released.stddev / math.sqrt(2.0) / self.anchor * self.unit,
            product_error=released.stddev * self.unit**2,
        )
