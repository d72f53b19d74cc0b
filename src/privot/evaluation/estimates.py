r"""Estimates from reports of codes alone, with 90 % confidence intervals.

Shares of codes are estimated without any model, unbiased for every population. Means, quantiles and
correlations of numbers take only the shape within bins from a model.

**Shares.** `CodeReports` orders releases by *question*, a column in one of a release's alphabets;
`estimate` gives means of functions of the codes of one or two questions. A report is a set S of
cells, among K: it has the true cell with probability p, and any given other with q. So for any function
g of the cell

$$ h(S) = \frac{\sum_{v ∈ S} g(v) − q \sum_v g(v)}{p − q} , \qquad E[h(S) | v] = g(v) , $$

exactly, for each person. The mean of h over people is an unbiased estimate of the population's mean of
g, with the covariance of h over the people, divided by their number: both hold for any population.
Reports of a table of probabilities have the same with a left inverse of the table; answers of one report
to several questions are independent given the record, so the product of their h is unbiased for the
product of their g. Sources that answer the same questions are pooled, each weighted by the number of its
people over the variance of its mechanism alone: public numbers, so the sum is unbiased, too.

An interval of 1.645 standard errors contains the population's value with 90 %; estimates are nearly
normal from some hundred people on. Shares may be negative, and are clipped to [0, 1] where shown.

**Numbers.** With m(v) the model's mean of f in bin v, the mean of f is $\sum_v m(v) P(v)$, of which P(v)
is estimated without a model; f is the number, the indicator of x ≤ t, or a product of two numbers.
Several alphabets whose bins overlap determine the shape within bins themselves. For a column reported in
one alphabet alone, intervals are wide enough for numbers spread evenly over their bins, too; if one bin
holds nearly all numbers and they follow neither shape, an interval may miss.

A **quantile** of level τ lies where the interval of P(x ≤ t) contains τ: between the first t whose upper
end reaches τ and the first whose lower end does. A **mean** of a column that may be missing is that of
the numbers present, a ratio of two means; so is a **correlation**, of standardized numbers. Their
variances follow from the covariances by the delta method.

**Two shapes.** For a column reported in one alphabet, P(x ≤ t) is taken to lie between its values under
the model's shape and an even one, δ standard errors apart. An interval that covers any value between
them in nine cases of ten extends c standard errors beyond both, with $Φ(c + δ) − Φ(−c) = .9$: a value
near one of them is missed on one side only. Means have c = 1.645, for their two shapes hardly differ.

Privacy review: functions of a release, and of a model of it: post-processing, under the release's
guarantee.

References:
    Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation* (2017).
    Imbens, Manski, *Confidence intervals for partially identified parameters* (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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

Questions = tuple[int, ...]  # their numbers
Z = 1.6448536269514722  # the 95 % quantile of the standard normal distribution
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_CHUNK = 2**22
_MAX_PLACES = 201
_MIN_RECORDS = 20  # of a cell whose own mean product is used


@dataclass(frozen=True, eq=False)
class SetSource:
    """Reports that are one set of cells of a product of alphabets."""

    questions: Questions
    shape: tuple[int, ...]  # sizes of the alphabets
    counts: Array  # (n,) people who sent each distinct report
    sets: scipy.sparse.csr_array  # (n, K) indicators of the cells that each supports
    probabilities: tuple[float, float]  # p and q

    @classmethod
    def of(cls, group: ReportGroup) -> Self:
        """Of the sets of w cells, the C(K−1, w−1) that have the true one are r times as likely."""
        (factor,) = group.factors
        cells, width = factor.likelihood.shape[1], float(factor.likelihood[[0]].sum())
        own = factor.ratio * width / (factor.ratio * width + cells - width)
        sets = scipy.sparse.csr_array(factor.likelihood)[group.answers[:, 0]]
        other = (width - own) / (cells - 1)
        return cls(factor.queries, factor.shape, group.counts, sets, (own, other))

    @property
    def noise(self) -> float:
        """Variance that the mechanism alone adds to the share of a cell."""
        own, other = self.probabilities
        return other * (1 - other) / (own - other) ** 2

    def values(self, g: Any, rows: slice) -> Array:
        """Return h (n, G) of some of the distinct reports, for functions g (K, G) of the cells."""
        own, other = self.probabilities
        found = self.sets[rows] @ g
        sums: Array = found.toarray() if scipy.sparse.issparse(found) else found
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
        """Variance that the mechanism alone adds to the share of a cell."""
        return float(np.prod([each.var() for each in self.indicators]))

    def values(self, g: Any, rows: slice) -> Array:
        """Return h (n, G) of some of the distinct reports, for functions g (K, G) of the cells."""
        each = [own[a] for own, a in zip(self.indicators, self.answers[rows].T, strict=True)]
        cells = each[0] if len(each) == 1 else np.einsum("na,nb->nab", *each)
        out: Array = cells.reshape(len(cells), -1) @ g
        return out


Source = SetSource | ProductSource


@dataclass(frozen=True, eq=False)
class Question:
    """A column in one of the alphabets in which a release reports it."""

    column: int  # its number, among the newest release's coded columns
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
    """The reports of several releases of codes.

    Arguments:
        questions: All of them, by number.
        sources: The reports.
    """

    questions: tuple[Question, ...]
    sources: tuple[Source, ...]

    @classmethod
    def of(cls, releases: Releases) -> Self:
        """Order the reports of releases whose columns are all coded."""
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
        """All single questions that reports answer, and all pairs that one report answers together."""
        found = {
            questions
            for each in self.sources
            for several in (1, 2)
            for questions in combinations(sorted(each.questions), several)
        }
        return sorted(found, key=lambda questions: (len(questions), questions))

    @cached_property
    def by_columns(self) -> dict[tuple[int, ...], list[Questions]]:
        """The same, by the columns that they are about, in order."""
        found: dict[tuple[int, ...], list[Questions]] = {}
        for questions in self.pairs:
            found.setdefault(tuple(sorted(self.columns(questions))), []).append(questions)
        return found

    def about(self, *columns: int) -> list[Questions]:
        """List the questions about one column, or pairs of them about two, that reports answer."""
        return self.by_columns.get(tuple(sorted(columns)), [])

    def answering(self, questions: Questions) -> Iterator[Source]:
        """Yield the sources of reports that answer all of some questions."""
        return (source for source in self.sources if set(questions) <= set(source.questions))

    def people(self, *columns: int) -> int:
        """Count the answers to questions about one column, or about two together."""
        about = self.about(*columns)
        return sum(int(source.counts.sum()) for q in about for source in self.answering(q))


def _split_sources(release: Release, first: int) -> Iterator[Source]:
    """Yield one source a column, and one a pair of columns that some report answers."""
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
        both = every[:, columns]
        both = both[(both >= 0).all(axis=1)]
        places, ranks = distinct_rows(both)
        if len(places):
            questions, own = (
                tuple(first + c for c in columns),
                tuple(indicators[c] for c in columns),
            )
            shape, counts = tuple(each.shape[1] for each in own), np.bincount(ranks)
            yield ProductSource(questions, shape, counts.astype(np.float64), own, both[places])


@dataclass(frozen=True)
class Interval:
    """An estimate from the reports, with its 90 % confidence interval."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, variance: float, least: float, most: float) -> Interval:
        """Return the interval of a normal estimate of a number between `least` and `most`."""
        half = Z * float(np.sqrt(max(variance, 0.0)))
        ends = np.clip([estimate, estimate - half, estimate + half], least, most)
        return cls(*map(float, ends))

    def holds(self, value: float) -> bool:
        """Say whether a value lies inside."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class ValueCheck:
    """A number of the model, beside the interval that the reports give for it."""

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
        """Return the weighted mean of independent estimates of the same means."""
        shares = np.array(weights) / np.sum(weights)
        mean = sum(w * part.mean for w, part in zip(shares, parts, strict=True))
        spread = sum(w**2 * part.spread for w, part in zip(shares, parts, strict=True))
        return cls(np.asarray(mean), np.asarray(spread), sum(part.people for part in parts))


def estimate(
    reports: CodeReports, questions: Questions, g: Array | None = None, *, full: bool = False
) -> Estimate:
    """Estimate means of functions of the codes of `questions` from all reports that answer them.

    Arguments:
        reports: All of them.
        questions: In increasing order; the last one's code is fastest in a cell's number.
        g: Functions (cells, G); by default an indicator of every cell, so that means are shares.
        full: Whether to estimate covariances, rather than variances alone.
    """
    parts, weights = [], []
    for source in reports.answering(questions):
        cells = cells_of(source, questions)
        columns = scipy.sparse.csr_array((np.ones(cells.size), (np.arange(cells.size), cells)))
        parts.append(moments(source, columns if g is None else columns @ g, full))
        weights.append(precision(source, columns.shape[1]))
    return Estimate.weighted(weights, parts)


def pooled(found: Sequence[Estimate]) -> Estimate:
    """Pool estimates of the same means from questions in several alphabets, by their precision."""
    weights = [1 / max(float(each.variance.mean()), 1e-30) for each in found]
    return Estimate.weighted(weights, found)


def cell_shares(atoms: LatentClasses, *questions: Question) -> Array:
    """Return a model's probabilities of the cells of one or two questions (cells,)."""
    table = atoms.marginal([each.column for each in questions])
    for axis, each in enumerate(questions):
        of_code = np.arange(each.size)[:, None] == each.codes
        table = np.moveaxis(np.tensordot(of_code * 1.0, table, (1, axis)), 0, axis)
    return table.ravel()


