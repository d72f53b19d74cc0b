r"""One-way marginals: maximum likelihood, raking, shrinkage, and curves of numbers in several alphabets.

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

**Curves** (`curves_of_numbers`). Several alphabets with few codes and different edges have little
information about a single atom (`privot.local.releases`). So the density over a number's atoms has the
prior of `privot.local.deconvolution`: its logarithm is smooth, and estimates of different smoothness are
averaged by their evidence. The distance of two atoms is relative to the mean width of the atoms near
them. So the curve may vary faster where alphabets are fine, and does not jump at narrow atoms between
the edges of two alphabets. The likelihood is expanded to second order around the marginals, with all
other columns at their marginals (`curvature`), and once more around the first curves.

**Peaks** are atoms that deviate from any smooth curve, such as 40 working hours. The atom that most
exceeds both its neighbors gets a free term in the logarithm, if this increases the log evidence by more
than the logarithm of the number of atoms; then the next atom is tried.

**Tails.** A smooth density may have mass where reports give no evidence of people; 0.01 % at the far end
of wide bounds can double a standard deviation. So a tail with at most half a percent of the mass is
multiplied by $10^{−4}$ if this lowers the log-likelihood by at most half a nat.

**Bumps** (`Pieces`). Reports with few codes determine in which code, but not where within it, the people
of a class are. So in class z a number in several alphabets has the distribution

$$ p(v | z) = \sum_b θ_{bz} h_b(v) , \qquad
   h_b(v) = m(v)\, φ_b(u_v) \Big/ \sum_{v'} m(v')\, φ_b(u_{v'}) , $$

where m is the curve, $u_v$ the share of people below atom v, and φ are hat functions of u with equal
distances, whose sum is 1. If θ are the bumps' shares of m, the distribution is m itself. Within a bump
it has the shape of the curve. Peaks, spikes, missing values and atoms with more mass than an average
bump are pieces of their own and do not count in u.

**Mass points** (`place_mass_points`). Reports do not show which number within an atom has the mass of a
peak: no alphabet separates 40 from 41 in an atom from 40 to 42. The mass of an integer peak above the
curve is put on the **roundest** number of the atom, which has the fewest digits (of dates: the first day
of a year or month). This assumes that people round, which reports cannot confirm. If the assumption is
wrong, values and quantiles are off by less than the atom's width. A peak of numbers that are not
integers may be a narrow distribution and gets no mass point.

**Privacy review.** Marginals and curves are functions of reports alone; everything else is a function of
the schema.

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
from functools import cached_property
from typing import Self, cast

import numpy as np
import scipy

from privot.core.errors import PrivotError
from privot.local.classes.counts import Array, CountTables, Ints, Query, ReportGroup, count_tables
from privot.local.classes.expectation import curvature, em_step, normalized
from privot.local.classes.mixture import LatentClasses
from privot.local.deconvolution import (
    ORDERS,
    GridFit,
    Hats,
    Likelihood,
    SmoothPrior,
    average_over_priors,
)
from privot.local.releases import Atoms, Places
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.numeric import NumberColumn
from privot.schema.sampling import LineCells

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
# Curves of numbers.
_NEIGHBORS = 6  # atoms on either side whose widths are averaged
_STRENGTHS = np.logspace(3, -3, 13)  # of the prior, for the final average
_FEW_STRENGTHS = np.logspace(2, -2, 5)  # of the prior, while peaks are searched
_MAX_PEAKS, NUM_BUMPS = 8, 10
_ROUNDS = 2  # expansions of the likelihood
_MAX_LOSS = 0.5  # largest loss of log-likelihood by removing a tail: that of one standard error
_MAX_TAIL_MASS, _TAIL_FACTOR = 0.005, 1e-4  # largest mass of a tail; factor that removes it


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
        raise PrivotError("tables has no column: give at least one")
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


@dataclass(frozen=True, eq=False)
class Curve:
    """Marginal distribution of one column over its atoms, with its peaks."""

    marginal: Array  # probabilities of atoms (a,)
    peaks: Ints  # numbers of the atoms that are peaks (p,)
    excess: Array  # share of each peak's probability that is above the curve (p,)


@dataclass(frozen=True, eq=False)
class SecondOrder(Likelihood):
    """Likelihood of a column's weights w, expanded to second order around G w = q."""

    law: Array  # G, the probability of each code of the column's queries (codes, weights)
    around: Array  # q (codes,)
    code_slope: Array  # slope in q (codes,)
    code_information: Array  # information in q (codes, codes)
    hats: Hats  # hats of the weights

    def value(self, weights: Array) -> float:
        gap = self.law @ weights - self.around
        return float(self.code_slope @ gap - gap @ self.code_information @ gap / 2)

    def slope(self, weights: Array) -> Array:
        gap = self.law @ weights - self.around
        return np.asarray(self.law.T @ (self.code_slope - self.code_information @ gap))

    def information(self, weights: Array, change: Array) -> Array:
        code_change = self.law @ change
        return np.asarray(code_change.T @ self.code_information @ code_change)


