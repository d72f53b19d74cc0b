r"""Distances of synthetic records from real ones: points, images, columns, pairs, numbers, correlations.

Two samples of one distribution differ, and even a model of independent columns can be close to the real
records. So each distance is reported together with two references:

- the **floor** is the score of a perfect model: the distance between two samples drawn from the real
  shares, with as many records as the synthetic and the real table. The real shares are themselves a
  sample, and are 0 in cells without a real record. With many cells and few records this floor is
  therefore slightly too low, to the model's disadvantage;
- the **ceiling** is the score of independent columns: the distance of a sample of the product of the
  real one-way marginals, with as many records. A model above it is worse than independent columns.

**Points** are compared by W₂, the 2-Wasserstein distance. Between two *samples* of n points of one
density it is of order $n^{-1/d}$ or larger in d ≥ 3 dimensions (Dudley). Its floor is the distance
between two disjoint samples of the real records; distance and floor are means over several subsamples.

**Images** of N pixels in [−1, 1] are compared by $\sqrt N$ times the sliced W₂, the root mean squared W₂
of projections to random directions. For two single images, this is about their ℓ2 distance. Exact W₂ is
not used, because in hundreds of dimensions its floor exceeds all differences of interest.

**Columns** are compared by the total variation of their codes: the smallest share of records that would
have to change for the two tables to agree. **Pairs** are compared by the total variation of joint codes,
and by the difference of Cramér's V. For a joint table $p_{ab}$ with margins $p_a$ and $p_b$:

- independence is the table $p_a p_b$ with the same margins; its total variation from $p_{ab}$ is the
  error of a model with exact single columns and no dependence;
- Cramér's V is $\sqrt{φ² / (\min(r, c) − 1)}$ with $φ² = \sum_{ab} p_{ab}²/(p_a p_b) − 1$: 0 where the
  columns are independent, 1 where one determines the other. In a sample of n records, φ² is too large by
  about $(r−1)(c−1)/n$, so the floor matters for differences of V.

In pairs, a column has at most 256 levels, of which the last stands for all less frequent values. If
there are more than 100 columns, the pairs of 100 random ones are compared.

**Numbers**, dates, and each coordinate of a vector are also compared by value, because bins hide the
distribution within them:

- by **KS**, the Kolmogorov–Smirnov distance $\max_t |F(t) − G(t)|$ of the values that are not missing:
  the largest error of a share of people below a threshold;
- by quantiles, mean, standard deviation, tails, and the share of missing values (`NumberScore`).

**Correlations** are Pearson's, of records where neither value is missing; for independence, the values
of each column are shuffled. **Rank correlations** (Spearman's) are those of `ranks`, which long tails do
not affect.

Every result depends on real records: **not private**.

References:
    Cramér, *Mathematical Methods of Statistics* (1946), §21.9.
    Dudley, *The speed of mean Glivenko–Cantelli convergence* (1969).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.alphabet import Codes
from privot.schema.domains import Array
from privot.transport.assignment import wasserstein

MIN_RECORDS = 4
LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)  # of the quantiles of numbers
_PROJECTIONS = 500  # directions of sliced distances
_MAX_PAIRED, _MAX_CORRELATED = 100, 60  # columns whose pairs, and correlations, are compared
_MAX_LEVELS = 256  # levels of a column in pairs
_DRAWS = 6  # floors and ceilings are means over as many samples


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
    return np.sqrt(np.clip(ratios.sum((-2, -1)) - 1, 0, None) / (min(rows, columns) - 1))


@dataclass(frozen=True)
class PointScore:
    """Distance of one column of points or images.

    Arguments:
        column: Name of the column.
        distance: Distance of synthetic from real records, in subsamples of equal size.
        floor: Distance between disjoint subsamples of the real records.
    """

    column: str
    distance: float
    floor: float


def score_points(
    schema: Schema, name: str, synthetic: pa.Table, real: pa.Table, num_points: int, seed: int = 0
) -> PointScore:
    """Return W₂ between at most `num_points` points without missing coordinates, scaled to [−1, 1]^d."""
    points, truth = (_unit_points(schema, name, table) for table in (synthetic, real))
    size = min(num_points, len(points), len(truth) // 2)
    distance = sample_distance(points, truth, size, seed=seed)
    return PointScore(name, distance, sample_distance(truth, truth, size, seed=seed))


def score_images(
    schema: Schema, name: str, synthetic: pa.Table, real: pa.Table, num_images: int, seed: int = 0
) -> PointScore:
    """Return √N times the sliced W₂ of images, at most `num_images` of each table, and its floor."""
    rng = np.random.default_rng(seed)
    size = min(num_images, synthetic.num_rows, real.num_rows // 2)
    real_rows = rng.permutation(real.num_rows)[: 2 * size]
    synthetic_rows = rng.permutation(synthetic.num_rows)[:size]
    real_pixels = unit_pixels(schema, name, real.take(real_rows))
    synthetic_pixels = unit_pixels(schema, name, synthetic.take(synthetic_rows))
    dim = real_pixels.shape[1]
    directions = rng.standard_normal((dim, _PROJECTIONS))
    directions /= np.linalg.norm(directions, axis=0)

    def sliced(x: Array, y: Array) -> float:
        gaps = np.sort(x @ directions, axis=0) - np.sort(y @ directions, axis=0)
        return math.sqrt(dim) * math.sqrt(float(np.mean(gaps**2)))

    first, second = real_pixels[:size], real_pixels[size:]
    return PointScore(name, sliced(synthetic_pixels, first), sliced(second, first))


def unit_pixels(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    """Return images (n, N) of a table in unit pixels, clipped to [−1, 1]."""
    column = schema.images[name]
    return column.to_unit_pixels(column.accept(name, table)).clip(-1, 1)


def _unit_points(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    """Return the points (n, d) of records without missing coordinates, in unit coordinates."""
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
    """Return the mean exact W₂ between subsamples of `num_points` points of x (n, d) and of y (m, d).

    Subsamples are drawn without replacement, anew for each of the `repeats`. If `y` is `x` itself, the
    two subsamples are disjoint, and the result is the floor.

    Raises:
        PrivotError: if x or y has no points, or x is y and has fewer than two.

    Examples:
        >>> points = np.array([[0.0, 0.0], [1.0, 0.0]])
        >>> sample_distance(points, points + [0.0, 2.0])
        2.0
    """
    rng = np.random.default_rng(seed)
    is_floor = y is x
    size = min(num_points, len(x) // 2 if is_floor else min(len(x), len(y)))
    if size < 1:
        raise PrivotError(
            f"samples have {len(x)} and {len(y)} points: give at least one each (two for a floor)"
        )
    distances = []
    for _ in range(repeats):
        first = rng.permutation(len(x))
        second = first[size:] if is_floor else rng.permutation(len(y))
        distances.append(wasserstein(x[first[:size]], y[second[:size]]))
    return float(np.mean(distances))


@dataclass(frozen=True)
class Score:
    """Distance of the synthetic from the real table, with its floor and its ceiling.

    Arguments:
        synthetic: Distance of the synthetic table.
        floor: Distance of a perfect model's sample of the same size.
        independence: Distance of a sample of the same size with exact and independent columns; None for
            a single column, where it equals the floor.
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
        columns: Score of each column that has codes, in the schema's order.
        pairs: Score of each pair of columns; of more than 100 columns, of the pairs of 100.
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
        """Mean scores: `one_way` over columns, `two_way` and `cramers_v` over pairs, if any."""
        groups = {
            "one_way": [column.total_variation for column in self.columns],
            "two_way": [pair.total_variation for pair in self.pairs],
            "cramers_v": [pair.cramers_v for pair in self.pairs],
        }
        return {name: mean_score(scores) for name, scores in groups.items() if scores}


