r"""Record maps of tables, images and vectors: rows of a schema as tensors, and back.

`VectorRecords` maps rows to points of a cube and labels, for mixtures by noisy sums. `TableRecords` and
`ImageRecords` also compute features (`FeatureMap`) for the slicing mechanism (`privot.central.slices`).
It projects the vectors r = e_y ⊗ φ(x), with a public feature map φ and the one-hot label e_y; without
labels, r = φ(x). Slices of single records are mostly noise, but the **mean** of r is estimated well from
many slices of many batches. It contains every label's mean of φ(x), and so second moments if products of
coordinates are features.

**The square of a lifted vector**, the features of degree 2. For x ∈ R^p and an anchor a > 0 let
x̃ = (x, a)/‖(x, a)‖ and φ(x) = x̃ ⊗ x̃, with each pair of coordinates once. Then ‖φ(x)‖ = ‖x̃‖² = 1 for
every x, so no clipping norm is needed. φ contains first moments (x_i a/‖·‖²), second moments, and the
norm. Moreover ⟨φ(x), φ(x′)⟩ = ⟨x̃, x̃′⟩² ≥ 0 for all signs of coordinates, and records with different
labels are orthogonal. So ⟨r, r′⟩ ≥ 0, as the accountant's `non_negative` requires, and ‖r − r′‖ ≤ √2.

Maps do not add noise. Each is a function of one record and of public numbers.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy.fft import dct
from torch import Tensor

from privot.central.fitting import RecordMap, coded_column, unit_rows
from privot.core.errors import PrivotError
from privot.schema import Box, Schema
from privot.schema.domains import from_unit
from privot.schema.sampling import values_of


class FeatureMap(Protocol):
    """Public map from raw values to features."""

    @property
    def num_labels(self) -> int:
        """Number of labels; 1 if records have none."""

    @property
    def unit(self) -> str:
        """Owner of one record, such as a person, whom the guarantee protects."""

    @property
    def width(self) -> int:
        """Number w of features of one record; the vectors r have num_labels · w coordinates."""

    @property
    def non_negative(self) -> bool:
        """True if ⟨r, r′⟩ ≥ 0 for any two records."""

    def prepare(self, values: Tensor) -> Tensor:
        """Return coordinates (n, p) of raw values (n, …), each row computed from one record."""

    def features(self, prepared: Tensor) -> Tensor:
        """Return features (n, width), in or near the unit ball; differentiable."""


class LabeledRecords(RecordMap):
    """Map from rows of a schema to raw values and labels, and back."""

    @abstractmethod
    def encode(self, table: pa.Table) -> tuple[Tensor, Tensor]:
        """Return raw values (n, …) and labels (n,) of rows; labels are 0 if the schema has none."""

    @abstractmethod
    def decode(self, values: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        """Return the table of raw values (n, …) and labels (n,); `rng` draws codes and bins."""

    def encode_labels(self, table: pa.Table) -> Tensor:
        """Return the labels (n,) of rows."""
        if self.label is None:
            return torch.zeros(table.num_rows, dtype=torch.int64)
        return torch.from_numpy(self.schema.coded[self.label].encode_codes(self.label, table))

    def to_table(
        self, columns: dict[str, pa.Array], labels: Tensor, rng: np.random.Generator
    ) -> pa.Table:
        """Return the table of decoded columns and labels; a numeric label is drawn within its bin."""
        if self.label is not None:
            coded = self.schema.coded[self.label]
            columns = columns | coded.decode_codes(self.label, labels.numpy(), rng)
        return pa.table(columns).select(list(self.schema.table_columns))


class FeatureRecords(LabeledRecords, FeatureMap):
    """Records with features of `degree` 1 or 2, whose raw values a network can generate.

    A network computes `outputs` numbers for each record, which `activate` maps to raw values.
    """

    degree: int

    @property
    @abstractmethod
    def output_shape(self) -> tuple[int, ...]:
        """Shape of a network's outputs: (height, width[, channels]) of an image, or (p,) of a row."""

    @property
    def outputs(self) -> int:
        """Number of outputs, and of numbers in a raw value."""
        return prod(self.output_shape)

    @property
    def num_coordinates(self) -> int:
        """Number p of coordinates of a record, from which features are computed."""
        return self.outputs

    @property
    def width(self) -> int:
        """Number of features: p at degree 1, (p + 1)(p + 2)/2 at degree 2."""
        if self.degree not in (1, 2):
            raise PrivotError(f"degree {self.degree}: give 1 or 2")
        count = self.num_coordinates
        return count if self.degree == 1 else (count + 1) * (count + 2) // 2

    @abstractmethod
    def activate(self, outputs: Tensor) -> Tensor:
        """Return raw values (n, …) of a network's outputs (n, outputs)."""


