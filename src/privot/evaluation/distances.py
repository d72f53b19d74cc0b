r"""Distances of synthetic records from real ones: points, images, columns, pairs, numbers, correlations.

Two samples of one distribution are never the same, and a model that knows the columns alone is not bad
at everything, so each number stands between two others:

- its **floor**, the score of a perfect model: a sample of as many records as the synthetic table has,
  against one of as many as the real table has, both drawn from the real shares. (One half of the real
  records against the other would be a floor of half as many records, and too high: with equal numbers
  by √2.) Shares that are themselves a sample put nothing in cells in which no record was seen, so where
  cells are many and records few this floor is a little too low: to the model's disadvantage;
- its **ceiling**, independence: as many records again, drawn from the product of the real one-way
  marginals. A model above it would have done better to learn no pair at all. (The product itself,
  without sampling error, would stand below a perfect model's sample where cells are many.)

**Points.** The Wasserstein distance of two *samples* of n points of one distribution is about
$n^{-1/d}$ in d ≥ 3 dimensions. Its floor is the distance between two disjoint samples of the real
records, and means are taken over several subsamples. **Images** are compared by sliced W₂ of pixels in
[−1, 1], times $\sqrt N$, so that two images alone are as far apart as they are in ℓ2: exact W₂ in
hundreds of dimensions has a floor that hides all else.

**Columns** are compared by the total variation of their codes: the least share of records that would
have to change for the two tables to agree. **Pairs** are compared so too, cell by cell, and by the
differences of Cramér's V. For a joint table $p_{ab}$ with margins $p_a$ and $p_b$:

- independence is the table $p_a p_b$ of the same margins, and the total variation between the two is the
  error of a model that gets every column right and learns nothing else;
- Cramér's V is $\sqrt{φ² / (\min(r, c) − 1)}$ with $φ² = \sum_{ab} p_{ab}²/(p_a p_b) − 1$: 0 where the
  columns are independent, 1 where one determines the other. A sample's V is biased upwards, by about
  $(r−1)(c−1)/n$ in φ²; a comparison of two V is to be read beside that of two samples of one table.

Pairs distinguish up to 256 values of a column, of which the last stands for all less frequent ones. Of
more than 100 columns, pairs are compared among 100, drawn by the seed.

**Numbers** and dates, and each coordinate of a vector, are also compared value by value, not by their
bins, within which any shape may hide:

- by **KS**, the Kolmogorov–Smirnov distance $\max_t |F(t) − G(t)|$ of the values that are not missing:
  no share of people below a threshold is off by more;
- by quantiles, mean and standard deviation, beside the real ones;
- by **tails**: the share of synthetic values below the real 1 % quantile and above the real 99 %
  quantile, which are .01 each where tails agree (less, where many people share that very value);
- by the share that is missing.

**Correlations** are Pearson's, of values where neither is missing; independence is that of columns whose
values were shuffled.

Every result depends on real records: **not private**.

References:
    Cramér, *Mathematical Methods of Statistics* (1946), §21.9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.transport.assignment import wasserstein

Codes = NDArray[np.int64]
Array = NDArray[np.float64]
MIN_RECORDS = 4
LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_PROJECTIONS = 500
_MAX_PAIRED, _MAX_CORRELATED = 100, 60  # columns
_MAX_LEVELS = 256
_DRAWS = 6


def total_variation(p: Array, q: Array) -> float:
    """Return half the ℓ1 distance of two distributions on the same cells.

    Examples:
        >>> total_variation(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
        0.5
    """
    return float(np.abs(p - q).sum() / 2)


def joint_shares(first: Codes, second: Codes, shape: tuple[int, int]) -> Array:
    """Return the shares (r, c) of records with each pair of codes.

    Examples:
        >>> joint_shares(np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0]), (2, 2)).tolist()
        [[0.25, 0.0], [0.25, 0.5]]
    """
    cells = np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1])
    return cells.reshape(shape) / len(first)


def independent(joint: Array) -> Array:
    """Return tables (…, r, c) of independent columns with the margins of `joint`."""
    product: Array = joint.sum(-1, keepdims=True) * joint.sum(-2, keepdims=True)
    return product


def cramers_v(joint: Array) -> Array:
    """Return Cramér's V of tables (…, r, c); 0 where a column is constant.

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