@dataclass(frozen=True, eq=False)
class OrderedAtoms:
    """Atoms of a number, ordered: intervals from left to right, then points and missing values."""

    cells: LineCells  # cells of the atoms

    @cached_property
    def order(self) -> Ints:
        """Atoms' indices in this order (a,)."""
        intervals = self.cells.in_order
        return np.concatenate([intervals, np.setdiff1d(np.arange(len(self.cells.low)), intervals)])

    @cached_property
    def axis(self) -> Array:
        """Positions of the intervals in [−1, 1], with distances relative to the mean width nearby."""
        widths = self.cells.widths
        places = np.arange(len(widths))
        near = np.abs(np.subtract.outer(places, places)) <= _NEIGHBORS
        steps = widths / np.exp((near @ np.log(widths)) / near.sum(axis=1))
        centers = np.cumsum(steps) - steps / 2
        return np.asarray(2 * (centers - centers[0]) / (centers[-1] - centers[0]) - 1)

    @cached_property
    def hats(self) -> Hats:
        """Hats with relative widths, of sum 1, as volumes; a point or missing values have volume 1."""
        widths = self.cells.widths
        return Hats(np.append(widths / widths.sum(), np.ones(len(self.order) - len(widths))))

    def fit_curve(self, likelihood: SecondOrder) -> Curve:
        """Fit a curve to the likelihood of the weights (a,) of the atoms in `order`."""
        peaks = self._find_peaks(likelihood)
        fitted = self._fit_weights(likelihood, peaks, ORDERS, _STRENGTHS)
        weights = self._trim_tails(likelihood, fitted.weights)
        marginal = np.empty(len(weights))
        marginal[self.order] = weights
        return Curve(marginal, self.order[peaks], self._excess(weights, peaks))

    def _find_peaks(self, likelihood: SecondOrder) -> list[int]:
        """Find the peaks, as positions of intervals in `order`."""
        peaks: list[int] = []
        fitted = self._fit_weights(likelihood, peaks, ORDERS[:1], _FEW_STRENGTHS)
        while len(peaks) < _MAX_PEAKS:
            logs = self._log_density(fitted.weights)
            padded = np.pad(logs, 1, mode="reflect")
            height = logs - np.maximum(padded[:-2], padded[2:])
            height[peaks] = -np.inf
            more_peaks = [*peaks, int(height.argmax())]
            refitted = self._fit_weights(likelihood, more_peaks, ORDERS[:1], _FEW_STRENGTHS)
            if refitted.evidence < fitted.evidence + np.log(len(logs)):
                break
            peaks, fitted = more_peaks, refitted
        return peaks

    def _fit_weights(
        self, likelihood: SecondOrder, peaks: list[int], orders: Sequence[int], strengths: Array
    ) -> GridFit:
        """Average the fits over orders of smoothness and strengths of the prior."""
        priors = [SmoothPrior.of(order, self.axis, len(self.order), peaks) for order in orders]
        return average_over_priors(likelihood, priors, strengths=strengths)

    def _log_density(self, weights: Array) -> Array:
        """Compute the logarithm of the density in each interval."""
        count = len(self.axis)
        return np.asarray(np.log(weights[:count] / self.hats.volumes[:count]))

    def _excess(self, weights: Array, peaks: list[int]) -> Array:
        """Compute the share of each peak's weight above the interpolated density of the others."""
        others = np.setdiff1d(np.arange(len(self.axis)), peaks)
        logs = self._log_density(weights)
        log_ratio = np.interp(self.axis[peaks], self.axis[others], logs[others]) - logs[peaks]
        return np.asarray(np.clip(1 - np.exp(log_ratio), 0.0, 1.0))

    def _trim_tails(self, likelihood: SecondOrder, weights: Array) -> Array:
        """Scale down the longest tail on either side whose removal costs at most half a nat."""
        count = len(self.axis)
        for right in (True, False):
            value, trimmed = likelihood.value(weights), weights
            for length in range(1, count):
                tail = slice(count - length, count) if right else slice(0, length)
                if weights[tail].sum() > _MAX_TAIL_MASS:
                    break
                tried = weights.copy()
                tried[tail] *= _TAIL_FACTOR
                tried /= tried.sum()
                if likelihood.value(tried) > value - _MAX_LOSS:
                    trimmed = tried
            weights = trimmed
        return weights


