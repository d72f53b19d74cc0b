r"""Confidence intervals of means, quantiles and correlations of numbers, from reports alone.

Reports estimate the shares of bins; the model gives the shape within bins. With m(v) the model's mean
of f in bin v, the mean of f is $\sum_v m(v) P(v)$, of which P(v) is estimated without a model
(`estimates`). Several alphabets whose bins overlap determine the shape within bins themselves. For a
column reported in one alphabet alone, intervals are wide enough for numbers spread evenly over their
bins, too; if one bin holds nearly all numbers and they follow neither shape, an interval may miss. f is
the number itself, the indicator of x ≤ t, or a product of two numbers.

A **quantile** of level τ lies where the interval of P(x ≤ t) contains τ: between the first t whose upper
end reaches τ and the first whose lower end does. A **mean** of a column that may be missing is that of
the numbers present, a ratio of two means; so is a **correlation**, of standardized numbers. Their
variances follow from the covariances by the delta method.

**Two shapes.** For a column reported in one alphabet, P(x ≤ t) is taken to lie between its values under
the model's shape and an even one, δ standard errors apart. An interval that covers any value between
them in nine cases of ten extends c standard errors beyond both, with $Φ(c + δ) − Φ(−c) = .9$: a value
near one of them is missed on one side only. Means have c = 1.645, for their two shapes hardly differ.

Privacy review: functions of a release, and of a model of it: post-processing.

References:
    Imbens, Manski, *Confidence intervals for partially identified parameters* (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.evaluation.estimates import (
    CodeReports,
    Estimate,
    Interval,
    Questions,
    ValueCheck,
    Z,
    estimate,
    pooled,
)
from privot.schema.domains import Array

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_MAX_PLACES = 201
_MIN_RECORDS = 20  # of a cell whose own mean product is used


@dataclass(frozen=True)
class NumberCheck:
    """The mean and some quantiles (`LEVELS`) of the numbers of a column that are not missing."""

    mean: ValueCheck
    quantiles: tuple[ValueCheck, ...]

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` wrote."""
        quantiles = tuple(map(ValueCheck.from_dict, fields["quantiles"]))
        return cls(ValueCheck.from_dict(fields["mean"]), quantiles)


@dataclass(frozen=True, eq=False)
class NumberSample:
    """A number column of records drawn from a model.

    Arguments:
        values: Numbers (n,), NaN where missing.
        codes: Their codes in a report (n,).
        centers: The number that each code (K,) stands for, NaN where missing.
        even: The numbers again (n,), spread evenly over their bins.
    """

    values: Array
    codes: NDArray[np.int64]
    centers: Array
    even: Array

    def evenly(self) -> NumberSample:
        """Return the same records with numbers spread evenly over their bins."""
        return replace(self, values=self.even)

    def by_code(self, f: Callable[[Array], Array]) -> Array:
        """Return means of f (K, G) by code: the model's, or at the code's center where it has none."""
        there = ~np.isnan(self.values)
        codes, size = self.codes[there], len(self.centers)
        sums = [np.bincount(codes, each, size) for each in f(self.values[there]).T]
        counts = np.bincount(codes, minlength=size).astype(np.float64)
        return self._means(np.stack(sums, axis=1), counts, f)

    def below(self, places: Array) -> Array:
        """Return, by code, shares at most each of some places, increasing to the largest value."""
        there = ~np.isnan(self.values)
        codes, size = self.codes[there], len(self.centers)
        rank = np.searchsorted(places, self.values[there])
        # Spread evenly over its bin, a number may lie above the largest that was drawn.
        cells = codes * (len(places) + 1) + rank
        counts = 1.0 * np.bincount(cells, minlength=size * (len(places) + 1)).reshape(size, -1)
        sums = counts.cumsum(axis=1)[:, :-1]
        return self._means(sums, counts.sum(axis=1), partial(_at_most, places))

    def _means(self, sums: Array, counts: Array, f: Callable[[Array], Array]) -> Array:
        known = np.isfinite(self.centers)
        default = np.zeros(sums.shape)
        default[known] = f(self.centers[known])
        out = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], default)
        out[~known] = 0.0
        return out


def _at_most(places: Array, x: Array) -> Array:
    return np.asarray(x[:, None] <= places, dtype=np.float64)


ByQuestion = Mapping[int, NumberSample]  # of one column: the same values, in other codes


