"""Array columns: images, reported with additive noise on their pixels or cosine coefficients.

Raw pixels lie between two public bounds, and unit coordinates are those in which the bounds are −1
and 1. Radii, and the standard deviations of noise, are in these units, as in the papers.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from privot.errors import PrivotError
from privot.schema.columns.declaration import Bounds, Declaration
from privot.schema.domains.domain import Array, Box
from privot.schema.domains.image import ImageDomain, check_shape


class ArrayColumn(Declaration):
    """An image of a public shape, whose pixels lie between two public bounds.

    Arguments:
        shape: `[height, width]` or `[height, width, channels]`.
        bounds: The darkest and the brightest value of a raw pixel, say `[0, 255]`.
        radius: Images farther than this from the center are pulled to it; no ball by default. Pixels
            are measured so that the bounds are −1 and 1.
        norm: Of that distance, 1 or 2.
        center: `"middle"` (all gray) or `"lower"` (the darkest image, as for pen strokes: then
            images of length R are √2·R apart instead of 2R).
        transform: `"pixels"`, or `"dct"` for orthonormal cosine coefficients.
        low_pass: Number of lowest frequencies kept along each axis; needs `"dct"`. Public.

    Examples:
        >>> column = ArrayColumn(
        ...     kind="array", shape=(28, 28), bounds=(0, 255), transform="dct", low_pass=14
        ... )
        >>> column.domain.dimension, round(column.domain.diameter(2), 6)
        (196, 56.0)
    """

    kind: Literal["array"]
    shape: tuple[int, ...]
    bounds: Bounds
    radius: float | None = None
    norm: Literal[1, 2] = 2
    center: Literal["middle", "lower"] = "middle"
    transform: Literal["pixels", "dct"] = "pixels"
    low_pass: int | None = None

    # An image is always there: a flag for a missing one would need a share of the budget.
    nullable: ClassVar[bool] = False

    @cached_property
    def domain(self) -> ImageDomain:
        """The set of encoded images."""
        check_shape(self.shape)
        kept = None
        if self.transform == "dct":
            height, width = self.shape[:2]
            most = height if self.low_pass is None else self.low_pass
            kept = (most, width if self.low_pass is None else self.low_pass)
        return ImageDomain(self.shape, self.radius, self.norm, self.center, kept)

    def table_columns(self, name: str) -> tuple[str, ...]:
        """Names of the table columns that hold this column's values: an image is one value."""
        return (name,)

    def to_unit_pixels(self, raw: NDArray[np.generic]) -> Array:
        """Raw pixels, any shape, so that the bounds are −1 and 1; not clipped."""
        low, high = self.bounds
        return (np.asarray(raw, np.float64) - (low + high) / 2) / ((high - low) / 2)

    def from_unit_pixels(self, units: NDArray[np.floating]) -> NDArray[np.float32]:
        """Raw pixels within the bounds, of unit pixels of any shape."""
        low, high = self.bounds
        raw = (low + high) / 2 + (high - low) / 2 * np.asarray(units, np.float32)
        return np.clip(raw, low, high).astype(np.float32)

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_shape(self.shape)
        Box((self.bounds[0],), (self.bounds[1],))  # checks the bounds
        if self.low_pass is not None:
            most = min(self.shape[:2])
            if self.transform != "dct":
                raise PrivotError(
                    f'low_pass {self.low_pass} needs cosine coefficients: declare transform = "dct"'
                )
            if not 1 <= self.low_pass <= most:
                raise PrivotError(f"low_pass {self.low_pass} is not between 1 and {most}")
        if self.radius is None and (self.norm, self.center) != (2, "middle"):
            raise PrivotError("norm and center are those of a ball: declare its radius, too")
        _ = self.domain
        return self
