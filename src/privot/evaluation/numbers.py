r"""Numbers against real ones, value by value: not their bins, within which any shape may hide.

Numbers and dates, and each coordinate of a vector, are compared by

- **KS**, the Kolmogorov–Smirnov distance $\max_t |F(t) − G(t)|$ of the values that are not missing: no
  share of people below a threshold is off by more;
- quantiles, mean and standard deviation, beside the real ones;
- **tails**: the share of synthetic values below the real 1 % quantile and above the real 99 % quantile,
  which are .01 each where tails agree (less, where many people share that very value);
- the share that is missing.

**Correlations** are Pearson's, of values where neither is missing. A score's floor is what a perfect
model's sample has, and of correlations independence is that of columns whose values were shuffled, as
in `tables`.

Every result depends on real records: **not private**.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from privot.evaluation.distances import Array
from privot.evaluation.tables import Score
from privot.schema import Schema

LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_DRAWS = 6
_MOST_CORRELATED = 60


@dataclass(frozen=True)
class Pair:
    """A number of the synthetic records, beside that of the real ones."""

    synthetic: float
    real: float


@dataclass(frozen=True)
class NumberScore:
    """One column of numbers, or one coordinate of a vector.

    Arguments:
        name: Of the table's column.
        ks: Largest difference of the shares below any value.
        quantiles: Of `LEVELS`.
        mean: Of the values that are there.
        std: Their standard deviation.
        tails: Shares beyond the real 1 % quantile and the real 99 % quantile.
        missing: Share that is missing.

    Examples:
        >>> same, ks = Pair(1.0, 1.0), Score(0.02, floor=0.01)
        >>> NumberScore("age", ks, (same,) * len(LEVELS), same, same, (same, same), same).ks.floor
        0.01
    """

    name: str
    ks: Score
    quantiles: tuple[Pair, ...]
    mean: Pair
    std: Pair
    tails: tuple[Pair, Pair]
    missing: Pair


@dataclass(frozen=True)
class CorrelationScore:
    """Pearson's correlation of two columns of numbers, and how far it is off.

    Examples:
        >>> score = CorrelationScore("age", "income", Pair(0.4, 0.5), Score(0.1, floor=0.01))
        >>> score.correlation.real
        0.5
    """

    first: str
    second: str
    correlation: Pair
    difference: Score


def number_series(schema: Schema, table: pa.Table) -> dict[str, Array]:
    """Values (n,) of every column of numbers or dates, and of every coordinate; NaN where missing."""
    found: dict[str, Array] = {}
    for name, column in schema.points.items():
        if name in schema.images:
            continue
        values = column.in_values(column.encode_points(name, table))
        found |= dict(zip(column.table_columns(name), values.T, strict=True))
    return found


def ks_distance(x: Array, y: Array) -> float:
    """The Kolmogorov–Smirnov distance of two samples without missing values.

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
    """Every column of numbers, and coordinate, of two tables; **not private**.

    Columns of which either table has no value are left out.
    """
    rng = np.random.default_rng(seed)
    ours, truth = number_series(schema, synthetic), number_series(schema, real)
    scores = []
    for name, values in ours.items():
        x, y = (each[~np.isnan(each)] for each in (values, truth[name]))
        if len(x) and len(y):
            missing = Pair(float(np.isnan(values).mean()), float(np.isnan(truth[name]).mean()))
            scores.append(_compare(name, x, y, missing, rng))
    return tuple(scores)


def _compare(name: str, x: Array, y: Array, missing: Pair, rng: np.random.Generator) -> NumberScore:
    quantiles = [np.quantile(each, LEVELS, method="inverted_cdf") for each in (x, y)]
    low, high = quantiles[1][0], quantiles[1][-1]
    return NumberScore(
        name,
        Score(ks_distance(x, y), _floor(len(x), y, rng)),
        tuple(Pair(float(a), float(b)) for a, b in zip(*quantiles, strict=True)),
        Pair(float(x.mean()), float(y.mean())),
        Pair(float(x.std()), float(y.std())),
        (
            Pair(float((x < low).mean()), float((y < low).mean())),
            Pair(float((x > high).mean()), float((y > high).mean())),
        ),
        missing,
    )


def _floor(size: int, real: Array, rng: np.random.Generator) -> float:
    """Mean KS of two samples of the real law, of `size` values and of as many as are real."""
    _, counts = np.unique(real, return_counts=True)
    shares = counts / counts.sum()
    drawn = [rng.multinomial(n, shares, size=_DRAWS) / n for n in (size, len(real))]
    return float(np.abs((drawn[0] - drawn[1]).cumsum(axis=1)).max(axis=1).mean())


def compare_correlations(
    schema: Schema, synthetic: pa.Table, real: pa.Table, seed: int = 0
) -> tuple[CorrelationScore, ...]:
    """Correlations of all pairs of numbers, and coordinates; of more than 60, of the first."""
    ours, truth = (
        np.stack([*series.values()][:_MOST_CORRELATED], axis=1) if series else np.empty((0, 0))
        for series in (number_series(schema, table) for table in (synthetic, real))
    )
    names = [*number_series(schema, real.slice(0, 1))][:_MOST_CORRELATED]
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
            names[i], names[j], Pair(float(found[i, j]), float(expected[i, j])),
            Score(float(gaps[i, j]), float(floors[i, j]), float(apart[i, j])),
        )
        for i, j in combinations(range(len(names)), 2)
    )  # fmt: skip


def correlations(values: Array) -> Array:
    """Pearson's (m, m) of columns (n, m) where neither is NaN; 0 where one is constant there.

    Examples:
        >>> correlations(np.array([[0.0, 1.0], [1.0, -1.0], [np.nan, 5.0]])).round(3).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    there = ~np.isnan(values)
    offset = np.nanmean(np.where(there.any(axis=0), values, 0.0), axis=0)
    x, held = np.where(there, values - offset, 0.0), there.astype(np.float64)
    count = np.maximum(held.T @ held, 1.0)
    mean = x.T @ held / count  # of column i where j is there
    square = (x**2).T @ held / count
    spread = square - mean**2
    covariance = x.T @ x / count - mean * mean.T
    scale = spread * spread.T
    flat = spread <= 1e-12 * square
    constant = flat | flat.T
    out: Array = np.where(constant, 0.0, covariance / np.sqrt(np.where(constant, 1.0, scale)))
    return np.clip(out, -1.0, 1.0)
