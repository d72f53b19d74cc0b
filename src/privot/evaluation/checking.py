"""A model checked by reports alone, for those who may see no real record.

Told are intervals of what the population is like, which hold whatever the model believes (`estimates`,
`moments`); whether the reports contradict the model, column by column and pair by pair; the errors to
expect of it (`rehearsal`); of a named target, what classifiers learn of it (`telling`); and from these,
in words, what the model may be used for (`verdict`).

A pair, or a column, counts as contradicted where its test's p-value is so small that among all of them
together a false alarm comes once in twenty checks (Holm's procedure).

**Privacy review.** All of it is computed from a release, a model of that release, and coins: it is
post-processing, and keeps the release's guarantee, whatever is printed, stored or shown. No raw record
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
from privot.evaluation.distances import independent
from privot.evaluation.expected_reports import Heard, Interval, Questions, estimate
from privot.evaluation.held_out import Telling, require_told, tell
from privot.evaluation.moments import Drawn, NumberCheck, Told, check_correlation, check_number
from privot.evaluation.rehearsal import Beliefs, Columns, Residual, codes_of, rehearse, residuals
from privot.evaluation.verdicts import (
    COLUMN,
    MOST,
    PAIR,
    Finding,
    grade,
    grade_share,
    name_some,
    percent,
)
from privot.local import LocalModel
from privot.local.releases import Releases, reported_column
from privot.randomizer import Release
from privot.schema.columns.alphabet import Alphabet, Bins
from privot.schema.columns.number import NumberColumn

# The outcome of a check by reports alone: numbers, and in words what the model may be used for.
#
# Privacy review: see `checking`; the reports' guarantee covers it, whoever is shown it.


_NO_DEPENDENCE = 0.005


@dataclass(frozen=True)
class ColumnCheck:
    """One column, by the reports.

    Arguments:
        column: Its name.
        people: How many were asked for it.
        labels: Of its codes.
        shares: Of the codes, the model's beside the reports'.
        error: Total variation of the model to expect.
        p_value: Of the reports, if the model is right.
        contradicted: Whether they say that it is not.
        number: Mean and quantiles, of a column of numbers.

    Examples:
        >>> share = Told(0.5, reports=(0.4, 0.7))
        >>> check = ColumnCheck("bit", 900, ("no", "yes"), (share, share), 0.02, 0.3, contradicted=False)
        >>> check.error, check.number is None
        (0.02, True)
    """

    column: str
    people: int
    labels: tuple[str, ...]
    shares: tuple[Told, ...]
    error: float
    p_value: float
    contradicted: bool
    number: NumberCheck | None = None


@dataclass(frozen=True)
class PairCheck:
    """Two columns, by the reports; `dependence` is the model's total variation from independence.

    A pair that nobody was asked together has no p-value.

    Examples:
        >>> pair = PairCheck("age", "sex", 900, 0.04, 0.1, p_value=0.3, contradicted=False)
        >>> pair.name, pair.correlation is None
        ('age × sex', True)
    """

    first: str
    second: str
    people: int
    error: float
    dependence: float
    p_value: float | None
    contradicted: bool
    correlation: Told | None = None

    @property
    def name(self) -> str:
        """Both."""
        return f"{self.first} × {self.second}"


@dataclass(frozen=True, repr=False)
class Check(Summarized):
    """What reports alone say of a model: as private as they are.

    Arguments:
        guarantee: Of the reports, in short.
        num_reports: That it was checked by.
        held_out: Whether the model had not seen them.
        columns: One each.
        pairs: All of them.
        telling: Of a named target, how well it is told by what synthetic rows teach.

    Examples:
        >>> share = Told(0.5, reports=(0.4, 0.7))
        >>> bit = ColumnCheck("bit", 900, ("no", "yes"), (share, share), 0.02, 0.3, contradicted=False)
        >>> check = Check("ε = 2 (pure)", 900, held_out=True, columns=(bit,), pairs=())
        >>> check.one_way, check.two_way is None
        (0.02, True)
    """

    guarantee: str
    num_reports: int
    held_out: bool
    columns: tuple[ColumnCheck, ...]
    pairs: tuple[PairCheck, ...]
    telling: Telling | None = None

    @property
    def one_way(self) -> float:
        """Mean error of a column to expect."""
        return float(np.mean([column.error for column in self.columns]))

    @property
    def two_way(self) -> float | None:
        """Mean error of a pair to expect."""
        return float(np.mean([pair.error for pair in self.pairs])) if self.pairs else None

    @property
    def verdict(self) -> tuple[Finding, ...]:
        """What the model may be used for."""
        found = [_of_columns(self.columns)]
        if self.pairs:
            found += [_of_pairs(self.pairs), _of_dependence(self.pairs)]
        found += [_of_agreement(self.columns, self.pairs)]
        if self.telling is not None:
            found.append(self.telling.finding)
        return tuple(found)

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        return {finding.topic: finding.words for finding in self.verdict}

    def recorded(self, model: LocalModel) -> LocalModel:
        """The model, which remembers this check when it is saved."""
        return replace(model, made_with=model.made_with | {"check": self.to_dict()})

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def of(cls, model: LocalModel) -> Self | None:
        """The check that a model remembers."""
        stored = model.made_with.get("check")
        return None if stored is None else cls.from_dict(stored)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote."""
        columns = tuple(
            ColumnCheck(**each | {
                "labels": tuple(each["labels"]),
                "shares": tuple(map(_told, each["shares"])),
                "number": each["number"] and NumberCheck(
                    _told(each["number"]["mean"]), tuple(map(_told, each["number"]["quantiles"]))
                ),
            })
            for each in fields["columns"]
        )  # fmt: skip
        pairs = tuple(
            PairCheck(**each | {"correlation": each["correlation"] and _told(each["correlation"])})
            for each in fields["pairs"]
        )
        telling = fields.get("telling")
        own = None if telling is None else Telling.from_dict(telling)
        return cls(**dict(fields) | {"columns": columns, "pairs": pairs, "telling": own})


