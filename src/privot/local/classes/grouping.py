"""A release as counts of reports: what the estimators of tables read of it.

Reports about the same questions form a group; within it, equal reports are counted. A joint report is
one answer about the cells of its questions' product alphabet; reports that were split are one answer a
column, drawn independently. Everything here is a function of the release: post-processing.

Joint reports are counted piece by piece as they are read, so memory grows with the number of distinct
reports. Split reports of many columns are nearly all distinct, and are read at once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import numpy as np

from privot.local.classes.count_tables import Factor, ReportGroup
from privot.local.classes.distinct import distinct_rows
from privot.local.classes.questions import Question
from privot.local.releases import Releases
from privot.mechanisms.forms import CodeForm
from privot.release import Randomizer, Release
from privot.release.reports.joint import JointReport


def alphabet_sizes(randomizer: Randomizer) -> list[int]:
    """Number of codes of every column, in the schema's order."""
    return [column.alphabet.size for column in randomizer.schema.coded.values()]


def report_groups(release: Release, first: int = 0) -> list[ReportGroup]:
    """All reports of a release whose columns are all coded, grouped by the questions they are about.

    Questions are numbered from `first` on, in the schema's order.
    """
    joint = release.randomizer.joint
    return _split_groups(release, first) if joint is None else _joint_groups(release, joint, first)


def groups_of_questions(releases: Releases) -> tuple[list[Question], list[ReportGroup]]:
    """All reports of one or several releases, and the questions that they are about.

    Columns and atoms are those of `releases.atoms`, in the newest one's order.
    """
    names = list(releases.atoms)
    questions: list[Question] = []
    groups = []
    for number, release in enumerate(releases.parts):
        first = len(questions)
        for name in release.schema.coded:
            for codes, size in releases.atoms[name].asked[number]:
                questions.append(Question.of_codes(names.index(name), codes, size))
        groups += report_groups(release, first)
    return questions, groups


def _joint_groups(release: Release, joint: JointReport, first: int) -> list[ReportGroup]:
    tallies: dict[int, Tally] = {}
    sheet_type = np.min_scalar_type(joint.asked.num_sheets)  # up to 16 bits are sorted by radix
    for piece in release.pieces():
        answers = piece.joint_answers
        order = np.argsort(answers.sheets.astype(sheet_type), kind="stable")
        ends = np.searchsorted(answers.sheets[order], np.arange(joint.asked.num_sheets + 1))
        for number, (start, stop) in enumerate(pairwise(ends)):
            if start < stop:
                rows = order[start:stop]
                places = answers.offsets[rows][:, None] + np.arange(joint.widths[number])
                tallies.setdefault(number, Tally()).add(answers.cells[places])
    groups = []
    for number, tally in sorted(tallies.items()):
        sets, counts = tally.total()
        shape = joint.asked.shape(number)
        asked = tuple(first + question for question in joint.asked.numbers(number))
        form = joint.mechanism(int(np.prod(shape))).supports
        factor = Factor(asked, shape, form.shares(sets), form.ratio)
        groups.append(_group((factor,), np.arange(len(sets))[:, None], counts))
    return groups


class Tally:
    """Distinct rows of integers and how often each came, from rows that come in pieces.

    New rows wait until they outnumber the distinct ones, so each is sorted a few times at most.
    """

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []
        self._counts: list[np.ndarray] = []
        self._settled = self._waiting = 0

    def add(self, rows: np.ndarray) -> None:
        """Count some more rows (n, w)."""
        self._hold(rows, np.ones(len(rows)))
        self._waiting += len(self._rows[-1])
        if self._waiting > self._settled:
            self._settle()

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct rows, sorted, and their counts."""
        self._settle()
        return self._rows[0], self._counts[0]

    def _settle(self) -> None:
        rows, counts = np.concatenate(self._rows), np.concatenate(self._counts)
        self._rows, self._counts = [], []
        self._hold(rows, counts)
        self._settled, self._waiting = len(self._rows[0]), 0

    def _hold(self, rows: np.ndarray, counts: np.ndarray) -> None:
        places, ranks = distinct_rows(rows)
        self._rows.append(rows[places])
        self._counts.append(np.bincount(ranks, counts, len(places)).astype(np.int64))


def _split_groups(release: Release, first: int) -> list[ReportGroup]:
    """Reports of the same columns; every column's distinct answers are numbered once."""
    mechanisms = release.randomizer.mechanisms
    factors, numbers, masks = [], [], []
    for index, (name, column) in enumerate(release.schema.coded.items()):
        values, reported = release.reports(name)
        places, ranks = distinct_rows(values)
        form = cast(CodeForm, mechanisms[name].form(column))  # as all are
        shares = form.shares(values[places])
        factors.append(Factor((first + index,), shares.shape[1:], shares, form.ratio))
        numbers.append(ranks)
        masks.append(reported)
    answers, reported = np.stack(numbers, axis=1), np.stack(masks, axis=1)
    subsets, which = distinct_rows(reported)
    groups = []
    for number, subset in enumerate(reported[subsets]):
        columns = np.flatnonzero(subset)
        sent = answers[which == number][:, columns]
        places, ranks = distinct_rows(sent)
        counts = np.bincount(ranks, minlength=len(places))
        groups.append(_group(tuple(factors[column] for column in columns), sent[places], counts))
    return groups


def _group(factors: tuple[Factor, ...], answers: np.ndarray, counts: np.ndarray) -> ReportGroup:
    return ReportGroup(factors, answers.astype(np.int32), counts.astype(np.float64))