def lift(x: Tensor, anchor: float) -> Tensor:
    """Return unit vectors (x, a)/‖(x, a)‖ of shape (n, p+1)."""
    longer = torch.cat([x, torch.full_like(x[:, :1], anchor)], dim=1)
    return longer / longer.norm(dim=1, keepdim=True)


def square(x: Tensor) -> Tensor:
    """Return products x_i x_j, i ≤ j, (n, p(p+1)/2), times √2 off the diagonal: ‖square(x)‖ = ‖x‖²."""
    i, j = torch.triu_indices(x.shape[1], x.shape[1], device=x.device)
    weight = torch.where(i == j, 1.0, 2**0.5).to(x.dtype)
    # Selecting rows is several times faster than selecting columns.
    rows = x.T.contiguous()
    return (rows.index_select(0, i) * rows.index_select(0, j) * weight[:, None]).T


@dataclass(frozen=True)
class TableRecords(FeatureRecords):
    """Map from rows of a table to coordinates in [0, 1]; there is no label.

    A number, and every number of a vector in a box, becomes one coordinate in [0, 1] by its public
    bounds. Any other column becomes the one-hot vector of its public codes; nullable numbers do as well,
    with one code for missing ones. With c numbers and one-hot vectors, a row has norm at most √c, by
    which it is divided. Degree 2 squares the lifted row, so that features contain all products of two
    coordinates. Δ requires non-negative coordinates: values that `encode` did not make are clipped.

    Arguments:
        schema: Schema of a row; vectors that are not in a box, or may be missing, are refused.
        degree: 1 for means of the coordinates, 2 for means of products of two coordinates as well.
    """

    schema: Schema
    _: KW_ONLY
    degree: int = 2

    non_negative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _ = self.width  # refuses invalid degrees and domains

    @cached_property
    def widths(self) -> dict[str, int]:
        """Number of coordinates by column."""
        widths = {}
        for name in self.schema.columns:
            column = coded_column(self.schema, name)
            widths[name] = column.alphabet.size if column else self._box(name).dimension
        return widths

    @cached_property
    def _max_norm(self) -> float:
        """Largest norm of a row: √c, for c numbers and one-hot vectors."""
        widths = self.widths.items()
        squares = [1 if coded_column(self.schema, name) else width for name, width in widths]
        return float(np.sqrt(sum(squares)))

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (sum(self.widths.values()),)

    def encode(self, table: pa.Table) -> tuple[Tensor, Tensor]:
        """See `LabeledRecords`: coordinates (n, p); numbers are clipped to their bounds."""
        return torch.from_numpy(unit_rows(self.schema, table)), self.encode_labels(table)

    def prepare(self, values: Tensor) -> Tensor:
        """Return coordinates (n, p), clipped to [0, 1], which the accounted Δ requires."""
        if tuple(values.shape[1:]) != (self.outputs,):
            raise PrivotError(
                f"rows have shape {tuple(values.shape[1:])}: give ({self.outputs},), as "
                "encode(table) does"
            )
        return values.clamp(0.0, 1.0)  # NaN stays NaN, and is refused by the mechanism

    def features(self, prepared: Tensor) -> Tensor:
        scaled = prepared / self._max_norm
        return scaled if self.degree == 1 else square(lift(scaled, 1.0))

    def activate(self, outputs: Tensor) -> Tensor:
        """See `FeatureRecords`: a sigmoid for each number, and a softmax for each column of codes."""
        values = [
            part.softmax(dim=1) if coded_column(self.schema, name) else part.sigmoid()
            for name, part in _by_column(outputs, self.widths)
        ]
        return torch.cat(values, dim=1)

    def decode(self, values: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        """See `LabeledRecords`; codes are drawn from their probabilities."""
        columns: dict[str, pa.Array] = {}
        numpy_rng = _numpy_generator(rng)
        for name, part in _by_column(values, self.widths):
            if column := coded_column(self.schema, name):
                codes = np.zeros(0, np.int64)
                if len(part):
                    drawn = torch.multinomial(part, 1, replacement=True, generator=rng)
                    codes = drawn[:, 0].numpy()
                columns |= column.decode_codes(name, codes, numpy_rng)
            else:
                points = from_unit(self._box(name), part.double().numpy() * 2 - 1)
                columns |= self.schema.point_column(name).decode_points(name, points)
        return self.to_table(columns, labels, numpy_rng)

    def _box(self, name: str) -> Box:
        """Return the box of a column that is not represented by codes; refuse other domains."""
        domain = self.schema.point_column(name).domain
        if not isinstance(domain, Box) or self.schema.columns[name].nullable:
            raise PrivotError(
                f"column {name!r} is no vector in a box, or may be missing: declare bounds of each "
                "coordinate, and fill in missing vectors"
            )
        return domain


def _by_column(values: Tensor, widths: Mapping[str, int]) -> Iterator[tuple[str, Tensor]]:
    """Return each column's name with its coordinates (n, width)."""
    return zip(widths, values.split(list(widths.values()), dim=1), strict=True)


def _numpy_generator(rng: torch.Generator) -> np.random.Generator:
    """Return a NumPy generator seeded with a draw from PyTorch's generator."""
    return np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))


