r"""Estimates of means, quantiles and correlations of numbers from reports, with 90 % intervals.

Numbers are reported in bins, whose shares are estimated without a model (`privot.evaluation.estimates`);
a model is used only for the distribution within bins.

**Means.** With m(v) the model's mean of f in bin v, the mean of f is $\sum_v m(v) P(v)$, where P(v) is
estimated without a model; f is the number, the indicator of x ≤ t, or a product of two numbers. If a
column is reported in several alphabets, their overlapping bins determine the distribution within bins.
If it is reported in one alphabet, intervals also cover an even distribution within bins; an interval may
miss if one bin contains nearly all numbers and they follow neither distribution.

The interval of a **quantile** of level τ contains all t for which P(x ≤ t) has an interval around τ: it
ranges from the first t whose upper end reaches τ to the first whose lower end does. The **mean** of the
numbers that are not missing is a ratio of two means; so is a **correlation**, of standardized numbers.
Their variances follow from the covariances by the delta method.

**Two shapes.** For a column reported in one alphabet, P(x ≤ t) is assumed to lie between its values
under the model's distribution within bins and under an even one, δ standard errors apart. An interval
that extends c standard errors beyond both values covers any value between them with probability 90 % if
$Φ(c + δ) − Φ(−c) = .9$ (Imbens and Manski). Means use c = 1.645, since their two values hardly differ.

Privacy review: functions of a release and of a model of it: post-processing, with its guarantee.

References:
    Imbens, Manski, *Confidence intervals for partially identified parameters* (2004).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.evaluation.estimates import (
    CodeReports,
    Estimate,
    Interval,
    Question,
    Questions,
    ValueCheck,
    Z,
    estimate,
)
from privot.schema.columns.alphabet import Bins
from privot.schema.columns.numeric import NumberColumn
from privot.schema.domains import Array

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_MAX_PLACES = 201  # most places at which a distribution function is estimated
_MIN_RECORDS = 20  # sampled records of a cell, from which its mean product is computed
_MIN_VARIANCE = 0.05  # of an estimate, which may be negative, relative to the model's variance


@dataclass(frozen=True)
class NumberCheck:
    """Check of a column's mean and quantiles (`LEVELS`), over numbers that are not missing."""

    mean: ValueCheck
    quantiles: tuple[ValueCheck, ...]


@dataclass(frozen=True, eq=False)
class NumberSample:
    """Numbers of one column in records sampled from a model, and their codes in one alphabet."""

    values: Array  # (n,), NaN where missing
    codes: NDArray[np.int64]  # (n,)
    centers: Array  # (K,) center of each code's bin, NaN for missing
    even: Array  # (n,) numbers drawn evenly from the same bins

    @classmethod
    def of(
        cls, question: Question, name: str, table: pa.Table, rng: np.random.Generator
    ) -> "NumberSample":
        """Encode records for a question about a column of numbers."""
        column, bins = cast(NumberColumn, question.declared), cast(Bins, question.alphabet)
        centers, numbers = column.in_values(bins.centers), column.read(name, table)[0]
        codes = bins.encode(numbers)
        even = column.in_values(bins.decode(codes, rng))
        return cls(column.in_values(numbers), codes, centers, even)

    @property
    def has_number(self) -> Array:
        """1 for each code that stands for a number, 0 for the code of missing ones (K,)."""
        return np.isfinite(self.centers).astype(np.float64)

    def by_code(self, f: Callable[[Array], Array]) -> Array:
        """Return means of f (K, G) by code; f of the center where a code was not sampled."""
        present = ~np.isnan(self.values)
        codes, size = self.codes[present], len(self.centers)
        sums = [np.bincount(codes, each, size) for each in f(self.values[present]).T]
        counts = np.bincount(codes, minlength=size).astype(np.float64)
        return self._means(np.stack(sums, axis=1), counts, f)

    def below(self, places: Array) -> Array:
        """Return by code (K, G) the share of numbers ≤ each of G increasing places."""
        present = ~np.isnan(self.values)
        codes, size = self.codes[present], len(self.centers)
        # Numbers drawn evenly from a bin may lie above the last place; hence one more cell.
        cells = codes * (len(places) + 1) + np.searchsorted(places, self.values[present])
        counts = np.bincount(cells, minlength=size * (len(places) + 1)).astype(np.float64)
        sums = counts.reshape(size, -1).cumsum(axis=1)
        return self._means(sums[:, :-1], sums[:, -1], lambda x: 1.0 * (x[:, None] <= places))

    def _means(self, sums: Array, counts: Array, f: Callable[[Array], Any]) -> Array:
        is_number = np.isfinite(self.centers)
        out = np.zeros(sums.shape)
        out[is_number] = f(self.centers[is_number])
        sampled = is_number & (counts > 0)
        out[sampled] = sums[sampled] / counts[sampled, None]
        return out


