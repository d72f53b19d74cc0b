r"""Domains: public sets of the values of one column, whose diameters determine the noise of reports.

A local randomizer must hide which of **any** two records of the domain 𝒳 was the true one, so the
sensitivity of reporting a record is the diameter

$$ Δ_p = \sup_{x, x' ∈ 𝒳} ‖x − x'‖_p , $$

not the radius: a ball of radius $r$ has diameter $2r$. (The 2023 version of the paper below uses the
radius, so its true ε are at least twice the printed ones.)

Every domain has *unit coordinates*, $u = (x − c) / s$, in which mechanisms add noise of one scale for
all coordinates. The center c and the scale s are functions of the public declaration alone. For a box,
s is half of each side, so that noise is proportional to each side; the unit ball has radius 1.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), section 5, for ℓ1 and ℓ2 balls.
    Duchi et al., *Efficient projections onto the ℓ1-ball for learning in high dimensions* (2008).
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.privacy.rounding import round_up, sum_up

Array = NDArray[np.float64]

# Lengths within these limits can be squared and divided without overflow or underflow.
_SMALLEST, _LARGEST = 1e-100, 1e100
# A box with a smaller ratio of width to largest bound has too few floats between its bounds.
_NARROW = 2.0**-30
# Points outside a ball are projected to this share of its radius, so that rounding never leaves it.
_INSIDE = 1.0 - 2.0**-40


@runtime_checkable
class Domain(Protocol):
    """Set of the possible values of one column; points are rows of shape (n, d)."""

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""

    @property
    def on_grid(self) -> bool:
        """Whether rounding to multiples of any 2^−k maps the domain to itself: Δ does not grow."""

    @property
    def symmetric(self) -> bool:
        """Whether u → −u maps the unit domain to itself; then no point is farther than Δ/2 from 0."""

    @property
    def area(self) -> Literal["box", "l1_ball", "l2_ball", "curve"] | None:
        """Shape of the unit domain, or of the set whose non-negative part it is; None for any other."""

    def diameter(self, norm: int) -> float:
        """Return the largest ℓ1 (`norm=1`) or ℓ2 (`norm=2`) distance of two points, rounded up."""

    def project(self, x: Array) -> Array:
        """Map points (n, d) into the domain; points of the domain do not change."""

    def far_apart(self) -> list[tuple[Array, Array]]:
        """Return pairs of points, each (d,), with the largest known ℓ1 and ℓ2 distances, for audits."""

    @property
    def center(self) -> Array:
        """Origin of the unit coordinates, shape (d,)."""

    @property
    def scale(self) -> Array:
        """Length of one unit in each coordinate, shape (d,)."""

    @property
    def unit(self) -> "Domain":
        """This domain in unit coordinates."""

    @property
    def program(self) -> dict[str, Any] | None:
        """The domain in a device's program (`privot.device.device`); None if devices have none."""


def to_unit(domain: Domain, x: Array) -> Array:
    """Return the unit coordinates $(x − c)/s$ of points (n, d)."""
    units = x - domain.center
    units /= domain.scale
    return units


def from_unit(domain: Domain, u: Array) -> Array:
    """Return the points $c + s·u$ of unit coordinates (n, d)."""
    points = domain.scale * u
    points += domain.center
    return points


def sqrt_up(square: Fraction | int) -> float:
    """Return a float that is at least the square root of an exact number, and nearly the smallest."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def check_norm(norm: int) -> None:
    """Raise PrivotError unless the norm is 1 or 2."""
    if norm not in (1, 2):
        raise PrivotError(f"norm {norm!r} is not known: use 1 or 2")


@dataclass(frozen=True)
class Box:
    """Box from `lower` to `upper` (d,); its diameter is the norm of the vector of side lengths.

    Examples:
        >>> Box((0.0, 0.0), (3.0, 4.0)).diameter(2)
        5.0

    Raises:
        PrivotError: unless all bounds are increasing pairs that floating point resolves.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    symmetric = True
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
            if largest > _LARGEST or high - low < max(_SMALLEST, _NARROW * largest):
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
        """Whether it is $[−1, 1]^d$, whose corners are multiples of every 2^−k."""
        return all(low == -1.0 for low in self.lower) and all(high == 1.0 for high in self.upper)

    def diameter(self, norm: int) -> float:
        """Return the ℓ1 or ℓ2 norm of the sides, rounded up."""
        check_norm(norm)
        # Equal sides are grouped, because a box of images has as many sides as pixels.
        counts = Counter(zip(self.lower, self.upper, strict=True))
        sides = [(n, Fraction(high) - Fraction(low)) for (low, high), n in counts.items()]
        if norm == 1:
            return round_up(sum((count * side for count, side in sides), Fraction(0)))
        return sqrt_up(sum(count * side**2 for count, side in sides))

    def project(self, x: Array) -> Array:
        """Clip every coordinate to its bounds."""
        return np.clip(x, self.lower, self.upper)

    def far_apart(self) -> list[tuple[Array, Array]]:
        """See `Domain`: two opposite corners."""
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
    def unit(self) -> "Box":
        """The box $[−1, 1]^d$."""
        return Box((-1.0,) * self.dimension, (1.0,) * self.dimension)

    @property
    def program(self) -> dict[str, Any]:
        """See `Domain`."""
        return {"area": self.area, "lower": list(self.lower), "upper": list(self.upper)}


