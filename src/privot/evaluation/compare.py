"""A synthetic table against real records: coded columns by their tables, the others by distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.evaluation.distances import sample_distance
from privot.evaluation.image_scores import ImageScore, score_images
from privot.evaluation.tables import TableComparison, compare_tables, require_records
from privot.schema import PointColumn, Schema


@dataclass(frozen=True)
class VectorScore:
    """One vector column: exact W₂ in unit coordinates, where a box is [−1, 1]^d, of who has one.

    Arguments:
        column: Name in the schema.
        distance: Synthetic against real, in subsamples of equal size.
        floor: The same between disjoint subsamples of the real records.
    """

    column: str
    distance: float
    floor: float


@dataclass(frozen=True)
class Comparison:
    """All columns: vectors and images one by one, the others as a table (None if there are none)."""

    vectors: tuple[VectorScore, ...]
    table: TableComparison | None
    images: tuple[ImageScore, ...] = ()


def compare(
    schema: Schema, synthetic: pa.Table, real: pa.Table, num_points: int = 2000, seed: int = 0
) -> Comparison:
    """Compare every column of two tables. Its output depends on real records: **not private**.

    Arguments:
        schema: What a record may be.
        synthetic: Records of a model.
        real: Real records.
        num_points: Most points of a vector's subsamples, or images.
        seed: Of subsamples and floors.

    Raises:
        PrivotError: if the tables do not fit the schema, or hold fewer than 4 records.
    """
    require_records(schema, synthetic, real)
    vectors = []
    for name, column in schema.points.items():
        if name not in schema.coded and name not in schema.images:
            points, truth = (_unit_points(column, name, table) for table in (synthetic, real))
            size = min(num_points, len(points), len(truth) // 2)
            distance = sample_distance(points, truth, size, seed=seed)
            floor = sample_distance(truth, truth, size, seed=seed)
            vectors.append(VectorScore(name, distance, floor))
    table = compare_tables(schema, synthetic, real, seed) if schema.coded else None
    images = [
        score_images(schema, name, synthetic, real, num_points, seed) for name in schema.images
    ]
    return Comparison(tuple(vectors), table, tuple(images))


def _unit_points(column: PointColumn, name: str, table: pa.Table) -> np.ndarray:
    """Where nothing is missing."""
    points = column.encode_units(name, table)
    points = points[~np.isnan(points).any(axis=1)]
    if not len(points):
        raise PrivotError(
            f"column {name!r} is missing in every row: leave it out of the comparison"
        )
    return points
