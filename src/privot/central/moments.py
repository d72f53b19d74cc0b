"""What rounds ask of labeled images: sums of pixels by component, and products of what is left.

**Sums.** The slot of an image is its label and, among that label's components, the one whose center is
nearest in low frequencies. Its vector are its pixels, cut to [0, 1] and rounded **down** to 1/1024, and
a constant c, which counts. Pixels have no sign, and so no two vectors point apart. An image that is
longer than the public norm ρ is made darker until it is as long; so $R^2 = ρ^2 + c^2$.

**Products.** The vector are low frequencies of the image less its component's center, cut to a public
length and rounded towards zero; the slot is the label. Moment 2: any two records' have a non-negative
inner product, whatever their signs (`privot.central.sums`).

All is a function of one image, of public numbers and of centers that were released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.central.fitting import SumSettings
from privot.central.records import ImageRecords
from privot.central.sums import Integers, NoisySums, Records, SumPlan, sensitivity
from privot.core.errors import PrivotError
from privot.privacy import calibrate_gaussian
from privot.privacy.rounding import at_most

# Covariances of classes from noisy ones, by empirical Bayes.
#
# A released covariance has Gaussian noise of a public standard deviation e, so it can be shrunk as it
# should be:
#
# 1. The average C̄ over classes has entries $C̄_{ij} = Λ_{ij} + N(0, e^2/2)$: shrink towards a
#    diagonal prior $Λ_{ii} ∝ 1/(1 + f_i^2/4)$, the fall-off of natural images with frequency f
#    (public), with prior variances $κ Λ_{ii} Λ_{jj}$ as under a Wishart law; κ by moments.
# 2. Each class deviates from C̄ by a matrix whose entries, in the eigenbasis of C̄ with eigenvalues
#    λ, have prior variances $κ′ λ_i λ_j$: shrink by $κ′λ_iλ_j/(κ′λ_iλ_j + e_c^2/2)$.
#
# References:
#     Chen, *Estimation of a covariance matrix under conjugate priors* (1979), for the Wishart shape.


# Products of lifted vectors by component: count, mean and covariance of each, in one round.
#
# The slot of a row is its label and, among that label's components, the one whose center c is
# nearest. Its vector is $z = (r, a)$, r = x − c cut to the public length ρ, with the anchor a = .7 ρ,
# rounded towards zero. The sum of $z z^\top$ holds the number of rows times a², the sum of r times a,
# and the sum of $r r^\top$: of one question, of moment 2, whose vectors never point apart whatever
# their signs (`privot.central.sums`), so that Δ is √2 and not 2 times the longest.
#
# **Privacy review.** Adjacency `replace_one`; Δ is the mechanism's, by the radius, which is checked
# there. All is a function of one row, of public numbers and of centers that were released.


Floats = NDArray[np.float64]

_LEAST = 0.02  # of the smallest prior variance: eigenvalues of the average


def shrink_covariances(noisy: Floats, errors: Floats, frequencies: Floats) -> Floats:
    """Covariances (classes, p, p) from symmetric matrices with noise; not all need be positive.

    Arguments:
        noisy: What was released.
        errors: Standard deviation (classes,) of the noise of a diagonal entry; others have it over √2.
        frequencies: Squared frequency of each coordinate (p,).
    """
    weights = errors**-2.0 / (errors**-2.0).sum()
    average = (weights[:, None, None] * noisy).sum(axis=0)
    shape = 1.0 / (1.0 + frequencies / 4.0)
    prior = shape * max(float(np.trace(average)), 1e-12) / shape.sum()
    pooled = np.array([(errors**-2.0).sum() ** -0.5])
    center = np.diag(prior) + shrink_to_zero((average - np.diag(prior))[None], pooled, prior)[0]
    values, basis = np.linalg.eigh(center)
    values = np.maximum(values, _LEAST * prior.min())
    deviations = basis.T @ (noisy - average) @ basis
    shrunk = shrink_to_zero(deviations, errors, values)
    return np.asarray(basis @ (np.diag(values) + shrunk) @ basis.T)


def shrink_to_zero(noisy: Floats, errors: Floats, scale: Floats) -> Floats:
    """Posterior means of entries with prior variance κ·scale_i·scale_j; κ by the method of moments.

    Classes enter κ with the precision of their squares: one that is all noise says nothing of it.
    """
    product = np.outer(scale, scale)
    noise = (errors**2)[:, None, None] * (0.5 + 0.5 * np.eye(len(scale)))
    told = (product * (noisy**2 - noise)).mean(axis=(1, 2)) / (product**2).mean()
    kappa = max(float(np.average(told, weights=errors**-4.0)), 0.0)
    return np.asarray(noisy * (kappa * product / (kappa * product + noise)))


LEVELS = 1024  # of a pixel
LENGTH = 4096  # integer length of a residual that is as long as may be
# The constant that counts, in norms: its noise, and what it costs the pixels, are then both small.
_COUNT = 0.3
_EPSILON = 1e-12


def nearest_component(centers: Floats, coordinates: Tensor, labels: Tensor) -> Integers:
    """The component (n,) whose center (labels, K, p) is nearest, among those of a row's label."""
    num_labels, count, _ = centers.shape
    flat = torch.from_numpy(centers).flatten(0, 1).to(coordinates)
    gaps = flat.square().sum(dim=1) / 2 - coordinates @ flat.T
    own = gaps.unflatten(1, (num_labels, count))[torch.arange(len(labels)), labels].argmin(dim=1)
    return (labels * count + own).numpy()


