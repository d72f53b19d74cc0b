r"""Pictures: images within their bounds, of the few cosines that a model has drawn.

An image of the lowest cosines alone is blurred, and rings out of its bounds: clipped, it has other
cosines than those drawn, and less contrast. Here its other cosines are chosen so that it need not be:

1. **texture**: they start as independent normal numbers whose standard deviation goes on where the
   learned ones end, as $σ (1 + f_q) / (1 + f)$, f being the frequency;
2. **bounds**: the image is clipped, its q lowest cosines are put back, and so on, eight times:
   alternating projections on two convex sets, the box of pixels and the images with these cosines.

Where no image within bounds has the cosines that were drawn, something still is lost. So the draw is
corrected: $v ↦ m_c + M (v − μ_c)$, whose $m_c$ and M are found by drawing, completing and comparing,
such that the *completed* images come near the means $μ_c$ of each class and the covariance that were
learned. M takes the covariance B found to the wanted A, $B^{-1/2} (B^{1/2} A B^{1/2})^{1/2} B^{-1/2}$:
the optimal transport between the two Gaussians, none of whose stretches is more than 1.3 at once.

All of it is a function of what was learned, and of the schema.

References:
    Cheney, Goldstein, *Proximity maps for convex sets* (1959), for alternating projections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privot.local.gaussians.law import GaussianClasses
from privot.mechanisms.candidates.coordinates import Coordinates
from privot.schema import Array
from privot.schema.domains.image import cosine_rows

_PROJECTIONS, _CORRECTIONS = 8, 5
_PICTURES, _FEWEST_OF_CLASS, _MOST_NUMBERS = 3000, 32, 2**23
_LAST = 10  # cosines of the highest frequencies that tell how texture begins
_LEAST_VARIANCE, _LONGEST_STEP = 1e-4, 1.3  # of the largest; of a correction


@dataclass(frozen=True, eq=False)
class Pictures:
    """How images are completed.

    Arguments:
        coordinates: Which cosines are drawn.
        texture: σ.
        means: μ (C, q), of the numbers, and the brightness, of each class.
        shifted: m (C, q).
        stretch: M (q, q).
    """

    coordinates: Coordinates
    texture: float
    means: Array
    shifted: Array
    stretch: Array

    @classmethod
    def of(cls, law: GaussianClasses, coordinates: Coordinates, rng: np.random.Generator) -> Self:
        """Those of a law, corrected."""
        count, size = len(law.shares), coordinates.count + coordinates.channels
        most = min(_PICTURES, _MOST_NUMBERS // math.prod(coordinates.column.image_shape or ()))
        labels = np.repeat(np.arange(count), max(_FEWEST_OF_CLASS, most // count))
        present = replace(law, missing=np.zeros(count))
        v = _together(coordinates, *coordinates.numbers(present.draw_points(labels, rng)))
        means = _class_means(v, labels, count)
        high = v[:, : coordinates.count][:, -_LAST:] / coordinates.weights[-_LAST:]
        texture = float(np.sqrt((high**2).mean()))
        pictures = cls(coordinates, texture, means, means, np.eye(size))
        wanted = np.cov((v - means[labels]).T)
        for _ in range(_CORRECTIONS):
            found = _together(coordinates, *coordinates.take(pictures.complete(v, labels, rng)))
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
        """Images (n, N) in unit pixels of points of the sphere, of classes (n,)."""
        return self.complete(
            _together(self.coordinates, *self.coordinates.numbers(points)), labels, rng
        )

    def complete(self, v: Array, labels: NDArray[np.integer], rng: np.random.Generator) -> Array:
        """Images (n, N) in unit pixels of numbers with brightness (n, q) of classes (n,)."""
        corrected = self.shifted[labels] + (v - self.means[labels]) @ self.stretch.T
        wanted = self._apart(corrected)
        pixels = self.coordinates.pixels(*wanted) + self._high(len(v), rng)
        for _ in range(_PROJECTIONS):
            np.clip(pixels, -1.0, 1.0, out=pixels)
            found = self.coordinates.take(pixels)
            pixels += self.coordinates.pixels(wanted[0] - found[0], wanted[1] - found[1])
        return np.clip(pixels, -1.0, 1.0, out=pixels)

    def arrays(self) -> dict[str, Array]:
        """All numbers, by name."""
        return {
            "picture.texture": np.array(self.texture),
            "picture.means": self.means,
            "picture.shifted": self.shifted,
            "picture.stretch": self.stretch,
        }

    def _apart(self, v: Array) -> tuple[Array, Array]:
        x, brightness = np.split(v, [self.coordinates.count], axis=1)
        return x, brightness / self.coordinates.typical_length

    def _high(self, count: int, rng: np.random.Generator) -> Array:
        """Texture (n, N), of higher frequencies than those that are drawn."""
        height, width, *channels = self.coordinates.column.image_shape or ()
        depth = math.prod(channels)
        frequency = np.hypot(np.arange(height)[:, None], np.arange(width))[:, :, None]
        scale = self.texture * (1 + self.coordinates.frequencies[-1]) / (1 + frequency)
        scale = np.where(frequency > self.coordinates.frequencies[-1], scale, 0.0)
        cosines = scale * rng.standard_normal((count, height, width, depth))
        rows, columns = cosine_rows(height, height), cosine_rows(width, width)
        noise = np.einsum("nijc,ih->nhjc", cosines, rows, optimize=True)
        noise = np.einsum("nhjc,jw->nhwc", noise, columns, optimize=True).reshape(count, -1)
        return noise


def _together(coordinates: Coordinates, x: Array, brightness: Array) -> Array:
    """Numbers with brightness (n, q), which is made as large as a cosine."""
    return np.concatenate([x, brightness * coordinates.typical_length], axis=1)


def _class_means(x: Array, labels: NDArray[np.integer], count: int) -> Array:
    """Means (C, q) of rows (n, q) of each class."""
    return np.stack([x[labels == label].mean(axis=0) for label in range(count)])


def _transport(found: Array, wanted: Array) -> Array:
    """The symmetric matrix that takes one covariance to another, or a step of the way."""
    root, inverse = _power(found, 0.5), _power(found, -0.5)
    values, vectors = np.linalg.eigh(inverse @ _power(root @ wanted @ root, 0.5) @ inverse)
    return np.asarray((vectors * np.clip(values, 1 / _LONGEST_STEP, _LONGEST_STEP)) @ vectors.T)


def _power(matrix: Array, exponent: float) -> Array:
    """A power of a covariance, whose smallest variances are not taken for 0."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, _LEAST_VARIANCE * values[-1])
    return np.asarray((vectors * values**exponent) @ vectors.T)
