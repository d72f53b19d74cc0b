r"""Every way of reporting one column of points, what it errs by, and what it would need to be as good.

A **way** says what to expect of n reports at ε. Errors fall in both, so the ε, and the number of people,
at which another way errs by as much as the one that is taken are found by bisection.

Privacy review: public inputs only (the schema, ε, n), hence nothing that depends on a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from privot.errors import MOST_PEOPLE, PrivotError
from privot.privacy.rounding import LARGEST_EPSILON

LEAST_EPSILON = 2.0**-10
_HALVINGS = 16  # of a range of 2^20, or 2^38, to a thousandth


@dataclass(frozen=True)
class Expected:
    """What to expect of some reports.

    Arguments:
        error: In the plan's measure; NaN where nothing is worked out.
        accuracy: Of a linear classifier of labels, worked out when it is called; None where there is
            nothing to tell.
    """

    error: float
    accuracy: Callable[[], float] | None = None

    def told(self) -> float | None:
        """The accuracy."""
        return None if self.accuracy is None else self.accuracy()


Way = Callable[[float, int], Expected]  # of ε and n; raises PrivotError for an ε that cannot be had


@dataclass(frozen=True)
class PlannedReport:
    """One way, and what it needs for the error of the one that is taken.

    Arguments:
        report: Kind of the mechanism.
        error: At the plan's ε and number of people.
        accuracy: Of a linear classifier of labels, where candidates are of labeled pictures; or None.
        same_epsilon: The ε at which it errs as little; None where no ε of at most 1000 will do.
        same_people: The number of people; None where no number will do.
    """

    report: str
    error: float
    accuracy: float | None
    same_epsilon: float | None
    same_people: int | None


@dataclass(frozen=True)
class Forecast:
    """What to expect of the way that is taken, of more or fewer people and at another ε."""

    people: int
    epsilon: float
    error: float
    accuracy: float | None


@dataclass(frozen=True)
class ColumnPlan:
    """What to expect of a column's reports.

    Arguments:
        columns: The column, and its label if it is reported with it.
        measure: What the error is: `"W1"` of numbers and `"W2"` of places, in unit coordinates, in which
            the range is 2; of longer vectors and images `"mean"` or `"class means"`: the expected length
            of the mean's error, where records are 1 long at most.
        epsilon: Privacy loss of one report of these columns.
        delta: At which Gaussian noise is compared.
        options: All ways, the one that is taken first.
        forecasts: Of that one, for a tenth and ten times the people, half and twice the ε.
    """

    columns: tuple[str, ...]
    measure: str
    epsilon: float
    delta: float
    options: tuple[PlannedReport, ...]
    forecasts: tuple[Forecast, ...]

    @property
    def recommended(self) -> PlannedReport:
        """What calibration takes."""
        return self.options[0]


def compare_ways(
    ways: Mapping[str, Way], taken: str, epsilon: float, people: int
) -> tuple[tuple[PlannedReport, ...], tuple[Forecast, ...]]:
    """All ways, the one `taken` first, the others by their error; and forecasts of it."""
    goal = ways[taken](epsilon, people)
    first = PlannedReport(taken, goal.error, goal.told(), epsilon, people)
    others = [
        report
        for kind, way in ways.items()
        if kind != taken and (report := _against(goal.error, kind, way, epsilon, people))
    ]
    counts = [n for n in (people // 10, people, people * 10) if 1 <= n <= MOST_PEOPLE]
    losses = [e for e in (epsilon / 2, epsilon, epsilon * 2) if e <= LARGEST_EPSILON]
    forecasts = [(n, e, _or_nothing(ways[taken], e, n)) for n in counts for e in losses]
    return (first, *sorted(others, key=lambda o: o.error)), tuple(
        Forecast(n, e, told.error, told.told()) for n, e, told in forecasts if told
    )


def _against(goal: float, kind: str, way: Way, epsilon: float, people: int) -> PlannedReport | None:
    own = _or_nothing(way, epsilon, people)
    if own is None:
        return None

    def at_epsilon(log_epsilon: float) -> float:
        told = _or_nothing(way, math.exp(log_epsilon), people)
        return math.inf if told is None else told.error

    ends = math.log(LEAST_EPSILON), math.log(LARGEST_EPSILON)
    same_epsilon = _where(at_epsilon, goal, *ends)
    same_people = _where(
        lambda n: way(epsilon, max(1, round(math.exp(n)))).error, goal, 0, math.log(MOST_PEOPLE)
    )
    return PlannedReport(
        kind,
        own.error,
        own.told(),
        None if same_epsilon is None else math.exp(same_epsilon),
        None if same_people is None else math.ceil(math.exp(same_people)),
    )


def _or_nothing(way: Way, epsilon: float, people: int) -> Expected | None:
    try:
        return way(epsilon, people)
    except PrivotError:  # of this ε
        return None


def _where(error: Callable[[float], float], goal: float, low: float, high: float) -> float | None:
    """Where a falling error is the goal."""
    if not error(high) <= goal:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if error(middle) <= goal else (middle, high)
    return high
