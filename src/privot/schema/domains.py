r"""Domains: the public geometry of one column, which decides how much noise its records need.

A local randomizer must hide which of **any** two records of the domain 𝒳 was the true one, so the
sensitivity of reporting a record is the diameter

$$ Δ_p = \sup_{x, x' ∈ 𝒳} ‖x − x'‖_p , $$

not the radius: a ball of radius $r$ has diameter $2r$. (The 2023 version of the entropic transport
paper uses the radius, so that its ε are at least twice as large as printed.)

Every domain comes with an affine chart onto *unit coordinates*, $u = (x − c) / s$, in which
mechanisms add noise of one scale for all coordinates. For a box, $s$ is half of each side, so that
noise is scaled to each side; a ball keeps its shape, with radius 1. Centers and scales are functions
of the public declaration alone.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), section 5, for ℓ1 and ℓ2 balls.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError

Array = NDArray[np.float64]

# Lengths that floating point can square and divide without loss.
SMALLEST, LARGEST = 1e-100, 1e100
# A box this much narrower than its distance from 0 has too few floats between its bounds.
_NARROW = 2.0**-30


@runtime_checkable
class Domain(Protocol):
    """The set that one record's value lies in; points are rows of shape (n, d).

    Examples:
        >>> isinstance(Box((0.0,), (10.0,)), Domain)
        True
    """

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""

    @property
    def on_grid(self) -> bool:
        """True if rounding to a grid 2^−k leaves points in the domain (then it costs nothing in Δ)."""

    @property
    def symmetric(self) -> bool:
        """True if u → −u maps the unit domain to itself: 0 is Δ/2 from all of it at most."""

    @property
    def area(self) -> Literal["box", "l1_ball", "l2_ball", "curve"] | None:
        """Name of the unit domain, or of what it is the non-negative part of; None of any other."""

    @property
    def nonexpansive(self) -> bool:
        """True if `project` moves no two points farther apart in ℓ2 (but for 2^−40 of the radius)."""

    def diameter(self, norm: int) -> float:
        """Largest distance of two points in the ℓ1 (`norm=1`) or ℓ2 (`norm=2`) norm, rounded up."""

    def project(self, x: Array) -> Array:
        """Map points (n, d) into the domain; points inside are left alone."""

    def far_apart(self) -> list[tuple[Array, Array]]:
        """Pairs of points, each (d,), as far apart as is known, in ℓ1 and in ℓ2: for audits."""

    @property
    def center(self) -> Array:
        """Origin of the unit coordinates, shape (d,)."""

    @property
    def scale(self) -> Array:
        """Length of one unit in each coordinate, shape (d,)."""

    @property
    def unit(self) -> Domain:
        """This domain in unit coordinates."""

    @property
    def program(self) -> dict[str, Any] | None:
        """Return a device's program to project to it (`privot.device.device`), or None."""


def to_unit(domain: Domain, x: Array) -> Array:
    """Coordinates $(x − c)/s$ of points (n, d).

    Examples:
        >>> to_unit(Box((0.0,), (10.0,)), np.array([[0.0], [7.5]])).tolist()
        [[-1.0], [0.5]]
    """
    units = x - domain.center
    units /= domain.scale
    return units


def from_unit(domain: Domain, u: Array) -> Array:
    """Points $c + s·u$ of unit coordinates (n, d).

    Examples:
        >>> from_unit(Box((0.0,), (10.0,)), np.array([[-1.0], [0.5]])).tolist()
        [[0.0], [7.5]]
    """
    points = domain.scale * u
    points += domain.center
    return points


def up(exact: Fraction | int) -> float:
    """The float nearest to an exact number from above."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def sqrt_up(square: Fraction | int) -> float:
    """The root of an exact number, nearly the float nearest to it from above, and never below it."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def check_norm(norm: int) -> None:
    """Refuse a norm other than ℓ1 and ℓ2."""
    if norm not in (1, 2):
        raise PrivotError(f"norm {norm!r} is not known: use 1 or 2")