def precision(source: Source, size: float) -> float:
    """Return people over the variance of the mechanism alone, for a table of `size` cells."""
    cells = float(np.prod(source.shape))
    return float(source.counts.sum() / (source.noise * cells / size + 1 / size))


def cells_of(source: Source, questions: Questions) -> NDArray[np.int64]:
    """Return the cell of `questions` that each cell of a source belongs to."""
    codes = np.indices(source.shape).reshape(len(source.shape), -1)
    chosen = [source.questions.index(question) for question in questions]
    shape = [source.shape[i] for i in chosen]
    return np.ravel_multi_index(tuple(codes[chosen]), shape)


def moments(source: Source, g: Any, full: bool) -> Estimate:
    """Estimate means of functions g (K, G) of a source's cells from its people alone."""
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
    """The mean and some quantiles (`LEVELS`) of the numbers of a column that are not missing."""

    mean: ValueCheck
    quantiles: tuple[ValueCheck, ...]


@dataclass(frozen=True, eq=False)
class NumberSample:
    """Numbers of one column in records drawn from a model, and their codes in one alphabet."""

    values: Array  # (n,), NaN where missing
    codes: NDArray[np.int64]  # (n,)
    centers: Array  # (K,) the number that each code stands for, NaN where missing
    even: Array  # (n,) the numbers again, spread evenly over their bins

    @classmethod
    def of(
        cls, question: Question, name: str, table: pa.Table, rng: np.random.Generator
    ) -> NumberSample:
        """Encode records for a question about a column of numbers."""
        column, bins = cast(NumberColumn, question.declared), cast(Bins, question.alphabet)
        numbers = column.read(name, table)[0]
        codes = bins.encode(numbers)
        even = bins.decode(codes, rng)
        return cls(
            column.in_values(numbers), codes, column.in_values(bins.centers), column.in_values(even)
        )

    @property
    def has_number(self) -> Array:
        """1 for each code that stands for a number (K,), 0 for that of a missing one."""
        return np.isfinite(self.centers).astype(np.float64)

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
        # Spread evenly over its bin, a number may lie above the largest that was drawn.
        cells = codes * (len(places) + 1) + np.searchsorted(places, self.values[there])
        counts = np.bincount(cells, minlength=size * (len(places) + 1)).astype(np.float64)
        sums = counts.reshape(size, -1).cumsum(axis=1)
        return self._means(sums[:, :-1], sums[:, -1], lambda x: 1.0 * (x[:, None] <= places))

    def _means(self, sums: Array, counts: Array, f: Callable[[Array], Any]) -> Array:
        known = np.isfinite(self.centers)
        out = np.zeros(sums.shape)
        out[known] = f(self.centers[known])
        drawn = known & (counts > 0)
        out[drawn] = sums[drawn] / counts[drawn, None]
        return out


