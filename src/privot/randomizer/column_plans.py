r"""Expected errors of all mechanisms for one column of points, and the ε and n of equal error.

A **way** of reporting is a mechanism with its settings, represented by a function from ε and the number
n of people to the expected error. Errors decrease in both, so the ε and the n of equal error are found
by bisection.

**Places, numbers and dates**: the error is a Wasserstein distance (`privot.mechanisms.mechanism`).

**Long vectors and images**: the error is that of the mean of each label's records. Let each of C labels
have n/C people. The estimated mean of a label has standard deviation τ in each of q coordinates, so the
error has the expected length $τ \sqrt q$, in units in which records have length at most 1:

- candidates: $τ = C / (g \sqrt{a_1 n})$, with the gain g of the codebook and the weight $a_1$ of the
  coordinates among the features (`privot.mechanisms.candidates`);
- noise of standard deviation σ with ε/2, and randomized response of the label with ε/2:
  $τ = σ C \sqrt{\mathbb E w^2 / n}$ with the weight that makes the response unbiased,
  $w = (1[\text{reported}] − p_0) / (p_1 − p_0)$, where a label is reported with probability $p_1$ if it
  is the true one, and $p_0$ otherwise. Without a label C = 1, w = 1, and the noise has ε.

This is exact for the linear estimate; a fit by likelihood errs less.

**Accuracy.** The accuracy of a classifier of labels depends on the population, which is unknown, so it
is simulated: coordinate k of the mean of each of C classes deviates from the common mean with variance
$b_k = \frac14 k^{−1} / \sum_{j ≤ 100} j^{−1}$, records deviate from it with variance $k b_k / 1.5$, and
labels are predicted by the best linear rule for known variances and noisy means. With ten classes and no
noise its accuracy is 0.84, between the accuracies for two public sets of images, handwritten digits and
clothes (`python -m studies reports.plans`). If classes are closer together, it is lower.

**Privacy review.** Inputs are public (the schema, ε, n); nothing depends on a record.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from privot.core.errors import MOST_PEOPLE, PrivotError
from privot.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse
from privot.mechanisms.choice import planned_error
from privot.mechanisms.mechanism import mechanism_kinds
from privot.privacy.rounding import LARGEST_EPSILON
from privot.randomizer.reports.candidates import CANDIDATES, CandidatesReport, coordinates_at
from privot.schema import Column, Schema
from privot.schema.columns.column import PointColumn

_LEAST_EPSILON = 2.0**-10  # lower end of the search for the ε of equal error
_HALVINGS = 16  # steps of a bisection on the logarithmic scale, to about a thousandth


@dataclass(frozen=True)
class Expected:
    """Expected quality of n reports in one way."""

    error: float  # error in the plan's measure; NaN if none is computed
    # Function that simulates the accuracy of a linear classifier of labels, if any.
    simulate: Callable[[], float] | None = None

    @property
    def accuracy(self) -> float | None:
        """Accuracy of a linear classifier of labels, by simulation."""
        return None if self.simulate is None else self.simulate()


# Function of ε and n, which raises PrivotError if ε is out of range.
Way = Callable[[float, int], Expected]


@dataclass(frozen=True)
class PlannedReport:
    """One way of reporting, and the ε and the n at which it has the error of the chosen way."""

    report: str  # kind of the mechanism
    error: float  # error at the plan's ε and number of people
    # Accuracy of a linear classifier, for candidates of labeled images; otherwise None.
    accuracy: float | None
    same_epsilon: float | None  # ε of equal error; None if it exceeds 1000
    same_people: int | None  # number of people of equal error; None if there is none


@dataclass(frozen=True)
class Forecast:
    """Expected quality, as in `PlannedReport`, for another number of people and another ε."""

    people: int
    epsilon: float
    error: float
    accuracy: float | None


@dataclass(frozen=True)
class ColumnPlan:
    """Expected quality of a column's reports.

    Arguments:
        columns: Name of the column, and of its label if both are reported together.
        measure: Kind of the error: `"W1"` for numbers and `"W2"` for places, in unit coordinates, in
            which the range is 2; for longer vectors and images `"mean"` or `"class means"`: the expected
            length of the mean's error, in units in which records have length at most 1.
        epsilon: Privacy loss of one report of these columns.
        delta: δ of Gaussian noise.
        options: All ways of reporting, the chosen one first.
        forecasts: Forecasts of the chosen way for a tenth to ten times the people, half to twice the ε.
    """

    columns: tuple[str, ...]
    measure: str
    epsilon: float
    delta: float
    options: tuple[PlannedReport, ...]
    forecasts: tuple[Forecast, ...]

    @property
    def recommended(self) -> PlannedReport:
        """The way that calibration chooses."""
        return self.options[0]


def compare_ways(
    ways: Mapping[str, Way], chosen: str, epsilon: float, people: int
) -> tuple[PlannedReport, ...]:
    """Return all possible ways: the one named `chosen` first, then the others by their error."""
    goal = ways[chosen](epsilon, people)
    first = PlannedReport(chosen, goal.error, goal.accuracy, epsilon, people)
    rivals = {kind: way for kind, way in ways.items() if kind != chosen}
    others = [_compare(kind, way, goal.error, epsilon, people) for kind, way in rivals.items()]
    possible = [option for option in others if option is not None]
    return (first, *sorted(possible, key=lambda option: option.error))


def forecast_way(way: Way, epsilon: float, people: int) -> tuple[Forecast, ...]:
    """Return the expected quality for other numbers of people and other ε, where it is possible."""
    forecasts = []
    for count in forecast_people(people):
        for loss in forecast_epsilons(epsilon):
            expected = _if_possible(way, loss, count)
            if expected is not None:
                forecasts.append(Forecast(count, loss, expected.error, expected.accuracy))
    return tuple(forecasts)


def forecast_people(people: int) -> list[int]:
    """Return the numbers of people of a forecast: a tenth, as many, and ten times as many."""
    return [n for n in (people // 10, people, people * 10) if 1 <= n <= MOST_PEOPLE]


def forecast_epsilons(epsilon: float) -> list[float]:
    """Return the ε of a forecast: half, equal, and twice."""
    return [loss for loss in (epsilon / 2, epsilon, epsilon * 2) if loss <= LARGEST_EPSILON]


def _compare(kind: str, way: Way, goal: float, epsilon: float, people: int) -> PlannedReport | None:
    """Find the ε and the n at which a way has the error `goal`; None if it does not allow `epsilon`."""
    expected = _if_possible(way, epsilon, people)
    if expected is None:
        return None

    def error_at_epsilon(epsilon: float) -> float:
        reached = _if_possible(way, epsilon, people)
        return math.inf if reached is None else reached.error

    def error_of_people(people: float) -> float:
        return way(epsilon, max(1, round(people))).error

    same_epsilon = _bisect(error_at_epsilon, goal, _LEAST_EPSILON, LARGEST_EPSILON)
    same_people = _bisect(error_of_people, goal, 1, MOST_PEOPLE)
    same_people = None if same_people is None else math.ceil(same_people)
    return PlannedReport(kind, expected.error, expected.accuracy, same_epsilon, same_people)


def _if_possible(way: Way, epsilon: float, people: int) -> Expected | None:
    """Return the expected quality; None if ε is out of the way's range."""
    try:
        return way(epsilon, people)
    except PrivotError:
        return None


