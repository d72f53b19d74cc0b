r"""Unbiased estimates of shares and means from reports of codes alone, and their errors.

`CodeReports` orders releases by *question*, a column in one of a release's alphabets; `estimate` gives
means of functions of the codes of one or two questions. No model is used.

A report of a cell v among K, of the set S that it supports, supports the true cell with probability
p and any given other with q. So for any function g of the cell

$$ h(S) = \frac{\sum_{v ∈ S} g(v) − q \sum_v g(v)}{p − q} , \qquad E[h(S) | v] = g(v) , $$

exactly, for each person. The mean of h over people is an unbiased estimate of the population's mean of
g, and reports are independent, so its covariance is that of h over the people, divided by their number:
both hold for any population. Reports of a table of probabilities have the same with a left inverse of
the table; answers of one report to several questions are independent given the record, so the product
of their h is unbiased for the product of their g.

Sources that answer the same questions are pooled, each weighted by the number of its people over the
variance of its mechanism alone: public numbers, so the sum is unbiased, too.

An interval of 1.645 standard errors contains the population's value with 90 %; estimates are nearly
normal from some hundred people on. An estimate may be negative: shares are clipped to [0, 1] where they
are shown.

Privacy review: functions of a release alone: post-processing, under the release's guarantee.

References:
    Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation* (2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Self, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.local.classes.counts import ReportGroup, distinct_rows, report_groups
from privot.local.releases import Releases
from privot.mechanisms.forms import CodeForm
from privot.randomizer import Release
from privot.schema.domains import Array

Questions = tuple[int, ...]  # numbers of questions
Z = 1.6448536269514722  # the 95 % quantile of the standard normal distribution
_CHUNK = 2**22


@dataclass(frozen=True, eq=False)
class SetSource:
    """Reports that are one set of cells of a product of alphabets.

    Arguments:
        questions: Their numbers.
        shape: Sizes of the alphabets.
        counts: Number of people who sent each distinct report (n,).
        sets: Indicators of the cells that each supports (n, K).
        probabilities: p and q.
    """

    questions: Questions
    shape: tuple[int, ...]
    counts: Array
    sets: scipy.sparse.csr_array
    probabilities: tuple[float, float]

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
    """Reports that answer each question separately.

    Arguments:
        questions: One or two.
        shape: Sizes of their alphabets.
        counts: Number of people who sent each distinct pair of answers (n,).
        indicators: Unbiased indicators (answers, K) of the code, by question.
        answers: Rows of each question's indicators (n, questions).
    """

    questions: Questions
    shape: tuple[int, ...]
    counts: Array
    indicators: tuple[Array, ...]
    answers: NDArray[np.int64]

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
    """A column in one of the alphabets in which a release reports it.

    Arguments:
        column: Its number, among the newest release's coded columns.
        part: Number of the release.
        coding: Number of the alphabet, among that release's for this column.
        codes: The code of each of the column's atoms.
        size: Number of codes.
    """

    column: int
    part: int
    coding: int
    codes: NDArray[np.int64]
    size: int


@dataclass(frozen=True, eq=False)
class CodeReports:
    """The reports of several releases of codes, by question.

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
            first = len(questions)
            for name in part.schema.coded:
                for coding, (codes, size) in enumerate(releases.atoms[name].codings[number]):
                    questions.append(Question(names.index(name), number, coding, codes, size))
            if part.randomizer.joint is None:
                sources += _split_sources(part, first)
            else:
                sources += [_joint_source(group) for group in report_groups(part, first)]
        return cls(tuple(questions), tuple(sources))

    def about(self, *columns: int) -> list[Questions]:
        """List the questions about one column, or pairs of them about two, that reports answer."""
        return [q for q in self.pairs if tuple(sorted(self.columns(q))) == tuple(sorted(columns))]

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


def _joint_source(group: ReportGroup) -> Source:
    """Sets of one size w: the C(K−1, w−1) that contain the truth are r times likelier than others."""
    (factor,) = group.factors
    cells, width = factor.likelihood.shape[1], float(factor.likelihood[[0]].sum())
    own = factor.ratio * width / (factor.ratio * width + cells - width)
    sets = scipy.sparse.csr_array(factor.likelihood)[group.answers[:, 0]]
    probabilities = (own, (width - own) / (cells - 1))
    return SetSource(factor.queries, factor.shape, group.counts, sets, probabilities)


