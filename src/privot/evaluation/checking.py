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
from itertools import combinations
from typing import cast

import numpy as np

from privot.errors import PrivotError
from privot.evaluation.distances import independent
from privot.evaluation.estimates import Interval, estimate
from privot.evaluation.heard import Heard, Questions
from privot.evaluation.moments import Drawn, NumberCheck, Told, check_correlation, check_number
from privot.evaluation.outcome import Check, ColumnCheck, PairCheck
from privot.evaluation.rehearsal import Beliefs, Columns, Residual, codes_of, rehearse, residuals
from privot.evaluation.telling import require_told, tell
from privot.local import LocalModel
from privot.local.releases import Releases, how_asked
from privot.release import Release
from privot.schema.columns.alphabet import Alphabet, Bins
from privot.schema.columns.number import NumberColumn

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
            how = how_asked(releases.parts[asked.part], name)
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