@dataclass(frozen=True)
class _Ball:
    """Base of the ℓ1 and ℓ2 balls of a radius R around 0; the non-negative part has no x_j < 0."""

    dimension: int
    radius: float
    non_negative: bool = False

    def __post_init__(self) -> None:
        if not _SMALLEST <= self.radius <= _LARGEST:
            raise PrivotError(
                f"radius {self.radius} is not positive, or not between {_SMALLEST:g} and "
                f"{_LARGEST:g}: give a radius > 0, in another unit if need be"
            )
        if self.dimension < 1:
            raise PrivotError(f"dimension {self.dimension} is not positive: give a column or more")

    on_grid = False

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


@dataclass(frozen=True)
class L2Ball(_Ball):
    """Euclidean ball ‖x‖₂ ≤ R, or its non-negative part.

    Arguments:
        dimension: Number d ≥ 1 of coordinates.
        radius: R, from 1e-100 to 1e100; other radii and dimensions raise PrivotError.
        non_negative: Whether only points without negative coordinates belong to it.

    The ball has diameters Δ₂ = 2R and Δ₁ = 2R√d. The non-negative part (d ≥ 2) has Δ₂ = √2·R, since
    ‖x − x′‖² = ‖x‖² + ‖x′‖² − 2⟨x, x′⟩ ≤ 2R², and Δ₁ = R(√k + √(d−k)) with k = ⌊d/2⌋, between points
    with disjoint sets of nonzero coordinates.

    Examples:
        >>> L2Ball(2, radius=20.0).diameter(2)
        40.0
    """

    area: ClassVar[Literal["l2_ball"]] = "l2_ball"

    @property
    def program(self) -> dict[str, Any]:
        """See `Domain`."""
        return {"area": self.area, "radius": self.radius, "non_negative": self.non_negative}

    def diameter(self, norm: int) -> float:
        """See `Domain`; the class docstring states the formulas."""
        check_norm(norm)
        square = Fraction(self.radius) ** 2
        if not self.non_negative:
            return sqrt_up(4 * square * (self.dimension if norm == 1 else 1))
        if norm == 2:
            return sqrt_up(square * min(2, self.dimension))
        half = self.dimension // 2
        return sum_up(sqrt_up(square * k) for k in (half, self.dimension - half))

    def far_apart(self) -> list[tuple[Array, Array]]:
        """See `Domain`: a pair of points that is farthest apart in ℓ1 and in ℓ2."""
        d, half = self.dimension, self.dimension // 2
        if not self.non_negative:
            spread = np.full(d, self.radius / np.sqrt(d))
            return [(-spread, spread)]
        in_first = np.arange(d) < half  # the nonzero coordinates of the first point
        first, second = in_first / np.sqrt(max(1, half)), ~in_first / np.sqrt(d - half)
        return [(self.radius * first, self.radius * second)]

    def project(self, x: Array) -> Array:
        """Return the nearest points in ℓ2: set negative coordinates to 0 if required, then scale."""
        x = np.ascontiguousarray(x)  # then NumPy's sums of rows are pairwise, with smaller errors
        if self.non_negative:
            x = np.maximum(x, 0.0)
        # Divided by the largest coordinate, because squares of large numbers would overflow.
        largest = np.maximum(np.abs(x).max(axis=1, keepdims=True), self.radius * 2.0**-60)
        direction = x / largest
        length = np.sqrt((direction**2).sum(axis=1, keepdims=True))
        outside = length > self.radius / largest
        projected = direction / np.where(outside, length, 1.0) * (self.radius * _INSIDE)
        return np.where(outside, projected, x)