ByQuestion = Mapping[int, NumberSample]  # samples of one column by question: only codes differ


def check_number(reports: CodeReports, samples: ByQuestion) -> NumberCheck:
    """Estimate a column's mean and quantiles, with the model's distribution within bins."""
    shapes = [samples]
    if len(samples) == 1:
        shapes.append({q: replace(each, values=each.even) for q, each in samples.items()})
    means = [_mean(reports, shape) for shape in shapes]
    low, high = min(mean.low for mean in means), max(mean.high for mean in means)
    model_mean = float(np.nanmean(next(iter(samples.values())).values))
    mean = ValueCheck(model_mean, Interval(means[0].estimate, low, high))
    return NumberCheck(mean, tuple(_quantiles(reports, shapes)))


def _mean(reports: CodeReports, samples: ByQuestion) -> Interval:
    """Estimate a column's mean, with the samples' distribution within bins."""
    numbers = _present(samples)
    center, width = float(numbers.mean()), float(numbers.std()) or 1.0

    def standardized(x: Array) -> Array:
        return np.asarray((x[:, None] - center) / width)

    sums = _estimate_by_code(reports, samples, lambda sample: sample.by_code(standardized))
    mean, variance = delta_method(_ratio, sums.mean, sums.spread)
    least, most = ((float(end) - center) / width for end in (numbers.min(), numbers.max()))
    interval = Interval.of(mean, variance, least, most)
    return Interval(*(center + width * end for end in astuple(interval)))


def _quantiles(reports: CodeReports, shapes: Sequence[ByQuestion]) -> Iterator[ValueCheck]:
    """Estimate quantiles of `LEVELS`, for distributions within bins between the given shapes."""
    numbers = [_present(shape) for shape in shapes]
    places, jumps = _grid(numbers)
    curves, errors = zip(*(_cumulative(reports, shape, places) for shape in shapes), strict=True)
    low, high, error = np.min(curves, axis=0), np.max(curves, axis=0), np.max(errors, axis=0)
    margin = error * _critical_value((high - low) / np.maximum(error, 1e-9))
    for level in LEVELS:
        model = float(np.quantile(numbers[0], level, method="inverted_cdf"))
        # The upper end of P(x ≤ t) reaches the level first, so it gives the lower end of the quantile.
        estimate_low_high = curves[0], high + margin, low - margin
        ends = [_first_reach(places, curve, level, jumps) for curve in estimate_low_high]
        yield ValueCheck(model, Interval(*ends))


def _grid(numbers: Sequence[Array]) -> tuple[Array, NDArray[np.bool_]]:
    """Return increasing places (G,) for the distribution functions of samples, and a mask (G,) of jumps.

    Quantiles are interpolated between places where there is a density, but not at a jump.
    """
    values = np.concatenate(numbers)
    places = np.unique(values)
    if places.size <= _MAX_PLACES:
        return places, np.ones(places.shape, bool)
    ranks = np.linspace(0, 1, _MAX_PLACES)
    quantiles = [np.quantile(each, ranks, method="inverted_cdf") for each in numbers]
    places, counts = np.unique(np.concatenate([*quantiles, [values.max()]]), return_counts=True)
    are_integers = np.array_equal(values, np.round(values))
    # Ranks are .5 % apart, so a place that is three quantiles of a sample has 1 % of its numbers.
    return places, (counts > 2 * len(numbers)) | are_integers


def _cumulative(reports: CodeReports, samples: ByQuestion, places: Array) -> tuple[Array, Array]:
    """Return the estimated shares of numbers ≤ each place (G,), and standard errors (G,)."""
    shares = _estimate_by_code(reports, samples, lambda sample: sample.below(places), full=False)
    present = max(float(shares.mean[-1]), 1e-9)
    curve: Array = np.maximum.accumulate(shares.mean[:-1] / present)
    return curve, np.sqrt(np.clip(shares.variance[:-1], 0, None)) / present


def _critical_value(distance: Array) -> Array:
    r"""Solve $Φ(c + δ) − Φ(−c) = .9$ for c at distances δ, from 1.645 at 0 to 1.282, by bisection."""
    low, high = np.full(distance.shape, 1.28), np.full(distance.shape, Z)
    for _ in range(20):
        middle = (low + high) / 2
        too_small = scipy.special.ndtr(middle + distance) - scipy.special.ndtr(-middle) < 0.9
        low, high = np.where(too_small, middle, low), np.where(too_small, high, middle)
    return high


def _first_reach(places: Array, curve: Array, level: float, jumps: NDArray[np.bool_]) -> float:
    """Return the place where a curve first reaches a level, interpolated except at jumps."""
    reached = curve >= level - 1e-9
    if not reached.any():
        return float(places[-1])
    index = int(reached.argmax())
    if index == 0 or jumps[index]:
        return float(places[index])
    return float(np.interp(level, curve[index - 1 : index + 1], places[index - 1 : index + 1]))


