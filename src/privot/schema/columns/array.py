"""Array columns: images, reported with additive noise on their pixels or cosine coefficients.

Raw pixels lie between two public bounds. In unit coordinates the bounds are −1 and 1; radii and standard
deviations of noise are in these units, as in the literature.

In a table, images are one column of tensors, whose type includes the shape: Arrow's canonical extension
type (`arrow.fixed_shape_tensor`), which Parquet preserves. Plain lists of the same number of values are
read, too. Any other shape is refused, because images with swapped axes would raise no error later.
"""

import math
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, model_validator

from privot.core.errors import PrivotError
from privot.schema.columns.column import Bounds, PointColumn, TableColumns
from privot.schema.columns.raw_values import Problem
from privot.schema.domains import Array, Box
from privot.schema.images import ImageDomain, check_shape

Images = NDArray[np.float32]
Values = NDArray[Any]
_CHUNK = 2048  # number of images that are moved at once


class Augment(BaseModel):
    r"""Random shifts, rotations, stretches and shears of sampled images; size 0 means none.

    The pixel of a moved image at position p (column, row), relative to the middle, has the value of the
    sampled image at

    $$ \begin{pmatrix} \cos θ / (1 + z) & a − \sin θ \\ \sin θ & \cos θ / (1 + z') \end{pmatrix} p
       + t , $$

    by bilinear interpolation; outside the image, the value of the nearest pixel is used. The rotation θ,
    the stretches z and z′, the shear a and both coordinates of the shift t are uniform between minus and
    plus the declared size. Values are averages of the image's pixels, so they respect the bounds.

    **Privacy review.** Adjacency: any two records. The sizes are public, written by hand. Movements are
    applied to samples of a model, never to records: no report, sum or slice depends on them, and a moved
    image is a function of a sample and of random numbers (post-processing).

    References:
        Simard, Steinkraus, Platt, *Best practices for convolutional neural networks applied to visual
        document analysis* (2003).

    Arguments:
        shift: Largest shift along each axis, in pixels.
        turn: Largest rotation, in degrees.
        stretch: Largest stretch along each axis, as a share of the size.
        shear: Largest shear, in pixels across for each pixel from the middle down.

    Raises:
        PrivotError: if a size is negative or above its limit, or all are 0.

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
        """Return images (n, height, width[, channels]), each moved at random."""
        starts = range(0, len(images), _CHUNK)
        parts = [self._moved(images[start : start + _CHUNK], rng) for start in starts]
        return np.concatenate(parts) if parts else images

    def _moved(self, images: Images, rng: np.random.Generator) -> Images:
        """Return images, each moved at random, all at once."""

        def draw(most: float) -> Images:
            """Draw a number for each image (n, 1), uniform from −most to most."""
            return rng.uniform(-most, most, (len(images), 1)).astype(np.float32)

        angle = draw(math.radians(self.turn))
        height, width = images.shape[1:3]
        middle_row, middle_column = (height - 1) / 2, (width - 1) / 2
        grid_rows, grid_columns = np.indices((height, width))
        down = (grid_rows.ravel() - middle_row).astype(np.float32)
        across = (grid_columns.ravel() - middle_column).astype(np.float32)
        columns = np.cos(angle) / (1 + draw(self.stretch)) * across
        columns += (draw(self.shear) - np.sin(angle)) * down + draw(self.shift)
        rows = np.cos(angle) / (1 + draw(self.stretch)) * down
        rows += np.sin(angle) * across + draw(self.shift)
        moved = interpolate(images, rows + middle_row, columns + middle_column)
        return moved.astype(images.dtype).reshape(images.shape)

    @model_validator(mode="after")
    def _check(self) -> Self:
        sizes = {name: getattr(self, name) for name in type(self).model_fields}
        for name, size in sizes.items():
            most = {"shift": math.inf, "turn": 180.0}.get(name, 0.9)
            if not 0 <= size <= most:
                remedy = "a positive number" if most == math.inf else f"a number from 0 to {most:g}"
                raise PrivotError(f"augment {name} {size:g}: give {remedy}")
        if not any(sizes.values()):
            raise PrivotError(f"augment moves nothing: give one of {', '.join(sizes)}")
        return self


def interpolate(images: Values, rows: Values, columns: Values) -> Values:
    """Interpolate images (n, height, width[, c]) bilinearly at k positions each; return (n, k, c).

    The positions have real-valued `rows` and `columns` (n, k), which are clipped to the image.
    """
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
    return (1 - down) * upper + down * lower


class ArrayColumn(PointColumn):
    """Column of images of a public shape, whose pixels lie between two public bounds.

    Arguments:
        shape: `[height, width]` or `[height, width, channels]`.
        bounds: Darkest and brightest value of a raw pixel, for example `[0, 255]`.
        radius: Largest distance R from the center, in unit coordinates; images farther away are
            projected. No limit by default.
        norm: Norm of that distance, 1 or 2.
        center: `"middle"` (all gray), or `"lower"` (the darkest image) for images such as pen strokes,
            whose diameter is then √2·R instead of 2R.
        transform: `"pixels"`, or `"dct"` for orthonormal cosine coefficients.
        low_pass: Public number of lowest frequencies retained along each axis; needs `"dct"`.
        augment: Random movements of sampled images; never applied to private ones.

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
    augment: Augment | None = None

    # Images cannot be missing, because reporting whether one is would need a share of ε.
    nullable: Literal[False] = False

    @cached_property
    def domain(self) -> ImageDomain:
        """Set of the encoded images."""
        low_pass = None
        if self.transform == "dct":
            height, width = self.shape[:2]
            low_pass = (self.low_pass or height, self.low_pass or width)
        return ImageDomain(self.shape, self.radius, self.norm, self.center, low_pass)

    @property
    def image_shape(self) -> tuple[int, ...]:
        return self.shape

    def to_unit_pixels(self, raw: NDArray[np.generic]) -> Array:
        """Map raw pixels of any shape to unit pixels: the bounds become −1 and 1; nothing is clipped."""
        low, high = self.bounds
        return (np.asarray(raw, np.float64) - (low + high) / 2) / ((high - low) / 2)

    def from_unit_pixels(self, units: NDArray[np.floating]) -> NDArray[np.float32]:
        """Map unit pixels of any shape to raw pixels, clipped to the bounds."""
        raw = self._raw_pixels(np.asarray(units, np.float32))
        return np.clip(raw, *self.bounds).astype(np.float32)

    def _raw_pixels(self, units: NDArray[np.floating]) -> NDArray[np.floating]:
        """Map unit pixels to raw pixels, not clipped."""
        low, high = self.bounds
        return (low + high) / 2 + (high - low) / 2 * units

    def read(self, name: str, table: pa.Table) -> tuple[NDArray[np.generic], list[Problem]]:
        """Return (raw pixels (n, N), in the order height, width, channels; all problems).

        Missing images are left out.

        Raises:
            PrivotError: for images of another shape, or without numbers.
        """
        values, wanted = table.column(name), self.shape
        kind = values.type
        if is_tensor(kind):
            actual = tuple(kind.shape)
            if kind.permutation is not None or not _same_shape(actual, wanted):
                raise PrivotError(_shape_message(name, actual, wanted))
        elif not isinstance(kind, pa.FixedSizeListType | pa.ListType | pa.LargeListType):
            raise PrivotError(
                f"column {name!r} has type {str(kind).partition('<')[0]}: give an array of shape "
                f"(n, {_shape_text(wanted)}), or a folder of images"
            )
        problems = []
        if values.null_count:
            remedy = "remove the row, by a rule that does not look at other people's records"
            problems.append(Problem(name, "has no image", remedy, np.asarray(values.is_null())))
            values = values.drop_null()
        parts = [_pixel_rows(name, _storage(chunk), wanted) for chunk in values.chunks]
        raw = np.concatenate(parts) if parts else np.zeros((0, self.domain.num_pixels))
        infinite = np.asarray(~np.isfinite(raw).all(axis=1))
        if infinite.any() and not problems:
            remedy = "give finite numbers only"
            problems.append(Problem(name, "has a pixel that is not finite", remedy, infinite))
        return raw, problems

    def encode_points(self, name: str, table: pa.Table) -> Array:
        """See `PointColumn`: encoded images are in the domain already, in unit coordinates."""
        return self.domain.encode(self.to_unit_pixels(self.accept(name, table)))

    def encode_units(self, name: str, table: pa.Table) -> Array:
        return self.encode_points(name, table)

    def decode_points(self, name: str, points: Array) -> TableColumns:
        return self.decode_pixels(name, self.domain.decode(points))

    def _write_points(self, name: str, points: Array) -> TableColumns:
        return self.decode_points(name, points)

    def decode_pixels(self, name: str, pixels: NDArray[np.floating]) -> TableColumns:
        """Return the table column of images (n, N) in unit pixels, clipped to the bounds."""
        return self._write_pixels(name, self.from_unit_pixels(pixels))

    def _write_pixels(self, name: str, raw: NDArray[np.floating]) -> TableColumns:
        """Return the table column of raw pixels (n, N)."""
        return {name: tensor_array(raw.reshape(len(raw), *self.shape))}

    def augmented(self, name: str, table: pa.Table, rng: np.random.Generator) -> pa.Table:
        """Return a table of sampled records after the random movements that the schema declares."""
        if self.augment is None:
            return table
        images = tensor_values(table.column(name)).astype(np.float32)
        moved = tensor_array(self.augment.moved(images, rng))
        return table.set_column(table.column_names.index(name), name, moved)

    def count_outside(self, name: str, table: pa.Table) -> int:
        units = self.to_unit_pixels(self.accept(name, table))
        moved = np.abs(self.domain.encode(units) - self.domain.transform(units)) > 1e-9
        return int(moved.any(axis=1).sum())

    def make_up_points(self, name: str, units: Array) -> TableColumns:
        return self._write_pixels(name, self._raw_pixels(self.domain.decode(units)))

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