def _told(fields: Mapping[str, Any]) -> Told:
    return Told(fields["model"], Interval(**fields["reports"]))


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
        words += f"; not: {name_some([each.name for each in rest])}"
    return Finding("pairs of columns", grade_share(len(good) / len(pairs)), words)


def _of_dependence(pairs: Sequence[PairCheck]) -> Finding:
    topic = "what goes with what"
    unseen = [each.name for each in pairs if each.p_value is None]
    if len(unseen) == len(pairs):
        words = "nobody was asked two columns together: they are taken for independent"
        return Finding(topic, "unknown", words)
    strongest = max(pairs, key=lambda each: each.dependence)
    if strongest.dependence < _NO_DEPENDENCE:
        words = (
            "independence was chosen: the reports show no dependence, and rows mix columns freely"
        )
        return Finding(topic, "unknown", words)
    mean = float(np.mean([each.dependence for each in pairs]))
    error = float(np.mean([each.error for each in pairs]))
    words = (
        f"the model ties columns by {percent(mean)} on average, most {strongest.name} "
        f"({percent(strongest.dependence)}), at an error of {percent(error)}"
    )
    if unseen:
        words += f"; nobody was asked {name_some(unseen)}"
    return Finding(topic, "good" if error < mean / 2 else "fair" if error < mean else "poor", words)


def _of_agreement(columns: Sequence[ColumnCheck], pairs: Sequence[PairCheck]) -> Finding:
    topic = "agreement with the reports"
    bad = [(each.p_value, each.column) for each in columns if each.contradicted]
    bad += [(each.p_value or 0.0, each.name) for each in pairs if each.contradicted]
    if not bad:
        return Finding(topic, "good", "they contradict no column and no pair")
    names = [name for _, name in sorted(bad)]
    words = f"they contradict {name_some(names)}: do not rely on {'them' if len(bad) > 1 else 'it'}"
    few = len(bad) <= (1 - MOST) * (len(columns) + len(pairs))
    return Finding(topic, "fair" if few else "poor", words)


FALSE_ALARMS = 0.05
FEWEST_REPORTS = 100
_DRAWN = 100_000


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
        release: The reports; of a model of several releases, as many.
        held_out: Whether the model has not seen these reports.
        target: A column that classifiers, of a number regressions, are to tell from the others.
        seed: Of the rehearsals' draws.
        progress: Told how many steps are done, of how many.

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
    if len(releases) < FEWEST_REPORTS:
        raise PrivotError(
            f"{len(releases)} reports are too few to check a model by: give at least {FEWEST_REPORTS}"
        )
    if releases.randomizers != (*model.earlier, model.randomizer):
        raise PrivotError(
            "the release is of another randomizer than the model's: give the one that it learned from, "
            "or reports of the same campaign; of several, all of them"
        )
    if target is not None:
        require_told(model.schema, target)
    checking = _Checking(model, releases, held_out, target, seed)
    return checking.run(progress or (lambda done, of: None))