def curves_of_numbers(
    atoms: Sequence[Atoms], queries: Sequence[Query], groups: Sequence[ReportGroup]
) -> dict[int, Curve]:
    """Fit a curve for every number reported in several alphabets; return curves by column number."""
    queries_of_column: dict[int, list[int]] = {}
    for number, query in enumerate(queries):
        queries_of_column.setdefault(query.column, []).append(number)
    sizes = [len(query.law) for query in queries]
    ordered_atoms: dict[int, OrderedAtoms] = {}
    for column, numbers in queries_of_column.items():
        cells, largest = atoms[column].cells, max(sizes[number] for number in numbers)
        # A curve needs more than three intervals, and several alphabets, all with fewer codes.
        if cells is not None and len(numbers) > 1 and max(3, largest) < len(cells.widths):
            ordered_atoms[column] = OrderedAtoms(cells)
    if not ordered_atoms:
        return {}
    tables = count_tables(groups, sizes)
    q = stacked_marginals(tables, tolerance=1e-4)[:, 0]  # probabilities of the queries' codes
    curves: dict[int, Curve] = {}
    for _ in range(_ROUNDS):
        expansion = curvature(tables, q)
        for column, line in ordered_atoms.items():
            numbers = queries_of_column[column]
            codes_by_query = [np.arange(*tables.offsets[i : i + 2]) for i in numbers]
            codes, law = np.hstack(codes_by_query), np.vstack([queries[i].law for i in numbers])
            # Rows of the information are padded to the largest query.
            blocks = [expansion.information[rows, : len(rows)] for rows in codes_by_query]
            slope, information = expansion.slope[codes], scipy.linalg.block_diag(*blocks)
            curves[column] = line.fit_curve(
                SecondOrder(law[:, line.order], q[codes], slope, information, line.hats)
            )
        for column, curve in curves.items():
            for number in queries_of_column[column]:
                codes_of_query = slice(*tables.offsets[number : number + 2])
                q[codes_of_query] = queries[number].law @ curve.marginal
    return curves


