r"""Gaussian classes: a label, and given the label a Gaussian vector projected to the unit sphere.

A record is a label c, of share $w_c$, and a point z on the unit sphere of $ℝ^q$
(`privot.mechanisms.candidates.features`). Given c, with ξ, η standard normal,

$$ z' = k_c \big( m_c + P_c (A ξ + D^{1/2} η) \big), \qquad z = z' / ‖z'‖ , $$

where A is q × r, D is diagonal, and $k_c$ is such that $\mathbb E ‖z'‖^2 = 1$. All classes share A and
D, because reports are too few to estimate a covariance per class. Let $h_c = m_c / ‖m_c‖$ be the mean's
direction, and $ρ_c = ‖m_c‖^2 / (‖m_c‖^2 + \mathrm{tr} (A A^⊤ + D))$. The matrix
$P_c = I − ρ_c h_c h_c^⊤$ reduces the variance in the radial direction, which the projection to the
sphere would remove anyway. So every parameter is identified.

**Channel** (`SmoothChannel`). A report names one of several random vectors, the **candidates**. Let y be
this candidate times √N, with N its dimension, so that its coordinates have variance 1, and let φ be the
record's features, $‖φ‖ = 1$. The density of y, relative to the density of all candidates, depends only
on the score $u = ⟨φ, y⟩$ (`privot.mechanisms.candidates.codebook`). It is a step from b to a, smoothed
by the randomness of the other candidates:

$$ f(y | φ) = b + (a − b) \, Φ\Big( \frac{u − t}{τ} \Big) , $$

where t and τ are the mean and the standard deviation of the score that a candidate must exceed. If φ is
Gaussian, so is u, and the mean of f has the same form with a wider step.

**Tilt.** The likelihood of [the fit][privot.local.networks.gaussian_fit] weights a point z′ by

$$ Z(s) = b + (a − b) \, Φ\big(−t / \sqrt{s + τ^2}\big) , \qquad s = a_0 + a_1 ‖z'‖^2 , $$

where $a_0$ is the label's share of the squared length of the features and $a_1 = 1 − a_0$. So points z′
are sampled by rejection: a point is accepted with a probability proportional to Z(s), which is clipped
at the 99.9 % quantile of Z.

**Images** (`ImageCompletion`) are completed from the d numbers v that a model draws: the lowest cosine
coefficients, and the brightness of each color channel times the typical length of the coefficients. An
image of the lowest cosines alone is blurred and exceeds its bounds; clipping it changes these cosines
and reduces contrast. So the higher cosines are chosen in two steps:

1. **texture**: they start as independent normal numbers with standard deviation
   $σ (1 + f_0) / (1 + f)$, where f is the frequency, $f_0$ the highest learned one, and σ the standard
   deviation of the learned cosines at $f_0$;
2. **bounds**: the image is clipped and its lowest cosines are restored, eight times in turn. These
   are alternating projections on two convex sets, the box of pixels and the images with these cosines.

If no image within bounds has the drawn cosines, an error remains. So v is corrected before completion,
$v ↦ ν_c + M (v − μ_c)$, such that the *completed* images approximate the learned means $μ_c$ and the
learned covariance C. The corrections $ν_c$ and M are found by iteration: images are drawn and completed,
$ν_c$ is shifted by the error of their mean, and M is multiplied by the optimal transport map
$B^{-1/2} (B^{1/2} C B^{1/2})^{1/2} B^{-1/2}$ from their covariance B to C. The map's eigenvalues are
clipped to [1/1.3, 1.3].

Privacy: everything is a function of the learned distribution and the schema.

References:
    Cheney, Goldstein, *Proximity maps for convex sets* (1959), for alternating projections.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.local.model import Condition, Sampler
from privot.mechanisms.candidates.codebook import ClosestCandidates
from privot.mechanisms.candidates.features import Coordinates
from privot.randomizer import Randomizer
from privot.randomizer.reports.candidates import CandidatesReport
from privot.schema.columns.array import ArrayColumn
from privot.schema.domains import Array, from_unit
from privot.schema.images import cosine_rows

_SCORE_GRID = np.linspace(-8.0, 8.0, 4001)  # values of u at which the step is tabulated
_PILOT_ROWS, _CEILING_QUANTILE = 4096, 0.999  # Z is clipped at this quantile of so many points
_NUM_PROJECTIONS, _NUM_CORRECTIONS = 8, 5  # projections of each image; corrections of ν and M
# Numbers of images from which corrections are estimated, and largest number of all their pixels.
_MAX_IMAGES, _MIN_IMAGES_PER_CLASS, _MAX_NUMBERS = 3000, 32, 2**23
_LAST_COSINES = 10  # number of highest learned cosines from which σ is estimated
_MIN_VARIANCE_RATIO = 1e-4  # floor of variances, relative to the largest
_MAX_STRETCH = 1.3  # largest eigenvalue of a correction's transport map, and of its inverse
# Names of stored arrays; those of `_COMPLETION_FIELDS` begin with the prefix.
_LAW_FIELDS = ("shares", "missing", "means", "factors", "variances")
_COMPLETION_FIELDS, _COMPLETION_PREFIX = ("texture", "means", "shifted", "stretch"), "picture."


@dataclass(frozen=True)
class SmoothChannel:
    """Density of a report given a record, relative to the density of all candidates."""

    inside: float  # a
    outside: float  # b
    threshold: float  # t
    width: float  # τ
    label_weight: float  # a₀, the label's share of the squared length of the features

    @classmethod
    def of(cls, mechanism: ClosestCandidates, label_weight: float) -> Self:
        """Approximate the channel of a mechanism."""
        dimension = mechanism.codebook.dimension
        inside, outside = (p * mechanism.codebook.num_candidates for p in mechanism.probabilities)
        density = np.exp(mechanism.log_likelihood(_SCORE_GRID / np.sqrt(dimension)))
        # The rise of the density from b to a is the distribution of the score to be exceeded.
        masses = np.diff((density - outside) / (inside - outside))
        scores = (_SCORE_GRID[1:] + _SCORE_GRID[:-1]) / 2
        threshold = float(masses @ scores / masses.sum())
        width = float(np.sqrt(masses @ (scores - threshold) ** 2 / masses.sum()))
        return cls(inside, outside, threshold, width, label_weight)

    def tilt(self, squared_lengths: Array) -> Array:
        """Compute Z, the mean density over all candidates, for points z′ of squared lengths (n,)."""
        s = self.label_weight + (1 - self.label_weight) * np.asarray(squared_lengths)
        share_inside = scipy.special.ndtr(-self.threshold / np.sqrt(s + self.width**2))
        return np.asarray(self.outside + (self.inside - self.outside) * share_inside)


@dataclass(frozen=True, eq=False)
class GaussianClasses:
    """Distribution of labels c, and of points z on the unit sphere given each label."""

    channel: SmoothChannel  # channel of the reports, which determines the tilt
    shares: Array  # w (C,), with sum 1
    missing: Array  # share of missing points in each class (C,)
    means: Array  # m (C, q)
    factors: Array  # A (q, r)
    variances: Array  # diagonal of D (q,)

    @cached_property
    def directions(self) -> Array:
        """Directions h of the means (C, q)."""
        lengths = np.linalg.norm(self.means, axis=1, keepdims=True)
        return np.asarray(self.means / np.maximum(lengths, 1e-12))

    @cached_property
    def radial_reductions(self) -> Array:
        """Reductions ρ of the variance in the radial direction (C,)."""
        squared = (self.means**2).sum(axis=1)
        return np.asarray(squared / (squared + (self.factors**2).sum() + self.variances.sum()))

    @cached_property
    def scales(self) -> Array:
        """Scales k (C,)."""
        radial_variance = ((self.directions @ self.factors) ** 2).sum(axis=1)
        radial_variance += self.directions**2 @ self.variances
        total = (self.factors**2).sum() + self.variances.sum()
        rho = self.radial_reductions
        trace = total - (2 * rho - rho**2) * radial_variance  # of P (A Aᵀ + D) P
        return np.asarray(((self.means**2).sum(axis=1) + trace) ** -0.5)

    def draw_labels(
        self, count: int, rng: np.random.Generator, allowed: list[int] | None = None
    ) -> NDArray[np.int64]:
        """Draw labels (count,), only those in `allowed` if it is given."""
        shares = self.shares
        if allowed is not None:
            shares = np.where(np.isin(np.arange(len(shares)), allowed), shares, 0.0)
        return rng.choice(len(shares), count, p=shares / shares.sum())

    def draw_points(self, labels: NDArray[np.integer], rng: np.random.Generator) -> Array:
        """Draw points (n, q) on the sphere given labels (n,); a missing point is a row of NaN."""
        points = np.empty((len(labels), self.means.shape[1]))
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            points[rows] = self._draw_present(int(label), len(rows), rng)
        points[rng.random(len(labels)) < self.missing[labels]] = np.nan
        return points

    def _draw_present(self, label: int, count: int, rng: np.random.Generator) -> Array:
        """Draw points (count, q) of a class, none missing, by rejection."""
        pilot = self._tilts(self._draw_untilted(label, _PILOT_ROWS, rng))
        ceiling = np.quantile(pilot, _CEILING_QUANTILE)
        accepted, num_accepted = [np.empty((0, self.means.shape[1]))], 0
        while num_accepted < count:
            points = self._draw_untilted(label, max(256, 4 * (count - num_accepted)), rng)
            accepted.append(points[rng.random(len(points)) * ceiling < self._tilts(points)])
            num_accepted += len(accepted[-1])
        points = np.concatenate(accepted)[:count]
        return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))

    def _draw_untilted(self, label: int, count: int, rng: np.random.Generator) -> Array:
        """Draw points z′ (count, q) of a class."""
        size, rank = self.factors.shape
        noise = rng.standard_normal((count, rank)) @ self.factors.T
        noise += rng.standard_normal((count, size)) * np.sqrt(self.variances)
        direction = self.directions[label]
        noise -= self.radial_reductions[label] * (noise @ direction)[:, None] * direction
        return np.asarray(self.scales[label] * (self.means[label] + noise))

    def _tilts(self, points: Array) -> Array:
        """Compute Z (n,) of points z′ (n, q)."""
        return self.channel.tilt((points**2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class ImageCompletion:
    """Completion of images from the numbers v (d,) that a model draws."""

    coordinates: Coordinates  # map between images and points on the sphere
    texture: float  # σ
    means: Array  # learned means μ (C, d) of v in each class
    shifted: Array  # corrected means ν (C, d)
    stretch: Array  # M (d, d)

    @classmethod
    def of(cls, law: GaussianClasses, coordinates: Coordinates, rng: np.random.Generator) -> Self:
        """Estimate the texture and the corrections for the distribution `law`."""
        num_classes, size = len(law.shares), coordinates.count + coordinates.channels
        num_pixels = math.prod(coordinates.column.image_shape or ())
        num_images = min(_MAX_IMAGES, _MAX_NUMBERS // num_pixels)
        images_per_class = max(_MIN_IMAGES_PER_CLASS, num_images // num_classes)
        labels = np.repeat(np.arange(num_classes), images_per_class)
        present, cosines = replace(law, missing=np.zeros(num_classes)), coordinates.cosines
        v = _join_v(coordinates, *coordinates.decode(present.draw_points(labels, rng)))
        means = _class_means(v, labels, num_classes)
        lowest = v[:, : cosines.count]  # in the order of frequencies, with weights
        last = lowest[:, -_LAST_COSINES:] / cosines.weights[-_LAST_COSINES:]
        texture = float(np.sqrt((last**2).mean()))
        completion = cls(coordinates, texture, means, means, np.eye(size))
        learned_covariance = np.cov((v - means[labels]).T)
        for _ in range(_NUM_CORRECTIONS):
            pixels = completion._complete(v, labels, rng)
            completed = _join_v(coordinates, *cosines.from_pixels(pixels))
            completed_means = _class_means(completed, labels, num_classes)
            covariance = np.cov((completed - completed_means[labels]).T)
            completion = replace(
                completion,
                shifted=completion.shifted + means - completed_means,
                stretch=_transport_map(covariance, learned_covariance) @ completion.stretch,
            )
        return completion

    def images(self, points: Array, labels: NDArray[np.integer], rng: np.random.Generator) -> Array:
        """Complete images (n, pixels), in [−1, 1], from points (n, q) on the sphere and labels (n,)."""
        v = _join_v(self.coordinates, *self.coordinates.decode(points))
        return self._complete(v, labels, rng)

    def _complete(self, v: Array, labels: NDArray[np.integer], rng: np.random.Generator) -> Array:
        """Complete images (n, pixels), in [−1, 1], from v (n, d) and labels (n,)."""
        corrected = self.shifted[labels] + (v - self.means[labels]) @ self.stretch.T
        lowest, scaled_brightness = np.split(corrected, [self.coordinates.count], axis=1)
        brightness = scaled_brightness / self.coordinates.typical_length
        cosines = self.coordinates.cosines
        pixels = cosines.to_pixels(lowest, brightness) + self._draw_texture(len(v), rng)
        for _ in range(_NUM_PROJECTIONS):
            np.clip(pixels, -1.0, 1.0, out=pixels)
            clipped_lowest, clipped_brightness = cosines.from_pixels(pixels)
            pixels += cosines.to_pixels(lowest - clipped_lowest, brightness - clipped_brightness)
        return np.clip(pixels, -1.0, 1.0, out=pixels)

    def arrays(self) -> dict[str, Array]:
        """Return the stored arrays by name."""
        fields = {name: np.asarray(getattr(self, name)) for name in _COMPLETION_FIELDS}
        return {_COMPLETION_PREFIX + name: array for name, array in fields.items()}

    def _draw_texture(self, count: int, rng: np.random.Generator) -> Array:
        """Draw random images (count, pixels) of frequencies above the learned ones."""
        height, width, *channels = self.coordinates.column.image_shape or ()
        depth = math.prod(channels)
        frequency = np.hypot(np.arange(height)[:, None], np.arange(width))[:, :, None]
        learned = self.coordinates.cosines.frequencies[-1]
        stddev = np.where(frequency > learned, self.texture * (1 + learned) / (1 + frequency), 0.0)
        cosines = stddev * rng.standard_normal((count, height, width, depth))
        rows, columns = cosine_rows(height, height), cosine_rows(width, width)
        noise = np.einsum("nijc,ih->nhjc", cosines, rows, optimize=True)
        return np.einsum("nhjc,jw->nhwc", noise, columns, optimize=True).reshape(count, -1)


def _join_v(coordinates: Coordinates, lowest: Array, brightness: Array) -> Array:
    """Return the numbers v (n, d) of n images with these lowest cosines and this brightness."""
    return np.concatenate([lowest, brightness * coordinates.typical_length], axis=1)


def _class_means(v: Array, labels: NDArray[np.integer], num_classes: int) -> Array:
    """Return the mean (C, d) of the rows of v (n, d) in each class."""
    return np.stack([v[labels == label].mean(axis=0) for label in range(num_classes)])


def _transport_map(source: Array, target: Array) -> Array:
    """Return the clipped optimal transport map between Gaussians of two covariances."""
    root, inverse = _power(source, 0.5), _power(source, -0.5)
    values, vectors = np.linalg.eigh(inverse @ _power(root @ target @ root, 0.5) @ inverse)
    return np.asarray((vectors * np.clip(values, 1 / _MAX_STRETCH, _MAX_STRETCH)) @ vectors.T)


def _power(matrix: Array, exponent: float) -> Array:
    """Return the power of a covariance whose eigenvalues are first raised to a floor."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, _MIN_VARIANCE_RATIO * values[-1])
    return np.asarray((vectors * values**exponent) @ vectors.T)


