"""Findings about the quality of synthetic records, and the limits by which errors are graded.

Unless the table says otherwise, errors are total variation: the smallest share of people who would have
to move to another cell for two tables to agree.

| quantity | good | fair | otherwise |
|---|---|---|---|
| a single column | ≤ .03 | ≤ .06 | poor |
| a pair of columns | ≤ .05 | ≤ .10 | poor |
| all columns, pairs or numbers | nine of ten are good | half are, or none is poor | poor |
| a number, by KS | ≤ .05 | ≤ .10 | poor |
| a correlation or rank correlation, by its difference | ≤ .05 | ≤ .10 | poor |
| dependence: share of the way from independent columns to a perfect model | ≥ 70 % | ≥ 30 % | poor |
| a classifier: share of its AUC above ½ (a regression: of its R²) retained | ≥ 90 % | ≥ 70 % | poor |

Against real records, an error of at most 1.5 times its floor is good as well; the floor is the error of
a perfect model's sample of the same size. Without real records, errors are expected ones
(`expected_fits`), and limits of good ones are 1.5 times smaller (`expected`), because an error may
exceed the expected one by half. The expected error of pairs is compared with the dependence that the
model has: below a third of it is good, below all of it fair.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from privot.evaluation.distances import Score

Grade = Literal["good", "fair", "poor", "unknown"]
# Limits of good and of fair: of errors at most, of shares at least.
COLUMN, PAIR, NUMBER, CORRELATION = (0.03, 0.06), (0.05, 0.10), (0.05, 0.10), (0.05, 0.10)
RETAINED, GAINED = (0.9, 0.7), (0.7, 0.3)
CHANCE = {"AUC": 0.5, "R²": 0.0}  # score of a guess, by measure
MIN_ABOVE_CHANCE = 0.02  # smallest score above chance of which a retained share is computed
MOST, HALF = 0.9, 0.5  # shares of good columns or pairs: nine of ten, half
DEPENDENCE = "dependence of pairs"  # topic of a finding
_MARGIN = 1.5  # ratio of limits of good errors to those of good expected errors
_NEAR_FLOOR = 1.5  # largest ratio of a good error to its floor
_MAX_NAMES = 3


@dataclass(frozen=True)
class Finding:
    """Finding about the quality of synthetic records.

    Arguments:
        topic: Quantity that was judged, in a few words.
        grade: Grade by the limits of this module.
        words: Explanation, in a sentence or two.
    """

    topic: str
    grade: Grade
    words: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.words}"


def grade(error: float, limits: tuple[float, float], floor: float = 0.0) -> Grade:
    """Grade an error; smaller is better.

    Examples:
        >>> grade(0.04, COLUMN), grade(0.04, COLUMN, floor=0.03)
        ('fair', 'good')
    """
    good, fair = (max(limit, _NEAR_FLOOR * floor) for limit in limits)
    return "good" if error <= good else "fair" if error <= fair else "poor"


def expected(limits: tuple[float, float]) -> tuple[float, float]:
    """Return the limits of expected errors, given those of errors.

    Examples:
        >>> [round(limit, 3) for limit in expected(PAIR)]
        [0.033, 0.1]
    """
    return limits[0] / _MARGIN, limits[1]


def grade_share(share: float, limits: tuple[float, float] = (MOST, HALF)) -> Grade:
    """Grade a share; larger is better."""
    return "good" if share >= limits[0] else "fair" if share >= limits[1] else "poor"


def failing(verdict: Sequence[Finding], grade: Grade) -> tuple[Finding, ...]:
    """Return the findings with this grade or a worse one, but none whose grade is unknown.

    Examples:
        >>> found = Finding("columns", "fair", "right."), Finding("pairs", "unknown", "none.")
        >>> [[finding.topic for finding in failing(found, grade)] for grade in ("fair", "poor")]
        [['columns'], []]
    """
    bad = ("fair", "poor") if grade == "fair" else (grade,)
    return tuple(finding for finding in verdict if finding.grade in bad)


def join_names(names: Sequence[str], most: int = _MAX_NAMES) -> str:
    """Join the first few names, and the number of the others.

    Examples:
        >>> join_names(["a", "b", "c", "d"], 2)
        'a, b and 2 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def percent(share: float) -> str:
    """Format a share in percent, with two digits.

    Examples:
        >>> percent(0.0123), percent(0.25), percent(0.0004)
        ('1.2 %', '25 %', '0.04 %')
    """
    value = 100 * share
    digits = 0 if abs(value) >= 9.95 else 1 if abs(value) >= 0.095 else 2
    return f"{value:.{digits}f} %"


def judge(
    topic: str,
    named: Sequence[tuple[str, Score]],
    limits: tuple[float, float],
    measure: str,
    formatted: Callable[[float], str] = percent,
) -> Finding:
    """Return a finding about several named errors, graded by the share of good ones."""
    grades = [grade(score.synthetic, limits, score.floor) for _, score in named]
    good = grades.count("good")
    words = f"{good} of {len(named)} within {formatted(limits[0])}"
    others = [item for item, found in zip(named, grades, strict=True) if found != "good"]
    if others:
        others.sort(key=lambda item: -item[1].synthetic)
        names = [f"{name} ({formatted(score.synthetic)})" for name, score in others]
        words += f"; not: {join_names(names)}"
    overall = grade_share(good / len(named))
    if overall == "poor" and "poor" not in grades:  # few are good, but all others are fair
        overall = "fair"
    return Finding(topic, overall, f"{words} ({measure})")


def judge_correlations(
    topic: str, named: Sequence[tuple[str, Score]], limits: tuple[float, float] = CORRELATION
) -> Finding:
    """Return a finding about the errors of the correlations of named pairs."""
    return judge(topic, named, limits, "difference", "{:.2g}".format)
