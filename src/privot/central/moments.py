r"""Queries about moments of images and vectors, and estimates that reduce the noise of the answers.

A query adds each record to a slot (`privot.central.sums`): its label, or the component of its label
whose center is nearest (for images in low frequencies). The slot is a function of one record, of public
numbers and of released centers. `shrink_covariances` estimates second moments by empirical Bayes.

**Privacy review.** Adjacency `replace_one`; the mechanism computes Δ from the radius, and checks the
radius (`privot.central.sums`). Contributions of two records have a non-negative inner product: products
r rᵀ for all signs of r, and pixels because they are non-negative. So Δ has the factor √2 instead of 2.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privot.central.records import ImageRecords
from privot.central.sums import Floats, Integers, NoisySums, Query, Records

LEVELS = 1024  # integer steps of a pixel
PRODUCT_RADIUS = 4096  # radius of vectors whose products are summed, in integer steps
_FLOOR = 0.02  # smallest eigenvalue of the average, relative to the smallest prior variance
# Constant coordinates whose sums count records, relative to the clipping norm: for sums, and for
# products. A larger constant makes counts less noisy, and everything else noisier.
COUNT, _ANCHOR = 0.3, 0.7
_TINY = 1e-12


def shrink_covariances(noisy: Floats, errors: Floats, squared_frequencies: Floats) -> Floats:
    r"""Estimate covariances (classes, p, p) from noisy symmetric matrices; results may be indefinite.

    The noise of the matrix of class c is Gaussian, of public standard deviation $e_c$ on the diagonal
    and $e_c/\sqrt 2$ elsewhere. There are two steps:

    1. The average C̄ over classes, weighted by $e_c^{-2}$, is shrunk towards a diagonal prior matrix
       $Λ_{ii} ∝ 1/(1 + f_i^2/4)$ of the same trace, the fall-off of natural images with frequency f
       (public). Entries deviate from Λ with prior variances $κ Λ_{ii} Λ_{jj}$, as under a Wishart law.
    2. Each class deviates from C̄ by a matrix whose entries, in the eigenbasis of the shrunk average
       with eigenvalues λ, have prior variances $κ′ λ_i λ_j$, and are shrunk by them.

    κ and κ′ are estimated by moments (`shrink_to_zero`).

    Arguments:
        noisy: Released matrices (classes, p, p).
        errors: Standard deviations e (classes,).
        squared_frequencies: f² of each coordinate (p,).

    References:
        Chen, *Estimation of a covariance matrix under conjugate priors* (1979), for the Wishart shape.
    """
    weights = errors**-2.0 / (errors**-2.0).sum()
    average = (weights[:, None, None] * noisy).sum(axis=0)
    fall_off = 1.0 / (1.0 + squared_frequencies / 4.0)
    prior = fall_off * max(float(np.trace(average)), _TINY) / fall_off.sum()
    average_error = np.array([(errors**-2.0).sum() ** -0.5])
    (deviation,) = shrink_to_zero((average - np.diag(prior))[None], average_error, prior)
    center = np.diag(prior) + deviation
    eigenvalues, basis = np.linalg.eigh(center)
    eigenvalues = np.maximum(eigenvalues, _FLOOR * prior.min())
    shrunk = shrink_to_zero(basis.T @ (noisy - average) @ basis, errors, eigenvalues)
    return np.asarray(basis @ (np.diag(eigenvalues) + shrunk) @ basis.T)


def shrink_to_zero(noisy: Floats, errors: Floats, scale: Floats) -> Floats:
    """Return posterior means of the entries of noisy matrices (classes, p, p), by empirical Bayes.

    Entry (i, j) has the prior variance v = κ·scale_i·scale_j, and noise of variance e²: x becomes
    x·v/(v + e²). κ is estimated by moments; classes are weighted by the precision of squared entries.

    Arguments:
        noisy: Released matrices.
        errors: Standard deviations e of the noise on the diagonals (classes,); elsewhere e/√2.
        scale: Scales (p,) of the prior variances.
    """
    product = np.outer(scale, scale)
    noise = (errors**2)[:, None, None] * (0.5 + 0.5 * np.eye(len(scale)))
    estimates = (product * (noisy**2 - noise)).mean(axis=(1, 2)) / (product**2).mean()
    kappa = max(float(np.average(estimates, weights=errors**-4.0)), 0.0)
    return np.asarray(noisy * (kappa * product / (kappa * product + noise)))


def to_integers(values: Tensor, norm: float, unit: float) -> Integers:
    """Clip vectors (n, w) to `norm`, and return them as multiples of `unit`, rounded towards zero."""
    shorter = (norm / values.norm(dim=1, keepdim=True).clamp_min(_TINY)).clamp_max(1.0)
    return np.asarray(torch.trunc(values * shorter / unit).long().numpy())


def with_constant(vectors: Integers, constant: int) -> Integers:
    """Append a constant coordinate to vectors (n, w); its sum counts them."""
    return np.concatenate([vectors, np.full((len(vectors), 1), constant)], axis=1)


def nearest_component(centers: Floats, coordinates: Tensor, labels: Tensor) -> Integers:
    """Return label·K + k (n,) by row, with k the nearest of the label's K centers (labels, K, p)."""
    num_labels, num_components, _ = centers.shape
    flat = torch.from_numpy(centers).flatten(0, 1).to(coordinates)
    # ‖x − c‖²/2 without ‖x‖²/2, which is the same for all centers c.
    gaps = flat.square().sum(dim=1) / 2 - coordinates @ flat.T
    by_label = gaps.unflatten(1, (num_labels, num_components))
    nearest = by_label[torch.arange(len(labels)), labels].argmin(dim=1)
    return (labels * num_components + nearest).numpy()


