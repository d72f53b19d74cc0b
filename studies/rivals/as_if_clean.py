r"""As if clean: the same estimator on the same reports, told that the device always tells the truth.

The likelihood of an answer is taken to be its support alone, $f(y | v) ∝ A_{yv}$, as if the ratio r of a
true to a false answer were infinite. Whoever trains on privatized records without their likelihood does
this, and learns the noise: marginals are drawn towards uniform, dependence towards none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from privot.local.classes.class_fit import (
    RELEVANCE_SETTINGS,
    SETTINGS,
    Prior,
    choose_trials,
    fit_ensemble,
    relevance,
)
from privot.local.classes.counts import Factor, ReportGroup, count_tables
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.mixture import LatentClasses
from privot.training import FitMonitor

# Large enough to leave a false answer no likelihood, small enough to divide by.
_CERTAIN = 1e9


def as_if_clean(groups: Iterable[ReportGroup]) -> list[ReportGroup]:
    """The groups with every factor's ratio so large that no answer can be false."""
    told: dict[int, Factor] = {}
    changed = []
    for group in groups:
        for factor in group.factors:
            if id(factor) not in told:
                told[id(factor)] = replace(factor, ratio=_CERTAIN)
        changed.append(replace(group, factors=tuple(told[id(f)] for f in group.factors)))
    return changed


def fit_as_if_clean(
    groups: Iterable[ReportGroup], sizes: Sequence[int], seed: int
) -> LatentClasses:
    """Fit latent classes, by settings that held-out reports prefer, to reports taken for clean."""
    tables = count_tables(as_if_clean(groups), sizes)
    marginals = stacked_marginals(tables)
    priors = [
        Prior(np.ones_like(marginals), SETTINGS),
        Prior(relevance(tables, marginals, seed), RELEVANCE_SETTINGS),
    ]
    trials = choose_trials(tables, marginals, priors, seed, FitMonitor())
    return fit_ensemble(tables, marginals, priors, trials, seed, FitMonitor())
