r"""Estimates from reports of codes alone, with 90 % confidence intervals.

Shares of codes are estimated without any model, unbiased for every population. Means, quantiles and
correlations of numbers use a model only for the distribution within bins.

**Shares.** `CodeReports` orders releases by *question*, a column in one of a release's alphabets;
`estimate` estimates means of functions of the codes of one or two questions. A report is a set S of
cells, among K: it contains the true cell with probability p, and any given other cell with probability
q. So for any function g of the cell

$$ h(S) = \frac{\sum_{v ∈ S} g(v) − q \sum_v g(v)}{p − q} , \qquad E[h(S) | v] = g(v) , $$

exactly, for each person. The mean of h over people is an unbiased estimate of the population's mean of
g; its covariance is that of h over people, divided by their number. For mechanisms with a table of
probabilities, h uses a left inverse of the table. Answers of one report to several questions are
independent given the record, so the product of their h is unbiased for the product of their g. Sources
that answer the same questions are pooled. The weight of a source is its number of people over the
variance of its mechanism; these are public numbers, so the pooled estimate is unbiased, too.

An interval of ±1.645 standard errors contains the population's value with probability 90 %; estimates
are nearly normal from some hundred people on. Where shown, estimated shares are clipped to [0, 1].

**Numbers.** With m(v) the model's mean of f in bin v, the mean of f is $\sum_v m(v) P(v)$, where P(v) is
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
    Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation* (2017).
    Imbens, Manski, *Confidence intervals for partially identified parameters* (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.local.classes.counts import ReportGroup, distinct_rows, report_groups
from privot.local.classes.mixture import LatentClasses
from privot.local.releases import Releases
from privot.mechanisms.forms import CodeForm
from privot.randomizer import Release
from privot.schema.columns.alphabet import Alphabet, Bins, Codes
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.numeric import NumberColumn
from privot.schema.domains import Array

Questions = tuple[int, ...]  # numbers of one or two questions
Z = 1.6448536269514722  # the 95 % quantile of the standard normal distribution
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_CHUNK = 2**22
_MAX_PLACES = 201
_MIN_RECORDS = 20  # sampled records of a cell, from which its mean product is computed


@dataclass(frozen=True, eq=False)
class SetSource:
    """Reports that are sets of cells in a product of alphabets."""

    questions: Questions
    shape: tuple[int, ...]  # sizes of the alphabets
    counts: Array  # (n,) people who sent each distinct report
    sets: scipy.sparse.csr_array  # (n, K) indicators of the cells in each set
    probabilities: tuple[float, float]  # p and q

    @classmethod
    def of(cls, group: ReportGroup) -> Self:
        """Compute p and q: sets of w cells with the true one are r times as likely as the others."""
        (factor,) = group.factors
        cells, width = factor.likelihood.shape[1], float(factor.likelihood[[0]].sum())
        own = factor.ratio * width / (factor.ratio * width + cells - width)
        sets = scipy.sparse.csr_array(factor.likelihood)[group.answers[:, 0]]
        other = (width - own) / (cells - 1)
        return cls(factor.queries, factor.shape, group.counts, sets, (own, other))

    @property
    def noise(self) -> float:
        """Variance of a cell's estimated share by the mechanism alone, for one person."""
        own, other = self.probabilities
        return other * (1 - other) / (own - other) ** 2

    def values(self, g: Any, rows: slice) -> Array:
        """Return h (n, G) of distinct reports `rows`, for functions g (K, G) of the cells."""
        own, other = self.probabilities
        product = self.sets[rows] @ g
        sums: Array = product.toarray() if scipy.sparse.issparse(product) else product
        return (sums - other * np.asarray(g.sum(axis=0))) / (own - other)


