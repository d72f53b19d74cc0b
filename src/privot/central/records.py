"""What records are to the mechanism: points of a ball, by public maps, and back.

The mechanism projects *records*: r = e_y ⊗ φ(x), with a public feature map φ and the one-hot label
e_y (nothing to multiply with where there are no labels). It learns the **mean** of records well, and
anything else about them badly: a slice of one record is a little signal in much noise, but the mean of
many slices of many batches is known to a few percent of what a record adds. So what is wanted must be
made a mean. With the label multiplied in, the mean of a record holds every class's mean feature; with
products of coordinates among the features, its second moments.

**The square of a lifted vector.** For x ∈ R^p and an anchor a > 0 let x̃ = (x, a)/‖(x, a)‖ and
φ(x) = x̃ ⊗ x̃, each pair of coordinates once. Then ‖φ(x)‖ = ‖x̃‖² = 1 for every x: nothing is clipped,
no norm needs to be known. φ holds first moments (x_i a/‖·‖²), second moments, and the length. And
⟨φ(x), φ(x′)⟩ = ⟨x̃, x̃′⟩² ≥ 0 whatever the signs, so two records differ by at most √2·R: the
diameter of *non-negative* records, though coordinates have signs. (What the accountant's
`non_negative` rests on is ⟨r, r′⟩ ≥ 0 alone; records of different labels are orthogonal.)

Maps know nothing of privacy. They are functions of one record each and of public numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from scipy.fft import dct
from torch import Tensor

from privot.core.errors import PrivotError
from privot.schema import Box, Schema
from privot.schema.domains import from_unit


class RecordMap(Protocol):
    """A public map from raw values to features, and how labels enter."""

    @property
    @abstractmethod
    def num_labels(self) -> int:
        """Number of classes; 1 where there are no labels."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """Whom one record belongs to: what is promised is promised per unit."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features w of one record; records have num_labels · w coordinates."""

    @property
    @abstractmethod
    def non_negative(self) -> bool:
        """Whether ⟨r, r′⟩ ≥ 0 for any two records."""

    @abstractmethod
    def prepare(self, values: Tensor) -> Tensor:
        """What is kept of raw values (n, …), row by row: done once for a data set."""

    @abstractmethod
    def features(self, prepared: Tensor) -> Tensor:
        """Features (n, width), in or near the unit ball; differentiable."""


