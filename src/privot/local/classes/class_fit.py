"""Fitting latent classes to releases of tables: from reports to a model that records are drawn from.

Reports about the same queries form a group, in which equal reports are counted. A joint report is one
answer about the cells of its queries' product alphabet; reports that were split are one independent
answer a column. Joint reports are counted piece by piece as they are read, so memory grows with the
number of distinct reports; split reports of many columns are nearly all distinct, and are read at once.

Numbers in several alphabets get curves and bumps (`curves`); settings are chosen and fitted
(`selection`); and piece probabilities are mapped to atoms for sampling (`mixture`). Everything is a
function of the release: post-processing.
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
    Query,
    ReportGroup,
    count_tables,
    distinct_rows,
)
from privot.local.classes.curves import pieces_of_columns, place_mass_points
from privot.local.classes.marginals import rake, shrink_marginals, stacked_marginals
from privot.local.classes.mixture import LatentClassSampler
from privot.local.classes.selection import (
    CURVE_SETTINGS,
    FitMonitor,
    Prior,
    Trial,
    choose_trials,
    default_priors,
    describe_dependence,
    fit_ensemble,
    relevance,
)
from privot.local.model import LocalModel
from privot.local.releases import Atoms, Releases
from privot.local.settings import FitSettings, Run
from privot.mechanisms.forms import CodeForm
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.joint import JointReport
from privot.training import Patience

_HEAVY = 0.6  # share of the people in one interval, from which on the fit warns


def alphabet_sizes(randomizer: Randomizer) -> list[int]:
    """Return the number of codes of every column, in the schema's order."""
    return [column.alphabet.size for column in randomizer.schema.coded.values()]


def report_groups(release: Release, first: int = 0) -> list[ReportGroup]:
    """Group all reports of a release, whose columns are all coded, by the queries they are about.

    Queries are numbered from `first` on, in the schema's order.
    """
    joint = release.randomizer.joint
    return _split_groups(release, first) if joint is None else _joint_groups(release, joint, first)


def count_releases(releases: Releases) -> tuple[list[Query], list[ReportGroup]]:
    """Return the queries and groups of all reports of one or several releases.

    Columns and atoms are those of `releases.atoms`, in the newest one's order.
    """
    names = list(releases.atoms)
    queries: list[Query] = []
    groups = []
    for number, release in enumerate(releases.parts):
        first = len(queries)
        for name in release.schema.coded:
            for codes, size in releases.atoms[name].codings[number]:
                queries.append(Query.of_codes(names.index(name), codes, size))
        groups += report_groups(release, first)
    return queries, groups


def _joint_groups(release: Release, joint: JointReport, first: int) -> list[ReportGroup]:
    tallies: dict[int, Tally] = {}
    sheet_type = np.min_scalar_type(joint.design.num_sheets)  # up to 16 bits are sorted by radix
    for table in release.rows.pieces():
        answers = joint.read(table)
        order = np.argsort(answers.sheets.astype(sheet_type), kind="stable")
        ends = np.searchsorted(answers.sheets[order], np.arange(joint.design.num_sheets + 1))
        for number, (start, stop) in enumerate(pairwise(ends)):
            if start < stop:
                rows = order[start:stop]
                places = answers.offsets[rows][:, None] + np.arange(joint.widths[number])
                tallies.setdefault(number, Tally()).add(answers.cells[places])
    groups = []
    for number, tally in sorted(tallies.items()):
        sets, counts = tally.total()
        shape = joint.design.shape(number)
        queries = tuple(first + query for query in joint.design.numbers(number))
        form = joint.mechanism(int(np.prod(shape))).supports
        factor = Factor(queries, shape, form.shares(sets), form.ratio)
        groups.append(_group((factor,), np.arange(len(sets))[:, None], counts))
    return groups


class Tally:
    """Counts of distinct rows of integers that arrive in pieces.

    New rows wait until they outnumber the distinct ones, so each is sorted a few times at most.
    """

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []
        self._counts: list[np.ndarray] = []
        self._settled = self._waiting = 0

    def add(self, rows: np.ndarray) -> None:
        """Count more rows (n, w)."""
        self._hold(rows, np.ones(len(rows)))
        self._waiting += len(self._rows[-1])
        if self._waiting > self._settled:
            self._settle()

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """Return distinct rows, sorted, and their counts."""
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
    """Group split reports by their columns; every column's distinct answers are numbered once."""
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