@dataclass(frozen=True, eq=False)
class ProductSource:
    """Reports that answer one or two questions separately."""

    questions: Questions
    shape: tuple[int, ...]  # sizes of their alphabets
    counts: Array  # (n,) people who sent each distinct combination of answers
    indicators: tuple[Array, ...]  # (answers, K) unbiased indicators of the code, by question
    answers: NDArray[np.int64]  # (n, questions) rows of each question's indicators

    @property
    def noise(self) -> float:
        """Variance of a cell's estimated share by the mechanism alone, for one person."""
        return float(np.prod([each.var() for each in self.indicators]))

    def values(self, g: Any, rows: slice) -> Array:
        """Return h (n, G) of distinct reports `rows`, for functions g (K, G) of the cells."""
        cells = self.indicators[0][self.answers[rows, 0]]
        if len(self.questions) == 2:
            second = self.indicators[1][self.answers[rows, 1]]
            cells = np.einsum("na,nb->nab", cells, second)
        out: Array = cells.reshape(len(cells), -1) @ g
        return out


Source = SetSource | ProductSource


@dataclass(frozen=True, eq=False)
class Question:
    """Column in one of the alphabets in which a release reports it."""

    column: int  # number of the column, among the newest release's coded columns
    part: int  # number of the release
    codes: Codes  # (a,) the code of each of the column's atoms
    alphabet: Alphabet
    declared: CodedColumn  # as the release's schema declares it

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.alphabet.size


@dataclass(frozen=True, eq=False)
class CodeReports:
    """Reports of several releases of codes, ordered by question.

    Arguments:
        questions: All questions, by number.
        sources: All reports, by the questions that they answer.
    """

    questions: tuple[Question, ...]
    sources: tuple[Source, ...]

    @classmethod
    def of(cls, releases: Releases) -> Self:
        """Order the reports of releases by question; all columns must be coded."""
        names = list(releases.atoms)
        questions: list[Question] = []
        sources: list[Source] = []
        for number, part in enumerate(releases.parts):
            first, joint = len(questions), part.randomizer.joint
            for name, declared in part.randomizer.schema.coded.items():
                alphabets = (declared.alphabet,) if joint is None else declared.codings
                codings = zip(releases.atoms[name].codings[number], alphabets, strict=True)
                for (codes, _), alphabet in codings:
                    questions.append(Question(names.index(name), number, codes, alphabet, declared))
            if joint is None:
                sources += _split_sources(part, first)
            else:
                sources += [SetSource.of(group) for group in report_groups(part, first)]
        return cls(tuple(questions), tuple(sources))

    def columns(self, questions: Questions) -> tuple[int, ...]:
        """Return the columns of some questions."""
        return tuple(self.questions[question].column for question in questions)

    @cached_property
    def pairs(self) -> list[Questions]:
        """All answered questions, and all pairs of questions that one report answers together."""
        answered: set[Questions] = set()
        for source in self.sources:
            questions = sorted(source.questions)
            answered.update(combinations(questions, 1), combinations(questions, 2))
        return sorted(answered, key=lambda questions: (len(questions), questions))

    @cached_property
    def by_columns(self) -> dict[tuple[int, ...], list[Questions]]:
        """Answered questions and pairs of questions, by the sorted columns that they are about."""
        groups: dict[tuple[int, ...], list[Questions]] = {}
        for questions in self.pairs:
            groups.setdefault(tuple(sorted(self.columns(questions))), []).append(questions)
        return groups

    def about(self, *columns: int) -> list[Questions]:
        """Return the answered questions about one column, or pairs of questions about two columns."""
        return self.by_columns.get(tuple(sorted(columns)), [])

    def answering(self, questions: Questions) -> Iterator[Source]:
        """Yield the sources whose reports answer all of these questions."""
        return (source for source in self.sources if set(questions) <= set(source.questions))

    def people(self, *columns: int) -> int:
        """Return the number of answers about one column, or about two columns together."""
        about = self.about(*columns)
        return sum(int(source.counts.sum()) for q in about for source in self.answering(q))


def _split_sources(release: Release, first: int) -> Iterator[Source]:
    """Yield a source for each column, and for each pair of columns that some report answers."""
    indicators, answers = [], []
    for name, column in release.schema.coded.items():
        values, reported = release.reports(name)
        places, ranks = distinct_rows(values)
        form = cast(CodeForm, release.randomizer.mechanisms[name].form(column))
        indicators.append(form.indicators(values[places]))
        answers.append(np.where(reported, ranks, -1))
    every = np.stack(answers, axis=1)
    numbers = range(len(indicators))
    for columns in (*combinations(numbers, 1), *combinations(numbers, 2)):
        chosen = every[(every[:, columns] >= 0).all(axis=1)][:, columns]
        places, ranks = distinct_rows(chosen)
        if len(places):
            yield ProductSource(
                questions=tuple(first + column for column in columns),
                shape=tuple(indicators[column].shape[1] for column in columns),
                counts=np.bincount(ranks).astype(np.float64),
                indicators=tuple(indicators[column] for column in columns),
                answers=chosen[places],
            )