@dataclass(frozen=True)
class PointScore:
    """Distance of one column of points or images.

    Arguments:
        column: Name in the schema.
        distance: Distance of synthetic from real, in subsamples of equal size.
        floor: Distance between disjoint subsamples of the real records.
    """

    column: str
    distance: float
    floor: float


def score_points(
    schema: Schema, name: str, synthetic: pa.Table, real: pa.Table, num_points: int, seed: int = 0
) -> PointScore:
    """Return exact W₂ in unit coordinates, where a box is [−1, 1]^d, of records that have a value."""
    points, truth = (_unit_points(schema, name, table) for table in (synthetic, real))
    size = min(num_points, len(points), len(truth) // 2)
    distance = sample_distance(points, truth, size, seed=seed)
    return PointScore(name, distance, sample_distance(truth, truth, size, seed=seed))


def score_images(
    schema: Schema, name: str, synthetic: pa.Table, real: pa.Table, num_images: int, seed: int = 0
) -> PointScore:
    """Return the sliced distance of images drawn from two tables, at most `num_images` of each."""
    rng = np.random.default_rng(seed)
    size = min(num_images, synthetic.num_rows, real.num_rows // 2)
    chosen = rng.permutation(real.num_rows)[: 2 * size]
    learned = rng.permutation(synthetic.num_rows)[:size]
    truth = unit_pixels(schema, name, real.take(chosen))
    drawn = unit_pixels(schema, name, synthetic.take(learned))
    directions = rng.standard_normal((truth.shape[1], _PROJECTIONS))
    directions /= np.linalg.norm(directions, axis=0)

    def sliced(x: Array, y: Array) -> float:
        gaps = np.sort(x @ directions, axis=0) - np.sort(y @ directions, axis=0)
        return math.sqrt(truth.shape[1]) * math.sqrt(float(np.mean(gaps**2)))

    real_sample = truth[:size]
    return PointScore(name, sliced(drawn, real_sample), sliced(truth[size:], real_sample))


def unit_pixels(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    """Return images (n, N) of a table in unit pixels, clipped to [−1, 1]."""
    column = schema.images[name]
    return column.to_unit_pixels(column.accept(name, table)).clip(-1, 1)


def _unit_points(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    """Return points (n, d) in unit coordinates, of records where nothing is missing."""
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
    """Return the mean exact W₂ of `num_points` points of x (n, d) from as many of y (m, d).

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


@dataclass(frozen=True)
class Score:
    """A distance from the real records, between its floor and its ceiling.

    Arguments:
        synthetic: The synthetic table's.
        floor: That of a perfect model's table of the same size.
        independence: That of a table of the same size whose columns are right and independent; None for
            a single column, which it gets as well as a perfect model.
    """

    synthetic: float
    floor: float
    independence: float | None = None


@dataclass(frozen=True)
class ColumnScore:
    """Total variation of one column's codes."""

    column: str
    total_variation: Score


@dataclass(frozen=True)
class PairScore:
    """Total variation of two columns' joint codes, and difference of their Cramér's V."""

    first: str
    second: str
    total_variation: Score
    cramers_v: Score


@dataclass(frozen=True)
class TableComparison:
    """Scores of all columns and pairs of a synthetic table against a real one.

    Arguments:
        num_synthetic: Number of synthetic records.
        num_real: Number of real records.
        columns: One score a column that has codes, in the schema's order.
        pairs: One score a pair of columns; of too many columns, of some.
    """

    num_synthetic: int
    num_real: int
    columns: tuple[ColumnScore, ...]
    pairs: tuple[PairScore, ...]

    @property
    def all_pairs(self) -> int:
        """Number of pairs of columns, compared or not."""
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


class _Levels(NamedTuple):
    """One column of both tables, as numbers of its most frequent values."""

    synthetic: Codes
    real: Codes
    size: int


def compare_tables(
    schema: Schema, synthetic: pa.Table, real: pa.Table, seed: int = 0
) -> TableComparison:
    """Compare two tables over all columns that have codes; the result is **not private**.

    Arguments:
        schema: Columns, bins and categories to compare by.
        synthetic: Records of a model; the more, the less of the distances is sampling error.
        real: Real records.
        seed: Seed of the floor's draws, and of the choice of columns to pair where they are many.

    Returns:
        A `TableComparison`, with a `ColumnScore` a column and a `PairScore` a pair; each `Score` stands
        beside that of a perfect model and of independent columns.

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
    if len(paired) > _MAX_PAIRED:
        chosen = np.sort(rng.choice(len(paired), _MAX_PAIRED, replace=False))
        paired = [paired[i] for i in chosen]
    pairs = (
        PairScore(a, b, *_compare_pair(levels[a], levels[b], sizes, rng))
        for a, b in combinations(paired, 2)
    )
    return TableComparison(*sizes, tuple(columns), tuple(pairs))


def require_records(schema: Schema, synthetic: pa.Table, real: pa.Table) -> None:
    """Refuse tables that do not fit the schema, or that are too short to compare."""
    for table in (synthetic, real):
        schema.check_table(table)
        if table.num_rows < MIN_RECORDS:
            raise PrivotError(
                f"{table.num_rows} records are too few to compare: give at least {MIN_RECORDS}"
            )


def _levels(ours: Codes, truth: Codes, size: int) -> _Levels:
    """Number the codes that occur from the most frequent on; the last number takes the rest."""
    seen, real = (np.bincount(codes, minlength=size) for codes in (ours, truth))
    present = np.flatnonzero(seen + real)
    order = present[np.argsort(-real[present], kind="stable")]
    level = np.minimum(np.arange(len(order)), _MAX_LEVELS - 1)
    numbers = np.zeros(size, dtype=np.int64)
    numbers[order] = level
    return _Levels(numbers[ours], numbers[truth], int(level[-1]) + 1)


def _compare_pair(
    a: _Levels, b: _Levels, sizes: tuple[int, int], rng: np.random.Generator
) -> Iterator[Score]:
    """Yield the scores of two columns' joint shares, and of their association."""
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
    for distances in (variations, associations):
        floor, independence = distances[1:].reshape(2, _DRAWS).mean(axis=1)
        yield Score(float(distances[0]), float(floor), float(independence))


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the mean of each number, independence where there is any."""
    ceilings = [score.independence for score in scores if score.independence is not None]
    return Score(
        float(np.mean([score.synthetic for score in scores])),
        float(np.mean([score.floor for score in scores])),
        float(np.mean(ceilings)) if ceilings else None,
    )


@dataclass(frozen=True)
class NumberPair:
    """A number of the synthetic records, beside that of the real ones."""

    synthetic: float
    real: float


@dataclass(frozen=True)
class NumberScore:
    """Scores of one column of numbers, or of one coordinate of a vector.

    Arguments:
        name: Name of the table's column.
        ks: Largest difference of the shares below any value.
        quantiles: Quantiles of `LEVELS`.
        mean: Mean of the values that are not missing.
        std: Their standard deviation.
        tails: Shares beyond the real 1 % quantile and the real 99 % quantile.
        missing: Share that is missing.
    """

    name: str
    ks: Score
    quantiles: tuple[NumberPair, ...]
    mean: NumberPair
    std: NumberPair
    tails: tuple[NumberPair, NumberPair]
    missing: NumberPair


@dataclass(frozen=True)
class CorrelationScore:
    """Pearson's correlation of two columns of numbers, and its error."""

    first: str
    second: str
    correlation: NumberPair
    difference: Score


def number_series(schema: Schema, table: pa.Table) -> dict[str, Array]:
    """Return values (n,) of all numbers, dates and coordinates by name; NaN where missing."""
    found: dict[str, Array] = {}
    for name, column in schema.points.items():
        if name in schema.images:
            continue
        values = column.in_values(column.encode_points(name, table))
        found |= dict(zip(column.table_columns(name), values.T, strict=True))
    return found


def ks_distance(x: Array, y: Array) -> float:
    """Return the Kolmogorov–Smirnov distance of two samples without missing values.

    Examples:
        >>> ks_distance(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
        0.5
    """
    places = np.concatenate([x, y])
    shares = [np.searchsorted(np.sort(each), places, side="right") / len(each) for each in (x, y)]
    return float(np.abs(shares[0] - shares[1]).max())


def compare_numbers(
    schema: Schema, synthetic: pa.Table, real: pa.Table, seed: int = 0
) -> tuple[NumberScore, ...]:
    """Compare every column of numbers, and coordinate, of two tables; **not private**.

    Columns of which either table has no value are left out.
    """
    rng = np.random.default_rng(seed)
    ours, truth = number_series(schema, synthetic), number_series(schema, real)
    scores = []
    for name, values in ours.items():
        both = values, truth[name]
        x, y = (each[~np.isnan(each)] for each in both)
        if not len(x) or not len(y):
            continue
        quantiles = [np.quantile(each, LEVELS, method="inverted_cdf") for each in (x, y)]
        low, high = quantiles[1][0], quantiles[1][-1]
        scores.append(
            NumberScore(
                name,
                Score(ks_distance(x, y), _floor(len(x), y, rng)),
                tuple(NumberPair(float(a), float(b)) for a, b in zip(*quantiles, strict=True)),
                mean=NumberPair(float(x.mean()), float(y.mean())),
                std=NumberPair(float(x.std()), float(y.std())),
                tails=(_shares(x < low, y < low), _shares(x > high, y > high)),
                missing=_shares(*map(np.isnan, both)),
            )
        )
    return tuple(scores)


def _shares(ours: NDArray[np.bool_], truth: NDArray[np.bool_]) -> NumberPair:
    return NumberPair(float(ours.mean()), float(truth.mean()))


def _floor(size: int, real: Array, rng: np.random.Generator) -> float:
    """Return the mean KS of two samples of the real values, of `size` and of as many as are real."""
    _, counts = np.unique(real, return_counts=True)
    shares = counts / counts.sum()
    drawn = [rng.multinomial(n, shares, size=_DRAWS) / n for n in (size, len(real))]
    return float(np.abs((drawn[0] - drawn[1]).cumsum(axis=1)).max(axis=1).mean())


def compare_correlations(
    schema: Schema, synthetic: pa.Table, real: pa.Table, seed: int = 0
) -> tuple[CorrelationScore, ...]:
    """Compare correlations of all pairs of numbers, and coordinates; of more than 60, of the first."""
    ours, truth = (
        np.stack([*series.values()][:_MAX_CORRELATED], axis=1) if series else np.empty((0, 0))
        for series in (number_series(schema, table) for table in (synthetic, real))
    )
    names = [*number_series(schema, real.slice(0, 1))][:_MAX_CORRELATED]
    if len(names) < 2:
        return ()
    rng = np.random.default_rng(seed)
    found, expected = correlations(ours), correlations(truth)
    floors, apart = np.zeros((2, len(names), len(names)))
    for _ in range(_DRAWS):
        drawn = [truth[rng.integers(len(truth), size=n)] for n in (len(ours), len(truth))]
        again = correlations(drawn[1])
        floors += np.abs(correlations(drawn[0]) - again) / _DRAWS
        apart += np.abs(correlations(rng.permuted(drawn[0], axis=0)) - again) / _DRAWS
    gaps = np.abs(found - expected)
    return tuple(
        CorrelationScore(
            names[i], names[j], NumberPair(float(found[i, j]), float(expected[i, j])),
            Score(float(gaps[i, j]), float(floors[i, j]), float(apart[i, j])),
        )
        for i, j in combinations(range(len(names)), 2)
    )  # fmt: skip


def correlations(values: Array) -> Array:
    """Return Pearson's correlations (m, m) of columns (n, m) where neither is NaN; 0 of a constant.

    Examples:
        >>> correlations(np.array([[0.0, 1.0], [1.0, -1.0], [np.nan, 5.0]])).round(3).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    there = ~np.isnan(values)
    offset = np.nanmean(np.where(there.any(axis=0), values, 0.0), axis=0)
    x, known = np.where(there, values - offset, 0.0), there.astype(np.float64)
    count = np.maximum(known.T @ known, 1.0)
    mean = x.T @ known / count  # of column i where j is there
    square = (x**2).T @ known / count
    spread = square - mean**2
    covariance = x.T @ x / count - mean * mean.T
    scale = spread * spread.T
    flat = spread <= 1e-12 * square
    constant = flat | flat.T
    out: Array = np.where(constant, 0.0, covariance / np.sqrt(np.where(constant, 1.0, scale)))
    return np.clip(out, -1.0, 1.0)
