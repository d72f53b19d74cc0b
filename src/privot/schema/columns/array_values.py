"""Images in tables: one table column of tensors of a fixed shape, the shape being part of its type.

Arrow's canonical extension type for them (`arrow.fixed_shape_tensor`) survives Parquet. Plain lists
of as many numbers are read, too; what has another shape is refused with its remedy, not reordered: an
image of swapped axes would be noise to everybody and an error to nobody.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.schema.columns.array import ArrayColumn
from privot.schema.columns.problems import Problem, refuse


def tensor_array(values: NDArray[np.generic]) -> pa.Array:
    """An Arrow array of tensors, of values (n, …)."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    shape = values.shape[1:]
    storage = pa.FixedSizeListArray.from_arrays(flat, int(np.prod(shape)))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, shape), storage)


def tensor_values(values: pa.ChunkedArray) -> NDArray[np.generic]:
    """The numbers (n, …) of a table column of tensors."""
    parts = [np.asarray(_storage(chunk).flatten()) for chunk in values.chunks]
    flat = np.concatenate(parts) if parts else np.zeros(0)
    return flat.reshape(len(values), *values.type.shape)


def is_tensor(kind: pa.DataType) -> bool:
    """Whether a type is that of tensors of a fixed shape."""
    return isinstance(kind, pa.FixedShapeTensorType)


def read_images(column: ArrayColumn, name: str, values: pa.ChunkedArray) -> NDArray[np.generic]:
    """Raw pixels (n, N), finite, in the order height, width, channels.

    Raises:
        PrivotError: for another shape, missing images, or what is no number.
    """
    raw, problems = read_pixels(column, name, values)
    refuse(problems)
    return raw


def read_pixels(
    column: ArrayColumn, name: str, values: pa.ChunkedArray
) -> tuple[NDArray[np.generic], list[Problem]]:
    """Raw pixels (n, N), and what is wrong with single images; without missing ones.

    Raises:
        PrivotError: for another shape, or what is no number.
    """
    kind, wanted = values.type, column.shape
    if is_tensor(kind):
        found = tuple(kind.shape)
        if kind.permutation is not None or not _same_shape(found, wanted):
            raise PrivotError(_misfit(name, found, wanted))
    elif not (
        pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    ):
        raise PrivotError(
            f"column {name!r} has type {kind}: give an array of shape (n, {_times(wanted)}), or a "
            "folder of images"
        )
    problems = []
    if values.null_count:
        remedy = "remove the row, by a rule that does not look at other people's records"
        problems.append(Problem(name, "has no image", remedy, np.asarray(values.is_null())))
        values = values.drop_null()
    parts = [_numbers(name, _storage(chunk), wanted) for chunk in values.chunks]
    raw = np.concatenate(parts) if parts else np.zeros((0, column.domain.num_pixels))
    infinite = np.asarray(~np.isfinite(raw).all(axis=1))
    if infinite.any() and not problems:
        remedy = "give finite numbers only"
        problems.append(Problem(name, "has a pixel that is not finite", remedy, infinite))
    return raw, problems


def _storage(chunk: pa.Array) -> pa.Array:
    return chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk


def _numbers(name: str, lists: pa.Array, wanted: tuple[int, ...]) -> NDArray[np.generic]:
    size = int(np.prod(wanted))
    flat = lists.flatten()
    if len(flat) != size * len(lists) or not pa.types.is_fixed_size_list(lists.type):
        widths = np.asarray(lists.value_lengths())
        if (widths != size).any():
            raise PrivotError(_misfit(name, (int(widths[widths != size][0]),), wanted))
    kind = flat.type
    if flat.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise PrivotError(f"column {name!r} has pixels of type {kind}: give numbers only")
    return np.asarray(flat).reshape(len(lists), size)


def _same_shape(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """One channel may be said or not."""
    return found == wanted or (*found, 1) == wanted or found == (*wanted, 1)


def _misfit(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    remedy = "resize the images, or correct the schema"
    if len(found) == 3 and (*found[1:], found[0]) == wanted:
        remedy = "put channels last, as by numpy.moveaxis(images, 1, -1)"
    return (
        f"column {name!r} has images of shape {_times(found)}, the schema declares {_times(wanted)}: "
        f"{remedy}"
    )


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape)
