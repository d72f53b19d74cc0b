"""Records as what mechanisms take, and reports as what likelihoods take.

Raw values become projected unit coordinates or category indices on the way in; reports become noisy
unit coordinates or category indices, with a mask of who reported them, on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privot.errors import PrivotError
from privot.mechanisms import Mechanism, random_words
from privot.mechanisms.additive_noise import AdditiveNoise
from privot.schema import Schema, from_unit, to_unit
from privot.schema.columns import encode_categorical, encode_continuous


def encode_records(schema: Schema, table: pa.Table) -> dict[str, np.ndarray]:
    """Raw records as projected unit coordinates (n, d), or category indices (n,), by column."""
    encoded: dict[str, np.ndarray] = {}
    for name, continuous in schema.continuous.items():
        domain = continuous.domain
        points = domain.project(encode_continuous(continuous, name, table))
        # Dividing by the scale rounds: project once more, so that Δ holds to the last bit.
        encoded[name] = domain.unit.project(to_unit(domain, points))
    for name, categorical in schema.categorical.items():
        encoded[name] = encode_categorical(categorical, name, table)
    return {name: encoded[name] for name in schema.columns}


def count_outside(schema: Schema, table: pa.Table) -> dict[str, int]:
    """Number of raw values outside the domain, for each continuous column."""
    counts = {}
    for name, column in schema.continuous.items():
        points = encode_continuous(column, name, table)
        moved = np.abs(column.domain.project(points) - points) > 1e-9 * column.domain.scale
        counts[name] = int(moved.any(axis=1).sum())
    return counts


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


def reports_table(
    schema: Schema, noisy: Mapping[str, np.ndarray], reported: Mapping[str, np.ndarray]
) -> pa.Table:
    """Randomized values in the table's own units; null where a person did not report."""
    columns: dict[str, pa.Array] = {}
    for name in schema.columns:
        absent = ~reported[name]
        if name in schema.continuous:
            column = schema.continuous[name]
            values = np.where(absent[:, None], 0.0, from_unit(column.domain, noisy[name]))
            for j, part in enumerate(column.table_columns(name)):
                columns[part] = pa.array(values[:, j], mask=absent)
        else:
            categories = pa.array(schema.categorical[name].categories)
            columns[name] = categories.take(pa.array(noisy[name], mask=absent))
    return pa.table(columns)


def decode_reports(
    schema: Schema, table: pa.Table, name: str, mechanism: Mechanism
) -> tuple[np.ndarray, np.ndarray]:
    """One column's reports and who reported it; see `Release.reports`."""
    if name in schema.categorical:
        categories = pa.array(schema.categorical[name].categories)
        codes = pc.index_in(table.column(name), value_set=categories)
        reported = np.asarray(pc.is_valid(codes).to_numpy())
        return codes.fill_null(0).to_numpy().astype(np.int64), reported
    column = schema.continuous[name]
    parts = [table.column(part) for part in column.table_columns(name)]
    reported = np.asarray(pc.is_valid(parts[0]).to_numpy())
    values = np.stack([part.fill_null(0.0).to_numpy() for part in parts], axis=1)
    values = to_unit(column.domain, values)
    if isinstance(mechanism, AdditiveNoise):
        # The table's units rounded them: back onto the grid that they were drawn on.
        values = mechanism.to_grid(values)
    values[~reported] = 0.0
    return values, reported


def check_reports(
    schema: Schema,
    table: pa.Table,
    mechanisms: Mapping[str, Mechanism],
    num_reported: int,
    source: Any,
) -> None:
    """Refuse values that a randomizer reporting `num_reported` columns cannot have reported."""
    count = np.zeros(table.num_rows, dtype=np.int64)
    for name, column in schema.columns.items():
        parts = [table.column(part) for part in column.table_columns(name)]
        expected = pa.string() if name in schema.categorical else pa.float64()
        for part in parts:
            if part.type != expected:
                raise PrivotError(
                    f"{source}: column {name!r} has type {part.type}, the randomizer reports "
                    f"{expected}: the file was altered"
                )
        valid = [np.asarray(pc.is_valid(part).to_numpy()) for part in parts]
        if any((v != valid[0]).any() for v in valid):
            raise PrivotError(f"{source}: column {name!r} is half reported: the file was altered")
        values, reported = decode_reports(schema, table, name, mechanisms[name])
        if not np.isfinite(values).all() or (reported != valid[0]).any():
            raise PrivotError(
                f"{source}: column {name!r} holds values that the randomizer cannot report: "
                "the file was altered"
            )
        count += valid[0]
    if (count != num_reported).any():
        raise PrivotError(
            f"{source}: some reports do not hold {num_reported} columns, as the randomizer says: "
            "the file was altered"
        )
