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
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError

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
        """Whether rounding to a grid 2^−k keeps points in the domain (then it costs nothing in Δ)."""

    @property
    def symmetric(self) -> bool:
        """Whether u → −u maps the unit domain to itself: 0 is Δ/2 from all of it at most."""

    @property
    def area(self) -> Literal["box", "l1_ball", "l2_ball", "curve"] | None:
        """What the unit domain is, or is the non-negative part of; None of any other."""

    @property
    def nonexpansive(self) -> bool:
        """Whether `project` moves no two points farther apart in ℓ2 (but for 2^−40 of the radius)."""

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
        """How a device projects to it (`privot.device.values`); None if it takes more than that."""


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