def tensor_array(values: NDArray[np.generic]) -> pa.Array:
    """Return values (n, …) as an Arrow array of n tensors."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    shape = values.shape[1:]
    storage = pa.FixedSizeListArray.from_arrays(flat, int(np.prod(shape)))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, shape), storage)


def tensor_values(values: pa.ChunkedArray) -> NDArray[np.generic]:
    """Return the numbers (n, …) of a table column of tensors."""
    parts = [np.asarray(_storage(chunk).flatten()) for chunk in values.chunks]
    flat = np.concatenate(parts) if parts else np.zeros(0)
    return flat.reshape(len(values), *values.type.shape)


def is_tensor(kind: pa.DataType) -> bool:
    """Return whether a type is that of tensors of a fixed shape."""
    return isinstance(kind, pa.FixedShapeTensorType)


def _storage(chunk: pa.Array) -> pa.Array:
    """Return the lists of numbers of tensors; other arrays unchanged."""
    return chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk


def _pixel_rows(name: str, lists: pa.Array, wanted: tuple[int, ...]) -> NDArray[np.generic]:
    """Return the numbers (n, N) of lists; raise PrivotError unless all have the wanted N."""
    size, flat = int(np.prod(wanted)), lists.flatten()
    if len(flat) != size * len(lists) or not pa.types.is_fixed_size_list(lists.type):
        lengths = np.asarray(lists.value_lengths())
        if (lengths != size).any():
            raise PrivotError(_shape_message(name, (int(lengths[lengths != size][0]),), wanted))
    kind = flat.type
    if flat.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise PrivotError(f"column {name!r} has pixels that are no numbers: give numbers only")
    return np.asarray(flat).reshape(len(lists), size)


def _same_shape(actual: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether two shapes are equal, where either may omit a single channel."""
    return actual == wanted or (*actual, 1) == wanted or actual == (*wanted, 1)


def _shape_message(name: str, actual: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Return the error for images of another shape."""
    remedy = "resize the images, or correct the schema"
    if len(actual) == 3 and (*actual[1:], actual[0]) == wanted:
        remedy = "put channels last, as by numpy.moveaxis(images, 1, -1)"
    return (
        f"column {name!r} has images of shape {_shape_text(actual)}, the schema declares "
        f"{_shape_text(wanted)}: {remedy}"
    )


def _shape_text(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape)