ByQuestion = Mapping[int, NumberSample]  # of one column: the same values, in other codes


def _present(samples: ByQuestion) -> Array:
    """Return the values of a column that are not missing."""
    values = next(iter(samples.values())).values
    return values[~np.isnan(values)]


def check_number(reports: CodeReports, samples: ByQuestion) -> NumberCheck:
    """Estimate intervals of a column's mean and quantiles, by the model's shape within bins."""
    shapes = [samples]
    if len(samples) == 1:
        shapes.append({q: replace(each, values=each.even) for q, each in samples.items()})
    means = [_mean(reports, shape) for shape in shapes]
    low, high = min(each.low for each in means), max(each.high for each in means)
    center = float(np.nanmean(next(iter(samples.values())).values))
    mean = ValueCheck(center, Interval(means[0].estimate, low, high))
    return NumberCheck(mean, tuple(_quantiles(reports, shapes)))


def _mean(reports: CodeReports, samples: ByQuestion) -> Interval:
    """Estimate a column's mean, if numbers are within bins as these are."""
    numbers = _present(samples)
    center, width = float(numbers.mean()), float(numbers.std()) or 1.0
    found = _estimated(
        reports, samples, lambda d: d.by_code(lambda x: (x[:, None] - center) / width)
    )
    mean, variance = delta_method(_ratio, found.mean, found.spread)
    least, most = ((float(end) - center) / width for end in (numbers.min(), numbers.max()))
    standard = Interval.of(mean, variance, least, most)
    ends = (standard.estimate, standard.low, standard.high)
    return Interval(*(center + width * each for each in ends))


