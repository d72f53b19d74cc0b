"""All that releases of codes say: questions, and reports with what each says of functions of its cells.

A source holds reports about the same questions, and gives of every report h with $E[h | v] = g(v)$ for
any functions g of the cells v (`estimates`).

Privacy review: a release in another order: post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Protocol, Self, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.local.classes.class_fit import report_groups
from privot.local.classes.counts import ReportGroup, distinct_rows
from privot.local.releases import Releases
from privot.mechanisms.forms import CodeForm
from privot.randomizer import Release
from privot.schema import Array

Questions = tuple[int, ...]


class Source(Protocol):
    """Reports about the same questions."""

    @property
    def questions(self) -> Questions:
        """What they are about."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the alphabets."""

    @property
    def counts(self) -> Array:
        """How many people sent each distinct report (n,)."""

    @property
    def noise(self) -> float:
        """Variance that the mechanism alone adds to the share of a cell."""

    def values(self, g: Any, rows: slice) -> Array:
        """H (n, G) of some of the distinct reports, for functions g (K, G) of the cells."""


@dataclass(frozen=True, eq=False)
class SetSource:
    """Reports that are one set of cells of a product of alphabets.

    Arguments:
        questions: What they are about.
        shape: Sizes of the alphabets.
        counts: How many people sent each distinct report (n,).
        sets: Which cells each supports (n, K).
        probabilities: p and q.
    """

    questions: Questions
    shape: tuple[int, ...]
    counts: Array
    sets: scipy.sparse.csr_array
    probabilities: tuple[float, float]

    @property
    def noise(self) -> float:
        """See `Source`."""
        own, other = self.probabilities
        return other * (1 - other) / (own - other) ** 2

    def values(self, g: Any, rows: slice) -> Array:
        """See `Source`."""
        own, other = self.probabilities
        found = self.sets[rows] @ g
        held: Array = found.toarray() if scipy.sparse.issparse(found) else found
        return (held - other * np.asarray(g.sum(axis=0))) / (own - other)


@dataclass(frozen=True, eq=False)
class ProductSource:
    """Reports that answer each question by itself.

    Arguments:
        questions: One or two.
        shape: Sizes of their alphabets.
        counts: How many people sent each distinct pair of answers (n,).
        indicators: Of every question, unbiased indicators (answers, K) of its code.
        answers: Rows of each question's indicators (n, questions).
    """

    questions: Questions
    shape: tuple[int, ...]
    counts: Array
    indicators: tuple[Array, ...]
    answers: NDArray[np.int64]

    @property
    def noise(self) -> float:
        """See `Source`."""
        return float(np.prod([each.var() for each in self.indicators]))

    def values(self, g: Any, rows: slice) -> Array:
        """See `Source`."""
        told = [each[a] for each, a in zip(self.indicators, self.answers[rows].T, strict=True)]
        cells = told[0] if len(told) == 1 else np.einsum("na,nb->nab", *told)
        out: Array = cells.reshape(len(cells), -1) @ g
        return out


@dataclass(frozen=True, eq=False)
class Asked:
    """A question as it was put: a column in one of a release's alphabets for it.

    Arguments:
        column: Its number, among the newest release's coded columns.
        part: Number of the release.
        coding: Number of the alphabet, among that release's for this column.
        codes: The code that each of the column's atoms has.
        size: Number of codes.
    """

    column: int
    part: int
    coding: int
    codes: NDArray[np.int64]
    size: int


@dataclass(frozen=True, eq=False)
class Heard:
    """All that some releases say: the questions, and the reports about them.

    Arguments:
        asked: The questions, by their number.
        sources: The reports.
    """

    asked: tuple[Asked, ...]
    sources: tuple[Source, ...]

    @classmethod
    def of(cls, releases: Releases) -> Self:
        """Of releases whose columns are all coded."""
        names = list(releases.atoms)
        asked: list[Asked] = []
        held: list[Source] = []
        for number, part in enumerate(releases.parts):
            first = len(asked)
            for name in part.schema.coded:
                for coding, (codes, size) in enumerate(releases.atoms[name].codings[number]):
                    asked.append(Asked(names.index(name), number, coding, codes, size))
            if part.randomizer.joint is None:
                held += _split_sources(part, first)
            else:
                held += [_joint_source(group) for group in report_groups(part, first)]
        return cls(tuple(asked), tuple(held))

    def together(self, *columns: int) -> list[Questions]:
        """Single questions, or two that some report answers, about these columns."""
        return [q for q in self.pairs if tuple(sorted(self.columns(q))) == tuple(sorted(columns))]

    def columns(self, questions: Questions) -> tuple[int, ...]:
        """What some questions are about."""
        return tuple(self.asked[question].column for question in questions)

    @cached_property
    def pairs(self) -> list[Questions]:
        """All single questions that were asked, and all pairs of them that were asked together."""
        found = {
            questions
            for each in self.sources
            for several in (1, 2)
            for questions in combinations(sorted(each.questions), several)
        }
        return sorted(found, key=lambda questions: (len(questions), questions))


def _joint_source(group: ReportGroup) -> Source:
    """Sets of one size w: the C(K−1, w−1) that hold the truth are r times likelier than others."""
    (factor,) = group.factors
    cells, width = factor.likelihood.shape[1], float(factor.likelihood[[0]].sum())
    own = factor.ratio * width / (factor.ratio * width + cells - width)
    sets = scipy.sparse.csr_array(factor.likelihood)[group.answers[:, 0]]
    probabilities = (own, (width - own) / (cells - 1))
    return SetSource(factor.queries, factor.shape, group.counts, sets, probabilities)