@dataclass(frozen=True, eq=False)
class GaussianSampler(Sampler):
    """Sampler of records from Gaussian classes: a label, then a vector or an image given the label."""

    law: GaussianClasses  # distribution of labels and points
    report: CandidatesReport  # report of the candidates, which names the columns
    completion: ImageCompletion | None = None  # None for vectors
    kind: ClassVar[str] = "gaussian_classes"

    def records(self, num_rows: int, rng: np.random.Generator, where: Condition) -> pa.Table:
        report, label = self.report, self.report.label
        labels = self.law.draw_labels(num_rows, rng, where.get(label) if label else None)
        points, column = self.law.draw_points(labels, rng), report.coordinates.column
        if self.completion is None:
            units, _ = report.coordinates.decode(points)
            columns = column.decode_points(report.name, from_unit(column.domain, units))
        else:
            pixels = self.completion.images(points, labels, rng)
            columns = cast("ArrayColumn", column).decode_pixels(report.name, pixels)
        if report.labels is not None and label is not None:
            columns |= report.labels.decode_codes(label, labels, rng)
        return pa.table(columns)

    def fields(self) -> dict[str, Any]:
        return {"channel": asdict(self.law.channel)}

    def arrays(self) -> dict[str, Array]:
        arrays = {name: np.asarray(getattr(self.law, name)) for name in _LAW_FIELDS}
        return arrays if self.completion is None else arrays | self.completion.arrays()

    @classmethod
    def build(
        cls, randomizer: Randomizer, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Self:
        channel = SmoothChannel(**fields["channel"])
        law = GaussianClasses(channel, *(arrays[name] for name in _LAW_FIELDS))
        if randomizer.candidates is None:
            raise ValueError("the randomizer has no candidates")
        report = randomizer.candidates
        if report.coordinates.column.image_shape is None:
            return cls(law, report)
        texture, *rest = (arrays[_COMPLETION_PREFIX + name] for name in _COMPLETION_FIELDS)
        return cls(law, report, ImageCompletion(report.coordinates, float(texture), *rest))
