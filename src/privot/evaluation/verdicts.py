"""A verdict in words: what a model may be used for, and what not.

A finding is graded by these limits, all in total variation, the least share of people who would have to
move to another cell for two tables to agree, unless it says otherwise:

| use | good | fair | else |
|---|---|---|---|
| a single column | ≤ .03 | ≤ .06 | poor |
| a pair of columns | ≤ .05 | ≤ .10 | poor |
| all pairs | nine of ten are good | half are | poor |
| a number, by KS | ≤ .05 | ≤ .10 | poor |
| a correlation, by its difference | ≤ .05 | ≤ .10 | poor |
| a classifier: share of its AUC above ½ (a regression: of its R²) kept | ≥ 90 % | ≥ 70 % | poor |

Against real records an error that a perfect model's sample of the same size would have is no fault:
what is at most 1.5 times its floor is good. From reports alone errors are those to expect
(`rehearsal`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pyarrow as pa

from privot.evaluation.distances import Array, ColumnScore, PairScore, Score, TableComparison
from privot.evaluation.prediction import Prediction
from privot.schema import Schema

Grade = Literal["good", "fair", "poor", "unknown"]
COLUMN, PAIR, NUMBER, CORRELATION = (0.03, 0.06), (0.05, 0.10), (0.05, 0.10), (0.05, 0.10)
KEPT = (0.9, 0.7)
GUESS = {"AUC": 0.5, "R²": 0.0}
TELLS = 0.02  # what must be above guessing before any of it can be kept
MOST, HALF = 0.9, 0.5
_NEAR_FLOOR = 1.5
_NAMED = 3


@dataclass(frozen=True)
class Finding:
    """What the model may be used for, or not.

    Arguments:
        topic: A few words.
        grade: How good it is.
        words: A sentence or two.

    Examples:
        >>> print(Finding("columns", "good", "right within 3 %."))
        columns: right within 3 %.
    """

    topic: str
    grade: Grade
    words: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.words}"


def grade(error: float, limits: tuple[float, float], floor: float = 0.0) -> Grade:
    """Of an error, smaller being better.

    Examples:
        >>> grade(0.04, COLUMN), grade(0.04, COLUMN, floor=0.03)
        ('fair', 'good')
    """
    good, fair = (max(limit, _NEAR_FLOOR * floor) for limit in limits)
    return "good" if error <= good else "fair" if error <= fair else "poor"


def grade_share(share: float, limits: tuple[float, float] = (MOST, HALF)) -> Grade:
    """Of a share, larger being better."""
    return "good" if share >= limits[0] else "fair" if share >= limits[1] else "poor"


def failing(verdict: Sequence[Finding], grade: Grade) -> tuple[Finding, ...]:
    """Findings that are as bad as a grade, or worse; what is unknown is none.

    Examples:
        >>> found = Finding("columns", "fair", "right."), Finding("pairs", "unknown", "untold.")
        >>> [[finding.topic for finding in failing(found, grade)] for grade in ("fair", "poor")]
        [['columns'], []]
    """
    bad = ("fair", "poor") if grade == "fair" else (grade,)
    return tuple(finding for finding in verdict if finding.grade in bad)


def name_some(names: Sequence[str], most: int = _NAMED) -> str:
    """The first few names, and how many more there are.

    Examples:
        >>> name_some(["a", "b", "c", "d"], 2)
        'a, b and 2 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def percent(share: float) -> str:
    """A share in percent, of two digits.

    Examples:
        >>> percent(0.0123), percent(0.25), percent(0.0004)
        ('1.2 %', '25 %', '0.04 %')
    """
    value = 100 * share
    digits = 0 if abs(value) >= 9.95 else 1 if abs(value) >= 0.095 else 2
    return f"{value:.{digits}f} %"


