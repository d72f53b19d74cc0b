r"""Coordinates: the point of a unit sphere that a report says about a vector or an image.

Of a vector they are direction and length of its d unit coordinates x,

$$ z = \Big( \sqrt{1 − (βt)^2} \, \frac{x}{‖x‖}, \; βt \Big), \qquad t = \tfrac12 \log_2
\frac{‖x‖}{ρ_0} \text{, clipped to } [−1, 1] , $$

with β = .3 and $ρ_0$ half of the largest length. All of a report is then about what tells records apart,
however far inside of their domain they lie; a radius that none of them exceeds would shorten most.

Of an image x are the q orthonormal cosines of lowest frequency $f = \sqrt{i^2 + j^2}$ other than 0, all
channels of one frequency together, each multiplied by $\sqrt{1 + f}$: images vary less where frequencies
are high, and there they differ. $ρ_0$ is √N, of images of N numbers. Another βb stands beside βt for the
mean brightness b of each channel, in [−1, 1] (over the root of the number of channels), since most of an
image may be as dark as all others: as one more cosine, that would be most of a record's length.

Where x is 0, z has the first coordinate's direction. Which coordinates, how many, and $ρ_0$ follow from
the schema and ε alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.schema import Array, PointColumn
from privot.schema.domains.image import ImageDomain

_SHARE, _OCTAVES = 0.3, 2.0
_OF_LENGTH, _OF_BRIGHTNESS = 1.0, 0.6  # variances, over one of direction
_OF_DIRECTIONS, _OF_OTHERS = 0.3, 1.0  # how far off such a guess is, in logarithms of deviations


@dataclass(frozen=True)
class Coordinates:
    """The map from a column's unit coordinates to a unit sphere of few dimensions.

    Arguments:
        column: Of vectors or images.
        count: q, how many numbers are told by direction and length.
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
        """Of an image; 0 of a vector."""
        shape = self.column.image_shape
        return 0 if shape is None else math.prod(shape[2:])

    @property
    def dimension(self) -> int:
        """Numbers of z."""
        return self.count + 1 + self.channels

    def encode(self, units: Array) -> Array:
        """Points (n, q) of the unit sphere, of unit coordinates (n, d); rows of NaN stay."""
        x, brightness = units, np.zeros((len(units), 0))
        if self.column.image_shape is not None:
            x, brightness = self.take(self._domain.decode(units))
        length = np.linalg.norm(x, axis=1, keepdims=True)
        x = np.where(length == 0, np.eye(1, self.count), x)
        octaves = np.log2(np.maximum(length, 1e-300) / self.typical_length)
        bright = brightness / math.sqrt(max(1, self.channels))
        last = _SHARE * np.concatenate([np.clip(octaves / _OCTAVES, -1.0, 1.0), bright], axis=1)
        rest = np.sqrt(1 - (last**2).sum(axis=1, keepdims=True))
        direction = x / np.linalg.norm(x, axis=1, keepdims=True)
        return np.concatenate([rest * direction, last], axis=1)

    def numbers(self, points: Array) -> tuple[Array, Array]:
        """The numbers x (n, q), and each channel's brightness (n, channels), of points."""
        z, last = np.split(np.asarray(points), [self.count], axis=1)
        octaves = np.clip(last[:, :1] / _SHARE, -1.0, 1.0) * _OCTAVES
        around = np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
        bright = np.clip(last[:, 1:] * (math.sqrt(max(1, self.channels)) / _SHARE), -1.0, 1.0)
        return np.asarray(z * (self.typical_length * 2.0**octaves / around)), bright

    def take(self, pixels: Array) -> tuple[Array, Array]:
        """The numbers x (n, q), and each channel's brightness, of images (n, N) in unit pixels."""
        found = self._lens.transform(np.clip(pixels, -1.0, 1.0))[:, self._order]
        bright = found[:, : self.channels] * math.sqrt(max(1, self.channels) / self._num_pixels)
        return found[:, self.channels :] * self.weights, np.clip(bright, -1.0, 1.0)

    def pixels(self, x: Array, brightness: Array) -> Array:
        """Images (n, N) that have these numbers and brightness, and no other cosines."""
        lowest = np.zeros((len(x), self._lens.dimension))
        bright = brightness * math.sqrt(self._num_pixels / max(1, self.channels))
        lowest[:, self._order] = np.concatenate([bright, x / self.weights], axis=1)
        return self._lens.decode(lowest)

    @cached_property
    def typical_length(self) -> float:
        """ρ₀."""
        if self.column.image_shape is not None:
            return math.sqrt(self._num_pixels)
        ends = [point for pair in self.column.domain.unit.far_apart() for point in pair]
        return max(float(np.linalg.norm(point)) for point in ends) / 2

    @property
    def large_length(self) -> float:
        """Of x: the largest of vectors; of images, one that most do not exceed by much."""
        return self.typical_length * (1 if self.channels else 2)

    @cached_property
    def typical_variances(self) -> Array:
        """How variances of z's numbers (q,) compare, roughly: of direction, length, brightness."""
        rest = np.full(self.channels, _OF_BRIGHTNESS)
        return np.concatenate([np.ones(self.count), np.array([_OF_LENGTH]), rest])

    @cached_property
    def variance_spreads(self) -> Array:
        """How far off that is, (q,): standard deviations of logarithms of standard deviations.

        Digits are of nearly one brightness, clothes are not.
        """
        rest = np.full(self.dimension - self.count, _OF_OTHERS)
        return np.concatenate([np.full(self.count, _OF_DIRECTIONS), rest])

    @cached_property
    def frequencies(self) -> Array:
        """F (q,), of an image's cosines."""
        rows, columns, _ = self._lowest
        return np.hypot(rows, columns)[self.channels :]

    @cached_property
    def weights(self) -> Array:
        """What an image's cosines are multiplied by, (q,)."""
        return np.sqrt(1 + self.frequencies)

    @property
    def _num_pixels(self) -> int:
        return self._domain.num_pixels

    @property
    def _domain(self) -> ImageDomain:
        return cast("ImageDomain", self.column.domain)

    @cached_property
    def _lowest(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Frequencies along height and width, and channels, of brightness and coordinates."""
        shape = self._domain.kept or self._domain.shape[:2]
        rows, columns, channel = (part.ravel() for part in np.indices((*shape, self.channels)))
        order = np.lexsort((channel, rows, rows**2 + columns**2))[: self.channels + self.count]
        return rows[order], columns[order], channel[order]

    @cached_property
    def _lens(self) -> ImageDomain:
        """All cosines up to the highest that are taken."""
        rows, columns, _ = self._lowest
        kept = (int(rows.max()) + 1, int(columns.max()) + 1)
        return ImageDomain(self._domain.shape, kept=kept)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Where the coordinates are among them."""
        return np.ravel_multi_index(self._lowest, (*(self._lens.kept or ()), self.channels))
