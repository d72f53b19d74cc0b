r"""One-way marginals: by maximum likelihood, raked into a mixture, and shrunk by a learned prior.

**Maximum likelihood** (`stacked_marginals`), from every report about a column. Columns are taken as
independent: the model of `expectation` with one class. If every report is
about one column, the columns separate and the log-likelihood $\sum_y n_y \ln(1 + (r−1) (Ap)_y)$ is
concave in p; for randomized response its maximizer is closed,

$$ p_v = \Bigl(\frac{n_v}{λ} − \frac{1}{r−1}\Bigr)_+ , \qquad
   \text{λ such that } \textstyle\sum_v p_v = 1 , $$

the unbiased estimate, cut at zero and normalized again. This is the case of split reports. In a joint
report the other columns, at their current marginals, weigh its cells. This lowers the variance, but
where columns depend on each other it leaves a bias that no number of reports removes; from about a
hundred thousand people on, the marginals of a model with dependence (`class_fit`) are the better ones.

EM steps $F$ are slow near the end, so pairs of steps are extrapolated (SQUAREM, scheme S3): with
$r = F(p) − p$ and $d = F(F(p)) − F(p) − r$, the next point is $p + 2s\,r + s^2 d$, $s = ‖r‖/‖d‖$,
projected to the simplex and accepted only if the likelihood there is no lower: the likelihood never
falls.

**Raking** (`rake`) gives a mixture of products known marginals $m_c$: every class's probabilities of a
column are scaled alike and normalized again,

$$ p_c(v|z) ← \frac{p_c(v|z)\, m_c(v)/\sum_{z'} π_{z'} p_c(v|z')}{\text{its sum over } v} , $$

until $\sum_z π_z p_c(v|z) = m_c(v)$: iterative proportional fitting of the table $π_z p_c(v|z)$ to the
margins $m_c$ and $π$. Among tables with these margins it finds the closest in Kullback–Leibler
divergence, and odds ratios of class and category, the *dependence*, stay.

**Shrinkage** (`shrink_marginals`). A column's K shares are estimated with noise that is much the same
for all; rare categories are mostly noise, and neighboring bins of a number differ little. So its shares
are $p = \mathrm{softmax}(η)$ with

$$ η ∼ N(0,\ σ^2 I + κ^2 R), \qquad R_{uv} = \exp\bigl(−(x_u−x_v)^2 / 2ℓ^2\bigr) $$

where u and v are bins at places x of a number's range (R is 0 elsewhere). The likelihood is to second
order that of all reports with the other columns independent (`curvature`), around the classes' own
marginals. For each (σ, κ) of a grid the mode of η is found, and the p are averaged by the evidence in
Laplace's approximation: the reports themselves decide how even and how smooth a column is. Posterior
means and medians by sampling were no better.

Such marginals take other columns for independent, the classes' own are not shrunk; both errors differ,
and their mean is better than either. Independence errs by a bias that stays, so of the difference
between own and shrunk marginals, of squared length $d = Δ^⊤ I Δ$ in units of the noise, the share

$$ \tfrac12 \Bigm/ \Bigl(1 + \frac{2d}{K−1}\Bigr) $$

is applied: half where noise explains the gap, none with more and more people. The classes are raked to
the result, which leaves their dependence.

References:
    Varadhan, Roland, *Simple and globally convergent methods for accelerating the convergence of any
    EM algorithm* (2008). Deming, Stephan (1940); Csiszár, *I-divergence geometry of probability
    distributions* (1975). Efron, Morris, *Stein's estimation rule and its competitors: an empirical
    Bayes approach* (1973); Aitchison, Shen, *Logistic-normal distributions: some properties and uses*
    (1980); MacKay, *Bayesian interpolation* (1992).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from privot.core.errors import PrivotError
from privot.local.classes.counts import Array, CountTables, Ints, Query
from privot.local.classes.expectation import curvature, em_step, normalized
from privot.local.classes.mixture import LatentClasses

_EMPTY = 1e-200
# Shrinkage: grids of σ and κ; ℓ, as a share of the range; fewest bins that have neighbors; most codes of
# an alphabet, whose information is a square table; steps to the mode.
_STDDEVS = (0.3, 0.6, 1.0, 1.5, 2.2, 3.2)
_SMOOTH_STDDEVS = (0.0, 0.7, 1.5, 3.0)
_LENGTH_SCALE = 0.15
_MIN_BINS = 4
_MAX_CODES = 300
_MAX_STEPS, _MIN_GAIN, _MAX_DAMPING = 60, 1e-7, 1e8
_RAKING_TOLERANCE = 1e-6


def stacked_marginals(
    tables: CountTables,
    *,
    start: Array | None = None,
    tolerance: float = 1e-7,
    max_iterations: int = 3000,
) -> Array:
    """Estimate every column's probabilities by maximum likelihood, end to end (pieces, 1).

    The search begins at `start`, or at equal probabilities, which remain where nobody reported. It stops
    when an extrapolated step moves no probability by more than `tolerance`, three times in a row; warns
    if that takes more than `max_iterations` steps.

    Raises:
        PrivotError: if there is no column.
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
    """Return the largest change, and the next point: two EM steps, extrapolated if that is no worse."""
    one_class, counts = np.ones(1), tables.counts
    once, _ = em_step(tables, p, one_class)
    twice, found = em_step(tables, once, one_class)
    first, second = once - p, twice - 2 * once + p
    length = float(np.linalg.norm(second))
    if length == 0.0:
        return float(np.abs(first).max()), twice
    stride = max(1.0, float(np.linalg.norm(first)) / length)
    # Never to zero: a category that leaves the support could not come back.
    ahead = np.maximum(p + 2 * stride * first + stride**2 * second, 1e-3 * twice)
    settled, there = em_step(tables, normalized(ahead, tables), one_class)
    best = settled if there.total(counts) >= found.total(counts) else twice
    return float(np.abs(best - p).max()), best


