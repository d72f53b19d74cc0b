"""Records as what mechanisms take, and reports as what likelihoods take.

Raw values become projected unit coordinates or codes on the way in; reports become noisy unit
coordinates or the codes that they support, with a mask of who reported them, on the way out.

In a release's table, a column with additive noise (or a square wave) holds noisy numbers in the
column's own units (days or seconds since 1970, of a date); randomized response holds the label of the
reported code; a mechanism that reports a set of codes holds a list of them. A vector that may be missing
has one column more, which says what its flag says. An image is one list of d numbers, its noisy pixels
or cosine coefficients in unit coordinates (`privot.release.reports.images`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privot.mechanisms import (
    FrequencyOracle,
    Mechanism,
    NullableNoise,
    RandomizedResponse,
    random_words,
)
from privot.mechanisms.additive.nullable_noise import mark_missing
from privot.release.reports.images import image_lists, image_points, image_type
from privot.schema import ArrayColumn, Schema, from_unit, to_unit


def encode_column(schema: Schema, name: str, mechanism: Mechanism, table: pa.Table) -> np.ndarray:
    """Raw values as what the mechanism takes: codes (n,), or projected unit coordinates (n, d)."""
    if isinstance(mechanism, FrequencyOracle):
        return schema.coded[name].encode_codes(name, table)
    column = schema.point_column(name)
    units = column.encode_units(name, table)
    return mark_missing(units, column.domain) if isinstance(mechanism, NullableNoise) else units


def report_names(schema: Schema, name: str, mechanism: Mechanism) -> tuple[str, ...]:
    """Names of the table columns that hold one column's reports."""
    flag = (f"{name}.missing",) if isinstance(mechanism, NullableNoise) else ()
    return (*schema.columns[name].table_columns(name), *flag)


def privatize_columns(
    schema: Schema,
    mechanisms: Mapping[str, Mechanism],
    num_reported: int,
    encoded: Mapping[str, np.ndarray],
) -> dict[str, pa.Array]:
    """Table columns of reports of `num_reported` of these columns a record, drawn by fresh coins."""
    num_rows = max((len(values) for values in encoded.values()), default=0)
    chosen = draw_columns(num_rows, len(mechanisms), num_reported)
    columns: dict[str, pa.Array] = {}
    for index, (name, mechanism) in enumerate(mechanisms.items()):
        # What is not reported is never randomized: nothing of it is left in memory under a null.
        reported = chosen[:, index]
        if isinstance(schema.columns[name], ArrayColumn):
            columns[name] = image_lists(mechanism, encoded[name], reported)
            continue
        noisy = mechanism.privatize(encoded[name][reported])
        columns |= report_columns(schema, name, mechanism, noisy, reported)
    return columns


def draw_columns(num_rows: int, total: int, chosen: int) -> np.ndarray:
    """A uniformly random subset of `chosen` of `total` columns for each record, as a mask.

    Fresh coins from the operating system, which know nothing of the record. Ranks of independent
    64-bit words are a uniform permutation but for ties (probability < 2^−50 a record), which are
    broken by position.
    """
    if chosen == total:
        return np.ones((num_rows, total), dtype=bool)
    words = random_words(num_rows * total).reshape(num_rows, total)
    return np.asarray(np.argsort(np.argsort(words, axis=1), axis=1) < chosen)


def report_columns(
    schema: Schema, name: str, mechanism: Mechanism, reports: np.ndarray, reported: np.ndarray
) -> dict[str, pa.Array]:
    """Table columns of one column's reports, of those who `reported` it (n,); null elsewhere."""
    absent = ~reported
    if isinstance(mechanism, RandomizedResponse):
        labels = pa.array(schema.coded[name].labels)
        codes = np.zeros(len(reported), np.int64)
        codes[reported] = reports
        return {name: labels.take(pa.array(codes, mask=absent))}
    if isinstance(mechanism, FrequencyOracle):
        support = mechanism.support(reports)
        width = np.zeros(len(reported), np.int32)
        width[reported] = (support >= 0).sum(axis=1)
        offsets = np.concatenate([[0], np.cumsum(width)]).astype(np.int32)
        mask = np.concatenate([absent, [False]])
        codes = pa.array(support[support >= 0], pa.int32())
        return {name: pa.ListArray.from_arrays(pa.array(offsets, mask=mask), codes)}
    column = schema.point_column(name)
    dimension = column.domain.dimension
    values = np.zeros((len(reported), reports.shape[1]))
    values[reported, :dimension] = from_unit(column.domain, reports[:, :dimension])
    values[reported, dimension:] = reports[:, dimension:]
    names, types = report_names(schema, name, mechanism), report_types(schema, name, mechanism)
    return {
        part: pa.array(values[:, j], mask=absent).cast(kind)
        for j, (part, kind) in enumerate(zip(names, types, strict=True))
    }


def decode_reports(
    schema: Schema, table: pa.Table, name: str, mechanism: Mechanism
) -> tuple[np.ndarray, np.ndarray]:
    """One column's reports and who reported it; see `Release.reports`."""
    values, reported = read_reports(schema, table, name, mechanism)
    if isinstance(schema.columns[name], ArrayColumn):
        return values, reported  # in unit coordinates already
    # The table's units rounded them: back onto the grid that they were drawn on.
    return mechanism.to_grid(values), reported


def read_reports(
    schema: Schema, table: pa.Table, name: str, mechanism: Mechanism
) -> tuple[np.ndarray, np.ndarray]:
    """As `decode_reports`, as near to the grid as the roundings of the table's units leave them."""
    if isinstance(mechanism, RandomizedResponse):
        codes = pc.index_in(table.column(name), value_set=pa.array(schema.coded[name].labels))
        reported = np.asarray(pc.is_valid(codes).to_numpy())
        return codes.fill_null(0).to_numpy().astype(np.int32)[:, None], reported
    if isinstance(mechanism, FrequencyOracle):
        lists = table.column(name).combine_chunks()
        reported = np.asarray(lists.is_valid())
        width = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
        support = np.full((len(lists), int(width.max(initial=0))), -1, np.int32)
        support[np.arange(support.shape[1]) < width[:, None]] = lists.flatten().fill_null(-2)
        return support, reported
    column = schema.point_column(name)
    if isinstance(column, ArrayColumn):
        return image_points(table.column(name), column.domain.dimension)
    parts = [table.column(part) for part in report_names(schema, name, mechanism)]
    reported = np.asarray(pc.is_valid(parts[0]).to_numpy())
    values = np.stack([part.cast(pa.float64()).fill_null(0.0).to_numpy() for part in parts], axis=1)
    dimension = column.domain.dimension
    values[:, :dimension] = to_unit(column.domain, values[:, :dimension])
    values[~reported] = 0.0
    return values, reported


def report_types(schema: Schema, name: str, mechanism: Mechanism) -> list[pa.DataType]:
    """Types of the table columns that hold one column's reports, as `report_names` orders them."""
    if isinstance(mechanism, RandomizedResponse):
        return [pa.string()]
    if isinstance(mechanism, FrequencyOracle):
        return [pa.list_(pa.int32())]
    column = schema.point_column(name)
    if isinstance(column, ArrayColumn):
        return [image_type(column.domain.dimension)]
    numbers = [pa.float64()] * column.domain.dimension
    return [*numbers, pa.bool_()] if isinstance(mechanism, NullableNoise) else numbers
