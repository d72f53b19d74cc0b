r"""Distances between samples of points: exact Wasserstein of equal subsamples, sliced of images.

The Wasserstein distance of two *samples* of the same distribution is not zero: with n points it is
about $n^{-1/d}$ in d ≥ 3 dimensions. So every number here stands beside its **floor**, the same
distance between two honest samples, and means are taken over several subsamples.

Images are compared by sliced W₂ of pixels in [−1, 1], times $\sqrt N$, so that two images alone are as
far apart as they are in ℓ2: exact W₂ in hundreds of dimensions has a floor that hides all else.

Every result depends on real records: **not private**.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch

from privot.errors import PrivotError
from privot.schema import Schema
from privot.transport import sliced_wasserstein, wasserstein
from privot.transport.exact import random_directions

_PROJECTIONS = 500


@dataclass(frozen=True)
class PointScore:
    """One column of points or images.

    Arguments:
        column: Name in the schema.
        distance: Synthetic against real, in subsamples of equal size.
        floor: The same between disjoint subsamples of the real records.
    """

    column: str
    distance: float
    floor: float


def score_points(
    schema: Schema, name: str, synthetic: pa.Table, real: pa.Table, num_points: int, seed: int = 0
) -> PointScore:
    """Exact W₂ in unit coordinates, where a box is [−1, 1]^d, of the records that have a value."""
    points, truth = (_unit_points(schema, name, table) for table in (synthetic, real))
    size = min(num_points, len(points), len(truth) // 2)
    distance = sample_distance(points, truth, size, seed=seed)
    return PointScore(name, distance, sample_distance(truth, truth, size, seed=seed))


def score_images(
    schema: Schema, name: str, synthetic: pa.Table, real: pa.Table, num_images: int, seed: int = 0
) -> PointScore:
    """Sliced distance of images drawn from two tables, at most `num_images` of each."""
    rng = np.random.default_rng(seed)
    size = min(num_images, synthetic.num_rows, real.num_rows // 2)
    chosen = rng.permutation(real.num_rows)[: 2 * size]
    learned = rng.permutation(synthetic.num_rows)[:size]
    truth = torch.as_tensor(unit_pixels(schema, name, real.take(chosen)))
    drawn = torch.as_tensor(unit_pixels(schema, name, synthetic.take(learned)))
    rng_torch = torch.Generator().manual_seed(seed)
    directions = random_directions(truth.shape[1], _PROJECTIONS, rng_torch)
    distance, floor = (
        math.sqrt(truth.shape[1]) * float(sliced_wasserstein(each, truth[:size], directions))
        for each in (drawn, truth[size:])
    )
    return PointScore(name, distance, floor)


def unit_pixels(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    """Images (n, N) of a table in unit pixels, clipped to [−1, 1]."""
    column = schema.images[name]
    return column.to_unit_pixels(column.accept(name, table)).clip(-1, 1)


def _unit_points(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    """Where nothing is missing."""
    points = schema.point_column(name).encode_units(name, table)
    points = points[~np.isnan(points).any(axis=1)]
    if not len(points):
        raise PrivotError(
            f"column {name!r} is missing in every row: leave it out of the comparison"
        )
    return points


def sample_distance(
    x: np.ndarray, y: np.ndarray, num_points: int = 3000, repeats: int = 3, seed: int = 0
) -> float:
    """Mean exact W₂ of `num_points` points of x (n, d) against as many of y (m, d).

    Subsamples are drawn without replacement, afresh for each of the `repeats`. If `y` is `x` itself,
    the two subsamples are disjoint: the floor.

    Raises:
        PrivotError: if there are no points, or too few for two disjoint subsamples.
    """
    rng = np.random.default_rng(seed)
    same = y is x
    size = min(num_points, len(x) // 2 if same else min(len(x), len(y)))
    if size < 1:
        raise PrivotError(
            f"samples have {len(x)} and {len(y)} points: give at least one each (two for a floor)"
        )
    distances = []
    for _ in range(repeats):
        first = rng.permutation(len(x))
        second = first[size:] if same else rng.permutation(len(y))
        pair = (torch.as_tensor(x[first[:size]]), torch.as_tensor(y[second[:size]]))
        distances.append(float(wasserstein(*pair)))
    return float(np.mean(distances))
