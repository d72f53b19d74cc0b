r"""Estimates from reports alone: shares of codes with 90 % confidence intervals, and a model's errors.

**Shares** are estimated without bias and without a model; nothing is assumed about the population. Terms
of this package:

- an *atom* of a column is a finest set of values that reports distinguish; within atoms, a model may
  have mass points (`Places`);
- a *question* is a column in one of the alphabets in which a release reports it; its codes are unions of
  atoms;
- a *cell* is a code of one question, or a combination of codes of the questions of a joint report;
- a *source* is all reports that answer the same questions.

`CodeReports` orders reports by source, and `estimate` estimates means of functions of the cell.

A report is a set S of some of K cells: it contains the true cell v with probability p, and any given
other cell with probability q. So for any function g of the cell

$$ h(S) = \frac{\sum_{u ∈ S} g(u) − q \sum_u g(u)}{p − q} , \qquad E[h(S) | v] = g(v) . $$

The mean of h over people is therefore an unbiased estimate of the population's mean of g; its covariance
is that of h over people, divided by their number. For mechanisms with a table of probabilities, h uses
a left inverse of the table. Answers of one report to several questions are independent given the record,
so the product of their h is unbiased for the product of their g.

Estimates of several sources are averaged, weighted by the number of people over the variance of one
person's estimate of a share (`source_weight`). The weights are public, so the average is also unbiased.

An interval of ±1.645 standard errors contains the population's value with probability 90 %; estimates
are nearly normal from some hundred people on. Estimated shares are shown clipped to [0, 1].

**Rehearsals** (`rehearse`) are a parametric bootstrap. Reports of people sampled from the model are
simulated, and a second model is fitted to them with the same settings. The simulated population is
known, so the error of the second model is computed without any real record. A model smooths, so its
samples are easier to learn than real records, and the rehearsed error is too small. The real reports
correct this (`expected_fits`). With p̂ the unbiased estimates of the shares of a column's or pair's
values, V their variances, m the model's shares, and e the rehearsed ℓ2 error,

$$ Q = ‖p̂ − m‖^2 − \sum V $$

estimates the squared error, minus the part of the noise in p̂ that the model fitted. This part is the
same in a rehearsal. So $g = 1 + (Q − Q_{rehearsed}) / e^2$ estimates the ratio of the true squared error
to the rehearsed one, with the variance $v = 2\,\mathrm{tr} S^2 (1 + 1/R) / e^4$ for R rehearsals and S
the covariance of p̂. For reports that the model was not fitted to, Q itself estimates the squared error.
At small ε, v is large; therefore g is averaged, with precisions as weights, with what is usual. For
columns this is a ratio of mean μ = 1.2 and standard deviation .7 μ. For pairs it is a ratio of mean and
standard deviation

$$ μ = 1.2 \Bigl(\frac{\sum V}{e^2}\Bigr)^{.15} $$

because the more of the noise a fit removes, the more structure it removes that the model then lacks: μ
is 1.2 where a fit errs as much as the reports' own estimate, 2.4 where its squared error is a hundredth
of that. Both constants are from twenty tables at three ε. The expected error is the rehearsed one times
the root of the average.

**Goodness of fit.** If a model is right, and was not fitted to the reports, $‖p̂ − m‖^2$ is a sum of
squares of nearly normal errors, with mean ΣV. With S their covariance, its tail is approximated by a
chi-square of $ν = (\mathrm{tr} S^2)^3 / (\mathrm{tr} S^3)^2$ degrees of freedom, shifted and scaled to
the same mean, variance and skewness (Pearson's approximation, in Imhof's paper). Without the skewness,
p-values are too small where one error dominates (one in 5000 instead of one in 1000). A model fits some
of the noise of its own reports, so its residuals are smaller, and false alarms are rarer. This is not
corrected for: the fitted part of the noise varies by column, from 1 % for three categories to 100 % for
a number in eight codings that is learned as one curve, so a common correction would cause false alarms.

Privacy review: all functions post-process a release, and a model that was learned from reports alone,
with public and random numbers, and retain the guarantee. Rehearsed reports are of simulated people. No
record is read.

References:
    Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation* (2017).
    Imhof, *Computing the distribution of quadratic forms in normal variables* (1961). Efron, Tibshirani,
    *An introduction to the bootstrap* (1993). Holm, *A simple sequentially rejective multiple test
    procedure* (1979).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.classes.counts import ReportGroup, report_groups, split_answers
from privot.local.classes.mixture import LatentClasses, LatentClassSampler
from privot.local.releases import Places, Releases
from privot.randomizer import Counts
from privot.randomizer.reports.counts import Counted
from privot.schema.columns.alphabet import Alphabet
from privot.schema.columns.column import CodedColumn
from privot.schema.domains import Array
from privot.training import Progress

# G functions of K cells: their values (K, G), or if they are the indicators of G groups of cells, the
# number of each cell's group (K,), which needs less memory.
Functions = NDArray[Any]
Questions = tuple[int, ...]  # numbers of questions about different columns
Columns = tuple[int, ...]  # index of a column, or the indices of a pair
Z = 1.6448536269514722  # the 95 % quantile of the standard normal distribution
FALSE_ALARMS = 0.05  # family-wise error rate of the tests of all columns and pairs
MAX_REHEARSED = 200_000  # people in a rehearsal; more have smaller errors
_CHUNK = 2**22  # values of h that are computed at once
# Usual ratios of true to rehearsed squared errors: of a column, and of a pair that no report is about.
_USUAL_RATIOS = (1.2, 2.0)
_RATIO_SPREADS = (0.7, 1.0)  # their standard deviations, relative to the mean
_SMOOTHING = 0.15  # power of ΣV/e² to which the usual ratio of a pair is proportional
_LEAST_RATIO = 0.5  # least ratio that noise in the reports may lead to
_TINY = 1e-12  # least squared error to divide by
_MAX_COVARIANCES = 400  # most cells whose covariances are estimated


@dataclass(frozen=True, eq=False)
class SetSource:
    """Reports that are sets of the K cells of a product of alphabets."""

    questions: Questions
    shape: tuple[int, ...]  # sizes of the alphabets
    counts: Array  # (n,) people who sent each distinct report
    sets: scipy.sparse.csr_array  # (n, K) indicators of the cells in each set
    probabilities: tuple[float, float]  # p and q

    @classmethod
    def of(cls, group: ReportGroup) -> Self:
        """Compute p and q of sets of w cells, which are r times as likely if they have the true cell."""
        (factor,) = group.factors  # `likelihood` has the indicators (sets, K) of sets of one size
        num_cells, width = factor.likelihood.shape[1], float(factor.likelihood[[0]].sum())
        p = factor.ratio * width / (factor.ratio * width + num_cells - width)
        q = (width - p) / (num_cells - 1)  # since w = p + (K − 1) q is the size of a set
        sets = scipy.sparse.csr_array(factor.likelihood)[group.answers[:, 0]]
        return cls(factor.queries, factor.shape, group.counts, sets, (p, q))

    @property
    def cell_variance(self) -> float:
        """Mean variance over cells that the mechanism adds to h of a cell, for a uniform true cell."""
        p, q = self.probabilities
        cells = self.sets.shape[1]
        return (p * (1 - p) + (cells - 1) * q * (1 - q)) / (cells * (p - q) ** 2)

    def unbiased(self, g: Functions, rows: slice) -> Array:
        """Return h (n, G) of the distinct reports `rows`."""
        p, q = self.probabilities
        whole = rows.start == 0 and rows.stop >= len(self.counts)
        sets = self.sets if whole else self.sets[rows]  # slicing copies
        if g.ndim == 2:
            return np.asarray((sets @ g - q * g.sum(axis=0)) / (p - q))
        # The indicators of a group sum to the numbers of its cells in the sets.
        totals, (n, _) = np.bincount(g), sets.shape
        places = np.repeat(np.arange(n), np.diff(sets.indptr)) * totals.size + g[sets.indices]
        sums = np.bincount(places, minlength=n * totals.size).reshape(n, -1)
        return (sums - q * totals) / (p - q)


@dataclass(frozen=True, eq=False)
class ProductSource:
    """Reports that answer one or two questions separately."""

    questions: Questions
    shape: tuple[int, ...]  # sizes of their alphabets
    counts: Array  # (n,) people who sent each distinct combination of answers
    indicators: tuple[Array, ...]  # (answers, K) unbiased indicators of the code, by question
    answers: NDArray[np.int64]  # (n, questions) rows of each question's indicators
    cell_variance: float  # see `SetSource`

    def unbiased(self, g: Functions, rows: slice) -> Array:
        """Return h (n, G) of the distinct reports `rows`."""
        cells = self.indicators[0][self.answers[rows, 0]]
        if len(self.questions) == 2:
            second = self.indicators[1][self.answers[rows, 1]]
            cells = np.einsum("na,nb->nab", cells, second)
        one_hot = (np.ones(g.size), g.ravel(), np.arange(g.size + 1))
        functions: Any = g if g.ndim == 2 else scipy.sparse.csr_array(one_hot)
        return np.asarray(cells.reshape(len(cells), -1) @ functions)


Source = SetSource | ProductSource


def sampler_of(model: LocalModel) -> LatentClassSampler:
    """Return the sampler of a table's model: its `atoms`, and its `classes` in the schema's codes."""
    assert isinstance(model.sampler, LatentClassSampler)  # as a check requires
    return model.sampler


@dataclass(frozen=True, eq=False)
class Question:
    """Column in one of the alphabets in which a release reports it."""

    column: int  # number of the column, among the newest release's coded columns
    release: int  # number of the release
    law: Array  # (K, a) 1 where an atom of the column, or a place of a model (`Places`), has the code
    alphabet: Alphabet
    declared: CodedColumn  # as the release's schema declares it


@dataclass(frozen=True, eq=False)
class CodeReports:
    """Reports of several releases of codes, ordered by question."""

    questions: tuple[Question, ...]  # all questions, by number
    sources: tuple[Source, ...]  # all reports, by the questions that they answer
    # Answered questions and pairs of questions, by the sorted columns that they are about.
    by_columns: Mapping[tuple[int, ...], list[Questions]]

    @classmethod
    def of(cls, releases: Releases, model: LocalModel | None = None) -> Self:
        """Order the reports of releases by question; all columns must be coded.

        `Question.law` is about the places of `model`, if it is given, otherwise about atoms.
        """
        places = None if model is None else sampler_of(model).places
        names, atoms = list(releases.atoms), releases.atoms.values()
        atom_of_place: list[Any] = [slice(None)] * len(names)
        if places is not None:
            atom_of_place = [*map(Places.numbers, places, atoms, names)]
        questions: list[Question] = []
        sources: list[Source] = []
        for number, part in enumerate(releases.counts):
            first = len(questions)
            for name, declared in part.randomizer.schema.coded.items():
                column = names.index(name)
                for codes_of_atoms, alphabet in releases.atoms[name].codings[number]:
                    codes = codes_of_atoms[atom_of_place[column]]
                    law = (codes == np.arange(alphabet.size)[:, None]) * 1.0
                    questions.append(Question(column, number, law, alphabet, declared))
            if part.randomizer.joint is None:
                sources += _split_sources(part, first)
            else:
                sources += [SetSource.of(group) for group in report_groups(part, first)]
        answered = {
            group for s in sources for size in (1, 2) for group in combinations(s.questions, size)
        }
        by_columns: dict[tuple[int, ...], list[Questions]] = {}
        for group in sorted(answered, key=lambda group: (len(group), group)):
            columns = tuple(sorted(questions[number].column for number in group))
            by_columns.setdefault(columns, []).append(group)
        return cls(tuple(questions), tuple(sources), by_columns)

    def columns(self, questions: Questions) -> tuple[int, ...]:
        """Return the number of each question's column."""
        return tuple(self.questions[question].column for question in questions)

    def about(self, *columns: int) -> list[Questions]:
        """Return all answered questions about one column, or pairs of questions about two columns."""
        return self.by_columns.get(tuple(sorted(columns)), [])

    def answering(self, questions: Questions) -> Iterator[Source]:
        """Yield the sources whose reports answer all of these questions."""
        return (source for source in self.sources if set(questions) <= set(source.questions))

    def people(self, *columns: int) -> int:
        """Return the number of answers about one column, or about two columns together."""
        groups = self.about(*columns)
        return sum(int(source.counts.sum()) for q in groups for source in self.answering(q))


