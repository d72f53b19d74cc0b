r"""Distances between samples of points, and between tables of two columns of codes.

**Points.** The Wasserstein distance of two *samples* of the same distribution is not zero: with n
points it is about $n^{-1/d}$ in d ≥ 3 dimensions. So every number here stands beside its **floor**, the
same distance between two honest samples, and means are taken over several subsamples.

Images are compared by sliced W₂ of pixels in [−1, 1], times $\sqrt N$, so that two images alone are as
far apart as they are in ℓ2: exact W₂ in hundreds of dimensions has a floor that hides all else.

Every result depends on real records: **not private**.

**Two columns of codes** hang together as strongly as their joint table says. Of a joint table $p_{ab}$
with margins $p_a$ and $p_b$:

- **independence** is the table $p_a p_b$ of the same margins, and the total variation between the two
  is what a model loses that gets every column right and learns nothing else;
- **Cramér's V** is $\sqrt{φ² / (\min(r, c) − 1)}$ with $φ² = \sum_{ab} p_{ab}²/(p_a p_b) − 1$: 0 where
  the columns are independent, 1 where one determines the other. A sample's V is biased upwards, by about
  $(r−1)(c−1)/n$ in φ²; a comparison of two V is to be read beside that of two samples of one table.

These functions take tables (…, r, c) and works on the last two axes.

References:
    Cramér, *Mathematical Methods of Statistics* (1946), §21.9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.schema import Schema
from privot.transport.assignment import wasserstein

Codes = NDArray[np.int64]
Array = NDArray[np.float64]


def total_variation(p: Array, q: Array) -> float:
    """Half the ℓ1 distance of two distributions on the same cells.

    Examples:
        >>> total_variation(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
        0.5
    """
    return float(np.abs(p - q).sum() / 2)


def joint_shares(first: Codes, second: Codes, shape: tuple[int, int]) -> Array:
    """The shares (r, c) of records with each pair of codes.

    Examples:
        >>> joint_shares(np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0]), (2, 2)).tolist()
        [[0.25, 0.0], [0.25, 0.5]]
    """
    cells = np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1])
    return cells.reshape(shape) / len(first)


def independent(joint: Array) -> Array:
    """The table of independent columns with the margins of `joint`."""
    product: Array = joint.sum(-1, keepdims=True) * joint.sum(-2, keepdims=True)
    return product


def cramers_v(joint: Array) -> Array:
    """Cramér's V; 0 where a column is constant.

    Examples:
        >>> float(cramers_v(np.eye(3) / 3))
        1.0
    """
    rows, columns = joint.shape[-2:]
    if min(rows, columns) < 2:
        return np.zeros(joint.shape[:-2])
    expected = independent(joint)
    ratios = np.divide(joint**2, expected, out=np.zeros_like(joint), where=expected > 0)
    excess = np.clip(ratios.sum((-2, -1)) - 1, 0, None)
    return np.sqrt(excess / (min(rows, columns) - 1))


_PROJECTIONS = 500


@dataclass(frozen=True)
class PointScore:
    """One column of points or images.

    Arguments:
        column: Name in the schema.
        distance: Synthetic against real, in subsamples of equal size.
        floor: The same between disjoint subsamples of the real records.

    Examples:
        >>> score = PointScore("home", distance=0.2, floor=0.1)
        >>> score.distance / score.floor
        2.0
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
    truth = unit_pixels(schema, name, real.take(chosen))
    drawn = unit_pixels(schema, name, synthetic.take(learned))
    directions = rng.standard_normal((truth.shape[1], _PROJECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    distance, floor = (
        math.sqrt(truth.shape[1]) * _sliced(each, truth[:size], directions)
        for each in (drawn, truth[size:])
    )
    return PointScore(name, distance, floor)


def _sliced(x: Array, y: Array, directions: Array) -> float:
    """Sliced W₂ of samples (n, d) of equal size along unit columns (d, k), by sorting."""
    gaps = np.sort(x @ directions, axis=0) - np.sort(y @ directions, axis=0)
    return math.sqrt(float(np.mean(gaps**2)))


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

    Examples:
        >>> points = np.array([[0.0, 0.0], [1.0, 0.0]])
        >>> sample_distance(points, points + [0.0, 2.0])
        2.0
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
        distances.append(wasserstein(x[first[:size]], y[second[:size]]))
    return float(np.mean(distances))
