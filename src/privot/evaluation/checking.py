"""Check of a model by reports alone, for those who may see no real record.

A check has 90 % confidence intervals of the population's shares, means, quantiles and correlations,
whatever the model is like (`estimates`, `number_check`); a test of whether the reports contradict the
model, column by column and pair by pair; the errors to expect of it (`rehearsal`); how well classifiers
that learn from synthetic records predict a named target (`target_check`); and from these, findings in
words (`verdicts`).

A pair, or a column, counts as contradicted where its test's p-value is so small that among all of them
together a false alarm comes once in twenty checks (Holm's procedure).

**Privacy review.** All of it is computed from a release, a model of that release, and coins: it is
post-processing, and retains the release's guarantee, whatever is printed, stored or shown. No raw record
is read; rehearsed people are the model's.

References:
    Efron, Tibshirani, *An introduction to the bootstrap* (1993). Holm, *A simple sequentially rejective
    multiple test procedure* (1979).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, Self, cast

import numpy as np

from privot.core.errors import PrivotError
from privot.core.summary import Summarized
from privot.evaluation.distances import independent, total_variation
from privot.evaluation.estimates import CodeReports, Interval, Questions, ValueCheck, estimate
from privot.evaluation.number_check import (
    NumberCheck,
    NumberSample,
    check_correlation,
    check_number,
)
from privot.evaluation.rehearsal import (
    Columns,
    Residual,
    atoms_of,
    cell_shares,
    codes_of,
    rehearse,
    residuals,
)
from privot.evaluation.target_check import TargetCheck, check_target, require_target
from privot.evaluation.verdicts import (
    COLUMN,
    DEPENDENCE,
    MOST,
    PAIR,
    Finding,
    Grade,
    grade,
    grade_share,
    join_names,
    percent,
)
from privot.local import LocalModel
from privot.local.releases import Releases, reported_column
from privot.randomizer import Release
from privot.schema.columns.alphabet import Alphabet, Bins
from privot.schema.columns.numeric import NumberColumn

FALSE_ALARMS = 0.05
MIN_REPORTS = 100
_NO_DEPENDENCE = 0.005
_NUM_DRAWN = 100_000


@dataclass(frozen=True)
class ColumnCheck:
    """Check of one column.

    Arguments:
        column: Its name.
        people: Number of people who reported it.
        labels: Labels of its codes.
        shares: Shares of the codes, the model's beside the reports'.
        error: Expected total variation of the model.
        p_value: Probability of reports this far from the model, if it is right.
        contradicted: Whether the reports reject the model.
        number: Mean and quantiles, of a column of numbers.
    """

    column: str
    people: int
    labels: tuple[str, ...]
    shares: tuple[ValueCheck, ...]
    error: float
    p_value: float
    contradicted: bool
    number: NumberCheck | None = None

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` wrote."""
        read = {
            "labels": tuple(fields["labels"]),
            "shares": tuple(map(ValueCheck.from_dict, fields["shares"])),
            "number": fields["number"] and NumberCheck.from_dict(fields["number"]),
        }
        return cls(**dict(fields) | read)