def _split_sources(counts: Counts, first: int) -> Iterator[Source]:
    """Yield a source for each column, and for each pair of columns that some report answers.

    `first` is the number of the question about the first column; the others follow in order.
    """
    columns = split_answers(counts)
    indicators = [column.form.indicators(column.answers) for column in columns]
    numbers = range(len(columns))
    for chosen in (*combinations(numbers, 1), *combinations(numbers, 2)):
        parts = [
            (np.stack([columns[c].ranks[key] for c in chosen], axis=1), group.people)
            for key, group in counts.groups.items()
            if {*chosen} <= {*key}
        ]
        if parts:
            answers, people = Counted.sum(parts)
            shape = tuple(indicators[column].shape[1] for column in chosen)
            mean_square = math.prod(columns[column].form.mean_square for column in chosen)
            yield ProductSource(
                questions=tuple(first + column for column in chosen),
                shape=shape,
                counts=people.astype(np.float64),
                indicators=tuple(indicators[column] for column in chosen),
                answers=answers.astype(np.int64),
                cell_variance=mean_square - 1 / math.prod(shape),  # less that of a cell's indicator
            )


@dataclass(frozen=True)
class Interval:
    """Estimate from reports with its 90 % confidence interval."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, variance: float, least: float, most: float) -> Self:
        """Return the interval of a normal estimate, clipped to the range from `least` to `most`."""
        half = Z * float(np.sqrt(max(variance, 0.0)))
        return cls(*np.clip([estimate, estimate - half, estimate + half], least, most).tolist())

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low

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
    """Estimates of G means, with their covariance or only their variances."""

    mean: Array  # (G,)
    spread: Array  # covariance (G, G), or variances (G,)
    people: int  # number of people whose reports were used

    @property
    def variance(self) -> Array:
        """Variances (G,) of the means."""
        return self.spread if self.spread.ndim == 1 else np.diag(self.spread)

    def checks(self, model: Array) -> tuple[ValueCheck, ...]:
        """Return the checks of a model's shares (G,) by these estimates."""
        return tuple(
            ValueCheck(share, Interval.of(mean, variance, least=0.0, most=1.0))
            for share, mean, variance in zip(model.tolist(), self.mean, self.variance, strict=True)
        )

    @classmethod
    def weighted(cls, weights: Sequence[float], parts: Sequence[Self]) -> Self:
        """Return the weighted mean of independent estimates of the same quantities."""
        normalized = np.array(weights) / np.sum(weights)
        mean = sum(w * part.mean for w, part in zip(normalized, parts, strict=True))
        spread = sum(w**2 * part.spread for w, part in zip(normalized, parts, strict=True))
        return cls(np.asarray(mean), np.asarray(spread), sum(part.people for part in parts))