def check_number(reports: CodeReports, samples: ByQuestion) -> NumberCheck:
    """Estimate intervals of a column's mean and quantiles, by the model's shape within bins.

    Where the column is reported in one alphabet alone, they are wide enough for an even shape, too.
    """
    shapes = [samples]
    if len(samples) == 1:
        shapes.append({question: each.evenly() for question, each in samples.items()})
    means = [_mean(reports, shape) for shape in shapes]
    low, high = min(each.low for each in means), max(each.high for each in means)
    center = float(np.nanmean(next(iter(samples.values())).values))
    mean = ValueCheck(center, Interval(means[0].estimate, low, high))
    return NumberCheck(mean, _quantiles(reports, shapes))


def _mean(reports: CodeReports, samples: ByQuestion) -> Interval:
    """Estimate a column's mean, if numbers are within bins as these are."""
    values = next(iter(samples.values())).values
    numbers = values[~np.isnan(values)]
    low, high = float(numbers.min()), float(numbers.max())
    center, width = float(numbers.mean()), float(numbers.std()) or 1.0
    found = _estimated(
        reports, samples, lambda d: d.by_code(lambda x: (x[:, None] - center) / width), full=True
    )
    mean, variance = delta_method(_ratio, found.mean, found.spread)
    standard = Interval.of(mean, variance, (low - center) / width, (high - center) / width)
    ends = (standard.estimate, standard.low, standard.high)
    return Interval(*(center + width * each for each in ends))


def _quantiles(reports: CodeReports, shapes: Sequence[ByQuestion]) -> tuple[ValueCheck, ...]:
    """Estimate `LEVELS`, if numbers are within bins as the first of some shapes, or any between them."""
    drawn = [next(iter(shape.values())).values for shape in shapes]
    drawn = [each[~np.isnan(each)] for each in drawn]
    values = np.concatenate(drawn)
    whole = np.array_equal(values, np.round(values))
    if np.unique(values).size > _MAX_PLACES:
        ranks = np.linspace(0, 1, _MAX_PLACES)
        found = [np.quantile(each, ranks, method="inverted_cdf") for each in drawn]
        values = np.concatenate([*found, [values.max()]])
        places, counts = np.unique(values, return_counts=True)
        # Quantiles are interpolated where there is a density; an atom is its own quantile.
        jumps = (counts > 2 * len(drawn)) | whole
    else:
        places = np.unique(values)
        jumps = np.ones(places.shape, bool)
    curves, errors = zip(*(_cumulative(reports, shape, places) for shape in shapes), strict=True)
    low, high = np.min(curves, axis=0), np.max(curves, axis=0)
    error = np.max(errors, axis=0)
    error = error * _critical_value((high - low) / np.maximum(error, 1e-9))
    quantiles = []
    for level in LEVELS:
        model = float(np.quantile(drawn[0], level, method="inverted_cdf"))
        ends = [_first(places, c, level, jumps) for c in (curves[0], high + error, low - error)]
        quantiles.append(ValueCheck(model, Interval(*ends)))
    return tuple(quantiles)


def _cumulative(reports: CodeReports, samples: ByQuestion, places: Array) -> tuple[Array, Array]:
    """Return shares of numbers up to some places, the last the largest, and standard errors."""
    share = _estimated(reports, samples, lambda d: d.below(places))
    total = max(float(share.mean[-1]), 1e-9)
    curve: Array = np.maximum.accumulate(share.mean[:-1] / total)
    return curve, np.sqrt(np.clip(share.variance[:-1], 0, None)) / total


def _critical_value(apart: Array) -> Array:
    r"""Solve $Φ(c + δ) − Φ(−c) = .9$ for c at distances δ: 1.645 at none, 1.282 at large ones."""
    low, high = np.full(apart.shape, 1.28), np.full(apart.shape, Z)
    for _ in range(20):
        middle = (low + high) / 2
        short = scipy.special.ndtr(middle + apart) - scipy.special.ndtr(-middle) < 0.9
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return high


