r"""Gaussian classes: labels, and given the label a Gaussian projected to the unit sphere.

A record is a label c, of share $w_c$, and a point z of the unit sphere of $ℝ^q$
(`privot.mechanisms.candidates.features`). Given c, with ξ, η standard normal,

$$ z' = k_c \big( m_c + P_c (A ξ + D^{1/2} η) \big), \qquad z = z' / ‖z'‖ , $$

A being q × r, D diagonal, and $k_c$ such that $\mathbb E ‖z'‖^2 = 1$. All classes share A and D:
covariances of their own cost more reports than they bring. $P_c = I − ρ_c h_c h_c^⊤$ with the mean's
direction $h_c = m_c / ‖m_c‖$ and $ρ_c = ‖m_c‖^2 / (‖m_c‖^2 + \mathrm{tr} (A A^⊤ + D))$ flattens the
Gaussian to the sphere, the more, the more concentrated it is: its variance in the radial direction is
removed, so that every parameter is identified.

**The channel** (`SmoothChannel`) of a candidates report is smooth and has few parameters. Let y be the
reported candidate times √D, so that its numbers have variance 1, and φ the record's features,
$‖φ‖ = 1$. Given nothing else about the seed, the density of y against that of all candidates is a
function of $u = ⟨φ, y⟩$ alone (`privot.mechanisms.candidates.codebook`), a step from b to a that is
smooth since the other candidates are random:

$$ f(y | φ) = b + (a − b) \, Φ\Big( \frac{u − t}{τ} \Big) , $$

t and τ being the mean and the standard deviation of the random score that a candidate has to exceed.
Where φ is Gaussian, so is u, and the mean of f is of the same form: the wider u, the wider the step.

**The tilt.** The likelihood's closed form ([`likelihood`][privot.local.networks.gaussian_fit]) weighs a
longer z′ more: with s = $a_0 + a_1 ‖z'‖^2$, by

$$ Z(s) = b + (a − b) \, Φ\big(−t / \sqrt{s + τ^2}\big) . $$

So the law of records under the likelihood is that of z with weight Z: points z′ are drawn, and accepted
with probability proportional to Z(s), up to a ceiling that one in a thousand exceeds.

**Pictures** (`Pictures`) are images within their bounds, completed from the few cosines that a model
draws. An image of the lowest cosines alone is blurred, and rings out of its bounds: clipped, it has
other cosines than those drawn, and less contrast. So its other cosines are chosen:

1. **texture**: they start as independent normal numbers whose standard deviation continues where the
   learned ones end, as $σ (1 + f_q) / (1 + f)$, f being the frequency;
2. **bounds**: the image is clipped, its q lowest cosines are restored, and so on, eight times:
   alternating projections on two convex sets, the box of pixels and the images with these cosines.

Where no image within bounds has the cosines that were drawn, some error remains. So the draw is
corrected: $v ↦ m_c + M (v − μ_c)$, whose $m_c$ and M are found by drawing, completing and comparing,
such that the *completed* images approach the learned means $μ_c$ of each class and the learned
covariance. M takes the covariance B found to the wanted A, $B^{-1/2} (B^{1/2} A B^{1/2})^{1/2}
B^{-1/2}$: the optimal transport between the two Gaussians, none of whose stretches is more than 1.3 at
once. All of it is a function of the learned law and of the schema.

References:
    Cheney, Goldstein, *Proximity maps for convex sets* (1959), for alternating projections.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.mechanisms.candidates.codebook import ClosestCandidates
from privot.mechanisms.candidates.features import Coordinates
from privot.randomizer import Randomizer
from privot.randomizer.reports.candidates import CandidatesReport
from privot.schema.columns.array import ArrayColumn
from privot.schema.domains import Array, from_unit
from privot.schema.images import cosine_rows

if TYPE_CHECKING:
    from privot.local.model import Condition

_SCORE_GRID = np.linspace(-8.0, 8.0, 4001)  # u, over which the step is tabulated
_PILOT_ROWS, _CEILING_QUANTILE = 4096, 0.999
_NUM_PROJECTIONS, _NUM_CORRECTIONS = 8, 5
_MAX_PICTURES, _MIN_PICTURES_PER_CLASS, _MAX_NUMBERS = 3000, 32, 2**23
_LAST_COSINES = 10  # highest frequencies, by which texture begins
_MIN_VARIANCE_RATIO, _MAX_STRETCH = 1e-4, 1.3  # to the largest variance; in one correction
_LAW_FIELDS = ("shares", "missing", "means", "factors", "variances")
_PICTURE_FIELDS = ("texture", "means", "shifted", "stretch")


@dataclass(frozen=True)
class SmoothChannel:
    """Density of reports relative to that of candidates.

    Examples:
        >>> channel = SmoothChannel.of(ClosestCandidates.for_dimension(500, epsilon=5.0), 0.02)
        >>> round(channel.inside), round(channel.outside, 2), round(channel.threshold, 1)
        (26, 0.18, 1.9)
    """

    inside: float  # a
    outside: float  # b
    threshold: float  # t
    width: float  # τ
    label_weight: float  # a₀, the share of a record's length that is its label's

    @classmethod
    def of(cls, mechanism: ClosestCandidates, label_weight: float) -> Self:
        """Approximate the channel of a mechanism."""
        size = mechanism.codebook.dimension
        inside, outside = (p * mechanism.codebook.num_candidates for p in mechanism.probabilities)
        ratio = np.exp(mechanism.log_likelihood(_SCORE_GRID / np.sqrt(size)))
        steps = np.diff((ratio - outside) / (inside - outside))
        places = (_SCORE_GRID[1:] + _SCORE_GRID[:-1]) / 2
        threshold = float(steps @ places / steps.sum())
        width = float(np.sqrt(steps @ (places - threshold) ** 2 / steps.sum()))
        return cls(inside, outside, threshold, width, label_weight)

    def mass(self, squared_lengths: Array) -> Array:
        """Compute Z, the mean density over all candidates, of points of any squared lengths."""
        variance = self.label_weight + (1 - self.label_weight) * np.asarray(squared_lengths)
        below = -self.threshold / np.sqrt(variance + self.width**2)
        return np.asarray(self.outside + (self.inside - self.outside) * scipy.special.ndtr(below))


@dataclass(frozen=True, eq=False)
class GaussianClasses:
    """Labels with a Gaussian each, projected to the sphere."""

    channel: SmoothChannel  # channel of the reports, which determines the tilt
    shares: Array  # w (C,), 1 in sum
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
    def flatness(self) -> Array:
        """Flatness ρ (C,)."""
        squared = (self.means**2).sum(axis=1)
        return np.asarray(squared / (squared + (self.factors**2).sum() + self.variances.sum()))

    @cached_property
    def scales(self) -> Array:
        """Scales k (C,)."""
        along = ((self.directions @ self.factors) ** 2).sum(axis=1)
        along += self.directions**2 @ self.variances
        total = (self.factors**2).sum() + self.variances.sum()
        trace = total - (2 * self.flatness - self.flatness**2) * along
        return np.asarray(((self.means**2).sum(axis=1) + trace) ** -0.5)

    def draw_labels(
        self, count: int, rng: np.random.Generator, allowed: list[int] | None = None
    ) -> NDArray[np.int64]:
        """Draw labels (n,), of those allowed."""
        shares = self.shares
        if allowed is not None:
            shares = np.where(np.isin(np.arange(len(shares)), allowed), shares, 0.0)
        return rng.choice(len(shares), count, p=shares / shares.sum())

    def draw_points(self, labels: NDArray[np.integer], rng: np.random.Generator) -> Array:
        """Draw points (n, q) of the sphere given labels (n,); rows of NaN are missing."""
        points = np.empty((len(labels), self.means.shape[1]))
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            points[rows] = self._draw_present(int(label), len(rows), rng)
        points[rng.random(len(labels)) < self.missing[labels]] = np.nan
        return points

    def _draw_present(self, label: int, count: int, rng: np.random.Generator) -> Array:
        """Draw points (count, q) of a class that are not missing."""
        pilot = self._weights(self._draw_untilted(label, _PILOT_ROWS, rng))
        ceiling = np.quantile(pilot, _CEILING_QUANTILE)
        accepted, found = [np.empty((0, self.means.shape[1]))], 0
        while found < count:
            points = self._draw_untilted(label, max(256, 4 * (count - found)), rng)
            weights = self._weights(points)
            accepted.append(points[rng.random(len(points)) * ceiling < weights])
            found += len(accepted[-1])
        points = np.concatenate(accepted)[:count]
        return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))

    def _draw_untilted(self, label: int, count: int, rng: np.random.Generator) -> Array:
        size, rank = self.factors.shape
        noise = rng.standard_normal((count, rank)) @ self.factors.T
        noise += rng.standard_normal((count, size)) * np.sqrt(self.variances)
        direction = self.directions[label]
        noise -= self.flatness[label] * (noise @ direction)[:, None] * direction
        return np.asarray(self.scales[label] * (self.means[label] + noise))

    def _weights(self, points: Array) -> Array:
        return self.channel.mass((points**2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Pictures:
    """Completion of images from their lowest cosines."""

    coordinates: Coordinates  # the cosines that are drawn
    texture: float  # σ
    means: Array  # means μ (C, q) of numbers and brightness in each class
    shifted: Array  # m (C, q)
    stretch: Array  # M (q, q)

    @classmethod
    def of(cls, law: GaussianClasses, coordinates: Coordinates, rng: np.random.Generator) -> Self:
        """Fit the corrections of a law."""
        count, size = len(law.shares), coordinates.count + coordinates.channels
        most = min(_MAX_PICTURES, _MAX_NUMBERS // math.prod(coordinates.column.image_shape or ()))
        labels = np.repeat(np.arange(count), max(_MIN_PICTURES_PER_CLASS, most // count))
        present = replace(law, missing=np.zeros(count))
        v = _join_brightness(coordinates, *coordinates.numbers(present.draw_points(labels, rng)))
        means = _class_means(v, labels, count)
        high = v[:, : coordinates.count][:, -_LAST_COSINES:] / coordinates.weights[-_LAST_COSINES:]
        texture = float(np.sqrt((high**2).mean()))
        pictures = cls(coordinates, texture, means, means, np.eye(size))
        wanted = np.cov((v - means[labels]).T)
        for _ in range(_NUM_CORRECTIONS):
            found = _join_brightness(
                coordinates, *coordinates.take(pictures.complete(v, labels, rng))
            )
            found_means = _class_means(found, labels, count)
            spread = np.cov((found - found_means[labels]).T)
            pictures = replace(
                pictures,
                shifted=pictures.shifted + means - found_means,
                stretch=_transport(spread, wanted) @ pictures.stretch,
            )
        return pictures

    def of_points(
        self, points: Array, labels: NDArray[np.integer], rng: np.random.Generator
    ) -> Array:
        """Complete images (n, N) in unit pixels from points of the sphere, of classes (n,)."""
        return self.complete(
            _join_brightness(self.coordinates, *self.coordinates.numbers(points)), labels, rng
        )

    def complete(self, v: Array, labels: NDArray[np.integer], rng: np.random.Generator) -> Array:
        """Complete images (n, N) in unit pixels from numbers with brightness (n, q) of classes (n,)."""
        corrected = self.shifted[labels] + (v - self.means[labels]) @ self.stretch.T
        x, brightness = np.split(corrected, [self.coordinates.count], axis=1)
        wanted = x, brightness / self.coordinates.typical_length
        pixels = self.coordinates.pixels(*wanted) + self._draw_texture(len(v), rng)
        for _ in range(_NUM_PROJECTIONS):
            np.clip(pixels, -1.0, 1.0, out=pixels)
            found = self.coordinates.take(pixels)
            pixels += self.coordinates.pixels(wanted[0] - found[0], wanted[1] - found[1])
        return np.clip(pixels, -1.0, 1.0, out=pixels)

    def arrays(self) -> dict[str, Array]:
        """Return arrays by name, for storage."""
        return {f"picture.{name}": np.asarray(getattr(self, name)) for name in _PICTURE_FIELDS}

    def _draw_texture(self, count: int, rng: np.random.Generator) -> Array:
        """Draw texture (n, N), of higher frequencies than the cosines."""
        height, width, *channels = self.coordinates.column.image_shape or ()
        depth = math.prod(channels)
        frequency = np.hypot(np.arange(height)[:, None], np.arange(width))[:, :, None]
        scale = self.texture * (1 + self.coordinates.frequencies[-1]) / (1 + frequency)
        scale = np.where(frequency > self.coordinates.frequencies[-1], scale, 0.0)
        cosines = scale * rng.standard_normal((count, height, width, depth))
        rows, columns = cosine_rows(height, height), cosine_rows(width, width)
        noise = np.einsum("nijc,ih->nhjc", cosines, rows, optimize=True)
        return np.einsum("nhjc,jw->nhwc", noise, columns, optimize=True).reshape(count, -1)


def _join_brightness(coordinates: Coordinates, x: Array, brightness: Array) -> Array:
    """Append brightness to numbers (n, q), scaled like a cosine."""
    return np.concatenate([x, brightness * coordinates.typical_length], axis=1)


def _class_means(x: Array, labels: NDArray[np.integer], count: int) -> Array:
    """Average rows (n, q) of each class: (C, q)."""
    return np.stack([x[labels == label].mean(axis=0) for label in range(count)])


def _transport(found: Array, wanted: Array) -> Array:
    """Return the symmetric matrix that takes one covariance to another, or a step of the way."""
    root, inverse = _power(found, 0.5), _power(found, -0.5)
    values, vectors = np.linalg.eigh(inverse @ _power(root @ wanted @ root, 0.5) @ inverse)
    return np.asarray((vectors * np.clip(values, 1 / _MAX_STRETCH, _MAX_STRETCH)) @ vectors.T)


def _power(matrix: Array, exponent: float) -> Array:
    """Raise a covariance to a power, with a floor on its smallest variances."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, _MIN_VARIANCE_RATIO * values[-1])
    return np.asarray((vectors * values**exponent) @ vectors.T)