def estimate(
    reports: CodeReports, questions: Questions, g: Array | None = None, *, full: bool = False
) -> Estimate:
    """Estimate means of functions of the codes of `questions` from all reports that answer them.

    Arguments:
        reports: All reports.
        questions: Questions in increasing order; cells are numbered with the last code fastest.
        g: Functions (cells, G); by default an indicator of every cell, so that means are shares.
        full: Whether `spread` is the covariance (G, G), rather than only the variances (G,).
    """
    parts, weights = [], []
    for source in reports.answering(questions):
        cells = cells_of(source, questions)
        parts.append(estimate_from(source, cells if g is None else g[cells], full))
        weights.append(source_weight(source, int(cells.max()) + 1))
    return Estimate.weighted(weights, parts)


def cell_shares(atoms: LatentClasses, *questions: Question) -> Array:
    """Return a model's probabilities of the cells of one or two questions (cells,)."""
    table = atoms.marginal([question.column for question in questions])
    for axis, question in enumerate(questions):
        table = sum_by_code(question, table, axis)
    return table.ravel()


def sum_by_code(question: Question, table: Array, axis: int) -> Array:
    """Sum a table over the places of each code of a question; `axis` has the places, then the codes."""
    return np.moveaxis(np.tensordot(question.law, table, (1, axis)), 0, axis)