@dataclass(frozen=True)
class Box:
    """An axis-parallel box; its diameter is the norm of the vector of side lengths.

    Examples:
        >>> Box((0.0, 0.0), (3.0, 4.0)).diameter(2)
        5.0
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    symmetric = nonexpansive = True
    area: ClassVar[Literal["box"]] = "box"

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not self.lower:
            raise PrivotError(
                f"bounds have {len(self.lower)} lower and {len(self.upper)} upper limits: "
                "give one pair a coordinate"
            )
        for low, high in zip(self.lower, self.upper, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise PrivotError(
                    f"bounds [{low}, {high}] are not an interval: "
                    "give two finite numbers, the smaller first"
                )
            largest = max(abs(low), abs(high))
            if largest > LARGEST or high - low < max(SMALLEST, _NARROW * largest):
                raise PrivotError(
                    f"bounds [{low}, {high}] are too far out or too close together for floating "
                    "point: count from another origin, or in another unit"
                )

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return len(self.lower)

    @property
    def on_grid(self) -> bool:
        """True in unit coordinates: the corners ±1 lie on every grid 2^−k."""
        return all(low == -1.0 for low in self.lower) and all(high == 1.0 for high in self.upper)

    def diameter(self, norm: int) -> float:
        """The ℓ1 or ℓ2 norm of the sides, rounded up."""
        check_norm(norm)
        sides = [  # equal ones once: an image has as many as pixels
            (count, Fraction(high) - Fraction(low))
            for (low, high), count in Counter(zip(self.lower, self.upper, strict=True)).items()
        ]
        if norm == 1:
            return up(sum(count * side for count, side in sides))
        return sqrt_up(sum(count * side**2 for count, side in sides))

    def project(self, x: Array) -> Array:
        """Clip every coordinate to its bounds."""
        return np.clip(x, self.lower, self.upper)

    def far_apart(self) -> list[tuple[Array, Array]]:
        """Two opposite corners."""
        return [(np.asarray(self.lower), np.asarray(self.upper))]

    @property
    def center(self) -> Array:
        """Middle of the box."""
        return (np.asarray(self.lower) + np.asarray(self.upper)) / 2

    @property
    def scale(self) -> Array:
        """Half of each side."""
        return (np.asarray(self.upper) - np.asarray(self.lower)) / 2

    @property
    def unit(self) -> Box:
        """The box $[−1, 1]^d$."""
        return Box((-1.0,) * self.dimension, (1.0,) * self.dimension)

    @property
    def program(self) -> dict[str, Any]:
        """Its bounds."""
        return {"area": self.area, "lower": list(self.lower), "upper": list(self.upper)}


# Projections aim this much inside, so that rounding errors never leave the ball.
_INSIDE = 1.0 - 2.0**-40


@dataclass(frozen=True)
class _Ball:
    """Base of the balls about 0."""

    dimension: int
    radius: float
    non_negative: bool = False

    def __post_init__(self) -> None:
        if not SMALLEST <= self.radius <= LARGEST:
            raise PrivotError(
                f"radius {self.radius} is not positive, or not between {SMALLEST:g} and "
                f"{LARGEST:g}: give a radius > 0, in another unit if need be"
            )
        if self.dimension < 1:
            raise PrivotError(f"dimension {self.dimension} is not positive: give a column or more")

    on_grid, nonexpansive = False, True

    @property
    def symmetric(self) -> bool:
        return not self.non_negative

    @property
    def center(self) -> Array:
        return np.zeros(self.dimension)

    @property
    def scale(self) -> Array:
        return np.full(self.dimension, self.radius)

    @property
    def unit(self) -> Self:
        return replace(self, radius=1.0)

    @property
    def program(self) -> dict[str, Any] | None:
        return None


@dataclass(frozen=True)
class L2Ball(_Ball):
    """The Euclidean ball ‖x‖₂ ≤ R, or its non-negative part.

    Diameters: Δ₂ = 2R and Δ₁ = 2R√d; of the non-negative part (d ≥ 2) Δ₂ = √2·R, since
    ‖x − x′‖² = ‖x‖² + ‖x′‖² − 2⟨x, x′⟩ ≤ 2R², and Δ₁ = R(√k + √(d−k)) with k = ⌊d/2⌋, reached by
    points of disjoint supports.

    Examples:
        >>> L2Ball(2, radius=20.0).diameter(2)
        40.0
    """

    area: ClassVar[Literal["l2_ball"]] = "l2_ball"

    @property
    def program(self) -> dict[str, Any]:
        """Its radius."""
        return {"area": self.area, "radius": self.radius, "non_negative": self.non_negative}

    def diameter(self, norm: int) -> float:
        """See the class: 2R in ℓ2, more in ℓ1, less where non-negative; rounded up."""
        check_norm(norm)
        square = Fraction(self.radius) ** 2
        if not self.non_negative:
            return sqrt_up(4 * square * (self.dimension if norm == 1 else 1))
        if norm == 2:
            return sqrt_up(square * min(2, self.dimension))
        half = self.dimension // 2
        parts = (sqrt_up(square * k) for k in (half, self.dimension - half))
        return up(sum(Fraction(part) for part in parts))

    def far_apart(self) -> list[tuple[Array, Array]]:
        """Spread over all coordinates, so that they are ℓ1-farthest among those ℓ2-farthest."""
        d, half = self.dimension, max(1, self.dimension // 2)
        if not self.non_negative:
            spread = np.full(d, self.radius / np.sqrt(d))
            return [(-spread, spread)]
        low = np.arange(d) < d // 2
        ends = low / np.sqrt(half), ~low / np.sqrt(d - d // 2)
        return [(self.radius * ends[0], self.radius * ends[1])]

    def project(self, x: Array) -> Array:
        """Nearest point in ℓ2: clip to the orthant if non-negative, then scale down to the radius."""
        x = np.ascontiguousarray(x)  # sums along rows are pairwise, and lose fewer digits
        if self.non_negative:
            x = np.maximum(x, 0.0)
        # Divided by the largest coordinate first: squares of large finite numbers would overflow.
        largest = np.maximum(np.abs(x).max(axis=1, keepdims=True), self.radius * 2.0**-60)
        direction = x / largest
        length = np.sqrt((direction**2).sum(axis=1, keepdims=True))
        outside = length > self.radius / largest
        return np.where(
            outside, direction / np.where(outside, length, 1.0) * (self.radius * _INSIDE), x
        )


@dataclass(frozen=True)
class L1Ball(_Ball):
    """The ball ‖x‖₁ ≤ R, or its non-negative part.

    Diameters: Δ₁ = Δ₂ = 2R (opposite corners); of the non-negative part (d ≥ 2) Δ₁ = 2R and
    Δ₂ = √2·R, both between two corners.

    Examples:
        >>> L1Ball(3, radius=140.0).diameter(1)
        280.0
    """

    area: ClassVar[Literal["l1_ball"]] = "l1_ball"

    def diameter(self, norm: int) -> float:
        """See the class: 2R, or √2·R in ℓ2 where non-negative; rounded up."""
        check_norm(norm)
        if not self.non_negative:
            return 2 * self.radius
        if self.dimension == 1:
            return self.radius
        return 2 * self.radius if norm == 1 else sqrt_up(2 * Fraction(self.radius) ** 2)

    def far_apart(self) -> list[tuple[Array, Array]]:
        """Two corners."""
        corners = self.radius * np.eye(max(2, self.dimension))[:2, : self.dimension]
        return [(corners[1] if self.non_negative else -corners[0], corners[0])]

    def project(self, x: Array) -> Array:
        """Nearest point in ℓ2, by soft thresholding (Duchi et al. 2008).

        The threshold θ solves Σ max(|x_j| − θ, 0) = R; sorting the magnitudes finds it.
        """
        x = np.ascontiguousarray(x)  # sums along rows are pairwise, and lose fewer digits
        if self.non_negative:
            x = np.maximum(x, 0.0)
        magnitude = np.abs(x)
        with np.errstate(over="ignore"):  # a sum beyond all floats is outside, too
            outside = magnitude.sum(axis=1) > self.radius
        if not outside.any():
            return x
        radius = self.radius * _INSIDE
        # On the sphere the result does not change when all magnitudes shift by one number: with
        # the largest at 0, and what is out of reach clipped, huge values lose no digits.
        shifted = magnitude[outside] - magnitude[outside].max(axis=1, keepdims=True)
        shifted = np.maximum(shifted, -2 * self.radius)
        descending = -np.sort(-shifted, axis=1)
        excess = np.cumsum(descending, axis=1) - radius
        counts = np.arange(1, self.dimension + 1)
        active = (descending - excess / counts > 0).sum(axis=1)
        theta = excess[np.arange(len(active)), active - 1] / active
        result = x.copy()
        magnitude = np.maximum(shifted - theta[:, None], 0.0)
        # In thousands of dimensions the running sum's roundings add up: scale once more.
        magnitude *= np.minimum(1.0, radius / magnitude.sum(axis=1, keepdims=True))
        result[outside] = np.sign(x[outside]) * magnitude
        return result


_FAR = 1e6


@dataclass(frozen=True)
class Polyline:
    """A known support: the curve through `corners` (m points of d coordinates), straight in between.

    When it is public knowledge that every record lies on a curve (a road, a coast, the half circle of
    the entropic transport paper), only the diameter of the curve has to be hidden. The distance of two
    points is convex in each of them, so its supremum over two segments is reached at their end points:
    the diameter of a polyline is the largest distance of two corners, **computed, not declared**. And
    because a value off the curve is projected onto it, the guarantee never rests on the data being
    where they were said to be.

    Only the diameter: a curve is not convex, and two neighboring values off it may be projected to
    places far apart. A promise in proportion to the distance of raw values does not hold on a curve.

    Examples:
        >>> angles = np.linspace(0, np.pi, 181)
        >>> half_circle = Polyline(tuple(zip(np.cos(angles), np.sin(angles))))
        >>> bool(abs(half_circle.diameter(1) - (1 + np.sqrt(2))) < 1e-12)
        True
        >>> round(half_circle.diameter(2), 6)
        2.0
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
