"""Synthetic records against real ones: coded columns by their tables, the others by distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privot.evaluation.distances import PointScore, score_images, score_points
from privot.evaluation.tables import TableComparison, compare_tables, require_records
from privot.release import as_table
from privot.schema import Schema


@dataclass(frozen=True)
class Comparison:
    """All columns: vectors and images one by one, the others as a table (None if there are none)."""

    vectors: tuple[PointScore, ...]
    table: TableComparison | None
    images: tuple[PointScore, ...] = ()


def compare(
    schema: Schema, synthetic: Any, real: Any, num_points: int = 2000, seed: int = 0
) -> Comparison:
    """Compare every column of two tables. Its output depends on real records: **not private**.

    Arguments:
        schema: What a record may be.
        synthetic: Records of a model: a pandas, polars or pyarrow table, or a dict of columns.
        real: Real records, likewise.
        num_points: Most points of a vector's subsamples, or images.
        seed: Of subsamples and floors.

    Raises:
        PrivotError: if the tables do not fit the schema, or hold fewer than 4 records.
    """
    synthetic, real = as_table(synthetic), as_table(real)
    require_records(schema, synthetic, real)
    table = compare_tables(schema, synthetic, real, seed) if schema.coded else None
    images, points = list(schema.images), [n for n in schema.points if n not in schema.coded]
    return Comparison(
        tuple(
            score_points(schema, name, synthetic, real, num_points, seed)
            for name in points
            if name not in images
        ),
        table,
        tuple(score_images(schema, name, synthetic, real, num_points, seed) for name in images),
    )
