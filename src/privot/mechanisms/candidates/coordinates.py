r"""Coordinates: the few numbers of a vector or an image that a report of moments is about.

Of a vector they are its unit coordinates; of an image the q orthonormal cosines of lowest frequency,
$i^2 + j^2$, all channels of one frequency together, counted from the image that the column declares as
its center (gray, or the darkest). Divided by a public radius, and pulled back to length 1 where longer,
they lie in the unit ball. The inverse leaves all other cosines at 0.

Which coordinates, how many, and the radius follow from the schema and ε alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.privacy.rounding import require_finite
from privot.schema import Array, PointColumn
from privot.schema.domains.image import ImageDomain


@dataclass(frozen=True)
class Coordinates:
    """The map from a column's unit coordinates to the unit ball of few dimensions.

    Arguments:
        column: Of vectors or images.
        count: q.
        radius: Public; what is longer is pulled back.
    """

    column: PointColumn
    count: int
    radius: float

    def __post_init__(self) -> None:
        require_finite("radius", self.radius, positive=True)
        most = self.column.domain.dimension
        if type(self.count) is not int or not 1 <= self.count <= most:
            raise PrivotError(f"{self.count!r} coordinates of {most:,}: give at most as many")
        if self.column.image_shape is None and self.count != most:
            raise PrivotError(f"{self.count} coordinates of a vector of {most}: give all of them")

    def encode(self, units: Array) -> Array:
        """Points (n, q) of the unit ball, of unit coordinates (n, d); rows of NaN stay."""
        z = self._take(units) / self.radius
        length = np.linalg.norm(z, axis=1, keepdims=True)
        return np.asarray(z / np.maximum(1.0, length))

    def decode(self, points: Array) -> Array:
        """Unit coordinates (n, d) of points (n, q), not projected to the domain."""
        u = np.asarray(points) * self.radius
        if self.column.image_shape is None:
            return u
        lowest = np.zeros((len(u), self._lens.dimension))
        lowest[:, self._order] = u
        return self._domain.transform(self._lens.decode(lowest) + self._domain.middle)

    def _take(self, units: Array) -> Array:
        if self.column.image_shape is None:
            return units
        pixels = self._domain.decode(units) - self._domain.middle
        return self._lens.transform(pixels)[:, self._order]

    @property
    def _domain(self) -> ImageDomain:
        return cast("ImageDomain", self.column.domain)

    @cached_property
    def _lowest(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Frequencies along height and width, and channels, of the coordinates."""
        shape = self._domain.kept or self._domain.shape[:2]
        channels = math.prod(self._domain.shape[2:])
        rows, columns, channel = (part.ravel() for part in np.indices((*shape, channels)))
        order = np.lexsort((channel, rows, rows**2 + columns**2))[: self.count]
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
        channels = math.prod(self._domain.shape[2:])
        return np.ravel_multi_index(self._lowest, (*(self._lens.kept or ()), channels))