def _quantiles(reports: CodeReports, shapes: Sequence[ByQuestion]) -> Iterator[ValueCheck]:
    """Estimate `LEVELS`, if numbers are within bins as the first of some shapes, or any between them."""
    drawn = [_present(shape) for shape in shapes]
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
    for level in LEVELS:
        model = float(np.quantile(drawn[0], level, method="inverted_cdf"))
        ends = [_first(places, c, level, jumps) for c in (curves[0], high + error, low - error)]
        yield ValueCheck(model, Interval(*ends))


def _cumulative(reports: CodeReports, samples: ByQuestion, places: Array) -> tuple[Array, Array]:
    """Return shares of numbers up to some places, the last the largest, and standard errors."""
    share = _estimated(reports, samples, lambda d: d.below(places), full=False)
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
    first, error = _standard(reports, {q: samples[q] for q, _ in pairs})
    second, other = _standard(reports, {q: samples[q] for _, q in pairs})
    found = []
    for pair in pairs:
        x, y = first[pair[0]], second[pair[1]]
        there = np.outer(x.has_number, y.has_number)
        g = np.stack([_products(x, y, both).ravel(), there.ravel()], axis=1)
        found.append(estimate(reports, pair, g, full=True))
    every = pooled(found)
    value, variance = delta_method(_ratio, every.mean, every.spread)
    variance += value**2 / 4 * (error + other)
    return ValueCheck(model, Interval.of(value, variance, -1.0, 1.0))


def _estimated(
    reports: CodeReports,
    samples: ByQuestion,
    by_code: Callable[[NumberSample], Array],
    full: bool = True,
) -> Estimate:
    """Estimate means of functions of a code, and last the share that is not missing."""
    functions = {q: np.column_stack([by_code(d), d.has_number]) for q, d in samples.items()}
    return pooled([estimate(reports, (q,), g, full=full) for q, g in functions.items()])


def _standard(reports: CodeReports, samples: ByQuestion) -> tuple[dict[int, NumberSample], float]:
    """Standardize numbers by the reports; return them and their variance's relative variance."""
    values = next(iter(samples.values())).values
    center, width = float(np.nanmean(values)), float(np.nanstd(values))

    def powers(x: Array) -> Array:
        standard = (x - center) / width
        return np.stack([standard, standard * standard], axis=1)

    def variance_of(m: Array) -> float:
        x, xx = m[:2] / max(m[2], 1e-9)
        return float(xx - x * x)

    found = _estimated(reports, samples, lambda d: d.by_code(powers))
    mean = float(found.mean[0] / found.mean[2])
    spread, error = delta_method(variance_of, found.mean, found.spread)
    spread = max(spread, 0.05)  # of the model's: a reports' variance may be below 0

    def scaled(x: Array) -> Array:
        return np.asarray((x - center - width * mean) / (width * np.sqrt(spread)))

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


def delta_method(f: Callable[[Array], float], at: Array, covariance: Array) -> tuple[float, float]:
    """Return a function of means, and its variance, by central differences."""
    step = 1e-4
    slope = np.array([(f(at + step * e) - f(at - step * e)) / (2 * step) for e in np.eye(len(at))])
    return f(at), float(slope @ covariance @ slope)
