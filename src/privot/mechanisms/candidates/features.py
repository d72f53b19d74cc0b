r"""Unit feature vectors of labeled vectors or images, whose mean a curator estimates.

A point z of $ℝ^q$, $‖z‖ = 1$, with label c of C labels becomes the unit vector

$$ φ(z, c) = \big( \sqrt{a_0}\, e_c, \; \sqrt{a_1}\, e_c ⊗ z \big), \qquad a_0 + a_1 = 1. $$

Its mean over people contains the labels' shares and the mean of z for every label. If points may be
missing, one more coordinate is $\sqrt{a_1}$ for a missing point, whose z is 0. With one label, the first
part is left out, and $a_0 = 0$. The map is public.

There are no coordinates for second moments, because the nonlinear likelihood of the reports determines
them (`privot.local.networks.gaussian_fit`), and because they would leave less length, and so less
precision, to the first moments.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import MOST_CODES, MOST_COORDINATES, PrivotError, hold_count
from privot.schema.columns.column import PointColumn
from privot.schema.domains import Array
from privot.schema.images import ImageDomain

# Weights and priors were chosen on training images and synthetic people (docs/results/best_report.md).
_LABEL_WEIGHT = 0.02  # a₀ of features with labels
_LENGTH_WEIGHT = 0.3  # β, the weight of a vector's length and of an image's brightness
# Prior variances of length and brightness, relative to those of the direction's coordinates.
_LENGTH_VARIANCE, _BRIGHTNESS_VARIANCE = 1.0, 0.6
# Prior standard deviations of the log standard deviations of coordinates.
_DIRECTION_SPREAD, _OTHER_SPREAD = 0.3, 1.0
_MAX_OCTAVES = 2.0  # |log₂(length/ρ₀)| at which |t| = 1


@dataclass(frozen=True)
class LowestCosines:
    r"""Cosine coefficients of lowest frequency of an image, and the mean brightness of its channels.

    Pixels are in [−1, 1]. The coefficients of the orthonormal cosine transform are ordered by frequency
    $f = \sqrt{i^2 + j^2} > 0$, channels of one frequency together. The first ones are selected, and
    multiplied by $\sqrt{1 + f}$, because coefficients of high frequency have small variance but
    distinguish images.

    Arguments:
        domain: Domain of the images, of N numbers each.
        count: Number k of coefficients.
    """

    domain: ImageDomain
    count: int

    @property
    def channels(self) -> int:
        """Number of an image's channels."""
        return math.prod(self.domain.shape[2:])

    def from_pixels(self, pixels: Array) -> tuple[Array, Array]:
        """Return the coefficients (n, k), and brightness (n, channels) in [−1, 1], of images (n, N)."""
        cosines = self._low_pass.transform(np.clip(pixels, -1.0, 1.0))[:, self._order]
        bright = cosines[:, : self.channels] * math.sqrt(self.channels / self.domain.num_pixels)
        return cosines[:, self.channels :] * self.weights, np.clip(bright, -1.0, 1.0)

    def to_pixels(self, coefficients: Array, brightness: Array) -> Array:
        """Return the images (n, N) of coefficients and brightness, whose other coefficients are 0."""
        cosines = np.zeros((len(coefficients), self._low_pass.dimension))
        bright = brightness * math.sqrt(self.domain.num_pixels / self.channels)
        cosines[:, self._order] = np.concatenate([bright, coefficients / self.weights], axis=1)
        return self._low_pass.decode(cosines)

    @cached_property
    def frequencies(self) -> Array:
        """Frequencies f (k,) of the coefficients, in ascending order."""
        rows, columns, _ = self._lowest
        return np.hypot(rows, columns)[self.channels :]

    @cached_property
    def weights(self) -> Array:
        """Factors √(1 + f) (k,) of the coefficients."""
        return np.sqrt(1 + self.frequencies)

    @cached_property
    def _lowest(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Frequencies along height and width, and channels, of brightness and the k coefficients."""
        shape = self.domain.low_pass or self.domain.shape[:2]
        rows, columns, channel = (part.ravel() for part in np.indices((*shape, self.channels)))
        order = np.lexsort((channel, rows, rows**2 + columns**2))[: self.channels + self.count]
        return rows[order], columns[order], channel[order]

    @cached_property
    def _low_pass(self) -> ImageDomain:
        """Domain of images with all frequencies up to the highest one along each axis."""
        rows, columns, _ = self._lowest
        low_pass = (int(rows.max()) + 1, int(columns.max()) + 1)
        return ImageDomain(self.domain.shape, low_pass=low_pass)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Indices of brightness and the k coefficients among the coefficients of `_low_pass`."""
        assert self._low_pass.low_pass is not None
        return np.ravel_multi_index(self._lowest, (*self._low_pass.low_pass, self.channels))


@dataclass(frozen=True)
class Coordinates:
    r"""Map from a column's unit coordinates to points z of a unit sphere, by direction and length.

    A vector of d unit coordinates x becomes

    $$ z = \Big( \sqrt{1 − (βt)^2} \, \frac{x}{‖x‖}, \; βt \Big), \qquad t = \tfrac12 \log_2
    \frac{‖x‖}{ρ_0} \text{, clipped to } [−1, 1] , $$

    with β = .3 and $ρ_0$ half of the largest length. So direction makes up most of z, even for records
    that are short in their domain.

    For an image, x consists of its lowest cosines (`LowestCosines`), and $ρ_0$ is √N for N numbers. Each
    of its c channels has a further coordinate βb/√c, with b ∈ [−1, 1] the mean brightness, and the
    square root above is of 1 minus the squares of all further coordinates. Brightness is not part of x
    because it would make up most of the length, though images hardly differ in it.

    If x is 0, its direction is the first unit vector. The map depends on the schema and ε only.

    Arguments:
        column: Column of vectors or images.
        count: Number of coordinates of x.

    Raises:
        PrivotError: unless x has all coordinates of a vector, or some of an image's cosines.
    """

    column: PointColumn
    count: int

    def __post_init__(self) -> None:
        most = self.column.domain.dimension
        if self.column.image_shape is None:
            if self.count != most:
                raise PrivotError(
                    f"{self.count!r} coordinates of a vector of {most}: give all of them"
                )
        elif type(self.count) is not int or not 1 <= self.count <= most - self.channels:
            raise PrivotError(
                f"{self.count!r} cosines of an image of {most:,} numbers: give from 1 to "
                f"{most - self.channels:,}"
            )

    @property
    def channels(self) -> int:
        """Number of an image's channels; 0 for a vector."""
        shape = self.column.image_shape
        return 0 if shape is None else math.prod(shape[2:])

    @property
    def dimension(self) -> int:
        """Number of coordinates of z: of x, of the length, and of the channels' brightness."""
        return self.count + 1 + self.channels

    @cached_property
    def cosines(self) -> LowestCosines:
        """Map between images and x; not for vectors."""
        return LowestCosines(cast("ImageDomain", self.column.domain), self.count)

    def encode(self, units: Array) -> Array:
        """Map unit coordinates (n, d) to points z (n, dimension); rows of NaN remain NaN."""
        x, brightness = units, np.zeros((len(units), 0))
        if self.channels:
            x, brightness = self.cosines.from_pixels(self.cosines.domain.decode(units))
        length = np.linalg.norm(x, axis=1, keepdims=True)
        x = np.where(length == 0, np.eye(1, self.count), x)
        t = np.log2(np.maximum(length, 1e-300) / self.typical_length) / _MAX_OCTAVES
        b = brightness / math.sqrt(max(1, self.channels))
        tail = _LENGTH_WEIGHT * np.concatenate([np.clip(t, -1.0, 1.0), b], axis=1)
        rest = np.sqrt(1 - (tail**2).sum(axis=1, keepdims=True))
        direction = x / np.linalg.norm(x, axis=1, keepdims=True)
        return np.concatenate([rest * direction, tail], axis=1)

    def decode(self, points: Array) -> tuple[Array, Array]:
        """Return x (n, count) and brightness (n, channels) of points z (n, dimension)."""
        z, tail = np.split(np.asarray(points), [self.count], axis=1)
        octaves = np.clip(tail[:, :1] / _LENGTH_WEIGHT, -1.0, 1.0) * _MAX_OCTAVES
        z_length = np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
        per_unit = math.sqrt(max(1, self.channels)) / _LENGTH_WEIGHT
        bright = np.clip(tail[:, 1:] * per_unit, -1.0, 1.0)
        return np.asarray(z * (self.typical_length * 2.0**octaves / z_length)), bright

    @cached_property
    def typical_length(self) -> float:
        """Typical length ρ₀ of x."""
        if self.channels:
            return math.sqrt(self.cosines.domain.num_pixels)
        ends = [point for pair in self.column.domain.unit.far_apart() for point in pair]
        return max(float(np.linalg.norm(point)) for point in ends) / 2

    @property
    def large_length(self) -> float:
        """Length of x that vectors never exceed, and images hardly ever."""
        return self.typical_length * (1 if self.channels else 2)

    @cached_property
    def prior_variances(self) -> Array:
        """Relative prior variances (dimension,) of the coordinates of z; 1 for the direction."""
        others = [_LENGTH_VARIANCE] + [_BRIGHTNESS_VARIANCE] * self.channels
        return np.array([1.0] * self.count + others)

    @cached_property
    def prior_spreads(self) -> Array:
        """Prior standard deviations (dimension,) of the logarithms of z's standard deviations.

        Brightness has a large one: it varies among pictures of clothes, and hardly among digits.
        """
        return np.array([_DIRECTION_SPREAD] * self.count + [_OTHER_SPREAD] * (1 + self.channels))


@dataclass(frozen=True)
class Moments:
    """Moments of labels and points that the mean of features contains.

    Arguments:
        shares: Shares of the labels (C,).
        first: First moments E[z · 1(label is c)] (C, q), not divided by the shares; a missing z is 0.
        missing: Share of missing points.
    """

    shares: Array
    first: Array
    missing: float


@dataclass(frozen=True)
class Features:
    """Map from points and labels to unit vectors.

    Arguments:
        num_coordinates: Number q of coordinates of a point.
        num_labels: Number C of labels; 1 without labels.
        label_weight: Weight a₀ of the labels, above 0 and up to .5; 0 with one label.
        nullable: Whether points may be missing.

    Examples:
        >>> features = Features.of(2, num_labels=3)
        >>> vectors = features.encode(np.array([[0.6, 0.8]]), np.array([2]))
        >>> vectors.shape, round(float((vectors**2).sum()), 6)
        ((1, 9), 1.0)
        >>> features.decode(vectors[0]).shares.round(6).tolist()
        [0.0, 0.0, 1.0]
    """

    num_coordinates: int
    num_labels: int
    label_weight: float
    nullable: bool = False

    def __post_init__(self) -> None:
        hold_count(self, "num_coordinates", MOST_COORDINATES)
        hold_count(self, "num_labels", MOST_CODES)
        most = 0.0 if self.num_labels == 1 else 0.5
        if not 0 <= self.label_weight <= most or (self.label_weight == 0) != (self.num_labels == 1):
            raise PrivotError(
                f"label_weight is {self.label_weight} with {self.num_labels} labels: give 0 with one "
                "label, otherwise a number above 0, up to .5"
            )

    @classmethod
    def of(cls, num_coordinates: int, num_labels: int = 1, nullable: bool = False) -> "Features":
        """Return the features with the label weight that experiments chose, or 0 with one label."""
        weight = 0.0 if num_labels == 1 else _LABEL_WEIGHT
        return cls(num_coordinates, num_labels, weight, nullable)

    @cached_property
    def _slices(self) -> dict[str, slice]:
        """Slice of each part of a feature vector: labels, points, missing."""
        sizes = {
            "labels": self.num_labels if self.num_labels > 1 else 0,
            "points": self.num_labels * self.num_coordinates,
            "missing": int(self.nullable),
        }
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return {name: slice(*ends[i : i + 2]) for i, name in enumerate(sizes)}

    @property
    def dimension(self) -> int:
        """Number of coordinates of a feature vector."""
        return int(self._slices["missing"].stop)

    @property
    def _lengths(self) -> tuple[float, float]:
        """Lengths √a₀ of the part of the labels, and √a₁ of the parts of the points."""
        return math.sqrt(self.label_weight), math.sqrt(1 - self.label_weight)

    def encode(
        self, points: Array, labels: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32]:
        """Return unit vectors (n, D) of labels (n,) and points (n, q); rows with NaN are missing."""
        absent = np.asarray(np.isnan(points).any(axis=1))
        out = np.zeros((len(points), self.dimension), np.float32)
        rows, code = np.arange(len(points)), labels if labels is not None else 0
        label_length, point_length = self._lengths
        parts = {name: out[:, columns] for name, columns in self._slices.items()}
        if self.num_labels > 1:
            parts["labels"][rows, code] = label_length
        by_label = parts["points"].reshape(len(points), self.num_labels, self.num_coordinates)
        by_label[rows, code] = point_length * np.where(absent[:, None], 0.0, points)
        if self.nullable:
            parts["missing"][:, 0] = point_length * absent
        return out

    def parts(self, vectors: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Split vectors (n, D) into labels (n, C), points (n, C, q), missing (n,); zeros if absent."""
        labels, points, missing = (vectors[:, columns] for columns in self._slices.values())
        zeros = np.zeros((len(vectors), 1), vectors.dtype)
        by_label = points.reshape(len(vectors), self.num_labels, self.num_coordinates)
        labels = labels if self.num_labels > 1 else zeros
        return labels, by_label, (missing if self.nullable else zeros)[:, 0]

    def decode(self, mean: Array) -> Moments:
        """Return the moments that a mean (D,) of feature vectors contains."""
        labels, points, missing = self.parts(np.asarray(mean)[None])
        label_length, point_length = self._lengths
        shares = np.ones(1) if self.num_labels == 1 else labels[0] / label_length
        return Moments(shares, points[0] / point_length, float(missing[0]) / point_length)