class _Checking:
    """A check in the making."""

    def __init__(
        self, model: LocalModel, releases: Releases, held_out: bool, target: str | None, seed: int
    ) -> None:
        self.model, self.releases, self.held_out, self.seed = model, releases, held_out, seed
        self.target = target
        self.heard = Heard.of(releases)
        self.believed = Beliefs.of(model)
        self.columns = model.schema.coded
        self.names = list(self.columns)
        table, rng = model.sample(_DRAWN, seed=seed), np.random.default_rng(seed)
        self.alphabets: list[Alphabet] = []  # by question
        self.drawn: dict[int, Drawn] = {}  # likewise, of numbers
        for question, asked in enumerate(self.heard.asked):
            name = self.names[asked.column]
            how = reported_column(releases.parts[asked.part], name)
            assert how is not None  # as it was asked
            self.alphabets.append(how.alphabets[asked.coding])
            if how.column.is_number:
                codes = how.encode(name, table)[asked.coding]
                own, bins = cast("NumberColumn", how.column), cast("Bins", self.alphabets[-1])
                numbers = own.accept(name, table), bins.centers, bins.decode(codes, rng)
                values, centers, even = map(own.in_values, numbers)
                self.drawn[question] = Drawn(values, codes, centers, even)

    def run(self, progress: Callable[[int, int], None]) -> Check:
        """All of it."""
        own = residuals(self.heard, self.believed)
        singles = [(i,) for i in range(len(self.names))]
        pairs = list(combinations(range(len(self.names)), 2))
        every: list[Columns] = [*singles, *pairs]
        # A rehearsal takes about as long as all the rest, and so do two pairs of halves for a target.
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
        telling = None
        if self.target is not None:
            telling = tell(
                self.model,
                self.releases,
                self.target,
                rehearsed,
                growth[2],
                seed=self.seed,
            )
        progress(steps, steps)
        return Check(
            str(self.model.guarantee), len(self.releases), self.held_out,
            tuple(columns), tuple(of_pairs), telling,
        )  # fmt: skip

    def _column(
        self, columns: Columns, error: float, p_value: float, contradicted: bool
    ) -> ColumnCheck:
        name = self.names[columns[0]]
        (question,) = self._in_schema(columns[0])
        told = estimate(self.heard, (question,))
        shares = zip(
            self.believed.shares(self.heard.asked[question]), told.mean, told.variance, strict=True
        )
        return ColumnCheck(
            name, self._people(*columns), self.columns[name].labels_in(self.alphabets[question]),
            tuple(Told(float(m), Interval.of(p, v, 0.0, 1.0)) for m, p, v in shares),
            error, p_value, contradicted, self._number(columns[0]),
        )  # fmt: skip

    def _in_schema(self, column: int) -> Questions:
        """The question that asks a column in the schema's own alphabet; else the newest."""
        own = self.columns[self.names[column]].alphabet
        asked = self.heard.together(column)
        last = self.heard.asked[asked[-1][0]].part
        newest = [q for q in asked if self.heard.asked[q[0]].part == last]
        return next((q for q in newest if self.alphabets[q[0]] == own), newest[0])

    def _number(self, column: int) -> NumberCheck | None:
        drawn = {q: self.drawn[q] for (q,) in self.heard.together(column) if q in self.drawn}
        if not drawn or np.isnan(next(iter(drawn.values())).values).all():
            return None
        return check_number(self.heard, drawn)

    def _pair(
        self, columns: tuple[int, int], error: float, p_value: float | None, contradicted: bool
    ) -> PairCheck:
        first, second = (self.names[column] for column in columns)
        return PairCheck(
            first, second, self._people(*columns), error, self._dependence(columns), p_value,
            contradicted, self._correlation(columns),
        )  # fmt: skip

    def _correlation(self, columns: tuple[int, int]) -> Told | None:
        if not {q for c in columns for (q,) in self.heard.together(c)} <= set(self.drawn):
            return None
        # Columns may have changed places between releases.
        asked = self.heard.together(*columns)
        ordered = [q if self.heard.columns(q) == columns else q[::-1] for q in asked]
        return check_correlation(self.heard, ordered, self.drawn) if asked else None

    def _people(self, *columns: int) -> int:
        return sum(estimate(self.heard, q).people for q in self.heard.together(*columns))

    def _dependence(self, columns: Columns) -> float:
        joint = codes_of(self.model).marginal(columns)
        return float(np.abs(joint - independent(joint)).sum() / 2)


def contradicted_by(own: Mapping[Columns, Residual]) -> set[Columns]:
    """Columns and pairs that reports contradict, with one false alarm in twenty checks at most."""
    return set(_holm({columns: residual.p_value for columns, residual in own.items()}))


def _holm(p_values: Mapping[Columns, float]) -> Iterable[Columns]:
    """Whatever is refused, with at most one false alarm in twenty."""
    ordered = sorted(p_values, key=p_values.__getitem__)
    for rank, columns in enumerate(ordered):
        if p_values[columns] > FALSE_ALARMS / (len(ordered) - rank):
            return
        yield columns
