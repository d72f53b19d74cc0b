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

import numpy as np

from privot.errors import PrivotError
from privot.local.atoms import Atoms
from privot.local.classes.bumps import pieces_of
from privot.local.classes.class_settings import OF_CURVES
from privot.local.classes.count_tables import count_tables
from privot.local.classes.course import Course
from privot.local.classes.grouping import groups_of_questions
from privot.local.classes.latent_classes import priors_of_codes, refit
from privot.local.classes.marginals import rake, stacked_marginals
from privot.local.classes.mass_points import placed
from privot.local.classes.questions import Ints
from privot.local.classes.relevance import relevance
from privot.local.classes.sampler import LatentClassSampler
from privot.local.classes.selection import Prior, Trial, choose, in_words
from privot.local.classes.shrinkage import shrink
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.local.settings import FitSettings, Run
from privot.training import Patience

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
    with patience.kept():
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
        **patience.told(),
    }
    sampler = LatentClassSampler(mixture, places, releases.newest.schema)
    _warn_of_heavy_atoms(sampler)
    return patience.rest(LocalModel.of(releases, sampler, made_with))


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
                "or finer bins there, which privot schema refine finds for the next reports",
                stacklevel=4,
            )