@dataclass(frozen=True)
class L1Ball(_Ball):
    """Ball ‖x‖₁ ≤ R, or its non-negative part; the arguments are those of `L2Ball`.

    The ball has diameters Δ₁ = Δ₂ = 2R, between opposite corners. The non-negative part (d ≥ 2) has
    Δ₁ = 2R and Δ₂ = √2·R, between any two corners other than 0.

    Examples:
        >>> L1Ball(3, radius=140.0).diameter(1)
        280.0
    """

    area: ClassVar[Literal["l1_ball"]] = "l1_ball"
    program = None

    def diameter(self, norm: int) -> float:
        """See `Domain`; the class docstring states the formulas."""
        check_norm(norm)
        if not self.non_negative:
            return 2 * self.radius
        if self.dimension == 1:
            return self.radius
        return 2 * self.radius if norm == 1 else sqrt_up(2 * Fraction(self.radius) ** 2)

    def far_apart(self) -> list[tuple[Array, Array]]:
        """See `Domain`: two corners."""
        corners = self.radius * np.eye(max(2, self.dimension))[:2, : self.dimension]
        return [(corners[1] if self.non_negative else -corners[0], corners[0])]

    def project(self, x: Array) -> Array:
        """Return the nearest points in ℓ2, by soft thresholding (Duchi et al. 2008).

        The threshold θ solves Σ max(|x_j| − θ, 0) = R, and is found by sorting the magnitudes.
        """
        x = np.ascontiguousarray(x)  # then NumPy's sums of rows are pairwise, with smaller errors
        if self.non_negative:
            x = np.maximum(x, 0.0)
        magnitude = np.abs(x)
        with np.errstate(over="ignore"):  # a point with an infinite sum is outside
            outside = magnitude.sum(axis=1) > self.radius
        if not outside.any():
            return x
        radius = self.radius * _INSIDE
        # A constant added to all magnitudes does not change the result. So the largest is moved to 0 and
        # values below −2R, which θ removes, are clipped: huge values would lose digits.
        shifted = magnitude[outside] - magnitude[outside].max(axis=1, keepdims=True)
        shifted = np.maximum(shifted, -2 * self.radius)
        descending = -np.sort(-shifted, axis=1)
        excess = np.cumsum(descending, axis=1) - radius
        counts = np.arange(1, self.dimension + 1)
        active = (descending - excess / counts > 0).sum(axis=1)  # number of nonzero results
        theta = excess[np.arange(len(active)), active - 1] / active
        result = x.copy()
        reduced = np.maximum(shifted - theta[:, None], 0.0)
        # Rounding errors of the cumulative sum add up in thousands of dimensions: scale once more.
        reduced *= np.minimum(1.0, radius / reduced.sum(axis=1, keepdims=True))
        result[outside] = np.sign(x[outside]) * reduced
        return result


_FAR = 1e6  # largest distance from the center before a projection, in halves of the longest side


