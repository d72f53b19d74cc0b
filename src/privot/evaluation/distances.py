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
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
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


# A synthetic table against real records, in the codes of the schema: each column, and each pair.
#
# Columns are compared by the total variation of their codes: the least share of records that would
# have to change for the two tables to agree. Pairs of columns are compared so too, cell by cell, and
# by the differences of Cramér's V. Numbers within their bins, and correlations, are compared by their
# values (`numbers`); vectors without codes are not compared here.
#
# Two samples of one population are never the same, and a model that knows the columns alone is not bad
# at everything, so each number stands between two others:
#
# - its **floor**, what a perfect model would score: a sample of as many records as the synthetic
#   table has, against one of as many as the real table has, both drawn from the real shares. (One
#   half of the real records against the other would be a floor of half as many records, and too high:
#   with equal numbers by √2.) Shares that are themselves a sample put nothing in cells that nobody
#   was seen in, so where cells are many and records few this floor is a little too low: to the
#   model's disadvantage;
# - its **ceiling**, independence: as many records again, drawn from the product of the real one-way
#   marginals. A model above it would have done better to learn no pair at all. (The product itself,
#   without sampling error, would stand below a perfect model's sample where cells are many.)
#
# Pairs see up to 256 values of a column, of which the last stands for all less frequent ones. Of more
# than 100 columns, pairs are compared among 100, drawn by the seed.
#
# Every result depends on real records: **not private**.


FEWEST_RECORDS = 4
_MOST_PAIRED = 100
_MOST_LEVELS = 256
_DRAWS = 6


@dataclass(frozen=True)
class Score:
    """A distance from the real records, between its floor and its ceiling.

    Arguments:
        synthetic: Of the synthetic table.
        floor: Of a perfect model's table of the same size.
        independence: Of a table of the same size whose columns are right and independent; None for a
            single column, which it gets as well as a perfect model.

    Examples:
        >>> score = Score(synthetic=0.05, floor=0.01, independence=0.2)
        >>> score.floor < score.synthetic < score.independence
        True
    """

    synthetic: float
    floor: float
    independence: float | None = None


@dataclass(frozen=True)
class ColumnScore:
    """One column: the total variation of its codes.

    Examples:
        >>> ColumnScore("age", Score(0.05, floor=0.01)).total_variation.synthetic
        0.05
    """

    column: str
    total_variation: Score


@dataclass(frozen=True)
class PairScore:
    """Two columns: total variation of their joint codes, and difference of Cramér's V.

    Examples:
        >>> score = Score(0.05, floor=0.01, independence=0.2)
        >>> PairScore("age", "sex", total_variation=score, cramers_v=score).cramers_v.independence
        0.2
    """

    first: str
    second: str
    total_variation: Score
    cramers_v: Score


@dataclass(frozen=True)
class TableComparison:
    """All columns and pairs of a synthetic table against a real one.

    Arguments:
        num_synthetic: Records of the synthetic table.
        num_real: Real records.
        columns: One score a column that has codes, in the schema's order.
        pairs: One score a pair of columns; of too many columns, of some.

    Examples:
        >>> columns = tuple(ColumnScore(name, Score(0.05, 0.01)) for name in ("age", "sex", "city"))
        >>> TableComparison(1000, 500, columns, pairs=()).all_pairs
        3
    """

    num_synthetic: int
    num_real: int
    columns: tuple[ColumnScore, ...]
    pairs: tuple[PairScore, ...]

    @property
    def all_pairs(self) -> int:
        """Number of pairs that there are, compared or not."""
        return len(self.columns) * (len(self.columns) - 1) // 2

    @property
    def summary(self) -> dict[str, Score]:
        """Means: `one_way` of columns, `two_way` and `cramers_v` of pairs, if any."""
        groups = {
            "one_way": [column.total_variation for column in self.columns],
            "two_way": [pair.total_variation for pair in self.pairs],
            "cramers_v": [pair.cramers_v for pair in self.pairs],
        }
        return {name: mean_score(scores) for name, scores in groups.items() if scores}


@dataclass(frozen=True)
class _Levels:
    """One column for pairs: level numbers of both tables' records."""

    synthetic: Codes
    real: Codes
    size: int