@dataclass(frozen=True)
class PairCheck:
    """Check of two columns; `dependence` is the model's total variation from independence.

    A pair that no report covers has no p-value.
    """

    first: str
    second: str
    people: int
    error: float
    dependence: float
    p_value: float | None
    contradicted: bool
    correlation: ValueCheck | None = None

    @property
    def name(self) -> str:
        """Names of both columns."""
        return f"{self.first} × {self.second}"

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` wrote."""
        correlation = fields["correlation"] and ValueCheck.from_dict(fields["correlation"])
        return cls(**dict(fields) | {"correlation": correlation})


@dataclass(frozen=True, repr=False)
class Check(Summarized):
    """Check of a model by reports alone: as private as they are.

    Arguments:
        guarantee: The reports' guarantee, in short.
        num_reports: Number of reports that it was checked by.
        held_out: Whether the model had not seen them.
        columns: Checks of the columns, in the schema's order.
        pairs: Checks of the pairs of columns.
        target: Scores of classifiers that learn from synthetic rows, of a named target.
    """

    guarantee: str
    num_reports: int
    held_out: bool
    columns: tuple[ColumnCheck, ...]
    pairs: tuple[PairCheck, ...]
    target: TargetCheck | None = None

    @property
    def one_way(self) -> float:
        """Mean expected error of a column."""
        return float(np.mean([column.error for column in self.columns]))

    @property
    def two_way(self) -> float | None:
        """Mean expected error of a pair."""
        return float(np.mean([pair.error for pair in self.pairs])) if self.pairs else None

    @property
    def verdict(self) -> tuple[Finding, ...]:
        """Findings about the use of the model."""
        found = [_of_columns(self.columns)]
        if self.pairs:
            found += [_of_pairs(self.pairs), _of_dependence(self.pairs)]
        found += [_of_agreement(self.columns, self.pairs)]
        if self.target is not None:
            found.append(self.target.finding)
        return tuple(found)

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        return {finding.topic: finding.words for finding in self.verdict}

    def recorded(self, model: LocalModel) -> LocalModel:
        """Return the model with this check, which is saved with it."""
        return replace(model, made_with=model.made_with | {"check": self.to_dict()})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def of(cls, model: LocalModel) -> Self | None:
        """Return the check that a model was saved with."""
        stored = model.made_with.get("check")
        return None if stored is None else cls.from_dict(stored)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        read = {
            "columns": tuple(map(ColumnCheck.from_dict, fields["columns"])),
            "pairs": tuple(map(PairCheck.from_dict, fields["pairs"])),
            "target": fields["target"] and TargetCheck.from_dict(fields["target"]),
        }
        return cls(**dict(fields) | read)


def _of_columns(columns: Sequence[ColumnCheck]) -> Finding:
    worst = max(columns, key=lambda each: each.error)
    mean = float(np.mean([each.error for each in columns]))
    within = [each for each in columns if each.error <= COLUMN[0]]
    words = f"{len(within)} of {len(columns)} within {percent(COLUMN[0])}; "
    words += f"error to expect {percent(mean)} on average, {percent(worst.error)} in {worst.column}"
    return Finding("single columns", grade(mean, COLUMN), words)


def _of_pairs(pairs: Sequence[PairCheck]) -> Finding:
    good = [each for each in pairs if each.error <= PAIR[0] and not each.contradicted]
    rest = sorted((each for each in pairs if each not in good), key=lambda each: -each.error)
    mean = float(np.mean([each.error for each in pairs]))
    words = f"{len(good)} of {len(pairs)} within {percent(PAIR[0])}; "
    words += f"error to expect {percent(mean)} on average"
    if rest:
        words += f"; not: {join_names([each.name for each in rest])}"
    return Finding("pairs of columns", grade_share(len(good) / len(pairs)), words)


def _of_dependence(pairs: Sequence[PairCheck]) -> Finding:
    unseen = [each.name for each in pairs if each.p_value is None]
    if len(unseen) == len(pairs):
        words = "no report covers two columns together: they are taken as independent"
        return Finding(DEPENDENCE, "unknown", words)
    strongest = max(pairs, key=lambda each: each.dependence)
    if strongest.dependence < _NO_DEPENDENCE:
        words = (
            "independence was chosen: the reports show no dependence, and rows mix columns freely"
        )
        return Finding(DEPENDENCE, "unknown", words)
    mean = float(np.mean([each.dependence for each in pairs]))
    error = float(np.mean([each.error for each in pairs]))
    words = (
        f"the model ties columns by {percent(mean)} on average, most {strongest.name} "
        f"({percent(strongest.dependence)}), at an error of {percent(error)}"
    )
    if unseen:
        words += f"; no report covers {join_names(unseen)}"
    own: Grade = "good" if error < mean / 2 else "fair" if error < mean else "poor"
    return Finding(DEPENDENCE, own, words)


def _of_agreement(columns: Sequence[ColumnCheck], pairs: Sequence[PairCheck]) -> Finding:
    topic = "agreement with the reports"
    bad = [(each.p_value, each.column) for each in columns if each.contradicted]
    bad += [(each.p_value or 0.0, each.name) for each in pairs if each.contradicted]
    if not bad:
        return Finding(topic, "good", "they contradict no column and no pair")
    names = [name for _, name in sorted(bad)]
    words = (
        f"they contradict {join_names(names)}: do not rely on {'them' if len(bad) > 1 else 'it'}"
    )
    few = len(bad) <= (1 - MOST) * (len(columns) + len(pairs))
    return Finding(topic, "fair" if few else "poor", words)


def check(
    model: LocalModel,
    release: Release | Sequence[Release],
    *,
    held_out: bool = False,
    target: str | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Check:
    """Check a model of a table by reports alone: its own, or others' of the same randomizer.

    Arguments:
        model: By [`fit`][privot.local.fitting.fit].
        release: The reports; all of them, if the model was fitted to several releases.
        held_out: Whether the model has not seen these reports.
        target: Column to predict from the others: by classifiers, or by regressions if it is a number.
        seed: Seed of the rehearsals' draws.
        progress: Callback with the number of steps done, and of all.

    Returns:
        A `Check`, whose `verdict` has findings in words, with a `ColumnCheck` for each column, a
        `PairCheck` for each pair and, if a target is named, a `TargetCheck`.

    Raises:
        PrivotError: for a model that is not of a table of codes, reports of another randomizer, or fewer
            than 100; a target that is no column of it, or without scikit-learn.
    """
    releases = Releases.of(release)
    if "averaged" not in model.made_with:
        raise PrivotError(
            f"the model is by estimator {model.made_with['estimator']!r}, and a check is of tables "
            "whose columns are all reported as codes: compare it with real records by `evaluate`"
        )
    if len(releases) < MIN_REPORTS:
        raise PrivotError(
            f"{len(releases)} reports are too few to check a model by: give at least {MIN_REPORTS}"
        )
    if releases.randomizers != (*model.earlier, model.randomizer):
        raise PrivotError(
            "the release is of another randomizer than the model's: give the one that it learned from, "
            "or reports of the same campaign; of several, all of them"
        )
    if target is not None:
        require_target(model.schema, target)
    checking = _Checking(model, releases, held_out, target, seed)
    return checking.run(progress or (lambda done, of: None))


class _Checking:
    """A check in progress."""

    def __init__(
        self, model: LocalModel, releases: Releases, held_out: bool, target: str | None, seed: int
    ) -> None:
        self.model, self.releases, self.held_out, self.seed = model, releases, held_out, seed
        self.target = target
        self.reports = CodeReports.of(releases)
        self.atoms = atoms_of(model)
        self.columns = model.schema.coded
        self.names = list(self.columns)
        table, rng = model.sample(_NUM_DRAWN, seed=seed), np.random.default_rng(seed)
        self.alphabets: list[Alphabet] = []  # by question
        self.samples: dict[int, NumberSample] = {}  # likewise, of numbers
        for number, question in enumerate(self.reports.questions):
            name = self.names[question.column]
            how = reported_column(releases.parts[question.part], name)
            assert how is not None  # the release reports it
            self.alphabets.append(how.alphabets[question.coding])
            if how.column.is_number:
                codes = how.encode(name, table)[question.coding]
                own, bins = cast("NumberColumn", how.column), cast("Bins", self.alphabets[-1])
                numbers = own.accept(name, table), bins.centers, bins.decode(codes, rng)
                values, centers, even = map(own.in_values, numbers)
                self.samples[number] = NumberSample(values, codes, centers, even)

    def run(self, progress: Callable[[int, int], None]) -> Check:
        """Run all parts of the check."""
        own = residuals(self.reports, self.atoms)
        singles = [(i,) for i in range(len(self.names))]
        pairs = list(combinations(range(len(self.names)), 2))
        every: list[Columns] = [*singles, *pairs]
        # A rehearsal takes about as long as all the rest, and so do the extra fits that a target needs.
        steps = (2 if self.target is None else 4) * len(every)
        progress(0, steps)
        rehearsed = rehearse(self.model, self.releases, every, self.seed)
        p_values = {c: r.p_value for c, r in own.items()}
        refused = contradicted_by(own)
        growth = {n: rehearsed.growth(own, n, held_out=self.held_out) for n in (1, 2)}
        errors = {c: min(1.0, error * growth[len(c)]) for c, error in rehearsed.errors.items()}
        columns: list[ColumnCheck] = []
        of_pairs: list[PairCheck] = []
        for one in singles:
            progress(len(every) + len(columns), steps)
            columns.append(self._column(one, errors[one], p_values[one], one in refused))
        for pair in pairs:
            progress(len(every) + len(columns) + len(of_pairs), steps)
            of_pairs.append(self._pair(pair, errors[pair], p_values.get(pair), pair in refused))
        target = self.target and check_target(
            self.model, self.releases, self.target, rehearsed, growth[2], seed=self.seed
        )
        progress(steps, steps)
        return Check(
            str(self.model.guarantee), len(self.releases), self.held_out,
            tuple(columns), tuple(of_pairs), target or None,
        )  # fmt: skip

    def _column(
        self, columns: Columns, error: float, p_value: float, contradicted: bool
    ) -> ColumnCheck:
        name = self.names[columns[0]]
        (question,) = self._in_schema(columns[0])
        found = estimate(self.reports, (question,))
        model = cell_shares(self.atoms, self.reports.questions[question])
        shares = zip(model, found.mean, found.variance, strict=True)
        return ColumnCheck(
            name, self._people(*columns), self.columns[name].labels_in(self.alphabets[question]),
            tuple(ValueCheck(float(m), Interval.of(p, v, 0.0, 1.0)) for m, p, v in shares),
            error, p_value, contradicted, self._number(columns[0]),
        )  # fmt: skip

    def _in_schema(self, column: int) -> Questions:
        """Return the question about a column in the schema's own alphabet; else the newest."""
        own = self.columns[self.names[column]].alphabet
        about = self.reports.about(column)
        last = self.reports.questions[about[-1][0]].part
        newest = [q for q in about if self.reports.questions[q[0]].part == last]
        return next((q for q in newest if self.alphabets[q[0]] == own), newest[0])

    def _number(self, column: int) -> NumberCheck | None:
        samples = {q: self.samples[q] for (q,) in self.reports.about(column) if q in self.samples}
        if not samples or np.isnan(next(iter(samples.values())).values).all():
            return None
        return check_number(self.reports, samples)

    def _pair(
        self, columns: tuple[int, int], error: float, p_value: float | None, contradicted: bool
    ) -> PairCheck:
        first, second = (self.names[column] for column in columns)
        joint = codes_of(self.model).marginal(columns)
        return PairCheck(
            first, second, self._people(*columns), error, total_variation(joint, independent(joint)),
            p_value, contradicted, self._correlation(columns),
        )  # fmt: skip

    def _correlation(self, columns: tuple[int, int]) -> ValueCheck | None:
        if not {q for c in columns for (q,) in self.reports.about(c)} <= set(self.samples):
            return None
        # Columns may have changed places between releases.
        about = self.reports.about(*columns)
        ordered = [q if self.reports.columns(q) == columns else q[::-1] for q in about]
        return check_correlation(self.reports, ordered, self.samples) if about else None

    def _people(self, *columns: int) -> int:
        return sum(estimate(self.reports, q).people for q in self.reports.about(*columns))


def contradicted_by(own: Mapping[Columns, Residual]) -> set[Columns]:
    """Return columns and pairs that reports contradict, with one false alarm in twenty at most."""
    return set(_holm({columns: residual.p_value for columns, residual in own.items()}))


def _holm(p_values: Mapping[Columns, float]) -> Iterable[Columns]:
    """Yield the rejected hypotheses, with at most one false alarm in twenty."""
    ordered = sorted(p_values, key=p_values.__getitem__)
    for rank, columns in enumerate(ordered):
        if p_values[columns] > FALSE_ALARMS / (len(ordered) - rank):
            return
        yield columns
