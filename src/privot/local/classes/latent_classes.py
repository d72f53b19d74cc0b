r"""Fit latent classes to privatized reports: EM, what to choose from held-out reports, an ensemble.

**Objective.** The reports' exact log-likelihood (`expectation`) plus the log density of a prior,

$$ \sum n \ln L + α \sum_c \sum_{v,z} m_c(v) \ln p_c(v|z) + \sum_z \ln π_z , $$

a Dirichlet prior on every class's columns, centred on the columns' maximum-likelihood marginals $m_c$
with the strength α of so many people, and one person a class. An EM step adds the prior to the
expected counts and normalizes; the objective never falls. It has many maxima, and those of many classes
fit the noise, so the number of passes is a setting too, as it is in Richardson–Lucy deconvolution.

**Choice.** Numbers of classes, strengths and passes are chosen by held-out reports (`selection`).
Besides the one strength for all columns, factors for each are tried (`relevance`).

**Ensemble.** Every setting that is kept is fitted to all reports from several starts, and the
distributions are averaged: log-likelihood is concave in the distribution, so the average is at least as
good as its members are on average. What differs between local maxima is mostly noise.

References:
    Dempster, Laird, Rubin (1977); Vermunt et al., *Multiple imputation of incomplete categorical data
    using latent class analysis* (2008).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from privot.local.classes.ascent import ascend, random_start
from privot.local.classes.class_settings import RELEVANT, LatentClassSettings
from privot.local.classes.count_tables import Array, CountTables, ReportGroup, count_tables
from privot.local.classes.course import Course, at_once
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.product_mixture import LatentClasses
from privot.local.classes.relevance import relevance
from privot.local.classes.selection import Prior, Trial, choose

_FIRST_START = 100  # folds start from others than the final fits


def fit_latent_classes(
    groups: Iterable[ReportGroup],
    sizes: Sequence[int],
    *,
    settings: LatentClassSettings | None = None,
    seed: int,
) -> LatentClasses:
    """The averaged model of the settings that held-out reports prefer; the same for the same seed.

    Equals the product of the columns' maximum-likelihood marginals if the reports show no dependence.
    Its own marginals are the exact likelihood's; `rake` gives it others.

    Raises:
        PrivotError: if the groups contradict `sizes`.
    """
    tables = count_tables(groups, sizes)
    marginals = stacked_marginals(tables)
    if settings is None:
        priors = priors_of_codes(tables, marginals, seed)
    else:
        priors = [Prior(np.ones_like(marginals), settings)]
    trials = choose(tables, marginals, priors, seed)
    return refit(tables, marginals, priors, trials, seed)


def priors_of_codes(tables: CountTables, marginals: Array, seed: int) -> list[Prior]:
    """What is tried where every column is asked in one alphabet: one strength, and one a column."""
    return [
        Prior(np.ones_like(marginals), LatentClassSettings()),
        Prior(relevance(tables, marginals, seed), RELEVANT),
    ]


def refit(
    tables: CountTables,
    marginals: Array,
    priors: Sequence[Prior],
    trials: Sequence[Trial],
    seed: int,
    course: Course | None = None,
) -> LatentClasses:
    """Every trial's setting fitted to all reports from several starts, averaged."""

    def fitted(trial: Trial, start: int) -> LatentClasses:
        number = _FIRST_START + start
        p, weights = random_start(marginals, tables, trial.num_classes, seed, number)
        prior = marginals * priors[trial.prior].factors
        p, weights = ascend(tables, prior, p, weights, trial.strength, trial.passes)
        return LatentClasses(weights, tuple(np.split(p, tables.offsets[1:-1])))

    starts = [
        (trial, start)
        for trial in trials
        for start in range(1 if trial.num_classes == 1 else priors[trial.prior].settings.starts)
    ]
    course = course or Course()
    if course.over():
        starts = starts[:1]
    models = []
    for model in at_once(fitted, starts):
        models.append(model)
        course.fitted(ahead=len(starts) - len(models))
    return LatentClasses.average(models)
