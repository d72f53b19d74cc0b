"""Fitting latent classes to releases of tables: from reports to a model that records are drawn from.

Reports are counted by their questions (`grouping`); numbers asked in several alphabets are given curves
and bumps (`curves`, `bumps`); settings are chosen and fitted (`latent_classes`); and what was learned of
pieces is told of atoms, of which records are drawn (`sampler`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import cast

import numpy as np

from privot.core.errors import PrivotError
from privot.local.classes.counts import (
    Factor,
    Ints,
    Question,
    ReportGroup,
    count_tables,
    distinct_rows,
)
from privot.local.classes.curves import pieces_of, placed
from privot.local.classes.marginals import rake, shrink, stacked_marginals
from privot.local.classes.mixture import LatentClassSampler
from privot.local.classes.selection import (
    OF_CURVES,
    Course,
    Prior,
    Trial,
    choose,
    in_words,
    priors_of_codes,
    refit,
    relevance,
)
from privot.local.model import LocalModel
from privot.local.releases import Atoms, Releases
from privot.local.settings import FitSettings, Run
from privot.mechanisms.forms import CodeForm
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.joint import JointReport
from privot.training import Patience

# A release as counts of reports: what the estimators of tables read of it.
#
# Reports about the same questions form a group; within it, equal reports are counted. A joint report
# is one answer about the cells of its questions' product alphabet; reports that were split are one
# answer a column, drawn independently. Everything here is a function of the release: post-processing.
#
# Joint reports are counted piece by piece as they are read, so memory grows with the number of
# distinct reports. Split reports of many columns are nearly all distinct, and are read at once.


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


_MOST = 0.6  # of the people


def fit_classes(
    releases: Releases, settings: FitSettings, run: Run, trials: Sequence[Trial] | None = None
) -> LocalModel:
    """A model whose sampler is a mixture of product distributions.

    Arguments:
        releases: The reports.
        settings: Of which the seed and the minutes are used.
        run: Of which the progress is used.
        trials: What is averaged; chosen by held-out reports if it is not given.

    Raises:
        PrivotError: if a column has noise added.
    """
    if not releases.all_coded:
        raise PrivotError(
            "estimator 'latent_classes' needs every column reported as a code, some have noise "
            "added: use estimator 'generator'"
        )
    start = time.perf_counter()
    atoms = tuple(releases.atoms.values())
    questions, groups = groups_of_questions(releases)
    pieces, questions = pieces_of(atoms, questions, groups)
    tables = count_tables(groups, [each.shares.size for each in pieces], questions)
    curved = any(each.curve is not None for each in pieces)
    known = np.concatenate([each.shares for each in pieces])[:, None]
    marginals = stacked_marginals(tables, start=known, tolerance=1e-5 if curved else 1e-7)
    if curved:
        priors = [Prior(relevance(tables, marginals, settings.seed), OF_CURVES)]
    else:
        priors = priors_of_codes(tables, marginals, settings.seed)
    patience = Patience(settings.minutes)
    course = Course(patience, run.progress)
    with patience.deferring():
        if trials is None:
            trials = choose(tables, marginals, priors, settings.seed, course)
        mixture = refit(tables, marginals, priors, trials, settings.seed, course)
    if all(randomizer.joint is None for randomizer in releases.randomizers):
        # Of joint reports the classes' own marginals are better: those of one column at a time have
        # to guess what the other columns of a report add, and err where columns depend.
        mixture = rake(mixture, np.split(marginals[:, 0], tables.offsets[1:-1]))
    elif not curved:
        mixture = shrink(mixture, tables, questions, [_in_order(each) for each in atoms])
    columns = releases.newest.schema.coded.values()
    places, laws = zip(*map(placed, columns, atoms, pieces), strict=True)
    mixture = mixture.spread(laws)
    made_with = {
        "estimator": "latent_classes",
        "loss": "exact likelihood",
        "seed": settings.seed,
        "classes": mixture.num_classes,
        "dependence": in_words(trials),
        "averaged": [asdict(trial) for trial in trials],
        "num_reports": len(releases),
        "seconds": time.perf_counter() - start,
        **patience.facts(),
    }
    sampler = LatentClassSampler(mixture, places, releases.newest.schema)
    _warn_of_heavy_atoms(sampler)
    return patience.finish(LocalModel.of(releases, sampler, made_with))


def fit_again(model: LocalModel, releases: Releases, seed: int) -> LocalModel:
    """What other reports teach by the settings that were chosen for `model`, latent classes."""
    trials = [Trial(**each) for each in model.made_with["averaged"]]
    return fit_classes(releases, FitSettings(seed=seed), Run(), trials)


def _in_order(atoms: Atoms) -> Ints:
    """Bins of a number from left to right; none of categories."""
    return np.zeros(0, np.int64) if atoms.cells is None else atoms.cells.in_order


def _warn_of_heavy_atoms(sampler: LatentClassSampler) -> None:
    """Say of which numbers most people are in one interval, within which nothing is known."""
    for index, (name, column) in enumerate(sampler.schema.coded.items()):
        cells = sampler.places[index].cells
        if cells is None or column.alphabet.spikes:
            continue
        shares = sampler.atoms.marginal([index])
        atom = int(shares.argmax())
        low, high = cells.low[atom], cells.high[atom]
        if shares[atom] > _MOST and high - low > float(cells.integer):
            label = column.labels[int(sampler.places[index].codes[atom])]
            warnings.warn(
                f"column {name!r}: {shares[atom]:.0%} of the people are in one interval of {label}, and "
                "nothing is known of where in it: declare a value that many share as one of its spikes, "
                "or finer bins there, which privot schema new --pilot finds for the next reports",
                stacklevel=4,
            )