@dataclass(frozen=True, eq=False)
class Components:
    """To which component an image belongs: the nearest center of its label.

    Arguments:
        images: Coordinates in which distances are taken.
        centers: Of each label's components (labels, K, p), in these coordinates.
    """

    images: ImageRecords
    centers: Floats

    @property
    def count(self) -> int:
        """Of all labels together."""
        return int(np.prod(self.centers.shape[:2]))

    def nearest(self, coordinates: Tensor, labels: Tensor) -> Integers:
        """The component (n,) of images with coordinates (n, p)."""
        return nearest_component(self.centers, coordinates, labels)


@dataclass(frozen=True, eq=False)
class PixelSums:
    """Sums of pixels by component, and how many there are.

    Arguments:
        components: Of which.
        norm: Length ρ of an image beyond which it is made darker.
    """

    components: Components
    norm: float

    moment: ClassVar[Literal[1]] = 1
    non_negative: ClassVar[bool] = True

    @property
    def slots(self) -> int:
        """See `Question`."""
        return self.components.count

    @property
    def width(self) -> int:
        """See `Question`: the pixels, and the constant."""
        return self.components.images.outputs + 1

    @property
    def one(self) -> int:
        """The constant."""
        return int(_COUNT * self.norm * LEVELS)

    @property
    def radius(self) -> int:
        """See `Question`."""
        return int(np.ceil(np.hypot(self.norm * LEVELS, self.one)))

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Question`."""
        pixels, labels = map(torch.from_numpy, records)
        slots = self.components.nearest(self.components.images.prepare(pixels), labels)
        flat = pixels.clamp(0.0, 1.0).flatten(1).double()
        darker = (self.norm / flat.norm(dim=1, keepdim=True).clamp_min(_EPSILON)).clamp_max(1.0)
        vectors = torch.floor(flat * darker * LEVELS).long().numpy()
        ones = np.full((len(vectors), 1), self.one)
        return slots, np.concatenate([vectors, ones], axis=1)


@dataclass(frozen=True, eq=False)
class ResidualProducts:
    """Products of low frequencies of images less their component's center, by label.

    Arguments:
        components: Whose centers are taken off.
        means: The centers (labels·K, p) in `images`' coordinates.
        images: The low frequencies.
        norm: Length of a residual beyond which it is made shorter.
    """

    components: Components
    means: Floats
    images: ImageRecords
    norm: float

    moment: ClassVar[Literal[2]] = 2
    non_negative: ClassVar[bool] = True
    radius: ClassVar[int] = LENGTH

    @property
    def slots(self) -> int:
        """See `Question`."""
        return self.images.num_labels

    @property
    def width(self) -> int:
        """See `Question`."""
        return self.images.num_coordinates

    @property
    def unit(self) -> float:
        """What one integer is."""
        return self.norm / LENGTH

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Question`."""
        pixels, labels = map(torch.from_numpy, records)
        own = self.components.nearest(self.components.images.prepare(pixels), labels)
        residuals = self.images.prepare(pixels).double() - torch.from_numpy(self.means[own])
        shorter = (self.norm / residuals.norm(dim=1, keepdim=True).clamp_min(_EPSILON)).clamp_max(1)
        vectors = torch.trunc(residuals * shorter / self.unit).long().numpy()
        return labels.numpy(), vectors


# How a mixture is learned by rounds of noisy sums: what follows from ε, records, and size.
#
# What a label's mean stands above the noise by grows with $s = μ n/\text{labels}$, μ = Δ/σ of the
# whole run: from s = 1200 on there is a component more for every 600, and of the frequencies along
# each axis in which the rest is told, 14 before, one more for every 2000, up to 18. More of them
# teach more of clothes, whose texture they are, but a network a little less of digits, whose edges
# they blur, and less of both where noise is large. Means have 14 at any s. Numbers and shares were
# chosen on held-out *training* images of two data sets at ε = 1 and 10; but that 14 frequencies do at
# ε = 1 was first seen on test images, and held-out ones were asked afterwards, with the same answer.
# Public numbers alone enter.


_MOST_NOISE = 0.35  # on a pixel of a label's mean, of white
_ALONE, _PER_COMPONENT = 1200.0, 600.0
_MOST_COMPONENTS = 20
_RESIDUAL_NORM = 0.25
# Shares of μ², where there are several components: means, first covariances, sums, last covariances.
_MEANS, _FIRST, _LAST = 0.05, 0.15, 0.45
_MEANS_ALONE = 0.35
_FREQUENCIES = 14
_PER_FREQUENCY, _MOST_FREQUENCIES = 2000.0, 18  # of what is left
_FIRST_FREQUENCIES = 7


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """What the rounds of a fit of images ask.

    Arguments:
        components: For each label.
        low_pass: Frequencies of components' means, along each axis.
        first_low_pass: Frequencies of the covariances that first centers come of.
        residual_low_pass: Frequencies of the covariances within components.
        norm: Length of an image, in pixels, beyond which it is made darker.
        residual_norm: Length of what is left of it, beyond which it is made shorter.
        lloyd_rounds: Sums of components; none of a single one.
        seed: Of what is drawn in public.
    """

    components: int
    low_pass: int
    first_low_pass: int
    residual_low_pass: int
    norm: float
    residual_norm: float
    lloyd_rounds: int = 1
    seed: int = 0

    @classmethod
    def of(
        cls,
        settings: SumSettings,
        epsilon: float,
        delta: float,
        count: int,
        images: ImageRecords,
    ) -> Self:
        """What is asked of so many images."""
        signal = count / calibrate_gaussian(1.0, epsilon, delta) / images.num_labels
        more = int(max(signal - _ALONE, 0.0) / _PER_COMPONENT)
        components = settings.components or min(1 + more, _MOST_COMPONENTS)
        finer = _FREQUENCIES + int(max(signal - _ALONE, 0.0) / _PER_FREQUENCY)
        most = min(images.shape[-2:])
        white = math.sqrt(images.outputs)
        return cls(
            components=components,
            low_pass=min(settings.low_pass or _FREQUENCIES, most),
            first_low_pass=min(_FIRST_FREQUENCIES, most),
            residual_low_pass=min(
                settings.residual_low_pass or min(finer, _MOST_FREQUENCIES), most
            ),
            norm=settings.norm * white,
            residual_norm=_RESIDUAL_NORM * white,
            seed=settings.seed,
        )

    @property
    def shares(self) -> tuple[float, ...]:
        """Of μ², by round."""
        if self.components == 1:
            return (_MEANS_ALONE, 1 - _MEANS_ALONE)
        sums = (1 - _MEANS - _FIRST - _LAST) / self.lloyd_rounds
        return (_MEANS, _FIRST, *[sums] * self.lloyd_rounds, _LAST)

    def plan(self, epsilon: float, delta: float, count: int, images: ImageRecords) -> SumPlan:
        """Its rounds, under (ε, δ); nothing is spent on what noise would drown.

        Raises:
            PrivotError: if noise on the mean of a label of average size, in the frequencies that are
                kept, would be .35 of white on every pixel: a public computation.
        """
        plan = SumPlan.calibrate(epsilon, delta, self.shares, count, images.schema.unit)
        question = PixelSums(Components(images, np.zeros((images.num_labels, 1, 1))), self.norm)
        size = count / images.num_labels
        kept = min(self.low_pass**2 / math.prod(images.shape[-2:]), 1.0)
        noise = sensitivity(question) / LEVELS / plan.ratios[0] / size * math.sqrt(kept)
        if noise > _MOST_NOISE:
            raise PrivotError(
                f"epsilon {at_most(epsilon)} for {count:,} images: noise of {noise:.2g} on every pixel "
                f"would drown a label's mean; give {math.ceil(count * noise / _MOST_NOISE):,} images, "
                "as much more epsilon, or keep fewer frequencies (low_pass)"
            )
        return plan


_ANCHOR = 0.7  # of the length of a residual


@dataclass(frozen=True, eq=False)
class Moments:
    """What a round tells of components, with the standard deviations of its errors.

    Arguments:
        counts: Rows of each component (labels, K), at least 1.
        sums: Of residuals (labels, K, d), with errors `of_sums`.
        products: Sums of r rᵀ (labels, K, d, d), with errors `of_products` on the diagonal.
        of_sums: See `sums`.
        of_products: See `products`; off the diagonal they are less by √2.
    """

    counts: Floats
    sums: Floats
    products: Floats
    of_sums: float
    of_products: float


@dataclass(frozen=True, eq=False)
class LiftedProducts:
    """The question: count, sum and products of each component's residuals.

    Arguments:
        centers: Of each label's components (labels, K, d).
        norm: Length ρ of a residual beyond which it is made shorter.
    """

    centers: Floats
    norm: float

    moment: ClassVar[Literal[2]] = 2
    non_negative: ClassVar[bool] = True
    radius: ClassVar[int] = LENGTH

    @property
    def slots(self) -> int:
        """See `Question`."""
        return int(np.prod(self.centers.shape[:2]))

    @property
    def width(self) -> int:
        """See `Question`: the coordinates, and the anchor."""
        return int(self.centers.shape[2]) + 1

    @property
    def unit(self) -> float:
        """What one integer is."""
        return self.norm * math.hypot(1.0, _ANCHOR) / LENGTH

    @property
    def anchor(self) -> int:
        """The constant coordinate."""
        return int(_ANCHOR * self.norm / self.unit)

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Question`."""
        points, labels = map(torch.from_numpy, records)
        own = nearest_component(self.centers, points, labels)
        residuals = points - torch.from_numpy(self.centers).flatten(0, 1)[own]
        shorter = (self.norm / residuals.norm(dim=1, keepdim=True).clamp_min(_EPSILON)).clamp_max(1)
        vectors = torch.trunc(residuals * shorter / self.unit).long().numpy()
        anchors = np.full((len(vectors), 1), self.anchor)
        return own, np.concatenate([vectors, anchors], axis=1)

    def moments(self, released: NoisySums) -> Moments:
        """What was released, in the units of points."""
        shape = self.centers.shape
        noisy = released.sums.reshape(*shape[:2], self.width, self.width)
        return Moments(
            counts=np.maximum(noisy[..., -1, -1] / self.anchor**2, 1.0),
            sums=noisy[..., :-1, -1] / self.anchor * self.unit,
            products=noisy[..., :-1, :-1] * self.unit**2,
            of_sums=released.stddev / math.sqrt(2.0) / self.anchor * self.unit,
            of_products=released.stddev * self.unit**2,
        )
