"""Values of a table as points and codes, and back.

The way in runs on the device: it sees raw values, refuses what the schema does not allow in one line
that names the column and the row, and keeps nothing. The way out serves sampled records: it restores
types, categories, integers, dates, missing values and bounds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privot.schema.columns.alphabet import Array, Bins, Codes
from privot.schema.columns.array import ArrayColumn
from privot.schema.columns.array_values import read_images, read_pixels, tensor_array
from privot.schema.columns.kinds import (
    BooleanColumn,
    CategoricalColumn,
    CodedColumn,
    Column,
    DatetimeColumn,
    NumericColumn,
    PointColumn,
    VectorColumn,
)
from privot.schema.columns.problems import Problem, refuse
from privot.schema.columns.raw_values import (
    missing,
    read_categories,
    read_moments,
    read_numbers,
    read_texts,
)

_TRUE, _FALSE = ("true", "t", "yes", "1"), ("false", "f", "no", "0")


def find_problems(column: Column, name: str, table: pa.Table) -> list[Problem]:
    """All that the schema does not allow in one column, by kind.

    Raises:
        PrivotError: for images that are of another shape, or hold no numbers.
    """
    if isinstance(column, ArrayColumn):
        return read_pixels(column, name, table.column(name))[1]
    if isinstance(column, VectorColumn):
        return _read_vector(column, table)[1]
    if isinstance(column, NumericColumn | DatetimeColumn):
        return _read_scalars(column, name, table)[1]
    return _read_codes(column, name, table)[1]


def encode_points(column: PointColumn, name: str, table: pa.Table) -> Array:
    """Raw values as points (n, d), finite but not yet projected to the domain.

    Rows of a nullable vector that lack a coordinate are NaN altogether. Images are encoded, and lie
    in their domain (`privot.schema.domains.image`).

    Raises:
        RecordError: for missing values that the schema does not allow, or what is no number or date.
    """
    if isinstance(column, ArrayColumn):
        raw = read_images(column, name, table.column(name))
        return column.domain.encode(column.to_unit_pixels(raw))
    if isinstance(column, VectorColumn):
        points, problems = _read_vector(column, table)
        refuse(problems)
        points[np.isnan(points).any(axis=1)] = np.nan
        return points
    numbers = encode_numbers(column, name, table)
    # A code can say that a number is missing, a point cannot.
    refuse(missing(np.isnan(numbers), False, name, []))
    return numbers[:, None]


def encode_numbers(column: NumericColumn | DatetimeColumn, name: str, table: pa.Table) -> Array:
    """Numbers (n,), or steps of the resolution since 1970; NaN where missing, if that may be.

    Raises:
        RecordError: for a missing value that the schema does not allow, or what is no number or date.
    """
    numbers, problems = _read_scalars(column, name, table)
    refuse(problems)
    return numbers


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
        points = _read_scalars(column, name, table)[0][:, None]
    points = points[~np.isnan(points).any(axis=1)]
    moved = np.abs(column.domain.project(points) - points) > 1e-9 * column.domain.scale
    return int(moved.any(axis=1).sum())


def encode_codes(column: CodedColumn, name: str, table: pa.Table) -> Codes:
    """Raw values as codes (n,) of the column's alphabet; beyond the bounds means an outer bin.

    Raises:
        RecordError: for a missing or unlisted value that the schema does not allow.
    """
    if isinstance(column, NumericColumn | DatetimeColumn):
        return column.alphabet.encode(encode_numbers(column, name, table))
    codes, problems = _read_codes(column, name, table)
    refuse(problems)
    return codes


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


def _read_scalars(
    column: NumericColumn | DatetimeColumn, name: str, table: pa.Table
) -> tuple[Array, list[Problem]]:
    """Numbers, or steps of the resolution since 1970; NaN where missing."""
    values = table.column(name)
    if isinstance(column, NumericColumn):
        numbers, problems = read_numbers(values, name)
    else:
        moments, problems = read_moments(values, name)
        whole = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy()
        steps = (whole // (1_000_000 * column.unit)).astype(np.float64)
        numbers = np.where(np.asarray(moments.is_null()), np.nan, steps)
    return numbers, problems + missing(np.isnan(numbers), column.nullable, name, problems)


def _read_vector(column: VectorColumn, table: pa.Table) -> tuple[Array, list[Problem]]:
    """Coordinates (n, d), NaN where missing."""
    parts, problems = [], list[Problem]()
    for part in column.columns:
        numbers, found = read_numbers(table.column(part), part)
        parts.append(numbers)
        problems += found + missing(np.isnan(numbers), column.nullable, part, found)
    return np.stack(parts, axis=1), problems


def _read_codes(
    column: CategoricalColumn | BooleanColumn, name: str, table: pa.Table
) -> tuple[Codes, list[Problem]]:
    """Codes of categories (n,)."""
    texts, problems = read_texts(table.column(name), name)
    if "" not in column.alphabet.names:  # an empty field of a CSV
        texts = pc.if_else(pc.equal(texts, ""), None, texts)
    if isinstance(column, BooleanColumn):
        lower = pc.utf8_lower(texts)
        place = pc.index_in(lower, value_set=pa.array(_FALSE + _TRUE))
        listed = pc.if_else(
            pc.is_null(place), None, pc.cast(pc.greater_equal(place, len(_FALSE)), pa.int32())
        )
    else:
        listed = pc.index_in(texts, value_set=pa.array(column.alphabet.names))
    absent = np.asarray(texts.is_null())
    codes = np.array(pc.fill_null(listed, 0).to_numpy(), dtype=np.int64)
    other = column.alphabet.other
    if other is None:
        problems += read_categories(texts, name, column.alphabet.names, listed)
    else:
        codes[np.asarray(listed.is_null())] = column.alphabet.names.index(other)
    codes[absent] = column.alphabet.size - 1
    return codes, problems + missing(absent, column.nullable, name, problems)


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