def check_correlation(
    reports: CodeReports, pairs: Sequence[Questions], samples: ByQuestion
) -> ValueCheck | None:
    """Estimate Pearson's correlation of two columns; None if one is constant.

    Means and variances use all reports about a column; products those that answer one of `pairs`.
    """
    a, b = (samples[question].values for question in pairs[0])
    both = ~np.isnan(a) & ~np.isnan(b)
    if both.sum() < 2 or not (np.ptp(a[both]) > 0 and np.ptp(b[both]) > 0):
        return None
    model = float(np.corrcoef(a[both], b[both])[0, 1])
    first, first_error = _standardized(reports, {q: samples[q] for q, _ in pairs})
    second, second_error = _standardized(reports, {q: samples[q] for _, q in pairs})
    estimates = []
    for pair in pairs:
        x, y = first[pair[0]], second[pair[1]]
        both_numbers = np.outer(x.has_number, y.has_number)
        g = np.stack([_products(x, y, both).ravel(), both_numbers.ravel()], axis=1)
        estimates.append(estimate(reports, pair, g, full=True))
    products = pooled(estimates)
    value, variance = delta_method(_ratio, products.mean, products.spread)
    # A relative error of a variance changes a correlation by half of it.
    variance += value**2 / 4 * (first_error + second_error)
    return ValueCheck(model, Interval.of(value, variance, -1.0, 1.0))


def _standardized(
    reports: CodeReports, samples: ByQuestion
) -> tuple[dict[int, NumberSample], float]:
    """Standardize samples by the reports' mean and variance; return the variance's relative error²."""
    values = next(iter(samples.values())).values
    center, width = float(np.nanmean(values)), float(np.nanstd(values))

    def powers(x: Array) -> Array:
        standard = (x - center) / width
        return np.stack([standard, standard * standard], axis=1)

    def variance_of(sums: Array) -> float:
        mean, mean_square = sums[:2] / max(sums[2], 1e-9)
        return float(mean_square - mean * mean)

    # Mean and variance are in units of the model's standard deviation.
    sums = _estimate_by_code(reports, samples, lambda sample: sample.by_code(powers))
    mean = float(sums.mean[0] / sums.mean[2])
    variance, error = delta_method(variance_of, sums.mean, sums.spread)
    variance = max(variance, _MIN_VARIANCE)

    def scaled(x: Array) -> Array:
        return np.asarray((x - center - width * mean) / (width * np.sqrt(variance)))

    standard = {
        question: replace(sample, values=scaled(sample.values), centers=scaled(sample.centers))
        for question, sample in samples.items()
    }
    return standard, error / variance**2


def _products(x: NumberSample, y: NumberSample, both: NDArray[np.bool_]) -> Array:
    """Return the mean product of two numbers by cell (K, L); in rare cells the product of means."""
    product_of_means = np.outer(*(each.by_code(lambda v: v[:, None]) for each in (x, y)))
    shape, size = product_of_means.shape, product_of_means.size
    cells = x.codes[both] * shape[1] + y.codes[both]
    count = np.bincount(cells, minlength=size)
    sums = np.bincount(cells, x.values[both] * y.values[both], size)
    mean_product = (sums / np.maximum(count, 1)).reshape(shape)
    return np.where((count >= _MIN_RECORDS).reshape(shape), mean_product, product_of_means)


def pooled(estimates: Sequence[Estimate]) -> Estimate:
    """Pool estimates of the same means from questions in several alphabets, by inverse variance."""
    weights = [1 / max(float(each.variance.mean()), 1e-30) for each in estimates]
    return Estimate.weighted(weights, estimates)


def delta_method(f: Callable[[Array], float], at: Array, covariance: Array) -> tuple[float, float]:
    """Return f of estimated means, and its variance by the delta method with central differences."""
    size = 1e-4
    slope = np.array([(f(at + h) - f(at - h)) / (2 * size) for h in size * np.eye(len(at))])
    return f(at), float(slope @ covariance @ slope)


def _ratio(sums: Array) -> float:
    """Return the mean over people with numbers, from a sum and the share of these people."""
    return float(sums[0] / max(sums[1], 1e-9))


def _estimate_by_code(
    reports: CodeReports,
    samples: ByQuestion,
    by_code: Callable[[NumberSample], Array],
    full: bool = True,
) -> Estimate:
    """Estimate means of functions of a code, and as the last one the share that is not missing."""
    estimates = []
    for question, sample in samples.items():
        g = np.column_stack([by_code(sample), sample.has_number])
        estimates.append(estimate(reports, (question,), g, full=full))
    return pooled(estimates)


def _present(samples: ByQuestion) -> Array:
    """Return the sampled values of a column that are not missing."""
    values = next(iter(samples.values())).values
    return values[~np.isnan(values)]
