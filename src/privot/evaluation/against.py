"""A verdict against real records: what a table, or a model, may be used for. **Not private**.

Grades are those of `verdict`; an error that a perfect model's sample would have is not held against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from privot.evaluation.numbers import CorrelationScore, NumberScore
from privot.evaluation.prediction import Prediction
from privot.evaluation.tables import ColumnScore, PairScore, Score, TableComparison
from privot.evaluation.verdict import (
    COLUMN,
    CORRELATION,
    GUESS,
    KEPT,
    NUMBER,
    PAIR,
    TELLS,
    Finding,
    Grade,
    grade,
    grade_share,
    name_some,
    percent,
)


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