def fit_classes(
    releases: Releases, settings: FitSettings, run: Run, trials: Sequence[Trial] | None = None
) -> LocalModel:
    """Fit a model whose sampler is a mixture of product distributions.

    Arguments:
        releases: The reports.
        settings: The seed and the minutes are used.
        run: The progress callback is used.
        trials: Settings to average; chosen by held-out reports by default.

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
    queries, groups = count_releases(releases)
    pieces, queries = pieces_of_columns(atoms, queries, groups)
    tables = count_tables(groups, [each.shares.size for each in pieces], queries)
    curved = any(each.curve is not None for each in pieces)
    known = np.concatenate([each.shares for each in pieces])[:, None]
    marginals = stacked_marginals(tables, start=known, tolerance=1e-5 if curved else 1e-7)
    if curved:
        priors = [Prior(relevance(tables, marginals, settings.seed), CURVE_SETTINGS)]
    else:
        priors = default_priors(tables, marginals, settings.seed)
    patience = Patience(settings.minutes)
    monitor = FitMonitor(patience, run.progress)
    with patience.deferring():
        if trials is None:
            trials = choose_trials(tables, marginals, priors, settings.seed, monitor)
        mixture = fit_ensemble(tables, marginals, priors, trials, settings.seed, monitor)
    if all(randomizer.joint is None for randomizer in releases.randomizers):
        # For joint reports the classes' own marginals are better: those under independence are biased
        # where the columns of a report depend.
        mixture = rake(mixture, np.split(marginals[:, 0], tables.offsets[1:-1]))
    elif not curved:
        mixture = shrink_marginals(mixture, tables, queries, [_in_order(each) for each in atoms])
    columns = releases.newest.schema.coded.values()
    places, laws = zip(*map(place_mass_points, columns, atoms, pieces), strict=True)
    mixture = mixture.refined(laws)
    made_with = {
        "estimator": "latent_classes",
        "loss": "exact likelihood",
        "seed": settings.seed,
        "classes": mixture.num_classes,
        "dependence": describe_dependence(trials),
        "averaged": [asdict(trial) for trial in trials],
        "num_reports": len(releases),
        "seconds": time.perf_counter() - start,
        **patience.facts(),
    }
    sampler = LatentClassSampler(mixture, places, releases.newest.schema)
    _warn_of_heavy_atoms(sampler)
    return patience.finish(LocalModel.of(releases, sampler, made_with))


def fit_again(model: LocalModel, releases: Releases, seed: int) -> LocalModel:
    """Fit other reports by the settings that were chosen for `model`, of latent classes."""
    trials = [Trial(**each) for each in model.made_with["averaged"]]
    return fit_classes(releases, FitSettings(seed=seed), Run(), trials)


def _in_order(atoms: Atoms) -> Ints:
    """Return a number's bins from left to right; none of categories."""
    return np.zeros(0, np.int64) if atoms.cells is None else atoms.cells.in_order


def _warn_of_heavy_atoms(sampler: LatentClassSampler) -> None:
    """Warn of numbers that have most people in one interval, within which nothing is known."""
    for index, (name, column) in enumerate(sampler.schema.coded.items()):
        cells = sampler.places[index].cells
        if cells is None or column.alphabet.spikes:
            continue
        shares = sampler.atoms.marginal([index])
        atom = int(shares.argmax())
        low, high = cells.low[atom], cells.high[atom]
        if shares[atom] > _HEAVY and high - low > float(cells.integer):
            label = column.labels[int(sampler.places[index].codes[atom])]
            warnings.warn(
                f"column {name!r}: {shares[atom]:.0%} of the people are in one interval of {label}, and "
                "nothing is known of where in it: declare a value that many share as one of its spikes, "
                "or finer bins there, which privot schema new --pilot finds for the next reports",
                stacklevel=4,
            )