class _Levels(NamedTuple):
    """Levels of one column in both tables: ranks of its codes by frequency, the last for the rest."""

    synthetic: Codes  # (n,)
    real: Codes  # (m,)
    size: int  # number of levels


def compare_tables(
    schema: Schema, synthetic: pa.Table, real: pa.Table, seed: int = 0
) -> TableComparison:
    """Compare two tables over all columns that have codes; the result is **not private**.

    Arguments:
        schema: Columns, bins and categories to compare by.
        synthetic: Records of a model; more records mean less sampling error in the distances.
        real: Real records.
        seed: Seed of the floor's draws, and of the selection among more than 100 columns.

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
        codes = [column.encode_codes(name, table) for table in (synthetic, real)]
        size = column.alphabet.size
        shares = [np.bincount(values, minlength=size) / len(values) for values in codes]
        # Samples of the real shares, with as many records as the synthetic and as the real table.
        first, second = (rng.multinomial(n, shares[1], size=_DRAWS) / n for n in sizes)
        floor = np.abs(first - second).sum() / 2 / _DRAWS
        columns.append(ColumnScore(name, Score(total_variation(*shares), float(floor))))
        levels[name] = _levels(codes[0], codes[1], size)
    paired = list(levels)
    if len(paired) > _MAX_PAIRED:
        chosen = np.sort(rng.choice(len(paired), _MAX_PAIRED, replace=False))
        paired = [paired[i] for i in chosen]
    pairs = (
        PairScore(first, second, *_compare_pair(levels[first], levels[second], sizes, rng))
        for first, second in combinations(paired, 2)
    )
    return TableComparison(*sizes, tuple(columns), tuple(pairs))


def require_records(schema: Schema, synthetic: pa.Table, real: pa.Table) -> None:
    """Raise PrivotError if a table does not fit the schema, or has fewer than 4 records."""
    for table in (synthetic, real):
        schema.check_table(table)
        if table.num_rows < MIN_RECORDS:
            raise PrivotError(
                f"{table.num_rows} records are too few to compare: give at least {MIN_RECORDS}"
            )


def _levels(synthetic: Codes, real: Codes, size: int) -> _Levels:
    """Rank the codes that occur by their frequency in the real table; the last level is the rest."""
    synthetic_counts, real_counts = (np.bincount(x, minlength=size) for x in (synthetic, real))
    present = np.flatnonzero(synthetic_counts + real_counts)
    order = present[np.argsort(-real_counts[present], kind="stable")]
    ranks = np.minimum(np.arange(len(order)), _MAX_LEVELS - 1)
    level_of_code = np.zeros(size, dtype=np.int64)
    level_of_code[order] = ranks
    return _Levels(level_of_code[synthetic], level_of_code[real], int(ranks[-1]) + 1)


def _compare_pair(
    first: _Levels, second: _Levels, sizes: tuple[int, int], rng: np.random.Generator
) -> Iterator[Score]:
    """Yield the scores of two columns by total variation and by Cramér's V."""
    shape = (first.size, second.size)
    synthetic = joint_shares(first.synthetic, second.synthetic, shape)
    real = joint_shares(first.real, second.real, shape)

    def draw(num_records: int, shares: Array) -> Array:
        counts = rng.multinomial(num_records, shares.ravel(), size=_DRAWS)
        return counts.reshape(-1, *shape) / num_records

    # The synthetic table is compared with the real one, samples of perfect and of independent models
    # with other samples of the real shares.
    perfect_samples, independent_samples = draw(sizes[0], real), draw(sizes[0], independent(real))
    tables = np.concatenate([synthetic[None], perfect_samples, independent_samples])
    real_samples = draw(sizes[1], real)
    references = np.concatenate([real[None], real_samples, real_samples])
    variations = np.abs(tables - references).sum((1, 2)) / 2
    associations = np.abs(cramers_v(tables) - cramers_v(references))
    for distances in (variations, associations):
        floor, independence = distances[1:].reshape(2, _DRAWS).mean(axis=1)
        yield Score(float(distances[0]), float(floor), float(independence))


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the mean distance, the mean floor, and the mean ceiling of the scores that have one."""
    ceilings = [score.independence for score in scores if score.independence is not None]
    return Score(
        float(np.mean([score.synthetic for score in scores])),
        float(np.mean([score.floor for score in scores])),
        float(np.mean(ceilings)) if ceilings else None,
    )


@dataclass(frozen=True)
class NumberPair:
    """A statistic of the synthetic records and of the real ones."""

    synthetic: float
    real: float


@dataclass(frozen=True)
class NumberScore:
    """Scores of one column of numbers, or of one coordinate of a vector.

    Arguments:
        name: Name of the table's column.
        ks: Kolmogorov–Smirnov distance.
        quantiles: Quantiles at the levels 1, 5, 25, 50, 75, 95 and 99 %.
        mean: Mean of the values that are not missing.
        std: Standard deviation of the values that are not missing.
        tails: Shares below the real 1 % quantile and above the real 99 % quantile; both are about .01
            if tails agree.
        missing: Share of missing values.
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
    """Correlation, or rank correlation, of two columns of numbers, and its absolute error."""

    first: str
    second: str
    correlation: NumberPair
    difference: Score


