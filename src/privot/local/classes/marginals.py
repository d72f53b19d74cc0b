r"""One-way marginals: maximum likelihood, raking of a mixture to marginals, and shrinkage.

**Maximum likelihood** (`stacked_marginals`). Marginals are estimated from all reports about a column
under the assumption that columns are independent, which is the model of `expectation` with one class. If
every report is about one column, as split reports are, the columns separate and the log-likelihood
$\sum_y n_y \ln(1 + (r−1) (Ap)_y)$ is concave in p; for randomized response its maximizer is the unbiased
estimate, clipped at zero and normalized. The cells of a joint report are weighted by the current
marginals of its other columns. This lowers the variance, but causes a bias if columns depend on each
other, which does not vanish with more reports; from about a hundred thousand people on, the marginals of
a model with dependence (`class_fit`) are more accurate.

EM steps $F$ converge slowly, so pairs of steps are extrapolated (SQUAREM, scheme S3): with
$r = F(p) − p$ and $d = F(F(p)) − F(p) − r$, the next point is $p + 2s\,r + s^2 d$ with $s = ‖r‖/‖d‖$,
clipped to be positive and normalized. It is accepted only if the likelihood does not fall.

**Raking** (`rake`) changes a mixture of products so that it has given marginals $m_c$. The probabilities
of a column are scaled by the same factors in every class and normalized,

$$ p_c(v|z) ← \frac{p_c(v|z)\, m_c(v)/\sum_{z'} π_{z'} p_c(v|z')}{\text{its sum over } v} , $$

until $\sum_z π_z p_c(v|z) = m_c(v)$. This is iterative proportional fitting of the table $π_z p_c(v|z)$
to the margins $m_c$ and $π$. Among tables with these margins it finds the closest one in
Kullback–Leibler divergence, and it preserves the odds ratios of class and category, the *dependence*.

**Shrinkage** (`shrink_marginals`). All K estimated shares of a column have about the same noise, so
estimates of rare categories are mostly noise. Neighboring bins of a number differ little. So the shares
have the prior $p = \mathrm{softmax}(η)$ with

$$ η ∼ N(0,\ σ^2 I + κ^2 R), \qquad R_{uv} = \exp\bigl(−(x_u−x_v)^2 / 2ℓ^2\bigr) $$

where u and v are bins of a number at positions x in its range (R is 0 for other codes). The likelihood
of all reports, with the other columns independent, is expanded to second order around the marginals of
the mixture (`curvature`). For each (σ, κ) of a grid the mode of η is found, and the shares are averaged
with their evidence (Laplace's approximation) as weights. So the reports determine how uniform and how
smooth a column is.

Shrunk marginals are biased where columns depend on each other, and the marginals of the mixture are not
shrunk; a mean of both is more accurate. Let Δ be the difference from the mixture's marginals to the
shrunk ones, and $d = Δ^⊤ J Δ$ its squared length in units of the noise, with J the information. The
bias does not vanish with more reports, so only the share

$$ \tfrac12 \Bigm/ \Bigl(1 + \frac{2d}{K−1}\Bigr) $$

of Δ is added: about half if noise explains the difference, and less the more people report. The mixture
is raked to the result, which preserves its dependence.

References:
    Varadhan, Roland, *Simple and globally convergent methods for accelerating the convergence of any
    EM algorithm* (2008). Deming, Stephan (1940); Csiszár, *I-divergence geometry of probability
    distributions* (1975). Efron, Morris, *Stein's estimation rule and its competitors: an empirical
    Bayes approach* (1973); Aitchison, Shen, *Logistic-normal distributions: some properties and uses*
    (1980); MacKay, *Bayesian interpolation* (1992).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privot.core.errors import PrivotError
from privot.local.classes.counts import Array, CountTables, Ints, Query
from privot.local.classes.expectation import curvature, em_step, normalized
from privot.local.classes.mixture import LatentClasses

_EMPTY = 1e-200  # smallest probability that raking can scale
_STDDEVS = (0.3, 0.6, 1.0, 1.5, 2.2, 3.2)  # grid of σ
_SMOOTH_STDDEVS = (0.0, 0.7, 1.5, 3.0)  # grid of κ
_LENGTH_SCALE = 0.15  # ℓ, as a share of a number's range
_MIN_BINS = 4  # fewest bins for which κ > 0 is tried
_MAX_CODES = 300  # longest alphabet that is shrunk: the information is a square table
_MAX_STEPS, _MIN_GAIN = 60, 1e-7  # of the search for a mode; the gain is in nats
_FIRST_DAMPING, _MIN_DAMPING, _MAX_DAMPING = 1e-3, 1e-6, 1e8  # relative to the Hessian's diagonal
_LEAST_SHARE = 0.03  # least share at the start of this search, relative to 1/K
_RAKING_TOLERANCE = 1e-6


def stacked_marginals(
    tables: CountTables,
    *,
    start: Array | None = None,
    tolerance: float = 1e-7,
    max_iterations: int = 3000,
) -> Array:
    """Estimate the probabilities of all columns' pieces, stacked (pieces, 1), by maximum likelihood.

    The search starts at `start`, by default equal probabilities. It stops when three extrapolated steps
    in a row change no probability by more than `tolerance`, or with a warning after `max_iterations`.

    Raises:
        PrivotError: if there is no column.
    """
    if not tables.sizes.size:
        raise PrivotError("sizes is empty: give at least one column")
    p = 1 / np.repeat(tables.sizes, tables.sizes)[:, None] if start is None else start
    small_steps = 0
    for _ in range(max_iterations):
        change, p = _extrapolate(p, tables)
        small_steps = small_steps + 1 if change <= tolerance else 0
        if small_steps == 3:
            return p
    warnings.warn(
        f"column marginals moved by {change:.1e} in the last of {max_iterations} iterations: "
        "raise max_iterations",
        stacklevel=3,
    )
    return p


def _extrapolate(p: Array, tables: CountTables) -> tuple[float, Array]:
    """Extrapolate two EM steps if this is no worse; return the largest change and the new point."""
    one_class, counts = np.ones(1), tables.counts
    once, _ = em_step(tables, p, one_class)
    twice, expectation_once = em_step(tables, once, one_class)
    first, second = once - p, twice - 2 * once + p
    length = float(np.linalg.norm(second))
    if length == 0.0:
        return float(np.abs(first).max()), twice
    stride = max(1.0, float(np.linalg.norm(first)) / length)
    # Probabilities stay above 0, because EM cannot raise a probability of 0.
    point = np.maximum(p + 2 * stride * first + stride**2 * second, 1e-3 * twice)
    extrapolated, expectation_at_point = em_step(tables, normalized(point, tables), one_class)
    is_better = expectation_at_point.total(counts) >= expectation_once.total(counts)
    new_point = extrapolated if is_better else twice
    return float(np.abs(new_point - p).max()), new_point


def rake(
    model: LatentClasses,
    marginals: Sequence[Array],
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 2000,
) -> LatentClasses:
    """Rake a model to marginals, one array of probabilities (categories,) per column.

    A category of positive marginal whose probability in the model is below 1e-200 first gets its
    marginal in every class. Warns if a column's total variation from its marginal is above `tolerance`
    after `max_iterations`.
    """
    raked = []
    for column, (table, marginal) in enumerate(zip(model.probabilities, marginals, strict=True)):
        scaled, error = _rake_column(table, model.weights, marginal, tolerance, max_iterations)
        if error > tolerance:
            warnings.warn(
                f"raking column {column} stopped after {max_iterations} iterations, a total "
                f"variation of {error:.1e} away: raise max_iterations",
                stacklevel=2,
            )
        raked.append(scaled)
    return LatentClasses(model.weights, tuple(raked))


def _rake_column(
    table: Array, weights: Array, marginal: Array, tolerance: float, max_iterations: int
) -> tuple[Array, float]:
    """Return the raked column (categories, classes), and its total variation from `marginal`."""
    marginal = marginal / marginal.sum()
    # With few reports, maximum likelihood leaves probabilities too small to be scaled.
    empty = (table @ weights < _EMPTY) & (marginal > 0)
    table = np.where(empty[:, None], marginal[:, None], table)
    # A class without mass on the support of the marginal gets the marginal itself.
    disjoint = (table * (marginal > 0)[:, None]).sum(axis=0) == 0
    table = np.where(disjoint, marginal[:, None], table)
    table = table / table.sum(axis=0)
    error = np.inf
    for _ in range(max_iterations):
        reached = table @ weights
        error = float(np.abs(reached - marginal).sum() / 2)
        if error <= tolerance:
            break
        factor = np.divide(marginal, reached, out=np.zeros_like(marginal), where=reached > 0)
        table = table * factor[:, None]
        table = table / table.sum(axis=0)
    return table, error


def shrink_marginals(
    mixture: LatentClasses, tables: CountTables, queries: Sequence[Query], orders: Sequence[Ints]
) -> LatentClasses:
    """Rake a mixture towards shrunk marginals; if an alphabet is too long, return it unchanged.

    Arguments:
        mixture: Latent classes whose pieces are atoms.
        tables: All reports.
        queries: Queries of the reports.
        orders: For each column that is a number, its bins from left to right; else an empty array.
    """
    if max(len(query.law) for query in queries) > _MAX_CODES:
        return mixture
    marginals = [mixture.marginal([column]) for column in range(len(orders))]
    q = np.concatenate([law @ marginals[column] for column, law in queries])
    expansion = curvature(tables, q)
    slopes = [np.zeros(len(shares)) for shares in marginals]
    informations = [np.zeros((len(shares), len(shares))) for shares in marginals]
    for number, (column, law) in enumerate(queries):  # law (codes, K): P(code | category)
        codes = slice(*tables.queries.offsets[number : number + 2])
        slopes[column] += law.T @ expansion.slope[codes]
        informations[column] += law.T @ expansion.information[codes, : len(law)] @ law
    targets = []
    for column, shares in enumerate(marginals):
        information = informations[column]
        gap = shrunk_shares(shares, slopes[column], information, orders[column]) - shares
        squared = float(gap @ information @ gap) / max(len(shares) - 1, 1)  # d/(K − 1)
        targets.append(shares + gap / (2 * (1 + 2 * squared)))
    return rake(mixture, targets, tolerance=_RAKING_TOLERANCE)


def shrunk_shares(around: Array, slope: Array, information: Array, order: Ints) -> Array:
    """Estimate shares p (K,) for the log-likelihood $s^⊤Δ − ½ Δ^⊤ J Δ$ of Δ = p − `around`.

    The slope is s (K,), the information is J (K, K), and `order` is described in `shrink_marginals`.
    """
    smooth_stddevs = _SMOOTH_STDDEVS if len(order) >= _MIN_BINS else (0.0,)
    correlation = np.zeros((len(around), len(around)))  # R
    if len(smooth_stddevs) > 1:
        places = np.linspace(0, 1, len(order)) / _LENGTH_SCALE
        correlation[np.ix_(order, order)] = np.exp(-(np.subtract.outer(places, places) ** 2) / 2)
    modes, evidence = [], []
    for smooth_stddev in smooth_stddevs:
        for stddev in _STDDEVS:
            covariance = stddev**2 * np.eye(len(around)) + smooth_stddev**2 * correlation
            root = np.asarray(np.linalg.cholesky(covariance), np.float64)
            shares, value = _Posterior(around, slope, information, root).mode()
            modes.append(shares)
            evidence.append(value)
    weights = np.exp(np.array(evidence) - max(evidence))
    return np.asarray(weights @ np.array(modes) / weights.sum())


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Posterior density of u (K,), where η = A u, and u is a priori standard normal."""

    around: Array  # see `shrunk_shares`
    slope: Array
    information: Array
    root: Array  # A (K, K)

    def value(self, u: Array) -> tuple[float, Array]:
        """Compute the log density of u, up to a constant, and the shares of u."""
        logs = self.root @ u
        shares = np.exp(logs - logs.max())
        shares = shares / shares.sum()
        gap = shares - self.around
        return float(self.slope @ gap - gap @ self.information @ gap / 2 - u @ u / 2), shares

    def derivatives(self, u: Array, shares: Array) -> tuple[Array, Array]:
        """Compute the gradient in u, and the Gauss–Newton approximation of the negative Hessian."""
        jacobian = shares[:, None] * (self.root - shares @ self.root)
        slope = self.slope - self.information @ (shares - self.around)
        return jacobian.T @ slope - u, jacobian.T @ self.information @ jacobian + np.eye(len(u))

    def mode(self) -> tuple[Array, float]:
        """Find the shares at the mode (Levenberg–Marquardt), and the log evidence."""
        logs = np.log(np.maximum(self.around, _LEAST_SHARE / len(self.around)))
        u = np.linalg.solve(self.root, logs - logs.mean())
        (value, shares), damping = self.value(u), _FIRST_DAMPING
        for _ in range(_MAX_STEPS):
            gradient, hessian = self.derivatives(u, shares)
            step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
            new_value, new_shares = self.value(u + step)
            if new_value <= value:
                damping *= 10
                if damping > _MAX_DAMPING:
                    break
                continue
            gain, damping = new_value - value, max(damping / 5, _MIN_DAMPING)
            u, value, shares = u + step, new_value, new_shares
            if gain < _MIN_GAIN:
                break
        _, hessian = self.derivatives(u, shares)
        return shares, value - np.linalg.slogdet(hessian)[1] / 2