@dataclass(frozen=True)
class Interval:
    """Estimate from reports with its 90 % confidence interval."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, variance: float, least: float, most: float) -> Interval:
        """Return the interval of a normal estimate, clipped to the range from `least` to `most`."""
        half = Z * float(np.sqrt(max(variance, 0.0)))
        return cls(*np.clip([estimate, estimate - half, estimate + half], least, most).tolist())

    def holds(self, value: float) -> bool:
        """Return whether the interval contains a value."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class ValueCheck:
    """A quantity in the model, and its interval by the reports."""

    model: float
    reports: Interval


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates (G,) of means, their covariance (G, G) or variances (G,), and the number of people."""

    mean: Array
    spread: Array
    people: int

    @property
    def variance(self) -> Array:
        """Variances (G,) of the means."""
        return self.spread if self.spread.ndim == 1 else np.diag(self.spread)

    def beside(self, model: Array) -> tuple[ValueCheck, ...]:
        """Return a model's shares beside these, with their intervals."""
        shares = zip(model.tolist(), self.mean, self.variance, strict=True)
        return tuple(ValueCheck(m, Interval.of(p, v, 0.0, 1.0)) for m, p, v in shares)

    @classmethod
    def weighted(cls, weights: Sequence[float], parts: Sequence[Estimate]) -> Self:
        """Return the weighted mean of independent estimates of the same quantities."""
        shares = np.array(weights) / np.sum(weights)
        mean = sum(w * part.mean for w, part in zip(shares, parts, strict=True))
        spread = sum(w**2 * part.spread for w, part in zip(shares, parts, strict=True))
        return cls(np.asarray(mean), np.asarray(spread), sum(part.people for part in parts))


def estimate(
    reports: CodeReports, questions: Questions, g: Array | None = None, *, full: bool = False
) -> Estimate:
    """Estimate means of functions of the codes of `questions` from all reports that answer them.

    Arguments:
        reports: All reports.
        questions: Questions in increasing order; cells are numbered with the last code fastest.
        g: Functions (cells, G); by default an indicator of every cell, so that means are shares.
        full: Whether to estimate covariances (G, G), rather than only variances (G,).
    """
    parts, weights = [], []
    for source in reports.answering(questions):
        cells = cells_of(source, questions)
        columns = scipy.sparse.csr_array((np.ones(cells.size), (np.arange(cells.size), cells)))
        parts.append(moments(source, columns if g is None else columns @ g, full))
        weights.append(precision(source, columns.shape[1]))
    return Estimate.weighted(weights, parts)


def pooled(estimates: Sequence[Estimate]) -> Estimate:
    """Pool estimates of the same means from questions in several alphabets, by inverse variance."""
    weights = [1 / max(float(each.variance.mean()), 1e-30) for each in estimates]
    return Estimate.weighted(weights, estimates)


def cell_shares(atoms: LatentClasses, *questions: Question) -> Array:
    """Return a model's probabilities of the cells of one or two questions (cells,)."""
    table = atoms.marginal([each.column for each in questions])
    for axis, each in enumerate(questions):
        has_code = np.arange(each.size)[:, None] == each.codes
        table = np.moveaxis(np.tensordot(has_code * 1.0, table, (1, axis)), 0, axis)
    return table.ravel()


def precision(source: Source, size: float) -> float:
    """Return the weight of a source for a table of `size` cells: people over mechanism variance."""
    cells = float(np.prod(source.shape))
    return float(source.counts.sum() / (source.noise * cells / size + 1 / size))