def _bisect(
    error: Callable[[float], float], goal: float, least: float, most: float
) -> float | None:
    """Return the argument from `least` to `most` at which a falling error reaches the goal, or None."""
    low, high = math.log(least), math.log(most)
    if not error(math.exp(high)) <= goal:  # the error may be NaN
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if error(math.exp(middle)) <= goal else (middle, high)
    return math.exp(high)


def ways_of_places(column: Column, delta: float, *, alone: bool) -> dict[str, Way]:
    """Return the ways for a column of up to three coordinates; `alone` if it is the only column."""
    return {
        name: partial(_expected_distance, column, kind, delta, alone)
        for name, kind in mechanism_kinds(column).items()
        if kind.by_kind and not kind.takes_codes
    }


def calibrate_as(column: Column, kind: type[Mechanism], epsilon: float, delta: float) -> Mechanism:
    """Calibrate a mechanism of points for the column; δ is used by Gaussian noise only."""
    assert column.domain is not None
    if kind.shares_delta:
        return Gaussian.calibrate(column.domain, epsilon, delta)
    return kind.for_column(column, epsilon)


def _expected_distance(
    column: Column, kind: type[Mechanism], delta: float, alone: bool, epsilon: float, people: int
) -> Expected:
    """Return the expected Wasserstein distance for a mechanism of points."""
    assert column.domain is not None
    mechanism = calibrate_as(column, kind, epsilon, delta)
    if not alone and mechanism.form(column).alone:
        raise PrivotError(f"mechanism {kind.kind!r} needs a report of its own: use 'laplace'")
    return Expected(planned_error(mechanism, column.domain, people))