@dataclass(frozen=True, eq=False)
class GaussianSampler:
    """Sampler of Gaussian classes: a label first, then a point given it."""

    law: GaussianClasses  # law of labels and points
    report: CandidatesReport  # their columns
    pictures: Pictures | None = None  # completion of images; None for vectors
    kind: ClassVar[str] = "gaussian_classes"

    def records(self, num_rows: int, rng: np.random.Generator, where: Condition) -> pa.Table:
        """See `Sampler`."""
        report, label = self.report, self.report.label
        codes = self.law.draw_labels(num_rows, rng, where.get(label) if label else None)
        points, column = self.law.draw_points(codes, rng), report.coordinates.column
        if self.pictures is None:
            x, _ = report.coordinates.numbers(points)
            columns = column.decode_points(report.name, from_unit(column.domain, x))
        else:
            pixels = self.pictures.of_points(points, codes, rng)
            columns = cast("ArrayColumn", column).decode_pixels(report.name, pixels)
        if report.labels is not None and label is not None:
            columns |= report.labels.decode_codes(label, codes, rng)
        return pa.table(columns)

    def shape(self) -> dict[str, Any]:
        """See `Sampler`."""
        return {"channel": asdict(self.law.channel)}

    def arrays(self) -> dict[str, Array]:
        """See `Sampler`."""
        numbers = {name: getattr(self.law, name) for name in _LAW_FIELDS}
        if self.pictures is not None:
            numbers |= self.pictures.arrays()
        return {name: np.asarray(values) for name, values in numbers.items()}

    @classmethod
    def build(
        cls, randomizer: Randomizer, shape: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> GaussianSampler:
        """Restore the sampler that `shape` and `arrays` describe."""
        channel = SmoothChannel(**shape["channel"])
        law = GaussianClasses(channel, *(arrays[name] for name in _LAW_FIELDS))
        if randomizer.candidates is None:
            raise ValueError("the randomizer has no candidates")
        report = randomizer.candidates
        if report.coordinates.column.image_shape is None:
            return cls(law, report)
        texture, *rest = (arrays[f"picture.{name}"] for name in _PICTURE_FIELDS)
        return cls(law, report, Pictures(report.coordinates, float(texture), *rest))
