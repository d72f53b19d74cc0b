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

from privot.core.errors import PrivotError
from privot.local.classes.counts import (
    Array,
    CountTables,
    Ints,
    Question,
    ReportGroup,
    count_tables,
)
from privot.local.classes.expectation import curvature, em_step, normalized
from privot.local.classes.mixture import LatentClasses

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


# Marginals that a prior learned from the reports shrinks, and classes brought half way to them.
#
# A column's K shares are known with a noise that is much the same for all; what is rare is mostly
# noise, and neighboring bins of a number differ little. So its shares are $p = \mathrm{softmax}(η)$
# with
#
# $$ η ∼ N(0,\ σ^2 I + κ^2 R), \qquad R_{uv} = \exp\bigl(−(x_u−x_v)^2 / 2ℓ^2\bigr) $$
#
# where u and v are bins at places x of a number's range (R is 0 elsewhere). The likelihood is to
# second order that of all reports with the other columns independent (`curvature`), around the
# classes' own marginals. For each (σ, κ) of a grid the most likely η is found, and the p are averaged
# by the evidence in Laplace's approximation: how even a column is, and how smooth, its own reports
# tell. Posterior means and medians by sampling were no better.
#
# Such marginals take other columns for independent, the classes' own are not shrunk; both errors
# differ, and the mean of the two is better than either. Independence errs by a bias that stays, so of
# the way between own and shrunk marginals, of squared length $d = Δ^⊤ I Δ$ in units of the noise, a
# share
#
# $$ \tfrac12 \Bigm/ \Bigl(1 + \frac{2d}{K−1}\Bigr) $$
#
# is gone: half where noise explains the gap, none with more and more people. The classes are raked
# (`marginals`), which leaves what they say of dependence.
#
# References:
#     Efron, Morris, *Stein's estimation rule and its competitors: an empirical Bayes approach* (1973);
#     Aitchison, Shen, *Logistic-normal distributions: some properties and uses* (1980); MacKay,
# *Bayesian     interpolation* (1992).


_SPREADS = (0.3, 0.6, 1.0, 1.5, 2.2, 3.2)
_WAVES = (0.0, 0.7, 1.5, 3.0)
_LENGTH = 0.15  # of the range
_FEWEST = 4  # bins that have neighbors
_LONGEST = 300  # codes of an alphabet, whose information is a square table
_STEPS, _STILL, _STEEPEST = 60, 1e-7, 1e8
_TOLERANCE = 1e-6


def shrink(
    mixture: LatentClasses,
    tables: CountTables,
    questions: Sequence[Question],
    orders: Sequence[Ints],
) -> LatentClasses:
    """The classes with marginals brought towards shrunk ones; as they are if an alphabet is long.

    Args:
        mixture: of pieces that are atoms.
        tables: all reports.
        questions: what they are about.
        orders: of each column, its bins from left to right, none where it is no number.
    """
    if max(each.size for each in questions) > _LONGEST:
        return mixture
    own = [mixture.marginal([column]) for column in range(len(orders))]
    found = curvature(tables, np.concatenate([each.law @ own[each.column] for each in questions]))
    slopes = [np.zeros(len(shares)) for shares in own]
    informations = [np.zeros((len(shares), len(shares))) for shares in own]
    for number, (column, law) in enumerate(questions):
        codes = slice(*tables.asked.offsets[number : number + 2])
        slopes[column] += law.T @ found.slope[codes]
        informations[column] += law.T @ found.information[codes, : len(law)] @ law
    wanted = []
    for shares, slope, information, order in zip(own, slopes, informations, orders, strict=True):
        gap = shrunk(shares, slope, information, order) - shares
        length = float(gap @ information @ gap) / max(len(shares) - 1, 1)
        wanted.append(shares + gap / (2 * (1 + 2 * length)))
    return rake(mixture, wanted, tolerance=_TOLERANCE)


def shrunk(around: Array, slope: Array, information: Array, order: Ints) -> Array:
    """Shares p of the prior and of the likelihood $s^⊤Δ − ½ Δ^⊤ I Δ$, Δ = p − `around`."""
    waves = _WAVES if len(order) >= _FEWEST else (0.0,)
    near = np.zeros((len(around), len(around)))
    if len(waves) > 1:
        places = np.linspace(0, 1, len(order)) / _LENGTH
        near[np.ix_(order, order)] = np.exp(-(np.subtract.outer(places, places) ** 2) / 2)
    found, evidence = [], []
    for wave in waves:
        for spread in _SPREADS:
            covariance = spread**2 * np.eye(len(around)) + wave**2 * near
            root = np.asarray(np.linalg.cholesky(covariance), np.float64)
            law = _Law(around, slope, information, root)
            shares, value = law.most_likely()
            found.append(shares)
            evidence.append(value)
    weights = np.exp(np.array(evidence) - max(evidence))
    return np.asarray(weights @ np.array(found) / weights.sum())


class _Law:
    """The posterior of u, η = A u with u standard normal."""

    def __init__(self, around: Array, slope: Array, information: Array, root: Array) -> None:
        self.around, self.slope, self.information, self.root = around, slope, information, root

    def value(self, u: Array) -> tuple[float, Array]:
        """Log density and shares."""
        logs = self.root @ u
        shares = np.exp(logs - logs.max())
        shares = shares / shares.sum()
        gap = shares - self.around
        return float(self.slope @ gap - gap @ self.information @ gap / 2 - u @ u / 2), shares

    def bend(self, u: Array, shares: Array) -> tuple[Array, Array]:
        """Gradient, and the negative Hessian without the shares' own curvature."""
        turn = shares[:, None] * (self.root - shares @ self.root)
        pull = self.slope - self.information @ (shares - self.around)
        return turn.T @ pull - u, turn.T @ self.information @ turn + np.eye(len(u))

    def most_likely(self) -> tuple[Array, float]:
        """Shares at the maximum (Levenberg, Marquardt), and the logarithm of the evidence."""
        logs = np.log(np.maximum(self.around, 0.03 / len(self.around)))
        u = np.linalg.solve(self.root, logs - logs.mean())
        (value, shares), damping = self.value(u), 1e-3
        for _ in range(_STEPS):
            gradient, bend = self.bend(u, shares)
            step = np.linalg.solve(bend + damping * np.diag(np.diag(bend)), gradient)
            ahead, there = self.value(u + step)
            if ahead <= value:
                damping *= 10
                if damping > _STEEPEST:
                    break
                continue
            gained, damping = ahead - value, max(damping / 5, 1e-6)
            u, value, shares = u + step, ahead, there
            if gained < _STILL:
                break
        return shares, value - np.linalg.slogdet(self.bend(u, shares)[1])[1] / 2
