r"""Feature vectors of length 1, for vectors or images with labels; a curator estimates their mean.

A point z of $ℝ^q$, $‖z‖ = 1$, with label c of C labels becomes

$$ φ(z, c) = \big( \sqrt{a_0}\, e_c, \; \sqrt{a_1}\, e_c ⊗ z \big), \qquad a_0 + a_1 = 1, $$

of length 1. Its mean over people contains the labels' shares and the mean of z for every label. If
points may be missing, one more coordinate is $\sqrt{a_1}$ for a missing point, whose z is 0. With one
label, the first part is left out, and $a_0 = 0$. The map is public.

There are no coordinates for second moments: the nonlinear likelihood of the reports determines them
(`privot.local.networks.gaussian_fit`), and first moments are estimated more precisely if the whole
length of a record is theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.schema.columns.column import PointColumn
from privot.schema.domains import Array
from privot.schema.images import ImageDomain

LABEL_WEIGHT = 0.02
_LENGTH_WEIGHT, _OCTAVES = 0.3, 2.0  # β, and octaves of length for t = 1
# Prior variances relative to that of a direction's coordinate, and spreads of log standard deviations.
_LENGTH_VARIANCE, _BRIGHTNESS_VARIANCE = 1.0, 0.6
_DIRECTION_SPREAD, _OTHER_SPREAD = 0.3, 1.0


@dataclass(frozen=True)
class Coordinates:
    r"""Map from a column's unit coordinates to a unit sphere of few dimensions.

    A vector is mapped by direction and length of its d unit coordinates x,

    $$ z = \Big( \sqrt{1 − (βt)^2} \, \frac{x}{‖x‖}, \; βt \Big), \qquad t = \tfrac12 \log_2
    \frac{‖x‖}{ρ_0} \text{, clipped to } [−1, 1] , $$

    with β = .3 and $ρ_0$ half of the largest length. So direction makes up most of the feature vector,
    also for records that are short in their domain.

    For an image, x are the q coefficients of the orthonormal cosine transform of lowest frequency
    $f = \sqrt{i^2 + j^2}$ other than 0, all channels of one frequency together, each multiplied by
    $\sqrt{1 + f}$ because coefficients of high frequency have small variance but distinguish images.
    $ρ_0$ is √N for images of N numbers. Another coordinate is βb for the mean brightness b ∈ [−1, 1] of
    each channel, over the root of the number of channels: as a cosine coefficient, brightness would take
    most of a record's length, though images hardly differ in it.

    If x is 0, z is the first unit vector. The coordinates and $ρ_0$ follow from the schema and ε alone.

    Arguments:
        column: Column of vectors or images.
        count: Number q of coordinates of the direction.
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
        """Number of coordinates of z."""
        return self.count + 1 + self.channels

    def encode(self, units: Array) -> Array:
        """Map unit coordinates (n, d) to points (n, q) of the unit sphere; rows of NaN stay."""
        x, brightness = units, np.zeros((len(units), 0))
        if self.column.image_shape is not None:
            x, brightness = self.take(self._domain.decode(units))
        length = np.linalg.norm(x, axis=1, keepdims=True)
        x = np.where(length == 0, np.eye(1, self.count), x)
        t = np.log2(np.maximum(length, 1e-300) / self.typical_length) / _OCTAVES
        b = brightness / math.sqrt(max(1, self.channels))
        tail = _LENGTH_WEIGHT * np.concatenate([np.clip(t, -1.0, 1.0), b], axis=1)
        rest = np.sqrt(1 - (tail**2).sum(axis=1, keepdims=True))
        direction = x / np.linalg.norm(x, axis=1, keepdims=True)
        return np.concatenate([rest * direction, tail], axis=1)

    def numbers(self, points: Array) -> tuple[Array, Array]:
        """Return x (n, q), and each channel's brightness (n, channels), of points of the sphere."""
        z, tail = np.split(np.asarray(points), [self.count], axis=1)
        octaves = np.clip(tail[:, :1] / _LENGTH_WEIGHT, -1.0, 1.0) * _OCTAVES
        z_length = np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
        bright = np.clip(
            tail[:, 1:] * (math.sqrt(max(1, self.channels)) / _LENGTH_WEIGHT), -1.0, 1.0
        )
        return np.asarray(z * (self.typical_length * 2.0**octaves / z_length)), bright

    def take(self, pixels: Array) -> tuple[Array, Array]:
        """Return x (n, q), and each channel's brightness, of images (n, N) in unit pixels."""
        cosines = self._low_pass.transform(np.clip(pixels, -1.0, 1.0))[:, self._order]
        bright = cosines[:, : self.channels] * math.sqrt(max(1, self.channels) / self._num_pixels)
        return cosines[:, self.channels :] * self.weights, np.clip(bright, -1.0, 1.0)

    def pixels(self, x: Array, brightness: Array) -> Array:
        """Return images (n, N) of this x and brightness, whose other coefficients are 0."""
        cosines = np.zeros((len(x), self._low_pass.dimension))
        bright = brightness * math.sqrt(self._num_pixels / max(1, self.channels))
        cosines[:, self._order] = np.concatenate([bright, x / self.weights], axis=1)
        return self._low_pass.decode(cosines)

    @cached_property
    def typical_length(self) -> float:
        """Typical length ρ₀."""
        if self.column.image_shape is not None:
            return math.sqrt(self._num_pixels)
        ends = [point for pair in self.column.domain.unit.far_apart() for point in pair]
        return max(float(np.linalg.norm(point)) for point in ends) / 2

    @property
    def large_length(self) -> float:
        """Length that no vector, and hardly any image, exceeds."""
        return self.typical_length * (1 if self.channels else 2)

    @cached_property
    def typical_variances(self) -> Array:
        """Prior relative variances of z's coordinates: direction (q), length, brightness."""
        rest = [_LENGTH_VARIANCE, *[_BRIGHTNESS_VARIANCE] * self.channels]
        return np.array([1.0] * self.count + rest)

    @cached_property
    def variance_spreads(self) -> Array:
        """Prior uncertainty of `typical_variances`: standard deviations of log standard deviations."""
        others = (
            self.dimension - self.count
        )  # the brightness of clothes varies, that of digits hardly
        return np.array([_DIRECTION_SPREAD] * self.count + [_OTHER_SPREAD] * others)

    @cached_property
    def frequencies(self) -> Array:
        """Frequencies f (q,) of an image's cosines."""
        rows, columns, _ = self._lowest
        return np.hypot(rows, columns)[self.channels :]

    @cached_property
    def weights(self) -> Array:
        """Factors √(1 + f) (q,) of an image's cosines."""
        return np.sqrt(1 + self.frequencies)

    @property
    def _num_pixels(self) -> int:
        return self._domain.num_pixels

    @property
    def _domain(self) -> ImageDomain:
        return cast("ImageDomain", self.column.domain)

    @cached_property
    def _lowest(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Frequencies along height and width, and channels, of the coefficients of brightness and x."""
        shape = self._domain.low_pass or self._domain.shape[:2]
        rows, columns, channel = (part.ravel() for part in np.indices((*shape, self.channels)))
        order = np.lexsort((channel, rows, rows**2 + columns**2))[: self.channels + self.count]
        return rows[order], columns[order], channel[order]

    @cached_property
    def _low_pass(self) -> ImageDomain:
        """Images with all frequencies up to the highest ones of x."""
        rows, columns, _ = self._lowest
        low_pass = (int(rows.max()) + 1, int(columns.max()) + 1)
        return ImageDomain(self._domain.shape, low_pass=low_pass)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Indices of brightness and x among the coefficients of `_low_pass`."""
        return np.ravel_multi_index(self._lowest, (*(self._low_pass.low_pass or ()), self.channels))


@dataclass(frozen=True)
class Moments:
    """First moments of labels and points.

    Arguments:
        shares: Shares of the labels (C,).
        first: E[z; label c] (C, q), not divided by the shares; z is 0 if it is missing.
        missing: Share of missing points.
    """

    shares: Array
    first: Array
    missing: float


@dataclass(frozen=True)
class Features:
    """Map from points and labels to unit vectors.

    Arguments:
        points: Number q of coordinates of a point.
        labels: Number C of labels; 1 without labels.
        label_weight: a₀; 0 without labels.
        nullable: Whether points may be missing.

    Examples:
        >>> features = Features.of(points=2, labels=3)
        >>> vectors = features.encode(np.array([[0.6, 0.8]]), np.array([2]))
        >>> vectors.shape, round(float((vectors**2).sum()), 6)
        ((1, 9), 1.0)
        >>> features.decode(vectors[0]).shares.round(6).tolist()
        [0.0, 0.0, 1.0]
    """

    points: int
    labels: int
    label_weight: float
    nullable: bool = False

    def __post_init__(self) -> None:
        sizes = [self.points, self.labels]
        if not all(type(number) is int and number >= 1 for number in sizes):
            raise PrivotError(f"points and labels are {sizes}: give integers from 1")
        most = 0.0 if self.labels == 1 else 0.5
        if not 0 <= self.label_weight <= most or (self.label_weight == 0) != (self.labels == 1):
            raise PrivotError(
                f"label_weight is {self.label_weight} of {self.labels} labels: give a number above "
                "0, up to .5, and 0 without labels"
            )

    @classmethod
    def of(cls, points: int, labels: int = 1, nullable: bool = False) -> Features:
        """Return the features with the label weight of nearly least error."""
        return cls(points, labels, 0.0 if labels == 1 else LABEL_WEIGHT, nullable)

    @cached_property
    def _slices(self) -> dict[str, slice]:
        """Slice of each part of a feature vector: labels, points, missing."""
        sizes = {
            "labels": self.labels if self.labels > 1 else 0,
            "points": self.labels * self.points,
            "missing": int(self.nullable),
        }
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return {name: slice(*ends[i : i + 2]) for i, name in enumerate(sizes)}

    @property
    def dimension(self) -> int:
        """Number of coordinates of a feature vector."""
        return int(self._slices["missing"].stop)

    def encode(
        self, points: Array, labels: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32]:
        """Return unit vectors of points (n, q), missing where a row has a NaN, and labels (n,)."""
        absent = np.asarray(np.isnan(points).any(axis=1))
        out = np.zeros((len(points), self.dimension), np.float32)
        rows, code = np.arange(len(points)), labels if labels is not None else 0
        one, linear = math.sqrt(self.label_weight), math.sqrt(1 - self.label_weight)
        parts = {name: out[:, columns] for name, columns in self._slices.items()}
        if self.labels > 1:
            parts["labels"][rows, code] = one
        by_label = parts["points"].reshape(len(points), self.labels, self.points)
        by_label[rows, code] = linear * np.where(absent[:, None], 0.0, points)
        if self.nullable:
            parts["missing"][:, 0] = linear * absent
        return out

    def parts(self, vectors: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Split vectors (n, D) into labels (n, C), points (n, C, q), missing (n,); zeros if absent."""
        labels, points, missing = (vectors[:, columns] for columns in self._slices.values())
        zeros = np.zeros((len(vectors), 1), vectors.dtype)
        by_label = points.reshape(len(vectors), self.labels, self.points)
        flag = missing if self.nullable else zeros
        return labels if self.labels > 1 else zeros, by_label, flag[:, 0]

    def decode(self, mean: Array) -> Moments:
        """Return the moments that a mean of feature vectors (D,) contains."""
        labels, points, missing = self.parts(np.asarray(mean)[None])
        linear = math.sqrt(1 - self.label_weight)
        shares = np.ones(1) if self.labels == 1 else labels[0] / math.sqrt(self.label_weight)
        return Moments(shares, points[0] / linear, float(missing[0]) / linear)
