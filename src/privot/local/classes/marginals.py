r"""One-way marginals by maximum likelihood, from every report that touches the column.

Columns are taken as independent: the model of `expectation` with one class. If every report is
about one column, the columns separate and the log-likelihood $\sum_y n_y \ln(1 + (r−1) (Ap)_y)$ is
concave in p; for randomized response its maximizer is closed,

$$ p_v = \Bigl(\frac{n_v}{λ} − \frac{1}{r−1}\Bigr)_+ , \qquad
   \text{λ such that } \textstyle\sum_v p_v = 1 , $$

the unbiased estimate, cut at zero and levelled again. So it is with split reports. In a joint report
the other columns, at their current marginals, say which of its cells to believe. This lowers the
variance, but where columns depend on each other it leaves a bias that no number of reports
removes; from some hundred thousand people on, the marginals of a model that knows of the dependence
(`latent_classes`) are the better ones.

EM steps $F$ are slow near the end, so pairs of steps are extrapolated (SQUAREM, scheme S3): with
$r = F(p) − p$ and $d = F(F(p)) − F(p) − r$, the next point is $p + 2s\,r + s^2 d$, $s = ‖r‖/‖d‖$,
brought back to the simplex and kept only if the likelihood there is no lower: the likelihood never
falls.

**Raking** gives a mixture of products the marginals $m_c$ that are best known: every class's
probabilities of a column are scaled alike and normalized again,

$$ p_c(v|z) ← \frac{p_c(v|z)\, m_c(v)/\sum_{z'} π_{z'} p_c(v|z')}{\text{its sum over } v} , $$

until $\sum_z π_z p_c(v|z) = m_c(v)$: iterative proportional fitting of the table $π_z p_c(v|z)$ to the
margins $m_c$ and $π$. Of all tables with these margins it finds the closest in Kullback–Leibler
divergence, so what the classes say of *dependence* (odds ratios of class and category) stays.

References:
    Varadhan, Roland, *Simple and globally convergent methods for accelerating the convergence of any
    EM algorithm* (2008). Deming, Stephan (1940); Csiszár, *I-divergence geometry of probability
    distributions* (1975).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from privot.errors import PrivotError
from privot.local.classes.count_tables import Array, CountTables, ReportGroup, count_tables
from privot.local.classes.expectation import em_step, normalized
from privot.local.classes.product_mixture import LatentClasses

_NOBODY = 1e-200


def column_marginals(
    groups: Iterable[ReportGroup],
    sizes: Sequence[int],
    *,
    tolerance: float = 1e-7,
    max_iterations: int = 3000,
) -> list[Array]:
    """Maximum-likelihood probabilities of every column; uniform where nobody reported it.

    Stops when an extrapolated step moves no probability by more than `tolerance`, three times in a
    row; warns if that takes more than `max_iterations` steps.

    Raises:
        PrivotError: if the groups contradict `sizes`.
    """
    tables = count_tables(groups, sizes)
    flat = stacked_marginals(tables, tolerance=tolerance, max_iterations=max_iterations)
    return np.split(flat[:, 0], tables.offsets[1:-1])


def stacked_marginals(
    tables: CountTables,
    *,
    start: Array | None = None,
    tolerance: float = 1e-7,
    max_iterations: int = 3000,
) -> Array:
    """`column_marginals` of tables already laid out, all columns end to end, shape (pieces, 1).

    They are looked for from `start` on, or from equal probabilities.
    """
    if not tables.sizes.size:
        raise PrivotError("sizes is empty: give at least one column")
    p, still = 1 / np.repeat(tables.sizes, tables.sizes)[:, None] if start is None else start, 0
    for _ in range(max_iterations):
        moved, p = _extrapolate(p, tables)
        still = still + 1 if moved <= tolerance else 0
        if still == 3:
            return p
    warnings.warn(
        f"column marginals moved by {moved:.1e} in the last of {max_iterations} iterations: "
        "raise max_iterations",
        stacklevel=3,
    )
    return p


def _extrapolate(p: Array, tables: CountTables) -> tuple[float, Array]:
    """How far the next point lies, and the point: two EM steps, extrapolated if that is no worse."""
    alone, counts = np.ones(1), tables.counts
    once, _ = em_step(tables, p, alone)
    twice, found = em_step(tables, once, alone)
    first, second = once - p, twice - 2 * once + p
    length = float(np.linalg.norm(second))
    if length == 0.0:
        return float(np.abs(first).max()), twice
    stride = max(1.0, float(np.linalg.norm(first)) / length)
    # Never to zero: a category that leaves the support could not come back.
    ahead = np.maximum(p + 2 * stride * first + stride**2 * second, 1e-3 * twice)
    settled, there = em_step(tables, normalized(ahead, tables), alone)
    best = settled if there.total(counts) >= found.total(counts) else twice
    return float(np.abs(best - p).max()), best


def rake(
    model: LatentClasses,
    marginals: Sequence[Array],
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 2000,
) -> LatentClasses:
    """`model` with `marginals`, one array of probabilities a column.

    Worth its while only if they are better than the model's own. A category that has probability in
    `marginals` but in no class, or in all less than 1e-200, is first given it in every class. Warns if a
    column's total variation is above `tolerance` after `max_iterations`.
    """
    raked = []
    for column, (table, wanted) in enumerate(zip(model.probabilities, marginals, strict=True)):
        scaled, error = _rake_column(table, model.weights, wanted, tolerance, max_iterations)
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
    wanted = wanted / wanted.sum()
    # Of a few reports, likelihood leaves categories less than a ratio can bring back.
    nobody = (table @ weights < _NOBODY) & (wanted > 0)
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