def _split_sources(release: Release, first: int) -> Iterator[Source]:
    """Yield one source a column, and one a pair of columns that some report answers."""
    sizes, indicators, answers = [], [], []
    for name, column in release.schema.coded.items():
        values, reported = release.reports(name)
        places, ranks = distinct_rows(values)
        form = cast(CodeForm, release.randomizer.mechanisms[name].form(column))
        indicators.append(form.indicators(values[places]))
        sizes.append(indicators[-1].shape[1])
        answers.append(np.where(reported, ranks, -1))
    every = np.stack(answers, axis=1)
    for several in (1, 2):
        for columns in combinations(range(len(sizes)), several):
            both = every[:, columns]
            both = both[(both >= 0).all(axis=1)]
            places, ranks = distinct_rows(both)
            if len(places):
                yield ProductSource(
                    tuple(first + c for c in columns), tuple(sizes[c] for c in columns),
                    np.bincount(ranks).astype(np.float64),
                    tuple(indicators[c] for c in columns), both[places],
                )  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """An estimate from the reports, with its 90 % confidence interval."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, variance: float, least: float, most: float) -> Interval:
        """Return the interval of a nearly normal estimate of a number between `least` and `most`."""
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

    @classmethod
    def from_dict(cls, fields: Any) -> Self:
        """Read what `dataclasses.asdict` wrote."""
        return cls(fields["model"], Interval(**fields["reports"]))


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates (G,) of means, their covariance (G, G) or variances (G,), and the number of people."""

    mean: Array
    spread: Array
    people: int

    @property
    def variance(self) -> Array:
        """Variance of each mean (G,)."""
        return self.spread if self.spread.ndim == 1 else np.diag(self.spread)


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
    parts, weights, people = [], [], 0
    for source in reports.sources:
        if not set(questions) <= set(source.questions):
            continue
        cells = cells_of(source, questions)
        columns = scipy.sparse.csr_array((np.ones(cells.size), (np.arange(cells.size), cells)))
        parts.append(moments(source, columns if g is None else columns @ g, full))
        weights.append(precision(source, columns.shape[1]))
        people += int(source.counts.sum())
    return _weighted(np.array(weights), parts, people)


def pooled(found: Sequence[Estimate]) -> Estimate:
    """Pool estimates of the same means from questions in several alphabets, by their precision."""
    weights = np.array([1 / max(float(each.variance.mean()), 1e-30) for each in found])
    parts = [(each.mean, each.spread) for each in found]
    return _weighted(weights, parts, sum(each.people for each in found))


def _weighted(weights: Array, parts: Sequence[tuple[Array, Array]], people: int) -> Estimate:
    share = weights / np.sum(weights)
    mean = sum(w * part[0] for w, part in zip(share, parts, strict=True))
    spread = sum(w**2 * part[1] for w, part in zip(share, parts, strict=True))
    return Estimate(np.asarray(mean), np.asarray(spread), people)


def precision(source: Source, size: float) -> float:
    """Return people over the variance of the mechanism alone, for a table of `size` cells."""
    cells = float(np.prod(source.shape))
    return float(source.counts.sum() / (source.noise * cells / size + 1 / size))


def cells_of(source: Source, questions: Questions) -> NDArray[np.int64]:
    """Return the cell of `questions` that each cell of a source belongs to."""
    codes = np.indices(source.shape).reshape(len(source.shape), -1)
    place = {question: i for i, question in enumerate(source.questions)}
    chosen = [place[question] for question in questions]
    shape = tuple(source.shape[i] for i in chosen)
    return np.ravel_multi_index(tuple(codes[i] for i in chosen), shape)


def moments(source: Source, g: Any, full: bool) -> tuple[Array, Array]:
    """Return the mean of h over a source's people, and the (co)variance of that mean."""
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
    return mean, (second / count - square) / max(count - 1, 1)
