"""A release as counts of reports: what the estimators of tables read of it.

Reports about the same columns form a group; within it, equal reports are counted. A joint report is one
answer about the cells of its columns' product alphabet; reports that were split are one answer a column,
drawn independently. Everything here is a function of the release: post-processing.

Joint reports are counted piece by piece as they are read, so memory grows with the number of distinct
reports. Split reports of many columns are nearly all distinct, and are read at once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import numpy as np

from privot.errors import PrivotError
from privot.local.classes.count_tables import Factor, ReportGroup
from privot.mechanisms.forms import CodeForm, Form
from privot.release import Randomizer, Release
from privot.release.reports.joint import JointReport


def all_coded(randomizer: Randomizer) -> bool:
    """Whether every column is reported as a code, so that tables of counts say all there is."""
    return all(form.learns_codes for form in _forms(randomizer).values())


def _forms(randomizer: Randomizer) -> dict[str, Form]:
    made, columns = randomizer.mechanisms, randomizer.schema.columns
    return {name: made[name].form(column) for name, column in columns.items() if name in made}


def alphabet_sizes(randomizer: Randomizer) -> list[int]:
    """Number of codes of every column, in the schema's order."""
    return [column.alphabet.size for column in randomizer.schema.coded.values()]


def report_groups(release: Release) -> list[ReportGroup]:
    """All reports of a release, grouped by the columns they are about.

    Columns are numbered in the schema's order.

    Raises:
        PrivotError: if a column is reported as a point.
    """
    randomizer = release.randomizer
    if not all_coded(randomizer):
        raise PrivotError(
            "estimator 'latent_classes' needs every column reported as a code, some have noise "
            "added: use estimator 'generator'"
        )
    if randomizer.joint is not None:
        return _joint_groups(release, randomizer.joint)
    return _split_groups(release)


def _joint_groups(release: Release, joint: JointReport) -> list[ReportGroup]:
    tallies: dict[int, Tally] = {}
    for piece in release.pieces():
        answers = piece.joint_answers
        order = np.argsort(answers.combination, kind="stable")
        ends = np.searchsorted(answers.combination[order], np.arange(len(joint.combinations) + 1))
        for number, (start, stop) in enumerate(pairwise(ends)):
            if start < stop:
                rows = order[start:stop]
                places = answers.offsets[rows][:, None] + np.arange(joint.width(number))
                tallies.setdefault(number, Tally()).add(answers.cells[places])
    groups = []
    for number, tally in sorted(tallies.items()):
        sets, counts = tally.total()
        shape = joint.shape(number)
        columns = tuple(int(column) for column in joint.combinations[number])
        form = joint.mechanism(int(np.prod(shape))).supports
        factor = Factor(columns, shape, form.shares(sets), form.ratio)
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
        distinct, counts = np.unique(rows, axis=0, return_counts=True)
        self._rows.append(distinct)
        self._counts.append(counts)
        self._waiting += len(distinct)
        if self._waiting > self._settled:
            self._settle()

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct rows, sorted, and their counts."""
        self._settle()
        return self._rows[0], self._counts[0]

    def _settle(self) -> None:
        rows, where = np.unique(np.concatenate(self._rows), axis=0, return_inverse=True)
        counts = np.bincount(where.reshape(-1), np.concatenate(self._counts), len(rows))
        self._rows, self._counts = [rows], [counts.astype(np.int64)]
        self._settled, self._waiting = len(rows), 0


def _split_groups(release: Release) -> list[ReportGroup]:
    """Reports of the same columns; every column's distinct answers are numbered once."""
    randomizer = release.randomizer
    factors, numbers, masks = [], [], []
    for index, (name, form) in enumerate(_forms(randomizer).items()):
        values, reported = release.reports(name)
        distinct, inverse = np.unique(values, axis=0, return_inverse=True)
        form = cast(CodeForm, form)  # as all are
        shares = form.shares(distinct)
        factors.append(Factor((index,), shares.shape[1:], shares, form.ratio))
        numbers.append(inverse.reshape(-1))
        masks.append(reported)
    answers, reported = np.stack(numbers, axis=1), np.stack(masks, axis=1)
    subsets, which = np.unique(reported, axis=0, return_inverse=True)
    groups = []
    for number, subset in enumerate(subsets):
        columns = np.flatnonzero(subset)
        sent, counts = np.unique(
            answers[which.reshape(-1) == number][:, columns], axis=0, return_counts=True
        )
        groups.append(_group(tuple(factors[column] for column in columns), sent, counts))
    return groups


def _group(factors: tuple[Factor, ...], answers: np.ndarray, counts: np.ndarray) -> ReportGroup:
    return ReportGroup(factors, answers.astype(np.int32), counts.astype(np.float64))