class PixelSums(Query):
    """Query: sums of pixels by component, and counts of images.

    The vector of an image consists of its pixels, and of a constant c, whose sum counts images. Pixels
    are clipped to [0, 1], scaled to the norm ρ if theirs is larger, and rounded **down** to multiples of
    1/1024; so $R^2 = ρ^2 + c^2$.

    Arguments:
        images: Map to the coordinates in which the nearest center is found.
        centers: Centers of each label's components (labels, K, p), in these coordinates.
        norm: Norm ρ to which an image is clipped.

    Attributes:
        one: The constant c, in integer steps.
    """

    moment, non_negative = 1, True

    def __init__(self, images: ImageRecords, centers: Floats, norm: float) -> None:
        self.images, self.centers, self.norm = images, centers, norm
        self.slots, self.width = math.prod(centers.shape[:2]), images.outputs + 1
        self.one = int(COUNT * norm * LEVELS)
        self.radius = int(np.ceil(np.hypot(norm * LEVELS, self.one)))

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        pixels, labels = map(torch.from_numpy, records)
        slots = nearest_component(self.centers, self.images.prepare(pixels), labels)
        flat = pixels.clamp(0.0, 1.0).flatten(1).double()
        return slots, with_constant(to_integers(flat, self.norm, 1 / LEVELS), self.one)


class ResidualProducts(Query):
    """Query: sums of r rᵀ by label, for residuals r of images from their component's center.

    Residuals are computed in low frequencies, clipped to a public norm and rounded towards zero.

    Arguments:
        images: Map to the coordinates in which the nearest center is found.
        centers: Centers of each label's components (labels, K, p), in these coordinates.
        low: Map to the low frequencies of residuals.
        means: Centers (labels·K, q) in low frequencies.
        norm: Norm to which a residual is clipped.

    Attributes:
        unit: Length of one integer step.
    """

    moment, non_negative, radius = 2, True, PRODUCT_RADIUS

    def __init__(
        self, images: ImageRecords, centers: Floats, low: ImageRecords, means: Floats, norm: float
    ) -> None:
        self.images, self.centers, self.low, self.means = images, centers, low, means
        self.norm, self.unit = norm, norm / PRODUCT_RADIUS
        self.slots, self.width = low.num_labels, low.num_coordinates

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        pixels, labels = map(torch.from_numpy, records)
        components = nearest_component(self.centers, self.images.prepare(pixels), labels)
        residuals = self.low.prepare(pixels).double() - torch.from_numpy(self.means[components])
        return labels.numpy(), to_integers(residuals, self.norm, self.unit)


@dataclass(frozen=True, eq=False)
class Moments:
    """Released moments of vectors r, by component (`LiftedProducts`) or label (`LabeledProducts`)."""

    counts: Floats  # numbers of records, at least 1: (labels, K), or (labels,)
    sums: Floats  # sums of r: (labels, K, d), or (labels, p)
    products: Floats  # sums of r rᵀ: (labels, K, d, d), or (p, p) of all records
    sum_error: float  # standard deviation of the errors of `sums`
    # Standard deviation e of the errors on diagonals of `products`; e/√2 elsewhere.
    product_error: float


