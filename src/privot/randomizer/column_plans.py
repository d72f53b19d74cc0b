"""Every way of reporting one column of points, what it errs by, and what it would need to be as good.

A **way** says what to expect of n reports at ε. Errors fall in both, so the ε, and the number of people,
at which another way errs by as much as the one that is taken are found by bisection.

Privacy review: public inputs only (the schema, ε, n), hence nothing that depends on a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from privot.core.errors import MOST_PEOPLE, PrivotError
from privot.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse
from privot.mechanisms.mechanism import mechanism_kinds, planned_error
from privot.privacy.rounding import LARGEST_EPSILON
from privot.randomizer.reports.candidates import CANDIDATES, CandidatesReport, coordinates_at
from privot.schema import Column, Schema
from privot.schema.columns.column import PointColumn

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


# What to expect of places, numbers and dates: a Wasserstein distance, by `mechanisms.planned_error`.


def ways_of_places(column: Column, delta: float, *, alone: bool) -> dict[str, Way]:
    """All mechanisms of points that are for the column; alone, or beside others."""
    return {
        kind: partial(_expect, column, made, delta, alone)
        for kind, made in mechanism_kinds(column).items()
        if made.by_kind and not made.takes_codes
    }


def of_kind(column: Column, kind: type[Mechanism], epsilon: float, delta: float) -> Mechanism:
    """A mechanism of points for the column; δ is Gaussian noise's."""
    assert column.domain is not None
    if kind.shares_delta:
        return Gaussian.calibrate(column.domain, epsilon, delta)
    return kind.for_column(column, epsilon)


def _expect(
    column: Column, kind: type[Mechanism], delta: float, alone: bool, epsilon: float, people: int
) -> Expected:
    assert column.domain is not None
    made = of_kind(column, kind, epsilon, delta)
    if not alone and made.form(column).alone:
        raise PrivotError(f"mechanism {kind.kind!r} is learned from alone: use 'laplace'")
    return Expected(planned_error(made, column.domain, people))


# What to expect of long vectors and images: means, label by label, and how well labels can be told.
#
# Of n people with one of C labels each, equally often, the mean of a label's records errs in every
# one of q coordinates by the standard deviation τ, so that its expected length is $τ \sqrt q$, where
# records are 1 long at most:
#
# - of candidates, $τ = C / (g \sqrt{a_1 n})$ (`privot.mechanisms.candidates`);
# - of noise of standard deviation σ, with ε/2 for it and ε/2 for the label's randomized response,
#   $τ = σ C \sqrt{\mathbb E w^2 / n}$, w being the weight that makes the response unbiased:
#   $(1[\text{said}] − p_0) / (p_1 − p_0)$. Without a label C = 1, w = 1, and all of ε is the noise's.
#
# This is exact for the linear estimate; a fit by likelihood errs less.
#
# **Accuracy.** How well a classifier tells labels depends on people whom nobody has seen, so they are
# stood in for by pictures of C classes: the mean of coordinate k lies $\sqrt{b_k}$ from the common
# one, $b_k = \frac14 k^{−1} / \sum_{j ≤ 100} j^{−1}$, records scatter around it with variance $k b_k
# / 1.5$, and labels are told by the best linear rule that knows these variances and means with their
# noise. With ten classes and no noise its accuracy is .84. The numbers lie between those of two
# public training sets, written digits and clothes (`python -m studies reports.plans` tells how far
# they lead); of people whose classes are closer or farther apart all accuracies are lower or higher.


_BETWEEN, _TOLD, _COSINES = 0.25, 1.5, 100
_POPULATIONS, _RECORDS = 20, 1000


def ways_of_means(
    schema: Schema, name: str, label: str | None, delta: float, *, candidates: bool
) -> dict[str, Way]:
    """Candidates, if they may be taken, and the papers' noise."""
    ways: dict[str, Way] = {CANDIDATES: partial(_candidates, schema, name, label)}
    column = schema.point_column(name)
    if not candidates:
        ways = {}
    for kind in (Laplace, Gaussian):
        if not kind.unfit(column):
            stddev = cache(partial(_stddev, schema, name, label, kind, delta))
            ways[kind.kind] = partial(_noise, column, stddev)
    return ways


def _candidates(
    schema: Schema, name: str, label: str | None, epsilon: float, people: int
) -> Expected:
    report = CandidatesReport.calibrate(schema, name, label, epsilon)
    features, gain = report.features, report.mechanism.gain
    root = math.sqrt(people * (1 - features.label_weight))
    tau, accuracy = features.labels / gain / root, None
    if features.labels > 1 and report.coordinates.column.image_shape is not None:
        accuracy = partial(stand_in_accuracy, features.labels, features.points, tau)
    return Expected(tau * math.sqrt(features.points), accuracy)


def _stddev(
    schema: Schema,
    name: str,
    label: str | None,
    kind: type[Mechanism],
    delta: float,
    epsilon: float,
) -> float:
    """τ of a single person, in unit coordinates."""
    column = schema.point_column(name)
    if label is None:
        return math.sqrt(of_kind(column, kind, epsilon, delta).variance)
    classes = schema.coded[label].alphabet.size
    told, other = RandomizedResponse(classes, epsilon / 2).probabilities
    weight = (1 - 2 * other + classes * other**2) / (classes * (told - other) ** 2)
    return classes * math.sqrt(of_kind(column, kind, epsilon / 2, delta).variance * weight)


def _noise(
    column: PointColumn, stddev: Callable[[float], float], epsilon: float, people: int
) -> Expected:
    coordinates = coordinates_at(column, epsilon)
    tau = stddev(epsilon) / math.sqrt(people) / coordinates.large_length
    return Expected(tau * math.sqrt(coordinates.count))


@cache
def stand_in_accuracy(classes: int, numbers: int, tau: float) -> float:
    """Accuracy among stand-ins, of means that err by `tau` in each of their lowest `numbers` cosines.

    Examples:
        >>> [round(stand_in_accuracy(10, 100, tau), 2) for tau in (0.0, 0.02, 0.1)]
        [0.84, 0.79, 0.51]
    """
    rng, right = np.random.default_rng(0), 0
    order = np.arange(1, min(numbers, _COSINES) + 1)
    between = _BETWEEN / order / (1 / np.arange(1, _COSINES + 1)).sum()
    within = between * order / _TOLD
    kept = between / (between + tau**2)  # what is believed of a mean
    spread = within + kept * tau**2
    for _ in range(_POPULATIONS):
        means = rng.standard_normal((classes, order.size)) * np.sqrt(between)
        known = kept * (means + tau * rng.standard_normal(means.shape))
        labels = rng.integers(classes, size=_RECORDS)
        records = means[labels] + rng.standard_normal((_RECORDS, order.size)) * np.sqrt(within)
        scores = (records / spread) @ known.T - (known**2 / spread).sum(axis=1) / 2
        right += int((scores.argmax(axis=1) == labels).sum())
    return right / (_POPULATIONS * _RECORDS)
