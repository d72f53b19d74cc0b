r"""Estimates of means, quantiles and correlations of numbers from reports, with 90 % intervals.

Numbers are reported in bins. The share P(v) of each bin v is estimated without a model
(`privot.evaluation.estimates`); a model is used only for the distribution within bins.

**Means.** The mean of a function f is $\sum_v m(v) P(v)$, with m(v) the model's mean of f in bin v. Here
f is the number, the indicator of x ≤ t, or a product of two numbers. If a column is reported in several
alphabets, their overlapping bins determine the distribution within bins. If it is reported in one
alphabet, intervals also cover an even distribution within bins; an interval may miss if one bin contains
nearly all numbers and they follow neither distribution.

The interval of a **quantile** of level τ contains all t at which the interval of P(x ≤ t) contains τ.
The **mean** of the numbers that are not missing is a ratio of two means; so are P(x ≤ t), and a
**correlation**, of standardized numbers. Variances follow by the delta method; that of R = P(x ≤ t) is
the variance of the mean of 1[x ≤ t] − R 1[x is a number], over the squared share of numbers.

**Within cells.** Reports do not show where people are within a cell, of whom p are a share. If they
spread evenly, the model's distribution function does not err there; if they share one number that may
lie anywhere in the cell, it errs by ¾ p on average. So 3p/8 is expected. If numbers have any correlation
within cells of two columns, the columns' correlation errs by half of

$$ w = \sum P(\text{cell}) \, s_x s_y / σ_x σ_y $$

on average, with standard deviations s within the cell. The squares of both are added to those of a
rehearsal's errors, since a rehearsal takes the model's shape within cells for the truth. The cell of p
is the heaviest atom (`privot.local.releases`), and w is the least of all alphabets.

**Rank correlations** are correlations of G(x), where G is the model's distribution function (at a value
that several people share, the middle of its jump): `NumberSample.ranked`. They are those of the
population up to the error of the model's single columns.

**Two shapes.** For a column reported in one alphabet, P(x ≤ t) is assumed to lie between its values
under the model's distribution within bins and under an even one, δ standard errors apart. An interval
that extends c standard errors beyond both values covers any value between them with probability 90 % if
$Φ(c + δ) − Φ(−c) = .9$ (Imbens and Manski). Means use c = 1.645, since their two values hardly differ.

Privacy review: all functions post-process a release and a model of it, and retain its guarantee.

References:
    Imbens, Manski, *Confidence intervals for partially identified parameters* (2004).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.evaluation.distances import ranks
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

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the quantiles that are checked
KS_OF_CELL = 3 / 8  # expected KS if all people are in one cell
_MAX_THRESHOLDS = 201  # most thresholds at which a distribution function is estimated
_MIN_RECORDS = 20  # fewest sampled records of a cell from which its mean product is computed
_MIN_VARIANCE = 0.05  # least estimated variance, relative to the model's; estimates may be negative
_TINY = 1e-9  # least share or standard error to divide by, and tolerance of levels


@dataclass(frozen=True)
class NumberCheck:
    """Check of a column's mean and of its quantiles at `LEVELS`, over numbers that are not missing.

    `ks` is the expected Kolmogorov–Smirnov distance between the model and the population, and `cell` the
    largest share of people in an interval within which no report distinguishes numbers.
    """

    mean: ValueCheck
    quantiles: tuple[ValueCheck, ...]
    ks: float
    cell: float


@dataclass(frozen=True, eq=False)
class NumberSample:
    """Numbers of one column in records sampled from a model, and their codes in one alphabet."""

    values: Array  # (n,), NaN where missing
    codes: NDArray[np.int64]  # (n,)
    centers: Array  # (K,) center of each code's bin, NaN for missing
    even: Array  # (n,) numbers drawn evenly from the same bins

    @classmethod
    def of(cls, question: Question, name: str, table: pa.Table, rng: np.random.Generator) -> Self:
        """Encode records for a question about a column of numbers."""
        column, bins = cast(NumberColumn, question.declared), cast(Bins, question.alphabet)
        centers, numbers = column.in_values(bins.centers), column.read(name, table)[0]
        codes = bins.encode(numbers)
        even = column.in_values(bins.decode(codes, rng))
        return cls(column.in_values(numbers), codes, centers, even)

    def ranked(self) -> Self:
        """Replace numbers by their mean ranks among these records, divided by the number of records."""
        in_order = np.sort(self.values[~np.isnan(self.values)])
        ends = [np.searchsorted(in_order, self.centers, side) for side in ("left", "right")]
        middle = np.where(self.has_number > 0, np.add(*ends) / 2 / len(self.values), np.nan)
        return replace(self, values=ranks(self.values[:, None])[:, 0], centers=middle)

    @property
    def has_number(self) -> Array:
        """Indicators (K,) of the codes of numbers: 0 for the code of missing values, else 1."""
        return np.isfinite(self.centers).astype(np.float64)

    def by_code(self, f: Callable[[Array], Array]) -> Array:
        """Return means (K, G) of G functions by code; f maps numbers (n,) to their values (n, G)."""
        present = ~np.isnan(self.values)
        codes, size = self.codes[present], len(self.centers)
        sums = [np.bincount(codes, values, size) for values in f(self.values[present]).T]
        counts = np.bincount(codes, minlength=size).astype(np.float64)
        return self._means_or_center(np.stack(sums, axis=1), counts, f)

    def below(self, thresholds: Array) -> Array:
        """Return, for each code, the share (K, G) of numbers ≤ each of G increasing thresholds."""
        present = ~np.isnan(self.values)
        codes, size = self.codes[present], len(self.centers)
        # Numbers drawn evenly from a bin may lie above the last threshold; hence one more cell.
        cells = codes * (len(thresholds) + 1) + np.searchsorted(thresholds, self.values[present])
        counts = np.bincount(cells, minlength=size * (len(thresholds) + 1)).astype(np.float64)
        sums = counts.reshape(size, -1).cumsum(axis=1)
        sums, totals = sums[:, :-1], sums[:, -1]
        return self._means_or_center(sums, totals, lambda x: 1.0 * (x[:, None] <= thresholds))

    def _means_or_center(self, sums: Array, counts: Array, f: Callable[[Array], Any]) -> Array:
        """Return means by code: f of the center where nothing was sampled, 0 for missing values."""
        is_number = self.has_number > 0
        out = np.zeros(sums.shape)
        out[is_number] = f(self.centers[is_number])
        sampled = is_number & (counts > 0)
        out[sampled] = sums[sampled] / counts[sampled, None]
        return out


ByQuestion = Mapping[int, NumberSample]  # the same records of one column, coded for each question


def check_number(
    reports: CodeReports, samples: ByQuestion, rehearsed_ks: float, cell: float
) -> NumberCheck:
    """Estimate a column's mean and quantiles, with the model's distribution within bins."""
    shapes = [samples]
    if len(samples) == 1:
        shapes.append({q: replace(sample, values=sample.even) for q, sample in samples.items()})
    means = [_mean(reports, shape) for shape in shapes]
    low, high = min(mean.low for mean in means), max(mean.high for mean in means)
    model_mean = float(np.nanmean(next(iter(samples.values())).values))
    mean = ValueCheck(model_mean, Interval(means[0].estimate, low, high))
    ks = math.hypot(rehearsed_ks, KS_OF_CELL * cell)
    return NumberCheck(mean, tuple(_quantiles(reports, shapes)), ks, cell)


def _mean(reports: CodeReports, samples: ByQuestion) -> Interval:
    """Estimate a column's mean, with the samples' distribution within bins."""
    numbers = _present_numbers(samples)
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
    numbers = [_present_numbers(shape) for shape in shapes]
    thresholds, jumps = _grid(numbers)
    curves, errors = zip(
        *(_cumulative(reports, shape, thresholds) for shape in shapes), strict=True
    )
    low, high, error = np.min(curves, axis=0), np.max(curves, axis=0), np.max(errors, axis=0)
    margin = error * _critical_value((high - low) / np.maximum(error, _TINY))
    for level in LEVELS:
        model = float(np.quantile(numbers[0], level, method="inverted_cdf"))
        # The upper end of P(x ≤ t) reaches the level first, so it gives the lower end of the quantile.
        estimate_low_high = curves[0], high + margin, low - margin
        ends = [_first_reach(thresholds, curve, level, jumps) for curve in estimate_low_high]
        yield ValueCheck(model, Interval(*ends))


def _grid(numbers: Sequence[Array]) -> tuple[Array, NDArray[np.bool_]]:
    """Return increasing thresholds (G,) for distribution functions, and a mask (G,) of their jumps.

    Quantiles are interpolated between thresholds where there is a density, but not at a jump.
    """
    values = np.concatenate(numbers)
    thresholds = np.unique(values)
    if thresholds.size <= _MAX_THRESHOLDS:
        return thresholds, np.ones(thresholds.shape, bool)
    ranks = np.linspace(0, 1, _MAX_THRESHOLDS)
    quantiles = [np.quantile(sample, ranks, method="inverted_cdf") for sample in numbers]
    thresholds, counts = np.unique(np.concatenate([*quantiles, [values.max()]]), return_counts=True)
    are_integers = np.array_equal(values, np.round(values))
    # Ranks are .5 % apart, so a value that is three of a sample's quantiles is 1 % of its numbers.
    return thresholds, (counts > 2 * len(numbers)) | are_integers


def _cumulative(
    reports: CodeReports, samples: ByQuestion, thresholds: Array
) -> tuple[Array, Array]:
    """Return the estimated shares of numbers ≤ each threshold (G,), and standard errors (G,)."""
    below = {sample: sample.below(thresholds) for sample in samples.values()}
    shares = _estimate_by_code(reports, samples, below.__getitem__, full=False)
    present = max(float(shares.mean[-1]), _TINY)
    curve: Array = np.maximum.accumulate(shares.mean[:-1] / present)
    residuals = _estimate_by_code(
        reports, samples, lambda s: below[s] - curve * s.has_number[:, None], full=False
    )
    return curve, np.sqrt(np.clip(residuals.variance[:-1], 0, None)) / present


def _critical_value(distance: Array) -> Array:
    r"""Solve $Φ(c + δ) − Φ(−c) = .9$ for c at distances δ, from 1.645 at 0 to 1.282, by bisection."""
    low, high = np.full(distance.shape, 1.28), np.full(distance.shape, Z)
    for _ in range(20):
        middle = (low + high) / 2
        too_small = scipy.special.ndtr(middle + distance) - scipy.special.ndtr(-middle) < 0.9
        low, high = np.where(too_small, middle, low), np.where(too_small, high, middle)
    return high


def _first_reach(thresholds: Array, curve: Array, level: float, jumps: NDArray[np.bool_]) -> float:
    """Return the threshold at which a curve first reaches a level, interpolated except at jumps."""
    reached = curve >= level - _TINY
    if not reached.any():
        return float(thresholds[-1])
    index = int(reached.argmax())
    if index == 0 or jumps[index]:
        return float(thresholds[index])
    return float(np.interp(level, curve[index - 1 : index + 1], thresholds[index - 1 : index + 1]))


def check_correlation(
    reports: CodeReports,
    pairs: Sequence[Questions],
    samples: ByQuestion,
    standards: dict[int, tuple[ByQuestion, float]] | None = None,
) -> ValueCheck | None:
    """Estimate Pearson's correlation of two columns; None if one is constant.

    Means and variances are estimated from all reports about a column, products from those about a pair.
    Standardized columns are stored in `standards` for other pairs.
    """
    first_values, second_values = (samples[question].values for question in pairs[0])
    present = ~np.isnan(first_values) & ~np.isnan(second_values)
    known = first_values[present], second_values[present]
    if present.sum() < 2 or not (np.ptp(known[0]) > 0 and np.ptp(known[1]) > 0):
        return None
    model = float(np.corrcoef(*known)[0, 1])
    standards = {} if standards is None else standards
    columns = reports.columns(pairs[0])
    for column in set(columns) - set(standards):
        own = {q: samples[q] for (q,) in reports.about(column) if q in samples}
        standards[column] = _standardized(reports, own)
    (first, first_error), (second, second_error) = (standards[column] for column in columns)
    estimates = []
    for pair in pairs:
        x, y = first[pair[0]], second[pair[1]]
        both_numbers = np.outer(x.has_number, y.has_number)
        g = np.stack([_products(x, y, present).ravel(), both_numbers.ravel()], axis=1)
        estimates.append((estimate(reports, pair, g, full=True), g))
    products = pooled(estimates)
    value, variance = delta_method(_ratio, products.mean, products.spread)
    # A relative error of a variance changes a correlation by half of it.
    variance += value**2 / 4 * (first_error + second_error)
    return ValueCheck(model, Interval.of(value, variance, -1.0, 1.0))


def spread_within(sample: NumberSample) -> Array:
    """Return the standard deviation within each record's cell (n,), relative to that of all records."""
    mean, square = sample.by_code(lambda v: np.stack([v, v * v], axis=1)).T
    spread = np.sqrt(np.clip(square - mean**2, 0, None))[sample.codes]
    return np.asarray(spread / (np.nanstd(sample.values) or 1.0))


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
        mean, mean_square = sums[:2] / max(sums[2], _TINY)
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