def number_series(schema: Schema, table: pa.Table) -> dict[str, Array]:
    """Return the values (n,) of each column of numbers, dates or coordinates; NaN where missing."""
    series: dict[str, Array] = {}
    for name, column in schema.points.items():
        if name in schema.images:
            continue
        values = column.in_values(column.encode_points(name, table))
        series |= dict(zip(column.table_columns(name), values.T, strict=True))
    return series


def ks_distance(x: Array, y: Array) -> float:
    """Return the Kolmogorov–Smirnov distance of two samples without missing values.

    Examples:
        >>> ks_distance(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
        0.5
    """
    thresholds = np.concatenate([x, y])
    shares_of_x = np.searchsorted(np.sort(x), thresholds, side="right") / len(x)
    shares_of_y = np.searchsorted(np.sort(y), thresholds, side="right") / len(y)
    return float(np.abs(shares_of_x - shares_of_y).max())


def number_errors(true: Array, learned: Array) -> tuple[Array, Array]:
    """Return the KS (m,) of columns of two samples (n, m), and errors of their correlations (2, m, m).

    These are absolute errors of correlations and of rank correlations. NaN is a missing value; KS is 1
    if a column has no value in one of the samples.
    """
    ks = []
    for x, y in zip(true.T, learned.T, strict=True):
        x, y = x[~np.isnan(x)], y[~np.isnan(y)]
        ks.append(ks_distance(x, y) if len(x) and len(y) else 1.0)
    of_values, of_ranks = (
        np.abs(correlations(b) - correlations(a))
        for a, b in ((true, learned), (ranks(true), ranks(learned)))
    )
    return np.array(ks), np.stack([of_values, of_ranks])


