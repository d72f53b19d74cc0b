"""Values of a table as points and codes, and back.

The way in runs on the device: it sees raw values, refuses what the schema does not allow in one line
that names the column and the row, and keeps nothing. The way out serves sampled records: it restores
types, categories, integers, dates, missing values and bounds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privot.errors import PrivotError
from privot.schema.alphabet import Array, Bins, Codes
from privot.schema.array_column import ArrayColumn
from privot.schema.array_values import read_images, tensor_array
from privot.schema.columns import (
    BooleanColumn,
    CategoricalColumn,
    CodedColumn,
    DatetimeColumn,
    NumericColumn,
    PointColumn,
    VectorColumn,
)

_TRUE, _FALSE = ("true", "t", "yes", "1"), ("false", "f", "no", "0")


def encode_points(column: PointColumn, name: str, table: pa.Table) -> Array:
    """Raw values as points (n, d), finite but not yet projected to the domain.

    Rows of a nullable vector that lack a coordinate are NaN altogether. Images are encoded, and lie
    in their domain (`privot.schema.image_domain`).

    Raises:
        PrivotError: for missing values that the schema does not allow, or what is no number or date.
    """
    if isinstance(column, ArrayColumn):
        raw = read_images(column, name, table.column(name))
        return column.domain.encode(column.to_unit_pixels(raw))
    if isinstance(column, VectorColumn):
        parts = [_numbers(table.column(part), part) for part in column.columns]
        if column.nullable:
            points = np.stack(parts, axis=1)
            points[np.isnan(points).any(axis=1)] = np.nan
            return points
    else:
        parts = [_scalars(column, name, table)]
    for part, numbers in zip(column.table_columns(name), parts, strict=True):
        if np.isnan(numbers).any():
            row = int(np.flatnonzero(np.isnan(numbers))[0])
            raise PrivotError(
                f"column {part!r} has no value in row {row + 1}: fill or remove the row, "
                "by a rule that does not look at other people's records"
            )
    return np.stack(parts, axis=1)


def decode_points(column: PointColumn, name: str, points: Array) -> dict[str, pa.Array]:
    """Table columns of points (n, d), projected to the domain; rows of NaN are missing."""
    if isinstance(column, ArrayColumn):
        return decode_pixels(column, name, column.domain.decode(points))
    absent = np.asarray(np.isnan(points).any(axis=1))
    points = column.domain.project(np.where(absent[:, None], column.domain.center, points))
    if isinstance(column, VectorColumn):
        return {part: pa.array(points[:, j], mask=absent) for j, part in enumerate(column.columns)}
    if isinstance(column, DatetimeColumn) or column.integer:
        points = np.rint(points)
    return {name: _restore(column, points[:, 0])}


def decode_pixels(column: ArrayColumn, name: str, pixels: np.ndarray) -> dict[str, pa.Array]:
    """Table column of images (n, N) in unit pixels, clipped to the bounds."""
    raw = column.from_unit_pixels(pixels)
    return {name: tensor_array(raw.reshape(len(raw), *column.shape))}


def count_outside(column: PointColumn, name: str, table: pa.Table) -> int:
    """Number of raw values outside the domain; a missing one is not outside."""
    if isinstance(column, ArrayColumn):
        units = column.to_unit_pixels(read_images(column, name, table.column(name)))
        gone = np.abs(column.domain.encode(units) - column.domain.transform(units)) > 1e-9
        return int(gone.any(axis=1).sum())
    if isinstance(column, VectorColumn):
        points = encode_points(column, name, table)
    else:
        points = _scalars(column, name, table)[:, None]
    points = points[~np.isnan(points).any(axis=1)]
    moved = np.abs(column.domain.project(points) - points) > 1e-9 * column.domain.scale
    return int(moved.any(axis=1).sum())


def encode_codes(column: CodedColumn, name: str, table: pa.Table) -> Codes:
    """Raw values as codes (n,) of the column's alphabet; beyond the bounds means an outer bin.

    Raises:
        PrivotError: for a missing or unlisted value that the schema does not allow.
    """
    if isinstance(column, NumericColumn | DatetimeColumn):
        numbers = _scalars(column, name, table)
        _require_present(np.isnan(numbers), column.nullable, name)
        return column.alphabet.encode(numbers)
    texts = _texts(table.column(name), name)
    if isinstance(column, BooleanColumn):
        lower = pc.utf8_lower(texts)
        listed = pc.index_in(lower, value_set=pa.array(_FALSE + _TRUE))
        codes = pc.if_else(
            pc.is_null(listed), listed, pc.cast(pc.greater_equal(listed, len(_FALSE)), pa.int32())
        )
    else:
        codes = pc.index_in(texts, value_set=pa.array(column.alphabet.names))
    absent = np.asarray(texts.is_null())
    if column.nullable and (
        not isinstance(column, CategoricalColumn) or "" not in column.categories
    ):
        absent |= np.asarray(pc.fill_null(pc.equal(texts, ""), False))  # an empty field of a CSV
    _require_present(absent, column.nullable, name)
    unlisted = np.asarray(codes.is_null()) & ~absent
    out = np.asarray(pc.fill_null(codes, 0).to_numpy(), dtype=np.int64)
    if unlisted.any():
        other = column.alphabet.other
        if other is None:
            row = int(np.flatnonzero(unlisted)[0])
            raise PrivotError(
                f"column {name!r} holds {texts[row].as_py()!r} in row {row + 1}, which is not among "
                f"its {len(column.alphabet.names)} categories: correct it, add it to the schema, "
                "or declare which category stands for others"
            )
        out[unlisted] = column.alphabet.names.index(other)
    out[absent] = column.alphabet.size - 1
    return out


def decode_codes(
    column: CodedColumn, name: str, codes: Codes, rng: np.random.Generator
) -> dict[str, pa.Array]:
    """Table column of codes (n,); numbers and dates are drawn within their bins."""
    alphabet = column.alphabet
    if isinstance(alphabet, Bins):
        assert isinstance(column, NumericColumn | DatetimeColumn)
        return {name: _restore(column, alphabet.decode(codes, rng))}
    values: list[str | bool] = list(alphabet.names)
    if isinstance(column, BooleanColumn):
        values = [False, True]
    kind = pa.bool_() if isinstance(column, BooleanColumn) else pa.string()
    listed = pa.array([*values, None], type=kind)
    return {name: listed.take(pa.array(codes))}


def _scalars(column: NumericColumn | DatetimeColumn, name: str, table: pa.Table) -> Array:
    """Numbers, or steps of the resolution since 1970; NaN where missing."""
    values = table.column(name)
    if isinstance(column, NumericColumn):
        return _numbers(values, name)
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    try:
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            raise pa.ArrowInvalid("numbers are no dates")
        moments = values.cast(pa.timestamp("us"), safe=False)
    except pa.ArrowException:
        raise PrivotError(
            f"column {name!r} has type {values.type} and is not all dates: "
            "give dates or times, or text such as 2024-05-31"
        ) from None
    moments = moments.cast(pa.int64())
    steps = pc.fill_null(moments, 0).to_numpy() // (1_000_000 * column.unit)
    return np.where(np.asarray(moments.is_null()), np.nan, steps.astype(np.float64))


def _restore(column: NumericColumn | DatetimeColumn, numbers: Array) -> pa.Array:
    """Numbers as the table would hold them: integers, dates, nulls for NaN."""
    absent = np.isnan(numbers)
    if isinstance(column, NumericColumn) and not column.integer:
        return pa.array(numbers, mask=absent)
    whole = pa.array(np.where(absent, 0, numbers).astype(np.int64), mask=absent)
    if isinstance(column, NumericColumn):
        return whole
    if column.resolution == "day":
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole.cast(pa.timestamp("s"))


def _numbers(values: pa.ChunkedArray, name: str) -> Array:
    """One table column as float64, NaN where missing, or a refusal that names the row."""
    kind = values.type
    if pa.types.is_null(kind):
        return np.full(len(values), np.nan)
    if pa.types.is_boolean(kind) or not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    ):
        example = values[0].as_py() if len(values) else None
        raise PrivotError(
            f"column {name!r} has type {kind} (first value {example!r}): give numbers only"
        )
    numbers = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise PrivotError(
            f"column {name!r} holds {numbers[row]} in row {row + 1}: give finite numbers only"
        )
    return numbers


def _texts(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    try:
        return values.cast(pa.string())
    except pa.ArrowException:
        raise PrivotError(
            f"column {name!r} has type {values.type}: give text, as in its categories"
        ) from None


def _require_present(absent: np.ndarray, nullable: bool, name: str) -> None:
    if absent.any() and not nullable:
        row = int(np.flatnonzero(absent)[0])
        raise PrivotError(
            f"column {name!r} has no value in row {row + 1}: declare nullable = true in the schema, "
            "or fill or remove the row by a rule that does not look at other people's records"
        )