def compare_tables(
    schema: Schema, synthetic: pa.Table, real: pa.Table, seed: int = 0
) -> TableComparison:
    """Compare two tables over all columns that have codes; the result is **not private**.

    Arguments:
        schema: Whose columns, bins and categories are compared.
        synthetic: Records of a model; the more, the less of the distances is sampling error.
        real: Real records.
        seed: Of the floor's draws, and of which columns are paired where they are many.

    Raises:
        PrivotError: if a table does not fit the schema or has fewer than 4 records, or if all columns
            are vectors.

    Examples:
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> tables = [pa.table({"bit": [share < 5 * k for share in range(20)]}) for k in (1, 2)]
        >>> compare_tables(schema, *tables).columns[0].total_variation.synthetic
        0.25
    """
    require_records(schema, synthetic, real)
    if not schema.coded:
        raise PrivotError(
            f"columns {list(schema.columns)} are all vectors without codes: compare them by `compare`"
        )
    rng = np.random.default_rng(seed)
    sizes = (synthetic.num_rows, real.num_rows)
    columns, levels = [], {}
    for name, column in schema.coded.items():
        ours, truth = (column.encode_codes(name, table) for table in (synthetic, real))
        shares = [np.bincount(c, minlength=column.alphabet.size) / len(c) for c in (ours, truth)]
        drawn = [rng.multinomial(n, shares[1], size=_DRAWS) / n for n in sizes]
        floor = np.abs(drawn[0] - drawn[1]).sum() / 2 / _DRAWS
        columns.append(ColumnScore(name, Score(total_variation(*shares), float(floor))))
        levels[name] = _levels(ours, truth, column.alphabet.size)
    paired = list(levels)
    if len(paired) > _MOST_PAIRED:
        chosen = np.sort(rng.choice(len(paired), _MOST_PAIRED, replace=False))
        paired = [paired[i] for i in chosen]
    pairs = [
        _compare_pair(a, b, levels[a], levels[b], sizes, rng) for a, b in combinations(paired, 2)
    ]
    return TableComparison(*sizes, tuple(columns), tuple(pairs))


def require_records(schema: Schema, synthetic: pa.Table, real: pa.Table) -> None:
    """Refuse tables that do not fit the schema, or that are too short to compare."""
    for table in (synthetic, real):
        schema.check_table(table)
        if table.num_rows < FEWEST_RECORDS:
            raise PrivotError(
                f"{table.num_rows} records are too few to compare: give at least {FEWEST_RECORDS}"
            )


def _levels(ours: Codes, truth: Codes, size: int) -> _Levels:
    """Number the codes that occur from the most frequent on; the last number takes the rest."""
    seen, real = (np.bincount(codes, minlength=size) for codes in (ours, truth))
    present = np.flatnonzero(seen + real)
    order = present[np.argsort(-real[present], kind="stable")]
    level = np.minimum(np.arange(len(order)), _MOST_LEVELS - 1)
    numbers = np.zeros(size, dtype=np.int64)
    numbers[order] = level
    return _Levels(numbers[ours], numbers[truth], int(level[-1]) + 1)


def _compare_pair(
    first: str,
    second: str,
    a: _Levels,
    b: _Levels,
    sizes: tuple[int, int],
    rng: np.random.Generator,
) -> PairScore:
    shape = (a.size, b.size)
    ours, real = joint_shares(a.synthetic, b.synthetic, shape), joint_shares(a.real, b.real, shape)

    def draw(num_records: int, shares: Array) -> Array:
        counts = rng.multinomial(num_records, shares.ravel(), size=_DRAWS)
        return counts.reshape(-1, *shape) / num_records

    # The synthetic table, perfect models' and independent ones; and what each stands against.
    models = [ours[None], draw(sizes[0], real), draw(sizes[0], independent(real))]
    tables = np.concatenate(models)
    again = draw(sizes[1], real)
    against = np.concatenate([real[None], again, again])
    variations = np.abs(tables - against).sum((1, 2)) / 2
    associations = np.abs(cramers_v(tables) - cramers_v(against))
    return PairScore(first, second, _score(variations), _score(associations))


def _score(distances: Array) -> Score:
    floor, independence = distances[1:].reshape(2, _DRAWS).mean(axis=1)
    return Score(float(distances[0]), float(floor), float(independence))


def mean_score(scores: Sequence[Score]) -> Score:
    """The mean of each number, independence where there is any."""
    ceilings = [score.independence for score in scores if score.independence is not None]
    return Score(
        float(np.mean([score.synthetic for score in scores])),
        float(np.mean([score.floor for score in scores])),
        float(np.mean(ceilings)) if ceilings else None,
    )