def compare_numbers(
    schema: Schema, synthetic: pa.Table, real: pa.Table, seed: int = 0
) -> tuple[NumberScore, ...]:
    """Compare all numbers, dates and coordinates of two tables; **not private**.

    A column that has no value in one of the tables is left out.
    """
    rng = np.random.default_rng(seed)
    synthetic_series, real_series = number_series(schema, synthetic), number_series(schema, real)
    scores = []
    for name, values in synthetic_series.items():
        missing, real_missing = np.isnan(values), np.isnan(real_series[name])
        x, y = values[~missing], real_series[name][~real_missing]
        if not len(x) or not len(y):
            continue
        quantiles = np.quantile(x, LEVELS, method="inverted_cdf")
        real_quantiles = np.quantile(y, LEVELS, method="inverted_cdf")
        low, high = real_quantiles[0], real_quantiles[-1]
        scores.append(
            NumberScore(
                name,
                Score(ks_distance(x, y), _ks_floor(len(x), y, rng)),
                tuple(map(NumberPair, quantiles.tolist(), real_quantiles.tolist())),
                mean=_means(x, y),
                std=NumberPair(float(x.std()), float(y.std())),
                tails=(_means(x < low, y < low), _means(x > high, y > high)),
                missing=_means(missing, real_missing),
            )
        )
    return tuple(scores)