def source_weight(source: Source, size: int) -> float:
    """Return the weight of a source for a table of `size` cells.

    It is the number of people over the variance of one person's estimate of a cell's share. A cell of
    the table consists of `cells / size` cells of the source, each with the variance of the mechanism.
    The random choice of the person adds about 1/size, the variance of an indicator with mean 1/size.
    """
    cells = math.prod(source.shape)
    return float(source.counts.sum() / (source.cell_variance * cells / size + 1 / size))


def cells_of(source: Source, questions: Questions) -> NDArray[np.int64]:
    """Return, for each cell of a source, the number of its cell in the table of `questions`."""
    codes = np.indices(source.shape).reshape(len(source.shape), -1)
    chosen = [source.questions.index(question) for question in questions]
    return np.ravel_multi_index(tuple(codes[chosen]), [source.shape[i] for i in chosen])


def estimate_from(source: Source, g: Functions, full: bool) -> Estimate:
    """Estimate means of functions of a source's cells from this source alone."""
    size = g.shape[1] if g.ndim == 2 else int(g.max()) + 1
    people, step = source.counts.sum(), max(1, _CHUNK // max(source.shape[0], size))
    sums: Any = 0.0
    squares: Any = 0.0  # sum of products h hᵀ, or of squares of h
    for start in range(0, len(source.counts), step):
        rows = slice(start, start + step)
        h, counts = source.unbiased(g, rows), source.counts[rows]
        sums = sums + counts @ h
        squares = squares + ((h * counts[:, None]).T @ h if full else counts @ h**2)
    mean = sums / people
    squared_mean = np.outer(mean, mean) if full else mean**2
    return Estimate(mean, (squares / people - squared_mean) / max(people - 1, 1), int(people))


@dataclass(frozen=True)
class Residual:
    """Squared distance of a model's shares from estimates p̂ of covariance S, with traces of S."""

    square: float  # ‖p̂ − m‖²
    noise: float  # ΣV = tr S, the expected square if the model is right
    trace2: float  # tr S²
    trace3: float  # tr S³

    @property
    def excess(self) -> float:
        """The statistic Q."""
        return self.square - self.noise

    @property
    def p_value(self) -> float:
        """p-value of the test that the model is right; an upper bound for the model's own reports."""
        if self.trace2 <= 0:  # no report, or one
            return 1.0
        freedom = self.trace2**3 / self.trace3**2
        # Q has mean 0 and variance 2 tr S²; a chi-square has the mean ν and the variance 2ν.
        standardized = self.excess / (2 * self.trace2) ** 0.5
        square = freedom + standardized * (2 * freedom) ** 0.5
        return float(scipy.special.chdtrc(freedom, max(square, 0.0)))

    @classmethod
    def of(cls, by_reports: Estimate, shares: Array) -> Self:
        """Compare a model's shares (cells,) with estimates, whose S may be given by its diagonal."""
        gap, spread = by_reports.mean - shares, by_reports.spread
        square = float(gap @ gap)
        if spread.ndim == 1:
            return cls(square, *(float((spread**n).sum()) for n in (1, 2, 3)))
        trace3 = float((spread @ spread * spread).sum())
        return cls(square, float(np.trace(spread)), float((spread**2).sum()), trace3)

    @classmethod
    def mean(cls, several: Sequence[Self]) -> Self:
        """Return the mean of independent residuals."""
        # Up to a factor, tr Sᵏ is the k-th cumulant of the square, and cumulants of a sum add up.
        means = np.mean([astuple(residual) for residual in several], axis=0)
        square, noise, trace2, trace3 = means.tolist()
        return cls(square, noise, trace2 / len(several), trace3 / len(several) ** 2)


def residuals(reports: CodeReports, atoms: LatentClasses) -> dict[Columns, Residual]:
    """Return the residual of each column or pair that reports are about, averaged over its questions."""

    def residual(questions: Questions) -> Residual:
        shares = cell_shares(atoms, *(reports.questions[number] for number in questions))
        # Shares covary because they sum to 1, which matters only if there are few cells.
        full = shares.size <= _MAX_COVARIANCES
        return Residual.of(estimate(reports, questions, full=full), shares)

    groups = reports.by_columns.items()
    return {columns: Residual.mean([*map(residual, group)]) for columns, group in groups}


def contradicted_by(p_values: Mapping[Columns, float]) -> set[Columns]:
    """Return the columns and pairs that Holm's procedure rejects at level `FALSE_ALARMS`."""
    ordered = sorted(p_values, key=p_values.__getitem__)
    for rank, columns in enumerate(ordered):
        if p_values[columns] > FALSE_ALARMS / (len(ordered) - rank):
            return set(ordered[:rank])
    return set(ordered)


class Fit(NamedTuple):
    """How well a model fits a column, or a pair of columns."""

    error: float  # expected total variation
    growth: float  # ratio of the expected error to the rehearsed one
    p_value: float | None  # of the test that the model is right; None without reports
    contradicted: bool  # whether the test rejects the model


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """Result of a rehearsal; errors are by column or pair of columns."""

    errors: dict[Columns, float]  # total variation of the rehearsed model from the true one
    squares: dict[Columns, float]  # squared ℓ2 distance of its shares from the true ones
    residuals: dict[Columns, Residual]  # residuals of the rehearsed model and reports
    model: LocalModel  # the rehearsed model, fitted to the simulated reports
    releases: Releases  # the simulated reports


def expected_fits(
    rehearsals: Sequence[Rehearsed],
    real: Mapping[Columns, Residual],
    *,
    held_out: bool,
) -> dict[Columns, Fit]:
    """Return the fit of each column and pair.

    Arguments:
        rehearsals: Rehearsals of the model.
        real: Residuals of the model and the real reports.
        held_out: Whether the model was fitted without the real reports.
    """
    p_values = {columns: residual.p_value for columns, residual in real.items()}
    contradicted = contradicted_by(p_values)
    fits = {}
    for columns in rehearsals[0].errors:
        is_pair = len(columns) == 2
        usual, spread = _USUAL_RATIOS[is_pair], _RATIO_SPREADS[is_pair]
        growth = usual**0.5
        # If few people are rehearsed, their reports may not cover all columns.
        if columns in real and all(columns in part.residuals for part in rehearsals):
            square = max(float(np.mean([part.squares[columns] for part in rehearsals])), _TINY)
            if is_pair:
                usual = _USUAL_RATIOS[0] * (real[columns].noise / square) ** _SMOOTHING
            rehearsed = np.mean([part.residuals[columns].excess for part in rehearsals])
            known = square if held_out else float(rehearsed)
            ratio = 1 + (real[columns].excess - known) / square
            repeats = 1.0 if held_out else 1 + 1 / len(rehearsals)
            variance = 2 * real[columns].trace2 * repeats / square**2
            weight = 1 / (1 + variance / (spread * usual) ** 2)
            growth = max(weight * ratio + (1 - weight) * usual, _LEAST_RATIO) ** 0.5
        error = growth * float(np.mean([part.errors[columns] for part in rehearsals]))
        rejected = columns in contradicted
        fits[columns] = Fit(min(1.0, error), growth, p_values.get(columns), rejected)
    return fits


def rehearse(
    model: LocalModel,
    releases: Releases,
    all_columns: Sequence[Columns],
    seed: int,
    progress: Progress | None = None,
) -> Rehearsed:
    """Simulate as many reports as there are, but at most 200 000, and fit a model to them.

    Arguments:
        model: Model of a table, which stands for the population.
        releases: Releases, of which only the randomizers and the numbers of reports are used.
        all_columns: Columns and pairs whose errors are computed, in the codes of the schema.
        seed: Seed of draws and fits; not of the reports' noise.
        progress: Callback after each fit of the ensemble.
    """
    share = min(1.0, MAX_REHEARSED / len(releases))
    parts = []
    for number, part in enumerate(releases.parts):
        people = model.sample(max(round(share * len(part)), 1), seed=seed + number)
        names = list(part.randomizer.schema.table_columns)
        parts.append(part.randomizer.privatize(people.select(names)))
    simulated = Releases(tuple(parts))
    refitted = fit_again(model, simulated, seed, progress)
    learned, true = sampler_of(refitted).classes, sampler_of(model).classes
    errors, squares = {}, {}
    for columns in all_columns:
        gap = (learned.marginal(columns) - true.marginal(columns)).ravel()
        errors[columns], squares[columns] = float(np.abs(gap).sum() / 2), float(gap @ gap)
    found = residuals(CodeReports.of(simulated, refitted), sampler_of(refitted).atoms)
    return Rehearsed(errors, squares, found, refitted, simulated)