def check_correlation(
    reports: CodeReports, pairs: Sequence[Questions], samples: ByQuestion
) -> ValueCheck | None:
    """Estimate Pearson's correlation where neither is missing; None where one is constant.

    Means and spreads come from all reports about either column, and products from those about both:
    `pairs` of questions, of which the first are about one column.
    """
    a, b = (samples[question].values for question in pairs[0])
    both = ~np.isnan(a) & ~np.isnan(b)
    if both.sum() < 2 or not (np.ptp(a[both]) > 0 and np.ptp(b[both]) > 0):
        return None
    model = float(np.corrcoef(a[both], b[both])[0, 1])
    standard: dict[int, NumberSample] = {}
    errors = 0.0
    for own in ({q: samples[q] for q, _ in pairs}, {q: samples[q] for _, q in pairs}):
        scaled, error = _standard(reports, own)
        standard |= scaled
        errors += error
    found = []
    for pair in pairs:
        x, y = (standard[question] for question in pair)
        there = [np.isfinite(each.centers).astype(float) for each in (x, y)]
        g = np.stack([_products(x, y, both).ravel(), np.outer(*there).ravel()], axis=1)
        found.append(estimate(reports, pair, g, full=True))
    every = pooled(found)
    value, variance = delta_method(_ratio, every.mean, every.spread)
    return ValueCheck(model, Interval.of(value, variance + value**2 / 4 * errors, -1.0, 1.0))


def _estimated(
    reports: CodeReports,
    samples: ByQuestion,
    by_code: Callable[[NumberSample], Array],
    *,
    full: bool = False,
) -> Estimate:
    """Estimate means of functions of a code, and last the share of numbers that are not missing."""
    found = []
    for question, own in samples.items():
        there = np.isfinite(own.centers).astype(float)
        g = np.column_stack([by_code(own), there])
        found.append(estimate(reports, (question,), g, full=full))
    return pooled(found)


def _standard(reports: CodeReports, samples: ByQuestion) -> tuple[dict[int, NumberSample], float]:
    """Standardize numbers by the reports; return them and their variance's relative variance."""
    values = next(iter(samples.values())).values
    center, width = float(np.nanmean(values)), float(np.nanstd(values))

    def powers(x: Array) -> Array:
        standard = (x - center) / width
        return np.stack([standard, standard * standard], axis=1)

    found = _estimated(reports, samples, lambda d: d.by_code(powers), full=True)
    mean = float(found.mean[0] / found.mean[2])
    spread, error = delta_method(_variance, found.mean, found.spread)
    spread = max(spread, 0.05)  # of the model's: a reports' variance may be below 0

    def scaled(x: Array) -> Array:
        out: Array = (x - center - width * mean) / (width * np.sqrt(spread))
        return out

    standard = {
        q: replace(d, values=scaled(d.values), centers=scaled(d.centers))
        for q, d in samples.items()
    }
    return standard, error / spread**2


def _products(x: NumberSample, y: NumberSample, both: NDArray[np.bool_]) -> Array:
    """Return the model's mean product by cell; where it has few records, the product of the means."""
    apart = np.outer(*(d.by_code(lambda v: v[:, None]) for d in (x, y)))
    cells = x.codes[both] * apart.shape[1] + y.codes[both]
    count = np.bincount(cells, minlength=apart.size)
    sums = np.bincount(cells, x.values[both] * y.values[both], apart.size)
    own = (sums / np.maximum(count, 1)).reshape(apart.shape)
    return np.where((count >= _MIN_RECORDS).reshape(apart.shape), own, apart)


def _first(places: Array, curve: Array, level: float, jumps: NDArray[np.bool_]) -> float:
    """Return where a curve first reaches a level: a place, or between two; or the last place."""
    reached = curve >= level - 1e-9
    if not reached.any():
        return float(places[-1])
    index = int(reached.argmax())
    if index == 0 or jumps[index]:
        return float(places[index])
    return float(np.interp(level, curve[index - 1 : index + 1], places[index - 1 : index + 1]))


def _ratio(m: Array) -> float:
    return float(m[0] / max(m[1], 1e-9))


def _variance(m: Array) -> float:
    x, xx = m[:2] / max(m[2], 1e-9)
    return float(xx - x * x)


def delta_method(f: Callable[[Array], float], at: Array, covariance: Array) -> tuple[float, float]:
    """Return a function of means, and its variance by the delta method, by central differences."""
    step = 1e-4
    slope = np.array([(f(at + step * e) - f(at - step * e)) / (2 * step) for e in np.eye(len(at))])
    return f(at), float(slope @ covariance @ slope)
