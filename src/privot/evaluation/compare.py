"""A synthetic table against real records, column by column, each number beside its floor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.evaluation.distances import sample_distance, total_variation
from privot.schema import Bins, Schema, to_unit
from privot.schema.values import encode_codes, encode_points


@dataclass(frozen=True)
class Comparison:
    """One column: its distance from the real records, and the floor between two real halves.

    Arguments:
        column: Name in the schema.
        measure: `"W2"` in unit coordinates (a box is [−1, 1]^d), or `"TV"` of category shares.
        distance: Synthetic against real.
        floor: One random half of the real records against the other.
    """

    column: str
    measure: str
    distance: float
    floor: float


def compare(
    schema: Schema, synthetic: pa.Table, real: pa.Table, num_points: int = 2000, seed: int = 0
) -> list[Comparison]:
    """Compare every column of two tables. Its output depends on real records: **not private**.

    Raises:
        PrivotError: if the tables do not fit the schema, or hold fewer than 4 records.
    """
    for table in (synthetic, real):
        schema.check_table(table)
        if table.num_rows < 4:
            raise PrivotError(f"{table.num_rows} records are too few to compare: give at least 4")
    half = np.random.default_rng(seed).permutation(real.num_rows)
    middle = real.num_rows // 2
    rows = []
    for name in schema.columns:
        column = schema.coded.get(name)
        # A number or date that may be missing is compared by its codes, missing being one of them.
        if column is not None and (column.nullable or not isinstance(column.alphabet, Bins)):
            size = column.alphabet.size
            ours, truth = (encode_codes(column, name, t) for t in (synthetic, real))
            distance = total_variation(_shares(ours, size), _shares(truth, size))
            parts = (truth[half[:middle]], truth[half[middle:]])
            floor = total_variation(_shares(parts[0], size), _shares(parts[1], size))
            rows.append(Comparison(name, "TV", distance, floor))
        else:
            points, real_points = (_unit_points(schema, name, table) for table in (synthetic, real))
            size = min(num_points, len(points), len(real_points) // 2)
            distance = sample_distance(points, real_points, size, seed=seed)
            floor = sample_distance(real_points, real_points, size, seed=seed)
            rows.append(Comparison(name, "W2", distance, floor))
    return rows


def _shares(codes: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(codes, minlength=size) / len(codes)


def _unit_points(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    column = schema.point_column(name)
    domain, points = column.domain, encode_points(column, name, table)
    return to_unit(domain, domain.project(points))
