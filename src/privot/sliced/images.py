r"""Images with labels as records: low frequencies, then themselves or their squares, times the label.

A schema declares them: one `array` column, whose bounds are 0 and 1 here, and at most one column of
categories, the label. Pixels beyond the bounds are cut to them, one image at a time.

The low-pass discrete cosine transform keeps the s × s coefficients of lowest frequency of an
orthonormal transform: coordinates in which natural images are short. `degree` 1 takes them as
features, divided by a public `scale` (and clipped by the mechanism); `degree` 2 takes the square of
the lifted vector (`privot.sliced.records`), so that the mean record holds every class's mean and
covariance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy.fft import dct
from torch import Tensor

from privot.errors import PrivotError
from privot.schema import Schema
from privot.sliced.records import Records, lift, square, width_of


@dataclass(frozen=True)
class ImageRecords(Records):
    """Images (n, height, width) or (n, channels, height, width) in [0, 1], and labels.

    Arguments:
        schema: One column of images, and at most one of categories.
        low_pass: Frequencies kept along each axis, at most all; None for the pixels themselves.
        degree: 1 for means of the coordinates, 2 for second moments as well.
        anchor: The constant a of the lifted vector, in units of an image's norm; of degree 2.
        scale: Norm of an image that becomes 1; of degree 1. Longer ones are clipped.

    Examples:
        >>> schema = Schema.from_dict({"columns": {
        ...     "image": {"kind": "array", "shape": [28, 28], "bounds": [0, 255]},
        ...     "digit": {"kind": "categorical", "categories": list("0123456789")},
        ... }})
        >>> images = ImageRecords(schema, low_pass=7)
        >>> images.width, images.num_labels * images.width
        (1275, 12750)
    """

    schema: Schema
    _: KW_ONLY
    low_pass: int | None = 7
    degree: int = 2
    anchor: float = 5.0
    scale: float = 12.0

    def __post_init__(self) -> None:
        labels = [name for name in self.schema.columns if name not in self.schema.images]
        coded = [name for name in labels if self.schema.columns[name].domain is None]
        if len(self.schema.images) != 1 or len(labels) > 1 or labels != coded:
            raise PrivotError(
                f"columns {', '.join(self.schema.columns)}: of images, declare one column, and at most "
                "one of categories beside it, their label"
            )
        if self.low_pass is not None and self.low_pass < 1:
            raise PrivotError(f"low_pass {self.low_pass}: give at least 1, or None")
        if not (self.anchor > 0 and self.scale > 0):
            raise PrivotError(f"anchor {self.anchor}, scale {self.scale}: give positive lengths")
        _ = self.width  # refuses other degrees

    @property
    def _column(self) -> str:
        return next(iter(self.schema.images))

    @property
    def _label(self) -> str | None:
        return next((name for name in self.schema.columns if name != self._column), None)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """See `Records`."""
        return self.schema.images[self._column].image_shape

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Height and width, or channels, height and width."""
        height, width, *channels = self.schema.images[self._column].shape
        return (*channels, height, width)

    @property
    def num_labels(self) -> int:
        """See `RecordMap`."""
        return 1 if self._label is None else self.schema.coded[self._label].alphabet.size

    @cached_property
    def _kept(self) -> tuple[int, int] | None:
        height, width = self.shape[-2:]
        if self.low_pass is None:
            return None
        return min(self.low_pass, height), min(self.low_pass, width)

    @property
    def num_coordinates(self) -> int:
        """Number p of coordinates of an image before features are made of them."""
        return int(np.prod(self.shape[:-2])) * int(np.prod(self._kept or self.shape[-2:]))

    @property
    def width(self) -> int:
        """See `RecordMap`."""
        return width_of(self.num_coordinates, self.degree)

    @property
    def non_negative(self) -> bool:
        """Squares always, pixels; not frequencies, which have signs."""
        return self.degree == 2 or self.low_pass is None

    def encode(self, table: pa.Table) -> tuple[Tensor, Tensor | None]:
        """See `Records`."""
        column = self.schema.images[self._column]
        raw = column.accept(self._column, table).reshape(-1, *column.shape)
        low, high = column.bounds
        values = torch.from_numpy((raw.astype(np.float32) - low) / (high - low))
        values = values.movedim(3, 1).contiguous() if values.ndim == 4 else values
        if self._label is None:
            return values, None
        return values, torch.from_numpy(
            self.schema.coded[self._label].encode_codes(self._label, table)
        )

    def prepare(self, values: Tensor) -> Tensor:
        """Coordinates (n, p) of pixels in [0, 1]; see `RecordMap`."""
        if tuple(values.shape[1:]) != self.shape:
            raise PrivotError(f"images have shape {tuple(values.shape[1:])}: give {self.shape}")
        return self.transform(values.clamp(0.0, 1.0))  # NaN stays NaN, and is refused

    def transform(self, pixels: Tensor) -> Tensor:
        """Coordinates (n, p) of images (n, *shape), whatever values they have; linear."""
        if self._kept is None:
            return pixels.flatten(1)
        rows, columns = (basis.to(pixels) for basis in self._bases)
        return (rows @ pixels @ columns.T).flatten(1)

    def features(self, prepared: Tensor) -> Tensor:
        """See `RecordMap`."""
        if self.degree == 1:
            return prepared / self.scale
        return square(lift(prepared, self.anchor))

    def activate(self, outputs: Tensor) -> Tensor:
        """See `Records`; outputs are in the order of an array's pixels, channels last."""
        pixels = torch.sigmoid(outputs).reshape(-1, *self.array_shape)
        return pixels.movedim(3, 1) if pixels.ndim == 4 else pixels

    def expand(self, coordinates: Tensor) -> Tensor:
        """Images (n, *shape) of coordinates (n, p), as they come."""
        if self._kept is None:
            return coordinates.reshape(-1, *self.shape)
        rows, columns = (basis.to(coordinates) for basis in self._bases)
        images: Tensor = rows.T @ coordinates.reshape(-1, *self.shape[:-2], *self._kept) @ columns
        return images

    def decode(self, values: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        """See `Records`."""
        last = values.movedim(1, 3) if values.ndim == 4 else values
        units = (2 * last - 1).flatten(1).numpy()
        columns = self.schema.images[self._column].decode_pixels(self._column, units)
        if self._label is not None:
            unused = np.random.default_rng(0)
            columns |= self.schema.coded[self._label].decode_codes(
                self._label, labels.numpy(), unused
            )
        return pa.table(columns).select(list(self.schema.table_columns))

    def wanted(self, where: Mapping[str, Any]) -> Tensor:
        """See `Records`."""
        if not where or set(where) != {self._label}:
            return super().wanted(where)
        asked, (name,) = where[self._label], where  # type: ignore[index]  # a key of it
        names = self.schema.coded[name].labels
        listed = [str(one) for one in (asked if isinstance(asked, list | tuple) else [asked])]
        unknown = [one for one in listed if one not in names]
        if unknown or not listed:
            raise PrivotError(f"where {name} = {asked!r}: give one of {', '.join(names)}")
        return torch.tensor([float(one in listed) for one in names])

    @cached_property
    def frequencies(self) -> np.ndarray:
        """Squared frequency of each coordinate (p,); zeros for pixels, which have none."""
        if self._kept is None:
            return np.zeros(self.num_coordinates)
        rows, columns = (np.arange(kept) ** 2 for kept in self._kept)
        one = (rows[:, None] + columns).ravel()
        return np.tile(one, self.num_coordinates // len(one))

    @cached_property
    def _bases(self) -> tuple[Tensor, Tensor]:
        return tuple(  # type: ignore[return-value]
            torch.from_numpy(dct(np.eye(size), norm="ortho", axis=0)[:kept])
            for size, kept in zip(self.shape[-2:], self._kept or (), strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """See `Records`."""
        return {
            "schema": self.schema.to_dict(),
            "low_pass": self.low_pass,
            "degree": self.degree,
            "anchor": self.anchor,
            "scale": self.scale,
        }
