r"""Augmentation: drawn images are moved, turned and stretched a little, at random and in public.

Pixel p of a moved image, counted from the middle, shows what the drawn one has at

$$ \begin{pmatrix} \cos θ / (1 + z) & a − \sin θ \\ \sin θ & \cos θ / (1 + z') \end{pmatrix} p + t , $$

with θ, z, z′, a and both coordinates of t uniform between minus and plus what is declared, by bilinear
interpolation; beyond the edge is the nearest pixel. Values are averages of an image's own, so bounds are
kept.

**Privacy review.** Adjacency: any two records. What is declared is public, written by hand. It is
applied to what a model draws, never to records: no report, sum or slice depends on it, and what it does
to a draw is a function of that draw and of the sample's coins (post-processing).

References:
    Simard, Steinkraus, Platt, *Best practices for convolutional neural networks applied to visual
    document analysis* (2003).
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, model_validator

from privot.errors import PrivotError

Images = NDArray[np.float32]
_CHUNK = 2048


class Augment(BaseModel):
    """How far drawn images are moved; nothing is, by what is left at 0.

    Arguments:
        shift: Pixels along each axis.
        turn: Degrees.
        stretch: Share of the size, along each axis.
        shear: Slant: pixels across, for each pixel from the middle down.

    Raises:
        PrivotError: if one is negative or more than an image can bear, or all are 0.

    Examples:
        >>> images = np.zeros((3, 8, 8), np.float32)
        >>> images[:, 3:5, 3:5] = 1
        >>> moved = Augment(shift=1.5).moved(images, np.random.default_rng(0))
        >>> moved.shape, bool(abs(moved.sum(axis=(1, 2)) - 4).max() < 1e-5)
        ((3, 8, 8), True)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    shift: float = 0.0
    turn: float = 0.0
    stretch: float = 0.0
    shear: float = 0.0

    def moved(self, images: Images, rng: np.random.Generator) -> Images:
        """Images (n, height, width), or with channels behind, each moved by coins of its own."""
        parts = [
            self._moved(images[start : start + _CHUNK], rng)
            for start in range(0, len(images), _CHUNK)
        ]
        return np.concatenate(parts) if parts else images

    def _moved(self, images: Images, rng: np.random.Generator) -> Images:
        def within(most: float) -> Images:
            return rng.uniform(-most, most, (len(images), 1)).astype(np.float32)

        turn = within(math.radians(self.turn))
        height, width = images.shape[1:3]
        middle = (height - 1) / 2, (width - 1) / 2
        down, across = (
            (grid.ravel() - half).astype(np.float32)
            for grid, half in zip(np.indices((height, width)), middle, strict=True)
        )
        columns = np.cos(turn) / (1 + within(self.stretch)) * across
        columns += (within(self.shear) - np.sin(turn)) * down + within(self.shift)
        rows = np.cos(turn) / (1 + within(self.stretch)) * down
        rows += np.sin(turn) * across + within(self.shift)
        return _interpolated(images, rows + middle[0], columns + middle[1])

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = {name: getattr(self, name) for name in type(self).model_fields}
        for name, value in given.items():
            most = {"shift": math.inf, "turn": 180.0}.get(name, 0.9)
            if not 0 <= value <= most:
                remedy = "a positive number" if most == math.inf else f"a number from 0 to {most:g}"
                raise PrivotError(f"augment {name} {value:g}: give {remedy}")
        if not any(given.values()):
            raise PrivotError(f"augment moves nothing: give one of {', '.join(given)}")
        return self


def _interpolated(images: Images, rows: Images, columns: Images) -> Images:
    """Images at places (n, pixels), bilinearly; the nearest pixel beyond the edge."""
    count, height, width = images.shape[:3]
    rows, columns = np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)
    top = np.minimum(rows.astype(np.int64), max(height - 2, 0))
    left = np.minimum(columns.astype(np.int64), max(width - 2, 0))
    down, across = (rows - top)[..., None], (columns - left)[..., None]
    flat = images.reshape(count, height * width, -1)
    first = (np.arange(count) * height * width)[:, None] + top * width + left
    pixels = flat.reshape(count * height * width, -1)
    below, right = (width if height > 1 else 0), (1 if width > 1 else 0)
    upper = (1 - across) * pixels[first] + across * pixels[first + right]
    lower = (1 - across) * pixels[first + below] + across * pixels[first + below + right]
    found: Images = ((1 - down) * upper + down * lower).astype(images.dtype)
    return found.reshape(images.shape)
