r"""Marginals of numbers reported in several alphabets: smooth curves over atoms, bumps, and mass points.

**Curves** (`curves_of_numbers`). Alphabets with few codes and different edges have little information
about a single atom (`privot.local.releases`). So the density over atoms has the prior of
`privot.local.deconvolution`: its logarithm is smooth, and estimates of different smoothness are averaged
by their evidence. The distance of two atoms is relative to the mean width of the atoms near them. So the
curve may vary faster where alphabets are fine, and does not jump at narrow atoms between the edges of
two alphabets. The likelihood is expanded to second order around the marginals, with all other columns at
their marginals (`curvature`), and once more around the first curves.

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

**Privacy review.** Curves are functions of reports alone; everything else is a function of the schema.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, cast

import numpy as np
import scipy

from privot.local.classes.counts import Array, Ints, Query, ReportGroup, count_tables
from privot.local.classes.expectation import curvature
from privot.local.classes.marginals import stacked_marginals
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

_NEIGHBORS = 6  # atoms on either side whose widths are averaged
_STRENGTHS = np.logspace(3, -3, 13)  # of the prior, for the final average
_FEW_STRENGTHS = np.logspace(2, -2, 5)  # of the prior, while peaks are searched
_MAX_PEAKS, NUM_BUMPS = 8, 10
_ROUNDS = 2  # expansions of the likelihood
_MAX_LOSS = 0.5  # largest loss of log-likelihood by removing a tail: that of one standard error
_MAX_TAIL_MASS, _TAIL_FACTOR = 0.005, 1e-4  # largest mass of a tail; factor that removes it


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