@dataclass(frozen=True)
class VectorRecords(LabeledRecords):
    """Map from rows of vectors in boxes to points of [−1, 1]^d and labels.

    Arguments:
        schema: Vectors in boxes, none of which may be missing, and at most one column of codes.

    Examples:
        >>> vectors = VectorRecords(Schema.from_dict({"columns": {
        ...     "place": {"kind": "vector", "columns": list("wxyz"), "bounds": [[0, 1]] * 4},
        ...     "sick": {"kind": "boolean"},
        ... }}))
        >>> vectors.label, vectors.num_labels, vectors.dimension
        ('sick', 2, 4)
    """

    schema: Schema

    @property
    def label(self) -> str | None:
        return next(iter(self.schema.coded), None)

    @cached_property
    def _widths(self) -> dict[str, int]:
        """Number of coordinates by column of vectors, in the schema's order."""
        vectors = [name for name in self.schema.columns if name != self.label]
        return {name: self.schema.points[name].domain.dimension for name in vectors}

    @property
    def dimension(self) -> int:
        """Number d of coordinates of a row."""
        return sum(self._widths.values())

    def encode(self, table: pa.Table) -> tuple[Tensor, Tensor]:
        """See `LabeledRecords`: points (n, d); numbers are clipped to their bounds."""
        parts = [self.schema.points[name].encode_units(name, table) for name in self._widths]
        points = np.clip(np.concatenate(parts, axis=1), -1.0, 1.0)
        return torch.from_numpy(points), self.encode_labels(table)

    def decode(self, values: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        columns: dict[str, pa.Array] = {}
        for name, part in _by_column(values.double(), self._widths):
            column = self.schema.points[name]
            columns |= column.decode_points(name, from_unit(column.domain, part.numpy()))
        return self.to_table(columns, labels, _numpy_generator(rng))


@dataclass(frozen=True)
class ImageRecords(FeatureRecords):
    """Map to images (n, height, width) or (n, channels, height, width) in [0, 1], and labels.

    The bounds of pixels become 0 and 1, and pixels are clipped to them. A column of categories is the
    label.

    The coordinates of an image are its s × s coefficients of lowest frequency in the orthonormal
    discrete cosine transform, which contain most of the norm of natural images. At `degree` 1 the
    features are coordinates, divided by a public `scale`; at `degree` 2 the square of the lifted vector,
    so that their mean contains every label's mean and covariance.

    Arguments:
        schema: One `array` column, and at most one column of categories; others are refused.
        low_pass: Number s of frequencies along each axis (all, if it has fewer); None for pixels.
        degree: 1 for means of the coordinates, 2 for second moments as well.
        anchor: Positive constant a of the lifted vector, of the order of an image's norm for pixels in
            [0, 1]; for degree 2.
        scale: Positive number by which features of degree 1 are divided; larger images are clipped.

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
        categorical = all(self.schema.columns[name].domain is None for name in labels)
        if len(self.schema.images) != 1 or len(labels) > 1 or not categorical:
            raise PrivotError(
                f"columns {', '.join(self.schema.columns)}: declare one column of images, and at most "
                "one column of categories, their label"
            )
        if self.low_pass is not None and self.low_pass < 1:
            raise PrivotError(f"low_pass {self.low_pass}: give at least 1, or None")
        if not (self.anchor > 0 and self.scale > 0):
            raise PrivotError(f"anchor {self.anchor}, scale {self.scale}: give positive numbers")
        _ = self.width  # refuses invalid degrees

    @property
    def _column(self) -> str:
        return next(iter(self.schema.images))

    @property
    def label(self) -> str | None:
        return next((name for name in self.schema.columns if name != self._column), None)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """See `FeatureRecords`: the declared shape, channels last."""
        return self.schema.images[self._column].image_shape

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of a raw value: (height, width), or (channels, height, width)."""
        height, width, *channels = self.schema.images[self._column].shape
        return (*channels, height, width)

    @cached_property
    def _retained(self) -> tuple[int, int] | None:
        """Number of frequencies along the height and the width; None for pixels."""
        height, width = self.shape[-2:]
        if self.low_pass is None:
            return None
        return min(self.low_pass, height), min(self.low_pass, width)

    @property
    def num_coordinates(self) -> int:
        """See `FeatureRecords`: the number of retained coefficients, or of all pixels."""
        return prod(self.shape[:-2]) * prod(self._retained or self.shape[-2:])

    @property
    def non_negative(self) -> bool:
        """See `FeatureMap`: False only for coefficients at degree 1, which may be negative."""
        return self.degree == 2 or self.low_pass is None

    def encode(self, table: pa.Table) -> tuple[Tensor, Tensor]:
        column = self.schema.images[self._column]
        raw = column.accept(self._column, table).reshape(-1, *column.shape)
        low, high = column.bounds
        values = torch.from_numpy((raw.astype(np.float32) - low) / (high - low))
        values = values.movedim(3, 1).contiguous() if values.ndim == 4 else values
        return values, self.encode_labels(table)

    def allowed(self, where: Mapping[str, Any]) -> NDArray[np.float32]:
        """See `RecordMap`; a category with a numeric name may be given as a number."""
        names = {column: [str(value) for value in values_of(v)] for column, v in where.items()}
        return super().allowed(names)

    def prepare(self, values: Tensor) -> Tensor:
        """See `FeatureMap`: coordinates (n, p) of pixels in [0, 1]."""
        if tuple(values.shape[1:]) != self.shape:
            raise PrivotError(f"images have shape {tuple(values.shape[1:])}: give {self.shape}")
        return self.transform(values.clamp(0.0, 1.0))  # NaN stays NaN, and is refused

    def transform(self, pixels: Tensor) -> Tensor:
        """Return coordinates (n, p) of images (n, *shape), without clipping pixels."""
        if self._retained is None:
            return pixels.flatten(1)
        rows, columns = (basis.to(pixels) for basis in self._bases)
        return (rows @ pixels @ columns.T).flatten(1)

    def features(self, prepared: Tensor) -> Tensor:
        if self.degree == 1:
            return prepared / self.scale
        return square(lift(prepared, self.anchor))

    def activate(self, outputs: Tensor) -> Tensor:
        """See `FeatureRecords`: sigmoids, with the channels moved to the front."""
        pixels = torch.sigmoid(outputs).reshape(-1, *self.output_shape)
        return pixels.movedim(3, 1) if pixels.ndim == 4 else pixels

    def expand(self, coordinates: Tensor) -> Tensor:
        """Return images (n, *shape) of coordinates (n, p), not clipped to [0, 1]."""
        if self._retained is None:
            return coordinates.reshape(-1, *self.shape)
        rows, columns = (basis.to(coordinates) for basis in self._bases)
        shape = (-1, *self.shape[:-2], *self._retained)
        images: Tensor = rows.T @ coordinates.reshape(shape) @ columns
        return images

    def decode(self, values: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        channels_last = values.movedim(1, 3) if values.ndim == 4 else values
        units = (2 * channels_last - 1).flatten(1).numpy()
        columns = self.schema.images[self._column].decode_pixels(self._column, units)
        return self.to_table(columns, labels, np.random.default_rng(0))  # categories draw nothing

    @cached_property
    def squared_frequencies(self) -> np.ndarray:
        """Squared frequency f² of each coordinate (p,); zeros for pixels."""
        if self._retained is None:
            return np.zeros(self.num_coordinates)
        rows, columns = (np.arange(count) ** 2 for count in self._retained)
        squares = (rows[:, None] + columns).ravel()
        return np.tile(squares, self.num_coordinates // len(squares))  # the same for each channel

    @cached_property
    def _bases(self) -> tuple[Tensor, Tensor]:
        """Rows of the orthonormal cosine transform for the retained frequencies, of both axes."""
        return tuple(  # type: ignore[return-value]  # two: `shape[-2:]` has two sizes
            torch.from_numpy(dct(np.eye(size), norm="ortho", axis=0)[:count])
            for size, count in zip(self.shape[-2:], self._retained or (), strict=True)
        )


def records_of(schema: Schema, degree: int = 2, **image_options: Any) -> FeatureRecords:
    """Return `ImageRecords` with these options if the schema has images, otherwise `TableRecords`."""
    if schema.images:
        return ImageRecords(schema, degree=degree, **image_options)
    return TableRecords(schema, degree=degree)
