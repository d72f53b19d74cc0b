r"""How far each column may differ between classes, by reports that were held out.

The prior on a class's columns, centred on the marginals, has the strength of some people. One strength
for all columns is too little for those that depend on nothing, whose classes learn noise, and too much
for those that say who belongs where. So a column has a factor of its own: of a few classes fitted to
most people, its tables $p_c(·|z)$ are shrunk towards their marginal,

$$ (1 − s)\, p_c(v|z) + s\, m_c(v) , $$

by the mean s with held-out reports' likelihood as weight (its largest alone would be noise where they
tell little). A prior of α people among $n_c$ in a class shrinks by $s = α / (α + n_c)$, so the strength
becomes $n_c\, s/(1−s)$, between one person and a thousand.

Reports are private already: looking at held-out ones costs nothing. Marginals, too, are of the others.
"""

from __future__ import annotations

import numpy as np

from privot.local.classes.ascent import ascend, random_start
from privot.local.classes.count_tables import CountTables
from privot.local.classes.expectation import expectation
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.questions import Array

_CLASSES, _PASSES = 8, 60
_FOLDS, _PARTS = 3, 10
_MOST = 1000.0
_SHRUNK = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97])


def relevance(tables: CountTables, marginals: Array, seed: int) -> Array:
    """A factor of the prior's strength for each piece (pieces, 1), the same for all of a column.

    Ones where no report is about two columns: held-out reports say nothing of dependence then.
    """
    if not tables.sees_pairs:
        return np.ones_like(marginals)
    columns = tables.sizes.size
    gains, told = np.zeros((columns, len(_SHRUNK))), np.zeros(columns)
    rng = np.random.default_rng([seed, 2])
    for fold, drawn in enumerate(tables.held_out(_FOLDS, _PARTS, rng)):
        training, held_out = tables.with_counts(tables.counts - drawn.counts).sent(), drawn.sent()
        own = stacked_marginals(training, start=marginals, tolerance=1e-5)
        at = random_start(own, training, _CLASSES, seed, fold)
        p, weights = ascend(training, own, *at, 1.0, _PASSES)
        for column in range(columns):
            part = slice(*tables.offsets[column : column + 2])
            for number, share in enumerate(_SHRUNK):
                shrunk = p.copy()
                shrunk[part] = (1 - share) * p[part] + share * own[part]
                found = expectation(held_out, shrunk, weights)
                gains[column, number] += found.total(held_out.counts)
        cells = expectation(training, p, weights).cells.sum(axis=1)
        told += np.add.reduceat(cells, tables.offsets[:-1]) / (_FOLDS * _CLASSES)
    likelihood = np.exp(gains - gains.max(axis=1, keepdims=True))
    share = likelihood @ _SHRUNK / likelihood.sum(axis=1)
    strength = np.clip(told * share / (1 - share), 1.0, _MOST)
    return strength[tables.column_of_piece(), None]