# Numbers against real ones, value by value: not their bins, within which any shape may hide.
#
# Numbers and dates, and each coordinate of a vector, are compared by
#
# - **KS**, the Kolmogorov–Smirnov distance $\max_t |F(t) − G(t)|$ of the values that are not missing:
#   no share of people below a threshold is off by more;
# - quantiles, mean and standard deviation, beside the real ones;
# - **tails**: the share of synthetic values below the real 1 % quantile and above the real 99 %
#   quantile, which are .01 each where tails agree (less, where many people share that very value);
# - the share that is missing.
#
# **Correlations** are Pearson's, of values where neither is missing. A score's floor is what a
# perfect model's sample has, and of correlations independence is that of columns whose values were
# shuffled, as in `tables`.
#
# Every result depends on real records: **not private**.


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


# A verdict against real records: what a table, or a model, may be used for. **Not private**.
#
# Grades are those of `verdict`; an error that a perfect model's sample would have is not held against
# it.


def of_columns(columns: Sequence[ColumnScore]) -> Finding:
    """Shares of single columns."""
    return _of_many(
        "single columns",
        [(c.column, c.total_variation) for c in columns],
        COLUMN,
        "total variation",
    )


def of_numbers(numbers: Sequence[NumberScore]) -> Finding:
    """Numbers by their values."""
    return _of_many("numbers, value by value", [(n.name, n.ks) for n in numbers], NUMBER, "KS")


def of_pairs(pairs: Sequence[PairScore], table: TableComparison) -> list[Finding]:
    """Pairs of columns, and whether independent columns would have done as well."""
    named = [(f"{pair.first} × {pair.second}", pair.total_variation) for pair in pairs]
    found = [_of_many("pairs of columns", named, PAIR, "total variation")]
    mean = table.summary["two_way"]
    assert mean.independence is not None  # of pairs
    topic = "what goes with what"
    if mean.independence <= 1.1 * mean.floor:
        words = "the real columns hardly depend on each other: there is nothing to find"
        return [*found, Finding(topic, "unknown", words)]
    share = (mean.independence - mean.synthetic) / (mean.independence - mean.floor)
    words = (
        f"{max(0.0, min(1.0, share)):.0%} of the way from independent columns to a perfect model"
    )
    if share < 0:
        words = "independent columns would have been closer to the real pairs"
    return [*found, Finding(topic, grade_share(share, (0.7, 0.3)), words)]


def of_correlations(scores: Sequence[CorrelationScore]) -> Finding:
    """Correlations of numbers."""
    named = [(f"{score.first} × {score.second}", score.difference) for score in scores]
    return _of_many("correlations", named, CORRELATION, "difference", "{:.2f}".format)


def of_prediction(told: Prediction) -> Finding:
    """What a classifier or a regression of the target keeps, the better of those of real records."""
    best = max(told.scores, key=lambda score: score.real)
    guess = GUESS[told.measure]
    words = (
        f"{best.classifier} has {told.measure} {best.synthetic:.3f} learned from synthetic records, "
        f"{best.real:.3f} learned from real ones"
    )
    topic = f"telling {told.target}"
    if best.real - guess < TELLS:
        return Finding(topic, "unknown", f"{words}: even real records do not tell it")
    return Finding(topic, grade_share((best.synthetic - guess) / (best.real - guess), KEPT), words)


def _of_many(
    topic: str,
    named: Sequence[tuple[str, Score]],
    limits: tuple[float, float],
    measure: str,
    tell: Callable[[float], str] = percent,
) -> Finding:
    grades: list[Grade] = [grade(score.synthetic, limits, score.floor) for _, score in named]
    good = grades.count("good")
    rest = [each for each, own in zip(named, grades, strict=True) if own != "good"]
    words = f"{good} of {len(named)} within {tell(limits[0])}"
    if rest:
        worst = sorted(rest, key=lambda each: -each[1].synthetic)
        words += f"; not: {name_some([f'{name} ({tell(s.synthetic)})' for name, s in worst])}"
    own = grade_share(good / len(named))
    # Nothing that is merely fair makes the whole poor.
    own = "fair" if own == "poor" and "poor" not in grades else own
    return Finding(topic, own, f"{words} ({measure})")