def cells_of(source: Source, questions: Questions) -> NDArray[np.int64]:
    """Return, for each cell of a source, the number of its cell in the table of `questions`."""
    codes = np.indices(source.shape).reshape(len(source.shape), -1)
    chosen = [source.questions.index(question) for question in questions]
    shape = [source.shape[i] for i in chosen]
    return np.ravel_multi_index(tuple(codes[chosen]), shape)


def moments(source: Source, g: Any, full: bool) -> Estimate:
    """Estimate means of functions g (K, G) of a source's cells from this source alone."""
    count, step = source.counts.sum(), max(1, _CHUNK // max(source.shape[0], g.shape[1]))
    first: Any = 0.0
    second: Any = 0.0
    for start in range(0, len(source.counts), step):
        rows = slice(start, start + step)
        h, n = source.values(g, rows), source.counts[rows]
        first = first + n @ h
        second = second + ((h * n[:, None]).T @ h if full else n @ h**2)
    mean = first / count
    square = np.outer(mean, mean) if full else mean**2
    return Estimate(mean, (second / count - square) / max(count - 1, 1), int(count))


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
    ) -> NumberSample:
        """Encode records for a question about a column of numbers."""
        column, bins = cast(NumberColumn, question.declared), cast(Bins, question.alphabet)
        numbers = column.read(name, table)[0]
        codes, scaled = bins.encode(numbers), column.in_values
        return cls(scaled(numbers), codes, scaled(bins.centers), scaled(bins.decode(codes, rng)))

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


ByQuestion = Mapping[int, NumberSample]  # samples of one column, which differ only in the codes


def _present(samples: ByQuestion) -> Array:
    """Return the sampled values of a column that are not missing."""
    values = next(iter(samples.values())).values
    return values[~np.isnan(values)]


def check_number(reports: CodeReports, samples: ByQuestion) -> NumberCheck:
    """Estimate a column's mean and quantiles, with the model's distribution within bins."""
    shapes = [samples]
    if len(samples) == 1:
        shapes.append({q: replace(each, values=each.even) for q, each in samples.items()})
    means = [_mean(reports, shape) for shape in shapes]
    low, high = min(each.low for each in means), max(each.high for each in means)
    center = float(np.nanmean(next(iter(samples.values())).values))
    mean = ValueCheck(center, Interval(means[0].estimate, low, high))
    return NumberCheck(mean, tuple(_quantiles(reports, shapes)))


def _mean(reports: CodeReports, samples: ByQuestion) -> Interval:
    """Estimate a column's mean, with the samples' distribution within bins."""
    numbers = _present(samples)
    center, width = float(numbers.mean()), float(numbers.std()) or 1.0

    def standardized(x: Array) -> Array:
        return np.asarray((x[:, None] - center) / width)

    means = _estimated(reports, samples, lambda sample: sample.by_code(standardized))
    mean, variance = delta_method(_ratio, means.mean, means.spread)
    least, most = ((float(end) - center) / width for end in (numbers.min(), numbers.max()))
    standard = Interval.of(mean, variance, least, most)
    return Interval(*(center + width * each for each in astuple(standard)))


def _quantiles(reports: CodeReports, shapes: Sequence[ByQuestion]) -> Iterator[ValueCheck]:
    """Estimate quantiles of `LEVELS`, for distributions within bins between the given shapes."""
    numbers = [_present(shape) for shape in shapes]
    values = np.concatenate(numbers)
    are_integers = np.array_equal(values, np.round(values))
    if np.unique(values).size > _MAX_PLACES:
        ranks = np.linspace(0, 1, _MAX_PLACES)
        grid = [np.quantile(each, ranks, method="inverted_cdf") for each in numbers]
        places, counts = np.unique(np.concatenate([*grid, [values.max()]]), return_counts=True)
        # Quantiles are interpolated where there is a density, but not at an atom.
        jumps = (counts > 2 * len(numbers)) | are_integers
    else:
        places = np.unique(values)
        jumps = np.ones(places.shape, bool)
    curves, errors = zip(*(_cumulative(reports, shape, places) for shape in shapes), strict=True)
    low, high = np.min(curves, axis=0), np.max(curves, axis=0)
    error = np.max(errors, axis=0)
    error = error * _critical_value((high - low) / np.maximum(error, 1e-9))
    for level in LEVELS:
        model = float(np.quantile(numbers[0], level, method="inverted_cdf"))
        ends = [_reach(places, c, level, jumps) for c in (curves[0], high + error, low - error)]
        yield ValueCheck(model, Interval(*ends))