@dataclass(frozen=True, eq=False)
class Pieces:
    """Components of one column's distribution: its atoms, or bumps and peaks of a curve."""

    law: Array  # probability of each atom in each piece (a, pieces)
    shares: Array  # shares of the pieces in the marginal (pieces,); equal without a curve
    curve: Curve | None = None  # curve of a number reported in several alphabets

    @classmethod
    def bumps(cls, curve: Curve, cells: LineCells) -> Self:
        """Divide a curve into bumps; peaks and atoms of large probability are pieces of their own.

        Examples:
            >>> cells = LineCells(np.arange(50.0), np.arange(50.0) + 1, integer=False)
            >>> curve = Curve(np.full(50, 0.02), np.array([7]), np.zeros(1))
            >>> pieces = Pieces.bumps(curve, cells)
            >>> pieces.law.shape, bool(np.allclose(pieces.law @ pieces.shares, 0.02))
            ((50, 11), True)
        """
        marginal = curve.marginal
        heavy = np.flatnonzero(marginal > 1 / NUM_BUMPS)
        smooth = np.setdiff1d(cells.in_order, np.concatenate([curve.peaks, heavy]))
        smooth = smooth[np.argsort(cells.low[smooth], kind="stable")]
        others = np.setdiff1d(np.arange(len(marginal)), smooth)
        mass_below = np.cumsum(marginal[smooth]) - marginal[smooth] / 2
        u = mass_below / max(marginal[smooth].sum(), 1e-300)
        hats = np.maximum(1 - np.abs(u[:, None] * (NUM_BUMPS - 1) - np.arange(NUM_BUMPS)), 0.0)
        # Joint probabilities of atoms and pieces: the bumps, then all other atoms, which keep positive
        # shares, because EM cannot raise a probability of 0.
        joint = np.zeros((len(marginal), NUM_BUMPS + len(others)))
        joint[smooth, :NUM_BUMPS] = marginal[smooth, None] * hats
        joint[others, NUM_BUMPS + np.arange(len(others))] = np.maximum(marginal[others], 1e-12)
        joint = joint[:, joint.sum(axis=0) > 0]
        shares = joint.sum(axis=0)
        return cls(joint / shares, shares / shares.sum(), curve)


def pieces_of_columns(
    atoms: Sequence[Atoms], queries: Sequence[Query], groups: Sequence[ReportGroup]
) -> tuple[list[Pieces], list[Query]]:
    """Return the pieces of every column, and the queries with these pieces in place of atoms."""
    curves = curves_of_numbers(atoms, queries, groups)
    pieces = []
    for number, column in enumerate(atoms):
        if number in curves and column.cells is not None:
            pieces.append(Pieces.bumps(curves[number], column.cells))
        else:
            size = len(column.codes)
            pieces.append(Pieces(np.eye(size), np.full(size, 1 / size)))
    return pieces, [Query(column, law @ pieces[column].law) for column, law in queries]


def place_mass_points(column: CodedColumn, atoms: Atoms, pieces: Pieces) -> tuple[Places, Array]:
    """Return a column's places: atoms, then mass points; and P(place | piece) (places, pieces)."""
    cells, curve = atoms.cells, pieces.curve
    if cells is None or curve is None or not cells.integer:
        return Places(atoms.codes, atoms.cells), pieces.law
    numbers = cast("NumberColumn", column)
    wide = cells.high[curve.peaks] > cells.low[curve.peaks] + 1
    peaks, excess = curve.peaks[wide], curve.excess[wide]
    low, high = cells.low[peaks], cells.high[peaks] - 1
    points = np.array([round(numbers.round_between(*ends)) for ends in zip(low, high, strict=True)])
    points = np.clip(points, low, high)
    unlisted = ~np.isin(points, cells.points)  # a declared spike is an atom of its own
    peaks, excess, points = peaks[unlisted], excess[unlisted], points[unlisted]
    count = len(atoms.codes)
    split = np.vstack([np.eye(count), np.zeros((len(peaks), count))])
    split[peaks, peaks] = 1 - excess
    split[count + np.arange(len(peaks)), peaks] = excess
    codes = np.append(atoms.codes, atoms.codes[peaks])
    ends = np.append(cells.low, points), np.append(cells.high, points)
    return Places(codes, LineCells(*ends, integer=True)), split @ pieces.law
