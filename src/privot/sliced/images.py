r"""Images with labels as records: low frequencies, then themselves or their squares, times the label.

The low-pass discrete cosine transform keeps the s × s coefficients of lowest frequency of an
orthonormal transform: coordinates in which natural images are short. `degree` 1 takes them as
features, divided by a public `scale` (and clipped by the mechanism); `degree` 2 takes the square of
the lifted vector (`privot.sliced.records`), so that the mean record holds every class's mean and
covariance.

Pixels lie in [0, 1] by public convention; values outside are clipped, one image at a time.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.fft import dct
from torch import Tensor

from privot.errors import PrivotError
from privot.sliced.records import lift, square


@dataclass(frozen=True)
class LabeledImages:
    """Images (n, height, width) or (n, channels, height, width) in [0, 1], and labels.

    Arguments:
        shape: Height and width, or channels, height and width.
        unit: Whom one image belongs to, such as `"person"`; public.
        num_labels: Number of classes; 1 without labels.
        low_pass: Frequencies kept along each axis; None for the pixels themselves.
        degree: 1 for means of the coordinates, 2 for second moments as well.
        anchor: The constant a of the lifted vector, in units of an image's norm; of degree 2.
        scale: Norm of an image that becomes 1; of degree 1. Longer ones are clipped.

    Examples:
        >>> images = LabeledImages((28, 28), unit="patient", num_labels=10, low_pass=7)
        >>> images.width, images.num_labels * images.width
        (1275, 12750)
    """

    shape: tuple[int, ...]
    _: KW_ONLY
    unit: str
    num_labels: int = 1
    low_pass: int | None = 7
    degree: int = 2
    anchor: float = 5.0
    scale: float = 12.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if len(self.shape) not in (2, 3) or min(self.shape) < 1 or self.num_labels < 1:
            raise PrivotError(
                f"shape {self.shape} with {self.num_labels} labels: give (height, width) or "
                "(channels, height, width), and at least one label"
            )
        if self.low_pass is not None and not 1 <= self.low_pass <= min(self.shape[-2:]):
            raise PrivotError(f"low_pass {self.low_pass}: give 1 to {min(self.shape[-2:])}")
        if self.degree not in (1, 2) or not (self.anchor > 0 and self.scale > 0):
            raise PrivotError(
                f"degree {self.degree}, anchor {self.anchor}, scale {self.scale}: "
                "give degree 1 or 2 and positive lengths"
            )

    @property
    def num_coordinates(self) -> int:
        """Number p of coordinates of an image before features are made of them."""
        height, width = self.shape[-2:]
        each = height * width if self.low_pass is None else self.low_pass**2
        return each * (self.shape[0] if len(self.shape) == 3 else 1)

    @property
    def width(self) -> int:
        """See `RecordMap`."""
        longer = self.num_coordinates + 1
        return self.num_coordinates if self.degree == 1 else longer * (longer + 1) // 2

    @property
    def non_negative(self) -> bool:
        """Squares always, pixels; not frequencies, which have signs."""
        return self.degree == 2 or self.low_pass is None

    def prepare(self, values: Tensor) -> Tensor:
        """Coordinates (n, p) of pixels in [0, 1]; see `RecordMap`."""
        if tuple(values.shape[1:]) != self.shape:
            raise PrivotError(f"images have shape {tuple(values.shape[1:])}: give {self.shape}")
        pixels = values.clamp(0.0, 1.0)  # NaN stays NaN, and is refused by the mechanism
        if self.low_pass is None:
            return pixels.flatten(1)
        rows, columns = (basis.to(values) for basis in self._bases)
        return (rows @ pixels @ columns.T).flatten(1)

    def features(self, prepared: Tensor) -> Tensor:
        """See `RecordMap`."""
        if self.degree == 1:
            return prepared / self.scale
        return square(lift(prepared, self.anchor))

    def restore(self, coordinates: Tensor) -> Tensor:
        """Images (n, *shape) of coordinates (n, p), cut to [0, 1]."""
        return self.expand(coordinates).clamp(0.0, 1.0)

    def expand(self, coordinates: Tensor) -> Tensor:
        """Images (n, *shape) of coordinates (n, p), as they come."""
        if self.low_pass is None:
            return coordinates.reshape(-1, *self.shape)
        rows, columns = (basis.to(coordinates) for basis in self._bases)
        square_shape = (*self.shape[:-2], self.low_pass, self.low_pass)
        images: Tensor = rows.T @ coordinates.reshape(-1, *square_shape) @ columns
        return images

    @cached_property
    def frequencies(self) -> np.ndarray:
        """Squared frequency of each coordinate (p,); zeros for pixels, which have none."""
        if self.low_pass is None:
            return np.zeros(self.num_coordinates)
        along = np.arange(self.low_pass) ** 2
        one = (along[:, None] + along).ravel()
        return np.tile(one, self.num_coordinates // len(one))

    @cached_property
    def _bases(self) -> tuple[Tensor, Tensor]:
        return tuple(  # type: ignore[return-value]
            torch.from_numpy(dct(np.eye(size), norm="ortho", axis=0)[: self.low_pass])
            for size in self.shape[-2:]
        )

    def to_dict(self) -> dict[str, Any]:
        """See `RecordMap`."""
        return {"kind": "images", **asdict(self), "shape": list(self.shape)}
