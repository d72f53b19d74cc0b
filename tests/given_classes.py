"""Latent classes of given settings, for tests of what comes after.

To choose settings by held-out reports takes most of a fit.
"""

import numpy as np

from privot.local.classes.class_fit import (
    RELEVANCE_SETTINGS,
    SETTINGS,
    Prior,
    Trial,
    choose_trials,
    fit_classes,
    fit_ensemble,
    relevance,
)
from privot.local.classes.counts import count_tables
from privot.local.classes.marginals import stacked_marginals
from privot.local.releases import Releases
from privot.training import FitMonitor

FOUR = Trial(num_classes=4, strength=1.0, passes=60, gain=1.0, standard_error=0.1)


def fit_four(*releases, seed=0):
    """What `privot.fit` learns of releases, had their held-out reports chosen four classes."""
    return fit_classes(Releases(releases), seed, FitMonitor(), [FOUR])


def fit_groups(groups, sizes, *, settings=None, seed):
    """The averaged classes of the settings that held-out reports prefer."""
    tables = count_tables(groups, sizes)
    marginals = stacked_marginals(tables)
    ones = np.ones_like(marginals)
    priors = [Prior(ones, settings or SETTINGS)]
    if settings is None:
        priors.append(Prior(relevance(tables, marginals, seed), RELEVANCE_SETTINGS))
    trials = choose_trials(tables, marginals, priors, seed, FitMonitor())
    return fit_ensemble(tables, marginals, priors, trials, seed, FitMonitor())


def column_marginals(groups, sizes, **limits):
    """Every column's maximum-likelihood probabilities."""
    tables = count_tables(groups, sizes)
    return np.split(stacked_marginals(tables, **limits)[:, 0], tables.offsets[1:-1])
