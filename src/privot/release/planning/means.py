r"""What to expect of long vectors and images: means, label by label, and how well labels can be told.

Of n people with one of C labels each, equally often, the mean of a label's records errs in every one of
q coordinates by the standard deviation τ, so that its expected length is $τ \sqrt q$, where records are
1 long at most:

- of candidates, $τ = C / (g \sqrt{a_1 n})$ (`privot.mechanisms.candidates`);
- of noise of standard deviation σ, with ε/2 for it and ε/2 for the label's randomized response,
  $τ = σ C \sqrt{\mathbb E w^2 / n}$, w being the weight that makes the response unbiased:
  $(1[\text{said}] − p_0) / (p_1 − p_0)$. Without a label C = 1, w = 1, and all of ε is the noise's.

This is exact for the linear estimate; a fit by likelihood errs less.

**Accuracy.** How well a classifier tells labels depends on people whom nobody has seen, so they are
stood in for by pictures of C classes: the mean of coordinate k lies $\sqrt{b_k}$ from the common one,
$b_k = \frac14 k^{−1} / \sum_{j ≤ 100} j^{−1}$, records scatter around it with variance $k b_k / 1.5$,
and labels are told by the best linear rule that knows these variances and means with their noise. With
ten classes and no noise its accuracy is .84. The numbers lie between those of two public training sets,
written digits and clothes (`python -m studies reports.plans` tells how far they lead); of people whose
classes are closer or farther apart all accuracies are lower or higher.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from privot.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse
from privot.release.planning.columns import Expected, Way
from privot.release.planning.places import of_kind
from privot.release.reports.candidates import CANDIDATES, CandidatesReport, coordinates_at
from privot.schema import PointColumn, Schema

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
