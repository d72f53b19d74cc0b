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
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.schema.domains.lengths import check_norm, sqrt_up, up

Array = NDArray[np.float64]

# Lengths that floating point can square and divide without loss.
SMALLEST, LARGEST = 1e-100, 1e100
# A box this much narrower than its distance from 0 has too few floats between its bounds.
_NARROW = 2.0**-30
# Projections onto curved domains aim this much inside, so that rounding errors never leave them.
_INSIDE = 1.0 - 2.0**-40


@runtime_checkable
class Domain(Protocol):
    """The set that one record's value lies in; points are rows of shape (n, d)."""

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""

    @property
    def on_grid(self) -> bool:
        """Whether rounding to a grid 2^−k keeps points in the domain (then it costs nothing in Δ)."""

    @property
    def symmetric(self) -> bool:
        """Whether u → −u maps the unit domain to itself: 0 is Δ/2 from all of it at most."""

    @property
    def nonexpansive(self) -> bool:
        """Whether `project` moves no two points farther apart in ℓ2 (but for 2^−40 of the radius)."""

    def diameter(self, norm: int) -> float:
        """Largest distance of two points in the ℓ1 (`norm=1`) or ℓ2 (`norm=2`) norm, rounded up."""

    def project(self, x: Array) -> Array:
        """Map points (n, d) into the domain; points inside are left alone."""

    @property
    def center(self) -> Array:
        """Origin of the unit coordinates, shape (d,)."""

    @property
    def scale(self) -> Array:
        """Length of one unit in each coordinate, shape (d,)."""

    @property
    def unit(self) -> Domain:
        """This domain in unit coordinates."""


def to_unit(domain: Domain, x: Array) -> Array:
    """Coordinates $(x − c)/s$ of points (n, d)."""
    return (x - domain.center) / domain.scale


def from_unit(domain: Domain, u: Array) -> Array:
    """Points $c + s·u$ of unit coordinates (n, d)."""
    return domain.center + domain.scale * u


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
        sides = [
            Fraction(high) - Fraction(low) for low, high in zip(self.lower, self.upper, strict=True)
        ]
        return up(sum(sides)) if norm == 1 else sqrt_up(sum(side**2 for side in sides))

    def project(self, x: Array) -> Array:
        """Clip every coordinate to its bounds."""
        return np.clip(x, self.lower, self.upper)

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


@dataclass(frozen=True)
class _Ball:
    """What the ℓ1 and the ℓ2 ball share: center 0, a radius, optionally non-negative points only."""

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

    def project(self, x: Array) -> Array:
        """Nearest point in ℓ2: clip to the orthant if asked, then scale down to the radius."""
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

    def diameter(self, norm: int) -> float:
        """See the class: 2R, or √2·R in ℓ2 where non-negative; rounded up."""
        check_norm(norm)
        if not self.non_negative:
            return 2 * self.radius
        if self.dimension == 1:
            return self.radius
        return 2 * self.radius if norm == 1 else sqrt_up(2 * Fraction(self.radius) ** 2)

    def project(self, x: Array) -> Array:
        """Nearest point in ℓ2, by soft thresholding (Duchi et al. 2008).

        The threshold θ solves Σ max(|x_j| − θ, 0) = R; sorting the magnitudes finds it.
        """
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