def _cumulative(reports: CodeReports, samples: ByQuestion, places: Array) -> tuple[Array, Array]:
    """Return the estimated shares of numbers ≤ each place (G,), and standard errors (G,)."""
    share = _estimated(reports, samples, lambda sample: sample.below(places), full=False)
    total = max(float(share.mean[-1]), 1e-9)
    curve: Array = np.maximum.accumulate(share.mean[:-1] / total)
    return curve, np.sqrt(np.clip(share.variance[:-1], 0, None)) / total


def _critical_value(apart: Array) -> Array:
    r"""Solve $Φ(c + δ) − Φ(−c) = .9$ for c at distances δ: from 1.645 at 0 down to 1.282."""
    low, high = np.full(apart.shape, 1.28), np.full(apart.shape, Z)
    for _ in range(20):
        middle = (low + high) / 2
        short = scipy.special.ndtr(middle + apart) - scipy.special.ndtr(-middle) < 0.9
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return high


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
    variance += value**2 / 4 * (first_error + second_error)
    return ValueCheck(model, Interval.of(value, variance, -1.0, 1.0))


def _estimated(
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


def _standardized(
    reports: CodeReports, samples: ByQuestion
) -> tuple[dict[int, NumberSample], float]:
    """Standardize samples by the reports' mean and variance; return the variance's relative error²."""
    values = next(iter(samples.values())).values
    center, width = float(np.nanmean(values)), float(np.nanstd(values))

    def powers(x: Array) -> Array:
        standard = (x - center) / width
        return np.stack([standard, standard * standard], axis=1)

    def variance_of(m: Array) -> float:
        x, xx = m[:2] / max(m[2], 1e-9)
        return float(xx - x * x)

    means = _estimated(reports, samples, lambda sample: sample.by_code(powers))
    mean = float(means.mean[0] / means.mean[2])
    spread, error = delta_method(variance_of, means.mean, means.spread)
    spread = max(spread, 0.05)  # relative to the model's variance: the estimate may be negative

    def scaled(x: Array) -> Array:
        return np.asarray((x - center - width * mean) / (width * np.sqrt(spread)))

    standard = {
        question: replace(sample, values=scaled(sample.values), centers=scaled(sample.centers))
        for question, sample in samples.items()
    }
    return standard, error / spread**2


def _products(x: NumberSample, y: NumberSample, both: NDArray[np.bool_]) -> Array:
    """Return the mean product of two numbers by cell (K, L); of rare cells the product of means."""
    product_of_means = np.outer(*(d.by_code(lambda v: v[:, None]) for d in (x, y)))
    shape, size = product_of_means.shape, product_of_means.size
    cells = x.codes[both] * shape[1] + y.codes[both]
    count = np.bincount(cells, minlength=size)
    sums = np.bincount(cells, x.values[both] * y.values[both], size)
    mean_product = (sums / np.maximum(count, 1)).reshape(shape)
    return np.where((count >= _MIN_RECORDS).reshape(shape), mean_product, product_of_means)


def _reach(places: Array, curve: Array, level: float, jumps: NDArray[np.bool_]) -> float:
    """Return the place where a curve first reaches a level, interpolated except at jumps."""
    reached = curve >= level - 1e-9
    if not reached.any():
        return float(places[-1])
    index = int(reached.argmax())
    if index == 0 or jumps[index]:
        return float(places[index])
    return float(np.interp(level, curve[index - 1 : index + 1], places[index - 1 : index + 1]))


def _ratio(m: Array) -> float:
    return float(m[0] / max(m[1], 1e-9))


def delta_method(f: Callable[[Array], float], at: Array, covariance: Array) -> tuple[float, float]:
    """Return f of estimated means, and its variance by the delta method with central differences."""
    step = 1e-4
    slope = np.array([(f(at + step * e) - f(at - step * e)) / (2 * step) for e in np.eye(len(at))])
    return f(at), float(slope @ covariance @ slope)