class AnchoredProducts(Query):
    r"""Base of queries for products of vectors $z = (r, a)$: counts, sums and products at once.

    The vector r is clipped to the public norm ρ and rounded towards zero; the anchor a is .7 ρ. The
    sum of $z z^\top$ contains the number of records times a², the sum of r times a, and the sum of r rᵀ.

    Arguments:
        norm: Norm ρ to which r is clipped.

    Attributes:
        unit: Length of one integer step.
        anchor: The anchor a, in integer steps.
    """

    moment, non_negative, radius = 2, True, PRODUCT_RADIUS

    def __init__(self, norm: float) -> None:
        self.norm = norm
        self.unit = norm * math.hypot(1.0, _ANCHOR) / PRODUCT_RADIUS
        self.anchor = int(_ANCHOR * norm / self.unit)

    def sum_error(self, stddev: float) -> float:
        """Return the standard deviation of the errors of sums of r, for a release of this `stddev`."""
        return stddev / math.sqrt(2.0) / self.anchor * self.unit  # r times a is off the diagonal

    def _moments(self, squares: Floats, sums: Floats, products: Floats, stddev: float) -> Moments:
        """Return the moments of a release's blocks a² n, a Σ r and Σ r rᵀ, in integer steps."""
        return Moments(
            counts=np.maximum(squares / self.anchor**2, 1.0),
            sums=sums / self.anchor * self.unit,
            products=products * self.unit**2,
            sum_error=self.sum_error(stddev),
            product_error=stddev * self.unit**2,
        )


class LiftedProducts(AnchoredProducts):
    """Query: count, sum and products of the residuals of vectors, by component.

    The vector of a row is (r, a), with the residual r = x − c from the nearest center c of its label.

    Arguments:
        centers: Centers of each label's components (labels, K, d).
        norm: Norm ρ to which a residual is clipped.
    """

    def __init__(self, centers: Floats, norm: float) -> None:
        super().__init__(norm)
        self.centers = centers
        labels, components, dimension = centers.shape
        self.slots, self.width = labels * components, dimension + 1

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        points, labels = map(torch.from_numpy, records)
        components = nearest_component(self.centers, points, labels)
        residuals = points - torch.from_numpy(self.centers).flatten(0, 1)[components]
        return components, with_constant(to_integers(residuals, self.norm, self.unit), self.anchor)

    def moments(self, released: NoisySums) -> Moments:
        """Return the released moments (`Moments`) in the units of points."""
        noisy = released.sums.reshape(*self.centers.shape[:2], self.width, self.width)
        squares, sums, products = noisy[..., -1, -1], noisy[..., :-1, -1], noisy[..., :-1, :-1]
        return self._moments(squares, sums, products, released.stddev)


class LabeledProducts(AnchoredProducts):
    r"""Query: counts and sums of images by label, and second moments of all images, in a single slot.

    The vector of an image x with label y is $(W B x, a e_y)$: its low frequencies B x, weighted by the
    public diagonal W with $w_i = (1 + f_i^2/4)^{1/4}$, and the one-hot label times the anchor. Noise is
    equal on all products, and variances of images fall with frequency: the weights reduce this fall.

    Arguments:
        images: Map to the low frequencies.
        norm: Norm ρ to which weighted frequencies are clipped.

    Attributes:
        weights: The diagonal (p,) of W.
    """

    slots = 1

    def __init__(self, images: ImageRecords, norm: float) -> None:
        super().__init__(norm)
        self.images = images
        self.weights: Floats = (1.0 + images.squared_frequencies / 4.0) ** 0.25
        self.width = images.num_coordinates + images.num_labels

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        pixels, labels = map(torch.from_numpy, records)
        weighted = self.images.prepare(pixels).double() * torch.from_numpy(self.weights)
        one_hot = np.eye(self.images.num_labels, dtype=np.int64)[labels.numpy()]
        vectors = [to_integers(weighted, self.norm, self.unit), self.anchor * one_hot]
        return np.zeros(len(labels), np.int64), np.concatenate(vectors, axis=1)

    def moments(self, released: NoisySums) -> Moments:
        """Return counts (labels,), sums (labels, p) and products (p, p) of weighted frequencies."""
        noisy, p = released.sums[0], self.images.num_coordinates
        return self._moments(np.diag(noisy)[p:], noisy[p:, :p], noisy[:p, :p], released.stddev)