# Simulated images, as in the module's docstring.
_BETWEEN = 0.25  # Σ b_k
_BETWEEN_TO_WITHIN = 1.5  # divisor of the variance of records
_MOST_COORDINATES = 100
_POPULATIONS, _RECORDS = 20, 1000  # number of simulations, and of records in each


def ways_of_means(
    schema: Schema, name: str, label: str | None, delta: float, *, candidates: bool
) -> dict[str, Way]:
    """Return the ways for a long vector or an image: candidates if allowed, Laplace, and Gaussian."""
    ways: dict[str, Way] = {}
    if candidates:
        ways[CANDIDATES] = partial(_expected_of_candidates, schema, name, label)
    column = schema.point_column(name)
    for kind in (Laplace, Gaussian):
        if not kind.unfit(column):
            stddev_of_one = cache(partial(_stddev_of_one, schema, name, label, kind, delta))
            ways[kind.kind] = partial(_expected_of_noise, column, stddev_of_one)
    return ways


def _expected_of_candidates(
    schema: Schema, name: str, label: str | None, epsilon: float, people: int
) -> Expected:
    """Return the expected error of the means by candidates, with the accuracy for labeled images."""
    report = CandidatesReport.calibrate(schema, name, label, epsilon)
    features, gain = report.features, report.mechanism.gain
    root = math.sqrt(people * (1 - features.label_weight))  # √(a₁ n)
    tau, simulate = features.num_labels / gain / root, None
    if features.num_labels > 1 and report.coordinates.column.image_shape is not None:
        simulate = partial(simulated_accuracy, features.num_labels, features.num_coordinates, tau)
    return Expected(tau * math.sqrt(features.num_coordinates), simulate)


def _stddev_of_one(
    schema: Schema,
    name: str,
    label: str | None,
    kind: type[Mechanism],
    delta: float,
    epsilon: float,
) -> float:
    """Return the standard deviation τ of noise for n = 1, in unit coordinates (range −1 to 1)."""
    column = schema.point_column(name)
    if label is None:
        return math.sqrt(calibrate_as(column, kind, epsilon, delta).variance)
    classes = schema.coded[label].alphabet.size
    p1, p0 = RandomizedResponse(classes, epsilon / 2).probabilities
    # E w²: each of the C labels is reported with probability 1/C, since all are equally frequent.
    mean_squared_weight = (1 - 2 * p0 + classes * p0**2) / (classes * (p1 - p0) ** 2)
    variance = calibrate_as(column, kind, epsilon / 2, delta).variance
    return classes * math.sqrt(variance * mean_squared_weight)


def _expected_of_noise(
    column: PointColumn, stddev_of_one: Callable[[float], float], epsilon: float, people: int
) -> Expected:
    """Return the expected error of the means with noise, over the coordinates that candidates report."""
    coordinates = coordinates_at(column, epsilon)
    # Vectors of length `large_length` in unit coordinates have length 1 in the plan's units.
    tau = stddev_of_one(epsilon) / math.sqrt(people) / coordinates.large_length
    return Expected(tau * math.sqrt(coordinates.count))


@cache
def simulated_accuracy(classes: int, numbers: int, tau: float) -> float:
    """Simulate the accuracy of a linear classifier of images, as the module describes.

    Arguments:
        classes: Number of labels.
        numbers: Number of reported coordinates.
        tau: Standard deviation of the error of each coordinate of a class mean.

    Examples:
        >>> [round(simulated_accuracy(10, 100, tau), 2) for tau in (0.0, 0.02, 0.1)]
        [0.84, 0.79, 0.51]
    """
    rng, correct = np.random.default_rng(0), 0
    order = np.arange(1, min(numbers, _MOST_COORDINATES) + 1)
    between = _BETWEEN / order / (1 / np.arange(1, _MOST_COORDINATES + 1)).sum()
    within = between * order / _BETWEEN_TO_WITHIN
    shrinkage = between / (between + tau**2)  # of the posterior mean of a class mean
    spread = within + shrinkage * tau**2
    for _ in range(_POPULATIONS):
        means = rng.standard_normal((classes, order.size)) * np.sqrt(between)
        estimates = shrinkage * (means + tau * rng.standard_normal(means.shape))
        labels = rng.integers(classes, size=_RECORDS)
        records = means[labels] + rng.standard_normal((_RECORDS, order.size)) * np.sqrt(within)
        scores = (records / spread) @ estimates.T - (estimates**2 / spread).sum(axis=1) / 2
        correct += int((scores.argmax(axis=1) == labels).sum())
    return correct / (_POPULATIONS * _RECORDS)