def _products(x: NumberSample, y: NumberSample, present: NDArray[np.bool_]) -> Array:
    """Return the mean product of two numbers by cell (K, L); in rare cells the product of means."""
    product_of_means = np.outer(*(sample.by_code(lambda v: v[:, None]) for sample in (x, y)))
    shape, size = product_of_means.shape, product_of_means.size
    cells = x.codes[present] * shape[1] + y.codes[present]
    count = np.bincount(cells, minlength=size)
    sums = np.bincount(cells, x.values[present] * y.values[present], size)
    mean_product = (sums / np.maximum(count, 1)).reshape(shape)
    return np.where((count >= _MIN_RECORDS).reshape(shape), mean_product, product_of_means)


def pooled(estimates: Sequence[tuple[Estimate, Array]]) -> Estimate:
    """Pool estimates of means of g (cells, G) in several alphabets, with weights people / Σ g².

    The variance of the noise is proportional to Σ g². Estimated variances would be no weights: they are
    small where few people of the tails were drawn, which would bias means of products towards 0.
    """
    weights = [part.people / max(float((g**2).sum()), _TINY) for part, g in estimates]
    return Estimate.weighted(weights, [part for part, _ in estimates])


def delta_method(
    f: Callable[[Array], float], mean: Array, covariance: Array
) -> tuple[float, float]:
    """Return f of estimated means, and its variance by the delta method with central differences."""
    size = 1e-4
    steps = size * np.eye(len(mean))
    slope = np.array([(f(mean + step) - f(mean - step)) / (2 * size) for step in steps])
    return f(mean), float(slope @ covariance @ slope)


def _ratio(sums: Array) -> float:
    """Return the mean over people with a number, from the mean over all people and their share."""
    return float(sums[0] / max(sums[1], _TINY))


def _estimate_by_code(
    reports: CodeReports,
    samples: ByQuestion,
    by_code: Callable[[NumberSample], Array],
    full: bool = True,
) -> Estimate:
    """Estimate means of functions of a code and, as the last one, the share that is not missing."""
    estimates = []
    for question, sample in samples.items():
        g = np.column_stack([by_code(sample), sample.has_number])
        estimates.append((estimate(reports, (question,), g, full=full), g))
    return pooled(estimates)


def _present_numbers(samples: ByQuestion) -> Array:
    """Return the sampled values of a column that are not missing."""
    values = next(iter(samples.values())).values
    return values[~np.isnan(values)]
