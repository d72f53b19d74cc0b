r"""Raking: give a mixture of products the one-way marginals that are best known.

Every class's probabilities of a column are scaled alike and normalized again,

$$ p_c(v|z) ← \frac{p_c(v|z)\, m_c(v)/\sum_{z'} π_{z'} p_c(v|z')}{\text{its sum over } v} , $$

until $\sum_z π_z p_c(v|z) = m_c(v)$: iterative proportional fitting of the table $π_z p_c(v|z)$ to the
margins $m_c$ and $π$. Of all tables with these margins it finds the closest in Kullback–Leibler
divergence, so what the classes say of *dependence* (odds ratios of class and category) stays.

Raking is worth its while only if the margins are better than the model's own (`marginals` says when).

References:
    Deming, Stephan (1940); Csiszár, *I-divergence geometry of probability distributions* (1975).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from privot.errors import PrivotError
from privot.local.classes.product_mixture import LatentClasses
from privot.local.classes.report_counts import Array


def rake(
    model: LatentClasses,
    marginals: Sequence[Array],
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 2000,
) -> LatentClasses:
    """`model` with `marginals`, one array of probabilities a column.

    A category that has probability in `marginals` but in no class is first given it in every class.
    Warns if a column's total variation is above `tolerance` after `max_iterations`.

    Raises:
        PrivotError: if the marginals are not distributions over the model's columns.
    """
    if [len(marginal) for marginal in marginals] != list(model.sizes):
        raise PrivotError(
            f"marginals have sizes {[len(m) for m in marginals]}: give {list(model.sizes)}"
        )
    raked = []
    for column, (table, marginal) in enumerate(zip(model.probabilities, marginals, strict=True)):
        wanted = np.asarray(marginal, np.float64)
        if not (wanted >= 0).all() or abs(wanted.sum() - 1) > 1e-6:
            raise PrivotError(
                f"marginals of column {column} are no distribution: make them sum to 1"
            )
        scaled, error = _rake_column(
            table, model.weights, wanted / wanted.sum(), tolerance, max_iterations
        )
        if error > tolerance:
            warnings.warn(
                f"raking column {column} stopped after {max_iterations} iterations, a total "
                f"variation of {error:.1e} away: raise max_iterations",
                stacklevel=2,
            )
        raked.append(scaled)
    return LatentClasses(model.weights, tuple(raked))


def _rake_column(
    table: Array, weights: Array, wanted: Array, tolerance: float, max_iterations: int
) -> tuple[Array, float]:
    """The raked column, (categories, classes), and its total variation from `wanted`."""
    nobody = (table @ weights == 0) & (wanted > 0)
    table = np.where(nobody[:, None], wanted[:, None], table)
    # A class with no mass where the marginal has any can only take the marginal itself.
    empty = (table * (wanted > 0)[:, None]).sum(axis=0) == 0
    table = np.where(empty, wanted[:, None], table)
    table = table / table.sum(axis=0)
    error = np.inf
    for _ in range(max_iterations):
        reached = table @ weights
        error = float(np.abs(reached - wanted).sum() / 2)
        if error <= tolerance:
            break
        factor = np.divide(wanted, reached, out=np.zeros_like(wanted), where=reached > 0)
        table = table * factor[:, None]
        table = table / table.sum(axis=0)
    return table, error
