"""Check of a model by privatized reports alone, without real records.

A check has four parts:

- 90 % confidence intervals of the population's shares (`estimates`), means, quantiles and correlations
  (`number_checks`);
- for each column and pair of columns, the model's expected error, and a test of whether the reports
  contradict the model (`rehearse`). They do if the test rejects the model at a family-wise error rate
  of 5 % over all columns and pairs (Holm's procedure);
- if a target column is named, the performance of classifiers that are trained on synthetic records to
  predict it (`target_check`);
- findings in words, graded by the limits of `verdicts`.

**Privacy review.** Everything is computed from a release, a model, and random numbers. This is
post-processing, so the weaker guarantee of both covers whatever is printed, stored or shown, if nobody
sent one report for the model and another one for the check: such a person has spent both budgets, which
cannot be detected here. No raw record is read; rehearsals simulate people by sampling the model.

References:
    Efron, Tibshirani, *An introduction to the bootstrap* (1993). Holm, *A simple sequentially rejective
    multiple test procedure* (1979).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self, cast

import numpy as np
from pydantic import TypeAdapter

from privot.core.errors import PrivotError
from privot.core.summary import Summarized
from privot.evaluation import number_checks, verdicts
from privot.evaluation.distances import Score, number_errors
from privot.evaluation.estimates import (
    CodeReports,
    Columns,
    Fit,
    Rehearsed,
    ValueCheck,
    cell_shares,
    estimate,
    expected_fits,
    rehearse,
    residuals,
    sampler_of,
)
from privot.evaluation.floors import floor_of_codes
from privot.evaluation.target_check import TargetCheck, check_target, require_target
from privot.evaluation.verdicts import Finding, percent
from privot.local.model import LocalModel, pair_dependence
from privot.local.releases import Releases, Reports
from privot.privacy import weakest
from privot.privacy.rounding import percent_at_least
from privot.schema.columns.alphabet import Alphabet
from privot.schema.columns.numeric import NumberColumn
from privot.schema.domains import Array

MIN_REPORTS = 100
_REHEARSALS, _BETWEEN_SEEDS = 2, 1000  # rehearsals of a check, and the distance of their seeds
_DETERMINED = 0.5  # widest interval of a correlation that the reports are said to determine
_NO_DEPENDENCE = 0.005  # a model whose pairs are all below has no dependence
_NUM_SAMPLED = 100_000  # records of the model, for the distribution of numbers within bins


@dataclass(frozen=True)
class ColumnCheck:
    """Check of one column.

    Arguments:
        column: Name of the column.
        people: Number of people who reported the column.
        labels: Labels of the codes (K,).
        shares: Share of each code (K,), in the model and by the reports.
        error: Expected total variation between the model and the population.
        p_value: p-value of the test that the model is right; None without reports.
        contradicted: Whether the reports reject the model.
        number: Mean and quantiles, if the column is of numbers.
    """

    column: str
    people: int
    labels: tuple[str, ...]
    shares: tuple[ValueCheck, ...]
    error: float
    p_value: float | None
    contradicted: bool
    number: number_checks.NumberCheck | None = None


@dataclass(frozen=True)
class PairCheck:
    """Check of a pair of columns, with the fields of a `ColumnCheck`.

    `dependence` is the total variation between the pair's joint shares in the model and independence;
    `correlation` and `rank_correlation` are None unless both columns are of numbers. Their expected
    errors are None if the reports do not determine them: the interval is wider than ½.
    """

    first: str
    second: str
    people: int
    error: float
    dependence: float
    p_value: float | None
    contradicted: bool
    correlation: ValueCheck | None = None
    correlation_error: float | None = None
    rank_correlation: ValueCheck | None = None
    rank_correlation_error: float | None = None

    @property
    def name(self) -> str:
        """Names of both columns."""
        return f"{self.first} × {self.second}"


@dataclass(frozen=True, repr=False)
class Check(Summarized):
    """Result of `check`: everything that reports say about a model; as private as the reports.

    Arguments:
        guarantee: The weaker guarantee of model and reports, as text.
        num_reports: Number of reports.
        held_out: Whether the model was fitted without these reports.
        columns: Checks of the columns, in the schema's order.
        pairs: Checks of the pairs of columns.
        target: Scores of classifiers that are trained on synthetic rows, if a target was named.
        promise: The guarantee in sentences.
        floor: Mean total variation of columns that no method undercuts for all populations, if it is
            known (`privot.evaluation.floors`).
    """

    guarantee: str
    num_reports: int
    held_out: bool
    columns: tuple[ColumnCheck, ...]
    pairs: tuple[PairCheck, ...]
    target: TargetCheck | None = None
    promise: str = ""
    floor: float | None = None

    @property
    def one_way(self) -> float:
        """Mean over columns of the expected error."""
        return _mean_error(self.columns)

    @property
    def two_way(self) -> float | None:
        """Mean over pairs of the expected error."""
        return _mean_error(self.pairs) if self.pairs else None

    @property
    def verdict(self) -> tuple[Finding, ...]:
        """Findings about the use of the model."""
        findings = [_judge_columns(self.columns, self.floor)]
        if numbers := [(check.column, check.number) for check in self.columns if check.number]:
            findings.append(_judge_numbers(numbers))
        if self.pairs:
            findings += [_judge_pairs(self.pairs), _judge_dependence(self.pairs)]
        for topic, errors in (
            ("correlations", [(p, p.correlation_error) for p in self.pairs if p.correlation]),
            (
                "rank correlations",
                [(p, p.rank_correlation_error) for p in self.pairs if p.rank_correlation],
            ),
        ):
            if errors:
                findings.append(_judge_correlations(topic, errors))
        findings.append(_judge_agreement(self.columns, self.pairs))
        if self.target is not None:
            findings.append(self.target.finding)
        return tuple(findings)

    def summary(self) -> dict[str, object]:
        return {finding.topic: finding.words for finding in self.verdict}

    def recorded(self, model: LocalModel) -> LocalModel:
        """Return a copy of the model that stores this check; refused if its guarantee differs."""
        if self.guarantee != str(model.guarantee):
            raise PrivotError(
                f"the check has {self.guarantee}, and the model {model.guarantee}: save them apart"
            )
        return replace(model, made_with=model.made_with | {"check": self.to_dict()})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, model: LocalModel) -> Self | None:
        """Return the check that was saved with a model; None if there is none."""
        stored = model.made_with.get("check")
        return None if stored is None else TypeAdapter(cls).validate_python(stored)


def _mean_error(checks: Sequence[ColumnCheck] | Sequence[PairCheck]) -> float:
    return float(np.mean([check.error for check in checks]))


def _judge_columns(columns: Sequence[ColumnCheck], floor: float | None) -> Finding:
    scores = [(column.column, Score(column.error, 0.0)) for column in columns]
    limits = verdicts.expected(verdicts.COLUMN)
    found = verdicts.judge("single columns", scores, limits, "total variation")
    words = f"{found.words}; error to expect {percent(_mean_error(columns))} on average"
    if floor is not None:
        words += f"; for some population every method errs by {percent_at_least(floor, 2)} or more"
    return replace(found, words=words)


def _judge_numbers(numbers: Sequence[tuple[str, number_checks.NumberCheck]]) -> Finding:
    scores, limits = [(n, Score(c.ks, 0.0)) for n, c in numbers], verdicts.expected(verdicts.NUMBER)
    found = verdicts.judge("numbers, value by value", scores, limits, "KS", percent)
    limit = verdicts.NUMBER[0] / number_checks.KS_OF_CELL  # of the share of one cell
    coarse = [f"{percent(n.cell)} of {name}" for name, n in numbers if n.cell > limit]
    if not coarse:
        return found
    words = f"{found.words}; one cell holds {verdicts.join_names(coarse)}"
    return replace(found, words=f"{words}: declare typical numbers for later reports")


def _judge_correlations(topic: str, errors: Sequence[tuple[PairCheck, float | None]]) -> Finding:
    unknown = [pair.name for pair, error in errors if error is None]
    if len(unknown) == len(errors):
        return Finding(topic, "unknown", "the reports determine none")
    known = [(pair.name, Score(error, 0.0)) for pair, error in errors if error is not None]
    found = verdicts.judge_correlations(topic, known, verdicts.expected(verdicts.CORRELATION))
    if not unknown:
        return found
    words = f"{found.words}; the reports do not determine {verdicts.join_names(unknown)}"
    return replace(found, grade="fair" if found.grade == "good" else found.grade, words=words)


def _judge_pairs(pairs: Sequence[PairCheck]) -> Finding:
    limit, fair_limit = verdicts.expected(verdicts.PAIR)
    good = [pair for pair in pairs if pair.error <= limit and not pair.contradicted]
    others = sorted((pair for pair in pairs if pair not in good), key=lambda pair: -pair.error)
    words = f"{len(good)} of {len(pairs)} within {percent(limit)}; "
    words += f"error to expect {percent(_mean_error(pairs))} on average"
    if others:
        words += f"; not: {verdicts.join_names([pair.name for pair in others])}"
    grade = verdicts.grade_share(len(good) / len(pairs))
    if grade == "poor" and all(p.error <= fair_limit and not p.contradicted for p in pairs):
        grade = "fair"
    return Finding("pairs of columns", grade, words)


def _judge_dependence(pairs: Sequence[PairCheck]) -> Finding:
    uncovered = [pair.name for pair in pairs if pair.p_value is None]  # answered by no report
    if len(uncovered) == len(pairs):
        words = "no report covers two columns together: they are taken as independent"
        return Finding(verdicts.DEPENDENCE, "unknown", words)
    strongest = max(pairs, key=lambda pair: pair.dependence)
    if strongest.dependence < _NO_DEPENDENCE:
        words = "the reports show no dependence: columns are sampled independently"
        return Finding(verdicts.DEPENDENCE, "unknown", words)
    dependence, error = float(np.mean([pair.dependence for pair in pairs])), _mean_error(pairs)
    words = (
        f"the model is {percent(dependence)} from independence on average, at most "
        f"{percent(strongest.dependence)} in {strongest.name}; error to expect {percent(error)}"
    )
    if uncovered:
        words += f"; no report covers {verdicts.join_names(uncovered)}"
    grade = verdicts.grade(error / dependence, verdicts.expected((0.5, 1.0)))
    return Finding(verdicts.DEPENDENCE, grade, words)


def _judge_agreement(columns: Sequence[ColumnCheck], pairs: Sequence[PairCheck]) -> Finding:
    topic = "agreement with the reports"
    contradicted = [(check.p_value or 0.0, check.column) for check in columns if check.contradicted]
    contradicted += [(pair.p_value or 0.0, pair.name) for pair in pairs if pair.contradicted]
    if not contradicted:
        return Finding(topic, "good", "they contradict no column and no pair")
    names = verdicts.join_names([name for _, name in sorted(contradicted)])
    words = f"they contradict {names}: do not rely on {'them' if len(contradicted) > 1 else 'it'}"
    few = len(contradicted) <= (1 - verdicts.MOST) * (len(columns) + len(pairs))
    return Finding(topic, "fair" if few else "poor", words)


def check(
    model: LocalModel,
    release: Reports | Sequence[Reports],
    *,
    held_out: bool = False,
    target: str | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Check:
    """Check a model of a table by reports alone: those of its fit, or others of the same randomizer.

    Arguments:
        model: Model of a table of codes, by [`fit`][privot.local.fitting.fit].
        release: The reports: as many releases as the model was fitted to.
        held_out: Whether the model was fitted without these reports.
        target: Column to predict from the others, by a classifier, or by regression if it is a number.
        seed: Seed of the rehearsals' draws.
        progress: Callback with the number of finished steps and the number of all steps.

    Returns:
        A `Check`; its `verdict` has findings in words.

    Raises:
        PrivotError: if the model is not of a table of codes; if the reports are of another randomizer,
            or fewer than 100 or than promised; if the target is no column, or scikit-learn is missing.
    """
    releases = _require_checkable(model, release, target)
    # As a model of these reports would state it: a batch may be smaller, waves may repeat people.
    of_reports = LocalModel.of(releases, model.sampler, {"num_reports": len(releases)}).guarantee
    numbers = range(len(model.schema.coded))
    all_columns: list[Columns] = [*combinations(numbers, 1), *combinations(numbers, 2)]
    # A rehearsal takes about as long as all the rest, and so do the extra fits that a target needs.
    total = (_REHEARSALS + (1 if target is None else 3)) * len(all_columns)
    advance = progress or (lambda done, total: None)
    advance(0, total)
    comparison = _ReportComparison.of(model, releases, seed)
    real_residuals = residuals(comparison.reports, sampler_of(model).atoms)
    rehearsals = _rehearse(model, releases, all_columns, seed, lambda done: advance(done, total))
    ks, gaps = comparison.rehearsed_numbers([part.model for part in rehearsals], seed)
    column_checks, pair_checks, target_check = [], [], None
    fits = expected_fits(rehearsals, real_residuals, held_out=held_out)
    for done, (columns, fit) in enumerate(fits.items(), start=_REHEARSALS * len(all_columns)):
        advance(done, total)
        if len(columns) == 1:
            column_checks.append(comparison.column(columns[0], fit, ks.get(columns[0])))
        else:
            pair_checks.append(comparison.pair(columns, fit, gaps.get(columns)))
    if target is not None:
        growth = float(np.mean([fit.growth for columns, fit in fits.items() if len(columns) == 2]))
        target_check = check_target(model, releases, target, rehearsals[0], growth, seed=seed)
    advance(total, total)
    checks = tuple(column_checks), tuple(pair_checks)
    guarantee = weakest(model.guarantee, of_reports)
    floor = None if held_out else _floor_of(releases)  # the model may be of more reports
    words = str(guarantee), guarantee.describe(), floor
    return Check(words[0], len(releases), held_out, *checks, target_check, *words[1:])


def _floor_of(releases: Releases) -> float | None:
    """Return the floor of a single release; None if several tell more than one."""
    only = releases.parts[0] if len(releases.parts) == 1 else None
    return None if only is None else floor_of_codes(only.randomizer, len(only))


def _rehearse(
    model: LocalModel,
    releases: Releases,
    all_columns: Sequence[Columns],
    seed: int,
    advance: Callable[[int], None],
) -> list[Rehearsed]:
    """Rehearse several times; `advance` receives the number of columns and pairs that are done."""
    rehearsals: list[Rehearsed] = []

    def progress(step: int, steps: int, loss: float) -> None:
        advance(len(all_columns) * (len(rehearsals) * (steps + 1) + step) // (steps + 1))

    for next_seed in range(seed, seed + _REHEARSALS * _BETWEEN_SEEDS, _BETWEEN_SEEDS):
        rehearsals.append(rehearse(model, releases, all_columns, next_seed, progress))
    return rehearsals


def _require_checkable(
    model: LocalModel, release: Reports | Sequence[Reports], target: str | None
) -> Releases:
    """Return the releases; raise PrivotError if model, releases or target cannot be checked."""
    releases = Releases.of(release)
    if "averaged" not in model.made_with:  # only fits of latent classes record it
        raise PrivotError(
            f"estimator is {model.made_with['estimator']!r}, and only a model of a table whose columns "
            "are all reported as codes is checked: compare it with real records by `evaluate`"
        )
    if releases.randomizers != (*model.earlier, model.randomizer):
        raise PrivotError(
            "the release is of another randomizer than the model's: give the one that it learned from, "
            "or reports of the same campaign; of several, all of them"
        )
    if len(releases) < MIN_REPORTS:
        raise PrivotError(
            f"{len(releases)} reports are too few to check a model by: give at least {MIN_REPORTS}"
        )
    if target is not None:
        require_target(model.schema, target)
    return releases


@dataclass(frozen=True, eq=False)
class _ReportComparison:
    """Comparison of a model with reports, by question (`estimates` defines it)."""

    model: LocalModel
    reports: CodeReports
    samples: dict[int, number_checks.NumberSample]  # numbers sampled from the model, by question
    # Standardized columns, by number, for correlations and for rank correlations.
    standards: tuple[dict[int, Any], dict[int, Any]] = field(default_factory=lambda: ({}, {}))

    @classmethod
    def of(cls, model: LocalModel, releases: Releases, seed: int) -> Self:
        """Order the reports by question, and sample numbers from the model."""
        reports, names = CodeReports.of(releases, model), list(model.schema.coded)
        table, rng = model.sample(_NUM_SAMPLED, seed=seed), np.random.default_rng(seed)
        samples = {}
        for number, question in enumerate(reports.questions):
            if question.declared.is_number:
                name = names[question.column]
                samples[number] = number_checks.NumberSample.of(question, name, table, rng)
        return cls(model, reports, samples)

    def rehearsed_numbers(
        self, models: Sequence[LocalModel], seed: int
    ) -> tuple[dict[int, float], dict[Columns, Array]]:
        """Return roots of mean squares, over rehearsed models, of errors of numbers.

        These are the KS of columns, and the errors (2,) of correlations and rank correlations of pairs.
        """
        by_column = {self.reports.questions[q].column: s.values for q, s in self.samples.items()}
        if not by_column:
            return {}, {}
        true = np.stack([*by_column.values()], axis=1)
        learned = [
            self._numbers_of(model, [*by_column], seed + n) for n, model in enumerate(models)
        ]
        errors = zip(*(number_errors(true, values) for values in learned), strict=True)
        ks, gaps = (np.sqrt(np.mean(np.square(part), axis=0)) for part in errors)
        pairs = combinations(enumerate(by_column), 2)
        by_pair: dict[Columns, Array] = {
            (min(c, d), max(c, d)): gaps[:, i, j] for (i, c), (j, d) in pairs
        }
        return dict(zip(by_column, ks.tolist(), strict=True)), by_pair

    def _numbers_of(self, model: LocalModel, columns: Sequence[int], seed: int) -> Array:
        """Sample numbers of some columns from a rehearsed model (n, columns)."""
        table, declared = model.sample(_NUM_SAMPLED, seed=seed + 1), [*model.schema.coded.items()]
        numbers = [(name, cast(NumberColumn, of)) for name, of in (declared[c] for c in columns)]
        return np.stack([of.in_values(of.read(name, table)[0]) for name, of in numbers], axis=1)

    @cached_property
    def _ranked(self) -> dict[int, number_checks.NumberSample]:
        """Ranks of the sampled numbers, by question."""
        return {question: sample.ranked() for question, sample in self.samples.items()}

    @cached_property
    def _spread(self) -> tuple[dict[int, Array], ...]:
        """Standard deviations of numbers and of ranks within cells, by question."""
        both = self.samples, self._ranked
        return tuple({q: number_checks.spread_within(s) for q, s in part.items()} for part in both)

    def column(self, column: int, fit: Fit, ks: float | None) -> ColumnCheck:
        """Check the shares of a column's codes and, of a column of numbers, its mean and quantiles."""
        name, declared = list(self.model.schema.coded.items())[column]
        questions = [question for (question,) in self.reports.by_columns[column,]]
        shown = self._shown_question(questions, declared.alphabet)
        number, samples = None, {q: self.samples[q] for q in questions if q in self.samples}
        labels = declared.labels_in(self.reports.questions[shown].alphabet)
        model_shares = cell_shares(sampler_of(self.model).atoms, self.reports.questions[shown])
        shares = estimate(self.reports, (shown,)).checks(model_shares)
        people = self.reports.people(column)
        if ks is not None and not np.isnan(samples[questions[0]].values).all():
            _, cell = sampler_of(self.model).heaviest_interval(column)
            number = number_checks.check_number(self.reports, samples, fit.growth * ks, cell)
        return ColumnCheck(
            name, people, labels, shares, fit.error, fit.p_value, fit.contradicted, number
        )

    def _shown_question(self, numbers: Sequence[int], alphabet: Alphabet) -> int:
        """Return the newest release's question in an alphabet, or else its first question."""
        questions = self.reports.questions
        newest_release = max(questions[number].release for number in numbers)
        newest = [number for number in numbers if questions[number].release == newest_release]
        in_alphabet = [number for number in newest if questions[number].alphabet == alphabet]
        return (in_alphabet or newest)[0]

    def pair(self, columns: Columns, fit: Fit, gaps: Array | None) -> PairCheck:
        """Check the dependence of two columns, and the correlations of two columns of numbers."""
        first, second = (list(self.model.schema.coded)[i] for i in columns)
        pairs = self.reports.about(*columns)
        correlations: list[Any] = [None] * 4  # two of them, each with its expected error
        if pairs and all(question in self.samples for pair in pairs for question in pair):
            # The order of columns may differ between releases.
            ordered = [q if self.reports.columns(q) == columns else q[::-1] for q in pairs]
            for number, samples in enumerate((self.samples, self._ranked)):
                found = number_checks.check_correlation(
                    self.reports, ordered, samples, self.standards[number]
                )
                correlations[2 * number] = found
                if found is not None and gaps is not None and found.reports.width <= _DETERMINED:
                    spread = self._spread[number]
                    outside = max(found.reports.low - found.model, found.model - found.reports.high)
                    within = min(float(np.mean(spread[p] * spread[q])) for p, q in ordered)
                    expected = max(fit.growth * float(gaps[number]), outside)
                    correlations[2 * number + 1] = math.hypot(expected, within / 2)
        joint = sampler_of(self.model).classes.marginal(columns)  # of the schema's codes, not atoms
        dependence = pair_dependence(joint)
        people = self.reports.people(*columns)
        tested = fit.error, dependence, fit.p_value, fit.contradicted
        return PairCheck(first, second, people, *tested, *correlations)