class Records(RecordMap):
    """The records of a schema: a map that begins at a table, and leads back to one.

    A network gives `outputs` numbers for a label, which `activate` makes raw values of.
    """

    schema: Schema

    @property
    def num_labels(self) -> int:
        """See `RecordMap`."""
        return 1

    @property
    def unit(self) -> str:
        """See `RecordMap`: the schema says it."""
        return self.schema.unit

    @property
    @abstractmethod
    def array_shape(self) -> tuple[int, ...]:
        """Shape of a raw value's numbers: an image's height, width and channels, or just how many."""

    @property
    def outputs(self) -> int:
        """How many numbers a raw value is."""
        return prod(self.array_shape)

    @abstractmethod
    def encode(self, table: pa.Table) -> tuple[Tensor, Tensor | None]:
        """Raw values (n, …) and labels (n,) of rows; None where there are no labels."""

    @abstractmethod
    def activate(self, outputs: Tensor) -> Tensor:
        """Raw values (n, …) of a network's outputs (n, outputs)."""

    @abstractmethod
    def decode(self, values: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        """A table of raw values and labels; codes are drawn from their probabilities."""

    def wanted(self, where: Mapping[str, Any]) -> Tensor:
        """Which labels (num_labels,) meet a condition."""
        if where:
            raise PrivotError(
                f"where names {', '.join(where)}: only labels of images can be asked for; draw more, "
                "and keep what fits"
            )
        return torch.ones(self.num_labels)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values that `records_of` makes it of again."""


def lift(x: Tensor, anchor: float) -> Tensor:
    """Unit vectors (x, a)/‖(x, a)‖ of shape (n, p+1)."""
    longer = torch.cat([x, torch.full_like(x[:, :1], anchor)], dim=1)
    return longer / longer.norm(dim=1, keepdim=True)


def square(x: Tensor) -> Tensor:
    """Products x_i x_j for i ≤ j, (n, p(p+1)/2), off-diagonal ones times √2: ‖square(x)‖ = ‖x‖²."""
    i, j = torch.triu_indices(x.shape[1], x.shape[1], device=x.device)
    weight = torch.where(i == j, 1.0, 2**0.5).to(x.dtype)
    # Picking rows is several times faster than picking columns.
    rows = x.T.contiguous()
    return (rows.index_select(0, i) * rows.index_select(0, j) * weight[:, None]).T


def width_of(coordinates: int, degree: int) -> int:
    """Number of features of p coordinates: p themselves, or those of the lifted vector's square."""
    if degree not in (1, 2):
        raise PrivotError(f"degree {degree}: give 1 or 2")
    return coordinates if degree == 1 else (coordinates + 1) * (coordinates + 2) // 2


# Tables as records: numbers in the unit interval, codes as one-hots, all from the public schema.
#
# A column of numbers becomes one coordinate in [0, 1] between its public bounds (a vector as many;
# its domain must be a box), any other column the one-hot of its public alphabet. With c scalars and
# alphabets, a row has norm at most √c: that, and nothing computed from data, scales degree 1 into the
# unit ball. Degree 2, the default, squares the lifted row: pairwise relations of all columns are then
# means. Every coordinate is non-negative, which Δ rests on: values that come from elsewhere than
# `encode` are cut to [0, 1], row by row. Nullable numbers are taken as codes, missing being one of
# them.


@dataclass(frozen=True)
class TableRecords(Records):
    """Rows of a table with a public schema; a label is a column like the others.

    Arguments:
        schema: What a row may be.
        degree: 1 for means of the coordinates, 2 for those of all pairs as well.
    """

    schema: Schema
    _: KW_ONLY
    degree: int = 2

    def __post_init__(self) -> None:
        _ = self.width  # building it checks the domains

    @property
    def non_negative(self) -> bool:
        """See `RecordMap`."""
        return True

    @cached_property
    def widths(self) -> dict[str, int]:
        """Number of coordinates by column."""
        return {
            name: self.schema.coded[name].alphabet.size
            if self._is_coded(name)
            else self._box(name).dimension
            for name in self.schema.columns
        }

    @cached_property
    def _scale(self) -> float:
        ones = [1 if self._is_coded(name) else width for name, width in self.widths.items()]
        return float(np.sqrt(sum(ones)))

    @property
    def array_shape(self) -> tuple[int, ...]:
        """See `Records`: the coordinates of a row."""
        return (sum(self.widths.values()),)

    @property
    def width(self) -> int:
        """See `RecordMap`."""
        return width_of(self.outputs, self.degree)

    def encode(self, table: pa.Table) -> tuple[Tensor, None]:
        """See `Records`: coordinates (n, p) in [0, 1]; numbers beyond their bounds are moved to them."""
        parts = []
        for name, width in self.widths.items():
            if self._is_coded(name):
                parts.append(np.eye(width)[self.schema.coded[name].encode_codes(name, table)])
            else:
                units = self.schema.point_column(name).encode_units(name, table)
                parts.append(np.clip((units + 1) / 2, 0.0, 1.0))
        return torch.from_numpy(np.concatenate(parts, axis=1)), None

    def prepare(self, values: Tensor) -> Tensor:
        """Coordinates (n, p), cut to [0, 1]: whoever gives others keeps the Δ that was paid for."""
        if tuple(values.shape[1:]) != (self.outputs,):
            raise PrivotError(
                f"rows have shape {tuple(values.shape[1:])}: give ({self.outputs},), as "
                "encode(table) does"
            )
        return values.clamp(0.0, 1.0)  # NaN stays NaN, and is refused by the mechanism

    def features(self, prepared: Tensor) -> Tensor:
        """See `RecordMap`."""
        scaled = prepared / self._scale
        return scaled if self.degree == 1 else square(lift(scaled, 1.0))

    def activate(self, outputs: Tensor) -> Tensor:
        """See `Records`: a sigmoid a number, a softmax an alphabet."""
        parts = zip(self.widths, outputs.split(list(self.widths.values()), dim=1), strict=True)
        values = [x.softmax(dim=1) if self._is_coded(name) else x.sigmoid() for name, x in parts]
        return torch.cat(values, dim=1)

    def decode(self, values: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        """See `Records`."""
        columns: dict[str, pa.Array] = {}
        within = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        parts = values.split(list(self.widths.values()), dim=1)
        for name, part in zip(self.widths, parts, strict=True):
            if self._is_coded(name):
                codes = _drawn(part, rng)
                columns |= self.schema.coded[name].decode_codes(name, codes, within)
            else:
                points = from_unit(self._box(name), part.double().numpy() * 2 - 1)
                columns |= self.schema.point_column(name).decode_points(name, points)
        return pa.table(columns).select(list(self.schema.table_columns))

    def _is_coded(self, name: str) -> bool:
        column = self.schema.columns[name]
        return column.domain is None or (column.nullable and column.is_number)

    def _box(self, name: str) -> Box:
        domain = self.schema.point_column(name).domain
        if not isinstance(domain, Box) or self.schema.columns[name].nullable:
            raise PrivotError(
                f"column {name!r} is no box of bounds, or may be missing as a whole: "
                "declare bounds for each of its coordinates"
            )
        return domain

    def to_dict(self) -> dict[str, Any]:
        """See `Records`."""
        return {"schema": self.schema.to_dict(), "degree": self.degree}


def _drawn(shares: Tensor, rng: torch.Generator) -> np.ndarray:
    """One code (n,) for each row of probabilities (n, k)."""
    if not len(shares):
        return np.zeros(0, np.int64)
    return torch.multinomial(shares, 1, replacement=True, generator=rng)[:, 0].numpy()


# Images with labels as records: low frequencies, then themselves or their squares, times the label.
#
# A schema declares them: one `array` column, whose bounds are 0 and 1 here, and at most one column of
# categories, the label. Pixels beyond the bounds are cut to them, one image at a time.
#
# The low-pass discrete cosine transform keeps the s × s coefficients of lowest frequency of an
# orthonormal transform: coordinates in which natural images are short. `degree` 1 takes them as
# features, divided by a public `scale` (and clipped by the mechanism); `degree` 2 takes the square of
# the lifted vector (`privot.central.records`), so that the mean record holds every class's mean and
# covariance.


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


# Which record map a schema has: of labeled images, or of rows of a table.


def records_of(schema: Schema, degree: int = 2, **of_images: Any) -> Records:
    """The records of a schema, by features of a degree: labeled images if it declares any.

    Examples:
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> records_of(schema).schema == schema
        True
    """
    if schema.images:
        return ImageRecords(schema, degree=degree, **of_images)
    return TableRecords(schema, degree=degree)
