r"""Climbing: passes of expectation and maximization from a random start, faster than one by one.

**Over-relaxed** passes (Salakhutdinov, Roweis, *Adaptive overrelaxed bound optimization methods*, 2003)
go as far again as a pass leads, on the scale of logarithms: the same path in a half to a third of the
steps. The next pass finds the objective where they led; where it is lower, they are taken back.
"""

from __future__ import annotations

import numpy as np

from privot.local.classes.count_tables import CountTables
from privot.local.classes.expectation import expectation, normalized
from privot.local.classes.questions import Array

# Of over-relaxed passes: powers of the ratio that a plain one changes a probability by.
_FIRST_POWER, _GROWTH, _MOST_POWER = 1.8, 1.15, 4.0
_MOST_RISE = 1e3
_LEAST = 1e-300
_UNIFORM = 0.3  # of the law that starts are drawn around


def random_start(
    marginals: Array, tables: CountTables, num_classes: int, seed: int, start: int
) -> tuple[Array, Array]:
    """Equal weights and the marginals times log-normal noise; one class is the marginals.

    They are mixed with a uniform law first. Where columns determine each other, independence likes best
    that all people are alike, and a marginal that has nobody in a category leaves it empty.
    """
    weights = np.full(num_classes, 1 / num_classes)
    if num_classes == 1:
        return marginals, weights
    noise = np.random.default_rng([seed, num_classes, start])
    factors = np.exp(noise.standard_normal((len(marginals), num_classes)))
    uniform = 1 / tables.sizes[tables.column_of_piece(), None]
    around = (1 - _UNIFORM) * marginals + _UNIFORM * uniform
    return normalized(around * factors, tables), weights


def ascend(
    tables: CountTables, prior: Array, p: Array, weights: Array, strength: float, passes: int
) -> tuple[Array, Array]:
    """That many passes: probabilities (pieces, classes) and weights (classes,).

    All but the last are over-relaxed, by more and more; one that led downward is taken back.
    """
    reached, power, safe = -np.inf, _FIRST_POWER, (p, weights)
    ahead = strength * prior
    for left in range(passes, 0, -1):
        found = expectation(tables, p, weights)
        value = found.total(tables.counts) + _log_prior(ahead, p, weights)
        if value < reached:
            (p, weights), reached, power = safe, -np.inf, 1.0
            if left > 1:
                continue
            found = expectation(tables, p, weights)
        reached = value
        shares = found.classes + 1.0
        safe = normalized(found.cells + ahead, tables), shares / shares.sum()
        if left == 1 or power == 1.0:
            (p, weights), power = safe, _FIRST_POWER
            continue
        p = normalized(_relaxed(p, safe[0], power), tables)
        weights = _relaxed(weights, safe[1], power)
        weights = weights / weights.sum()
        power = min(power * _GROWTH, _MOST_POWER)
    return p, weights


def _log_prior(counts: Array, p: Array, weights: Array) -> float:
    """Of the prior's counts of pieces in every class, and one of each class; up to a constant."""
    logs = np.log(np.maximum(p, _LEAST)).sum(axis=1)
    return float(counts[:, 0] @ logs + np.log(np.maximum(weights, _LEAST)).sum())


def _relaxed(old: Array, new: Array, power: float) -> Array:
    """$x (x'/x)^{η}$: as far again as the step leads, on a scale of logarithms."""
    ratio = np.divide(new, old, out=np.ones_like(old), where=old > 0)
    return np.asarray(old * np.minimum(ratio**power, _MOST_RISE))