def rake(
    model: LatentClasses,
    marginals: Sequence[Array],
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 2000,
) -> LatentClasses:
    """Rake a model to marginals, one array of probabilities per column.

    They should be better than the model's own. A category that has probability in
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
    """Return the raked column, (categories, classes), and its total variation from `wanted`."""
    wanted = wanted / wanted.sum()
    # With few reports, maximum likelihood leaves categories less than a ratio can raise again.
    empty = (table @ weights < _EMPTY) & (wanted > 0)
    table = np.where(empty[:, None], wanted[:, None], table)
    # A class with no mass where the marginal has any can only take the marginal itself.
    apart = (table * (wanted > 0)[:, None]).sum(axis=0) == 0
    table = np.where(apart, wanted[:, None], table)
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


def shrink_marginals(
    mixture: LatentClasses, tables: CountTables, queries: Sequence[Query], orders: Sequence[Ints]
) -> LatentClasses:
    """Rake the classes towards shrunk marginals; if an alphabet is long, return them unchanged.

    Arguments:
        mixture: Latent classes whose pieces are atoms.
        tables: All reports.
        queries: Queries of the reports.
        orders: Each column's bins from left to right, none where it is no number.
    """
    if max(len(each.law) for each in queries) > _MAX_CODES:
        return mixture
    own = [mixture.marginal([column]) for column in range(len(orders))]
    found = curvature(tables, np.concatenate([each.law @ own[each.column] for each in queries]))
    slopes = [np.zeros(len(shares)) for shares in own]
    informations = [np.zeros((len(shares), len(shares))) for shares in own]
    for number, (column, law) in enumerate(queries):
        codes = slice(*tables.queries.offsets[number : number + 2])
        slopes[column] += law.T @ found.slope[codes]
        informations[column] += law.T @ found.information[codes, : len(law)] @ law
    wanted = []
    for shares, slope, information, order in zip(own, slopes, informations, orders, strict=True):
        gap = shrunk_shares(shares, slope, information, order) - shares
        length = float(gap @ information @ gap) / max(len(shares) - 1, 1)
        wanted.append(shares + gap / (2 * (1 + 2 * length)))
    return rake(mixture, wanted, tolerance=_RAKING_TOLERANCE)


def shrunk_shares(around: Array, slope: Array, information: Array, order: Ints) -> Array:
    """Average shares p under the prior and the likelihood $s^⊤Δ − ½ Δ^⊤ I Δ$, Δ = p − `around`."""
    smooth_stddevs = _SMOOTH_STDDEVS if len(order) >= _MIN_BINS else (0.0,)
    near = np.zeros((len(around), len(around)))
    if len(smooth_stddevs) > 1:
        places = np.linspace(0, 1, len(order)) / _LENGTH_SCALE
        near[np.ix_(order, order)] = np.exp(-(np.subtract.outer(places, places) ** 2) / 2)
    found, evidence = [], []
    for smooth_stddev in smooth_stddevs:
        for stddev in _STDDEVS:
            covariance = stddev**2 * np.eye(len(around)) + smooth_stddev**2 * near
            root = np.asarray(np.linalg.cholesky(covariance), np.float64)
            shares, value = _Posterior(around, slope, information, root).mode()
            found.append(shares)
            evidence.append(value)
    weights = np.exp(np.array(evidence) - max(evidence))
    return np.asarray(weights @ np.array(found) / weights.sum())


class _Posterior:
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

    def gradient(self, u: Array, shares: Array) -> tuple[Array, Array]:
        """Gradient, and the negative Hessian without the shares' own curvature."""
        turn = shares[:, None] * (self.root - shares @ self.root)
        pull = self.slope - self.information @ (shares - self.around)
        return turn.T @ pull - u, turn.T @ self.information @ turn + np.eye(len(u))

    def mode(self) -> tuple[Array, float]:
        """Find the shares at the maximum (Levenberg, Marquardt), and the log evidence."""
        logs = np.log(np.maximum(self.around, 0.03 / len(self.around)))
        u = np.linalg.solve(self.root, logs - logs.mean())
        (value, shares), damping = self.value(u), 1e-3
        for _ in range(_MAX_STEPS):
            gradient, hessian = self.gradient(u, shares)
            step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
            ahead, there = self.value(u + step)
            if ahead <= value:
                damping *= 10
                if damping > _MAX_DAMPING:
                    break
                continue
            gained, damping = ahead - value, max(damping / 5, 1e-6)
            u, value, shares = u + step, ahead, there
            if gained < _MIN_GAIN:
                break
        return shares, value - np.linalg.slogdet(self.gradient(u, shares)[1])[1] / 2
