r"""A known support: records lie on a public curve, given by the corners of a polyline.

When it is public knowledge that every record lies on a curve (a road, a coast, the half circle of
the entropic transport paper), only the diameter of the curve has to be hidden. The distance of two
points is convex in each of them, so its supremum over two segments is reached at their end points:
the diameter of a polyline is the largest distance of two corners, **computed, not declared**. And
because a value off the curve is projected onto it, the guarantee never rests on the data being
where they were said to be.

Only the diameter: a curve is not convex, and two neighboring values off it may be projected to places
far apart. What is promised in proportion to the distance of raw values does not hold on a curve.

Examples:
    >>> angles = np.linspace(0, np.pi, 181)
    >>> half_circle = Polyline(tuple(zip(np.cos(angles), np.sin(angles))))
    >>> bool(abs(half_circle.diameter(1) - (1 + np.sqrt(2))) < 1e-12)
    True
    >>> round(half_circle.diameter(2), 6)
    2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from privot.errors import PrivotError
from privot.schema.domains.domain import LARGEST, SMALLEST, Array, Box, check_norm

_FAR = 1e6


@dataclass(frozen=True)
class Polyline:
    """The curve through `corners` (m points of d coordinates), straight between neighbors.

    Examples:
        >>> bend = Polyline(((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)))
        >>> bend.project(np.array([[0.5, -1.0]])).tolist()
        [[0.5, 0.0]]
    """

    corners: tuple[tuple[float, ...], ...]

    on_grid = symmetric = nonexpansive = False
    area: ClassVar[Literal["curve"]] = "curve"

    def __post_init__(self) -> None:
        lengths = {len(corner) for corner in self.corners}
        if len(self.corners) < 2 or len(lengths) != 1 or lengths == {0}:
            raise PrivotError(
                f"support has {len(self.corners)} corners of {sorted(lengths)} coordinates: "
                "give at least two points of the same number of coordinates"
            )
        if not (np.abs(np.asarray(self.corners)) <= LARGEST).all():
            raise PrivotError(
                f"support has a corner that is not finite, or beyond {LARGEST:g}: "
                "give coordinates in a larger unit"
            )
        if not np.ptp(np.asarray(self.corners), axis=0).max() >= SMALLEST:
            raise PrivotError("support is a single point: give at least two different corners")

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return len(self.corners[0])

    def diameter(self, norm: int) -> float:
        """Largest ℓ1 or ℓ2 distance of two corners, rounded up."""
        check_norm(norm)
        points = np.asarray(self.corners)
        largest = max(
            float(np.linalg.norm(points - corner, ord=norm, axis=1).max()) for corner in points
        )
        # A dozen roundings at most, of half a unit in the last place each.
        return largest * (1 + 2.0**-48)

    def far_apart(self) -> list[tuple[Array, Array]]:
        """The corners that are farthest in ℓ1, and those that are in ℓ2."""
        points = np.asarray(self.corners)
        pairs = set()
        for norm in (1, 2):
            distances = [np.linalg.norm(points - corner, ord=norm, axis=1) for corner in points]
            first, second = np.unravel_index(int(np.argmax(distances)), (len(points), len(points)))
            pairs.add((int(first), int(second)))
        return [(points[first], points[second]) for first, second in sorted(pairs)]

    def project(self, x: Array) -> Array:
        """Nearest point of the curve in ℓ2, for each row of (n, d)."""
        points = np.asarray(self.corners)
        # Squares of far larger numbers overflow; from this far all of the curve is one point.
        x = np.clip(x, self.center - _FAR * self.scale, self.center + _FAR * self.scale)
        best = np.full(len(x), np.inf)
        nearest = np.array(x, dtype=float)
        for start, end in pairwise(points):
            direction = end - start
            length2 = float(direction @ direction)
            along = (
                np.clip((x - start) @ direction / length2, 0, 1)
                if length2 > 0
                else np.zeros(len(x))
            )
            candidate = start + along[:, None] * direction
            distance = ((x - candidate) ** 2).sum(axis=1)
            closer = distance < best
            best[closer] = distance[closer]
            nearest[closer] = candidate[closer]
        return nearest

    @cached_property
    def _starts(self) -> Array:
        """Lengths of the curve up to each corner."""
        gaps = np.linalg.norm(np.diff(np.asarray(self.corners), axis=0), axis=1)
        return np.concatenate([[0.0], np.cumsum(gaps)])

    @property
    def line(self) -> Box:
        """The interval of lengths, from the curve's beginning to its end."""
        return Box((0.0,), (float(self._starts[-1]),))

    def along(self, x: Array) -> Array:
        """Lengths (n, 1), from the beginning, of points (n, d) of the curve; the first, if several."""
        best, length = np.full(len(x), np.inf), np.zeros(len(x))
        for (start, end), before in zip(
            pairwise(np.asarray(self.corners)), self._starts, strict=False
        ):
            direction = end - start
            whole = float(np.linalg.norm(direction)) or 1.0
            part = np.clip((x - start) @ (direction / whole), 0, whole)
            distance = ((x - start - part[:, None] * (direction / whole)) ** 2).sum(axis=1)
            closer = distance < best
            best[closer], length[closer] = distance[closer], before + part[closer]
        return self.line.project(length[:, None])

    def at(self, lengths: Array) -> Array:
        """Points (n, d) of the curve at lengths (n, 1) from its beginning."""
        points = np.asarray(self.corners)
        columns = [np.interp(lengths[:, 0], self._starts, column) for column in points.T]
        return np.stack(columns, axis=1)

    @property
    def center(self) -> Array:
        """Middle of the bounding box."""
        points = np.asarray(self.corners)
        return (points.min(axis=0) + points.max(axis=0)) / 2

    @property
    def scale(self) -> Array:
        """Half of the bounding box's longest side, the same for all coordinates."""
        return np.full(self.dimension, np.ptp(np.asarray(self.corners), axis=0).max() / 2)

    program = None

    @property
    def unit(self) -> Polyline:
        """The same curve, centered, its bounding box's longest side being 2."""
        points = ((np.asarray(self.corners) - self.center) / self.scale).clip(-1.0, 1.0)
        return Polyline(tuple(tuple(float(c) for c in point) for point in points))
