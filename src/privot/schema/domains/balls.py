"""Balls about 0: of the ℓ1 and the ℓ2 norm, optionally of non-negative points only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np

from privot.errors import PrivotError
from privot.schema.domains.domain import LARGEST, SMALLEST, Array, check_norm, sqrt_up, up

# Projections aim this much inside, so that rounding errors never leave the ball.
_INSIDE = 1.0 - 2.0**-40


@dataclass(frozen=True)
class _Ball:
    """What the balls share."""

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
        """Nearest point in ℓ2: clip to the orthant if asked, then scale down to the radius."""
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