@dataclass(frozen=True)
class Polyline:
    """Known support of records: the piecewise linear curve through m `corners` of d coordinates.

    If it is public knowledge that every record lies on a curve (a road, a coast, the half circle of the
    paper above), only the position on the curve has to be hidden. The distance of two points is convex
    in each of them, so its supremum over two segments is reached at their end points: the diameter is
    the largest distance of two corners, which is computed, not declared. Values off the curve are
    projected onto it, so the guarantee does not depend on the declaration being true.

    A guarantee in proportion to the distance of raw values does not hold on a curve: a curve is not
    convex, and two neighboring values off it may be projected to distant points.

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

    Raises:
        PrivotError: unless there are two different corners, with finite coordinates.
    """

    corners: tuple[tuple[float, ...], ...]

    on_grid = symmetric = False
    area: ClassVar[Literal["curve"]] = "curve"

    def __post_init__(self) -> None:
        lengths = {len(corner) for corner in self.corners}
        if len(self.corners) < 2 or len(lengths) != 1 or lengths == {0}:
            raise PrivotError(
                f"support has {len(self.corners)} corners of {sorted(lengths)} coordinates: "
                "give at least two points of the same number of coordinates"
            )
        if not (np.abs(self._points) <= _LARGEST).all():
            raise PrivotError(
                f"support has a corner that is not finite, or beyond {_LARGEST:g}: "
                "give coordinates in a larger unit"
            )
        if not np.ptp(self._points, axis=0).max() >= _SMALLEST:
            raise PrivotError("support is a single point: give at least two different corners")

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return len(self.corners[0])

    @cached_property
    def _points(self) -> Array:
        """Corners (m, d)."""
        return np.asarray(self.corners)

    def _distances(self, norm: int) -> Iterator[Array]:
        """Yield the ℓ1 or ℓ2 distances (m,) of all corners from each corner."""
        return (np.linalg.norm(self._points - corner, norm, axis=1) for corner in self._points)

    def diameter(self, norm: int) -> float:
        """Return the largest ℓ1 or ℓ2 distance of two corners, rounded up."""
        check_norm(norm)
        # The factor covers the rounding errors, a dozen of at most half a unit in the last place each.
        return float(max(row.max() for row in self._distances(norm))) * (1 + 2.0**-48)

    def far_apart(self) -> list[tuple[Array, Array]]:
        """See `Domain`: the two corners that are farthest in ℓ1, and those farthest in ℓ2."""
        farthest = [int(np.argmax([*self._distances(norm)])) for norm in (1, 2)]
        pairs = sorted({divmod(index, len(self.corners)) for index in farthest})
        return [(self._points[first], self._points[second]) for first, second in pairs]

    def project(self, x: Array) -> Array:
        """Return the points (n, d) of the curve nearest in ℓ2 to points (n, d), clipped to ±1e100."""
        # Far points, whose squares overflow, move towards the center: only their direction decides.
        offset = (np.clip(x, -_LARGEST, _LARGEST) - self.center) / self.scale
        shrink = np.abs(offset).max(axis=1, keepdims=True) / _FAR
        near = self.center + self.scale * (offset / np.maximum(shrink, 1.0))
        return self._nearest(np.where(shrink > 1, near, x))[0]

    def _nearest(self, x: Array) -> tuple[Array, Array]:
        """Return (the nearest points (n, d) of the curve, their arc lengths (n,)) of points (n, d)."""
        smallest, lengths = np.full(len(x), np.inf), np.zeros(len(x))
        points = np.array(x, dtype=float)
        corners, lengths_to = self._points, self._arc_lengths
        segments = zip(corners, corners[1:], lengths_to, lengths_to[1:], strict=False)
        for start, end, start_length, end_length in segments:
            direction = end - start
            square = float(direction @ direction) or 1.0  # 1 for a repeated corner
            share = np.clip((x - start) @ direction / square, 0, 1)
            candidate = start + share[:, None] * direction
            distance = ((x - candidate) ** 2).sum(axis=1)
            closer = distance < smallest
            smallest[closer], points[closer] = distance[closer], candidate[closer]
            lengths[closer] = (start_length + share * (end_length - start_length))[closer]
        return points, lengths

    @cached_property
    def _arc_lengths(self) -> Array:
        """Arc length (m,) of the curve up to each corner."""
        gaps = np.linalg.norm(np.diff(self._points, axis=0), axis=1)
        return np.concatenate([[0.0], np.cumsum(gaps)])

    @property
    def line(self) -> Box:
        """Interval of arc lengths, from the curve's beginning to its end."""
        return Box((0.0,), (float(self._arc_lengths[-1]),))

    def along(self, x: Array) -> Array:
        """Return the arc lengths (n, 1) at which the curve first passes through points (n, d) of it."""
        return self.line.project(self._nearest(x)[1][:, None])

    def at(self, lengths: Array) -> Array:
        """Return the points (n, d) of the curve at arc lengths (n, 1) from its beginning."""
        coordinates = self._points.T
        columns = [np.interp(lengths[:, 0], self._arc_lengths, column) for column in coordinates]
        return np.stack(columns, axis=1)

    @property
    def center(self) -> Array:
        """Middle of the bounding box."""
        return np.asarray((self._points.min(axis=0) + self._points.max(axis=0)) / 2)

    @property
    def scale(self) -> Array:
        """Half of the bounding box's longest side, the same for all coordinates."""
        return np.full(self.dimension, np.ptp(self._points, axis=0).max() / 2)

    program = None

    @property
    def unit(self) -> "Polyline":
        """This curve, centered and scaled so that its bounding box's longest side is 2."""
        points = ((self._points - self.center) / self.scale).clip(-1.0, 1.0)
        return Polyline(tuple(map(tuple, points.tolist())))