def _split_sources(release: Release, first: int) -> Iterator[Source]:
    """One source a column, and one a pair of columns that some report is about."""
    sizes, indicators, answers = [], [], []
    for name, column in release.schema.coded.items():
        values, reported = release.reports(name)
        places, ranks = distinct_rows(values)
        form = cast(CodeForm, release.randomizer.mechanisms[name].form(column))
        indicators.append(form.indicators(values[places]))
        sizes.append(indicators[-1].shape[1])
        answers.append(np.where(reported, ranks, -1))
    told = np.stack(answers, axis=1)
    for several in (1, 2):
        for columns in combinations(range(len(sizes)), several):
            both = told[:, columns]
            both = both[(both >= 0).all(axis=1)]
            places, ranks = distinct_rows(both)
            if len(places):
                yield ProductSource(
                    tuple(first + c for c in columns), tuple(sizes[c] for c in columns),
                    np.bincount(ranks).astype(np.float64),
                    tuple(indicators[c] for c in columns), both[places],
                )  # fmt: skip


# What reports alone say of shares, whatever a model believes: unbiased estimates, and their error.
#
# A report of a cell v among K, of the set S that it supports, supports the true cell with probability
# p and any given other with q. So for any function g of the cell
#
# $$ h(S) = \frac{\sum_{v ∈ S} g(v) − q \sum_v g(v)}{p − q} , \qquad E[h(S) | v] = g(v) , $$
#
# exactly, for each person by itself. The mean of h over people is an unbiased estimate of the
# population's mean of g, and reports are independent, so its covariance is that of h over the people,
# divided by their number: both hold whatever the population is like, and use no model. Reports of a
# table of probabilities have the same with a left inverse of the table; answers of one report to
# several questions are independent given the record, so the product of their h is unbiased for the
# product of their g.
#
# Combinations of questions that hold those asked for are put together, each weighted by the number of
# its people over the variance that its mechanism alone has: public numbers, so that the sum is
# unbiased, too.
#
# With 90 % an interval of 1.645 standard errors holds the population's value; the estimate is nearly
# normal from some hundred people on. An estimate may be negative: shares are cut to [0, 1] where they
# are shown.
#
# Privacy review: functions of a release alone: post-processing, under the release's guarantee.
#
# References:
#     Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation* (2017).


Z = 1.6448536269514722  # of a normal law, 5 % lie above
_AT_ONCE = 2**22


@dataclass(frozen=True)
class Interval:
    """An estimate from the reports, and where the population's value lies, with 90 %."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, variance: float, least: float, most: float) -> Interval:
        """Of a nearly normal estimate of a number between `least` and `most`."""
        half = Z * float(np.sqrt(max(variance, 0.0)))
        ends = np.clip([estimate, estimate - half, estimate + half], least, most)
        return cls(*map(float, ends))

    def holds(self, value: float) -> bool:
        """Whether a value lies inside."""
        return self.low <= value <= self.high


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates (G,) of means, their covariance (G, G) or variances (G,), and from how many people."""

    mean: Array
    spread: Array
    people: int

    @property
    def variance(self) -> Array:
        """Of each mean (G,)."""
        return self.spread if self.spread.ndim == 1 else np.diag(self.spread)


def estimate(
    heard: Heard, questions: Questions, g: Array | None = None, *, full: bool = False
) -> Estimate:
    """Means of functions of the codes of `questions`, from all reports that answer them.

    Arguments:
        heard: The reports.
        questions: In increasing order; the last one's code is fastest in a cell's number.
        g: Functions (cells, G); by default an indicator of every cell, so that means are shares.
        full: Whether to estimate covariances, rather than variances alone.
    """
    parts, weights, people = [], [], 0
    for source in heard.sources:
        if not set(questions) <= set(source.questions):
            continue
        cells = cells_of(source, questions)
        columns = scipy.sparse.csr_array((np.ones(cells.size), (np.arange(cells.size), cells)))
        size = columns.shape[1]
        functions = columns if g is None else columns @ g
        parts.append(moments(source, functions, full))
        count = source.counts.sum()
        weights.append(count / (source.noise * cells.size / size + 1 / size))
        people += int(count)
    share = np.array(weights) / np.sum(weights)
    mean = sum(w * part[0] for w, part in zip(share, parts, strict=True))
    spread = sum(w**2 * part[1] for w, part in zip(share, parts, strict=True))
    return Estimate(np.asarray(mean), np.asarray(spread), people)


def pooled(found: Sequence[Estimate]) -> Estimate:
    """Estimates of the same means from questions in several alphabets, weighted by their precision."""
    precision = np.array([1 / max(float(each.variance.mean()), 1e-30) for each in found])
    share = precision / precision.sum()
    mean = sum(w * each.mean for w, each in zip(share, found, strict=True))
    spread = sum(w**2 * each.spread for w, each in zip(share, found, strict=True))
    return Estimate(np.asarray(mean), np.asarray(spread), sum(each.people for each in found))


def cells_of(source: Source, questions: Questions) -> NDArray[np.int64]:
    """The cell of `questions` that each cell of a source has."""
    codes = np.indices(source.shape).reshape(len(source.shape), -1)
    place = {question: i for i, question in enumerate(source.questions)}
    chosen = [place[question] for question in questions]
    shape = tuple(source.shape[i] for i in chosen)
    return np.ravel_multi_index(tuple(codes[i] for i in chosen), shape)


def moments(source: Source, g: Any, full: bool) -> tuple[Array, Array]:
    """Mean of h over a source's people, and the (co)variance of that mean."""
    count, step = source.counts.sum(), max(1, _AT_ONCE // max(source.shape[0], g.shape[1]))
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
