"""The outcome of a check by reports alone: numbers, and in words what the model may be used for.

Privacy review: see `checking`; the reports' guarantee covers it, whoever is shown it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from privot.evaluation.estimates import Interval
from privot.evaluation.moments import NumberCheck, Told
from privot.evaluation.telling import Telling
from privot.evaluation.verdict import (
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
from privot.summary import Summarized

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