def _means(synthetic: NDArray[Any], real: NDArray[Any]) -> NumberPair:
    return NumberPair(float(synthetic.mean()), float(real.mean()))


def _ks_floor(size: int, real: Array, rng: np.random.Generator) -> float:
    """Return the mean KS of two bootstrap samples of the real values, with `size` and n values."""
    _, counts = np.unique(real, return_counts=True)
    shares = counts / counts.sum()
    first, second = (rng.multinomial(n, shares, size=_DRAWS) / n for n in (size, len(real)))
    return float(np.abs((first - second).cumsum(axis=1)).max(axis=1).mean())


def compare_correlations(
    schema: Schema, synthetic: pa.Table, real: pa.Table, seed: int = 0, *, of_ranks: bool = False
) -> tuple[CorrelationScore, ...]:
    """Compare the correlations of all pairs of numbers and coordinates, or of their ranks.

    Only the first 60 columns are compared.
    """
    synthetic_series, real_series = number_series(schema, synthetic), number_series(schema, real)
    names = list(real_series)[:_MAX_CORRELATED]
    if len(names) < 2:
        return ()
    values = np.stack([synthetic_series[name] for name in names], axis=1)
    real_values = np.stack([real_series[name] for name in names], axis=1)
    if of_ranks:
        values, real_values = ranks(values), ranks(real_values)
    rng = np.random.default_rng(seed)
    synthetic_r, real_r = correlations(values), correlations(real_values)
    errors = np.abs(synthetic_r - real_r)
    floors, ceilings = np.zeros((2, len(names), len(names)))
    for _ in range(_DRAWS):
        sample = real_values[rng.integers(len(real_values), size=len(values))]
        other = real_values[rng.integers(len(real_values), size=len(real_values))]
        reference = correlations(other)
        floors += np.abs(correlations(sample) - reference) / _DRAWS
        ceilings += np.abs(correlations(rng.permuted(sample, axis=0)) - reference) / _DRAWS
    scores = []
    for i, j in combinations(range(len(names)), 2):
        correlation = NumberPair(float(synthetic_r[i, j]), float(real_r[i, j]))
        difference = Score(float(errors[i, j]), float(floors[i, j]), float(ceilings[i, j]))
        scores.append(CorrelationScore(names[i], names[j], correlation, difference))
    return tuple(scores)


def ranks(values: Array) -> Array:
    """Return the mean rank of each value within its column of (n, m), divided by n; NaN stays NaN.

    Examples:
        >>> ranks(np.array([[3.0], [1.0], [3.0], [np.nan]])).ravel().tolist()
        [0.625, 0.25, 0.625, nan]
    """
    found: Array = scipy.stats.rankdata(values, axis=0, nan_policy="omit") / len(values)
    return found


def correlations(values: Array) -> Array:
    """Return Pearson's correlations (m, m) of columns (n, m), by records where neither is NaN.

    The correlation of a constant column is 0.

    Examples:
        >>> correlations(np.array([[0.0, 1.0], [1.0, -1.0], [np.nan, 5.0]])).round(3).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    present = ~np.isnan(values)
    offset = np.nanmean(np.where(present.any(axis=0), values, 0.0), axis=0)
    x, known = np.where(present, values - offset, 0.0), present.astype(np.float64)
    count = np.maximum(known.T @ known, 1.0)
    # (m, m): moments of column i, over records where column j is present.
    mean, square = x.T @ known / count, (x**2).T @ known / count
    variance = square - mean**2
    covariance = x.T @ x / count - mean * mean.T
    is_constant = variance <= 1e-12 * square
    undefined = is_constant | is_constant.T
    product = np.where(undefined, 1.0, variance * variance.T)
    out: Array = np.where(undefined, 0.0, covariance / np.sqrt(product))
    return np.clip(out, -1.0, 1.0)
