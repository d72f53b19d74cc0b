r"""Marginals of numbers reported in several alphabets: curves over atoms, bumps, and mass points.

**Curve** (`curves_of_numbers`). Alphabets with few codes, each with its own edges, say little of any one
atom. So the density over atoms has a prior, that of a single number's density
(`privot.local.grid.deconvolution`): its logarithm is smooth, averaged over how smooth by the evidence of
the reports. Places of atoms are not measured in the column's unit but in atoms, as many to a unit as
lie around: where alphabets are fine, more may happen. (Widths themselves would let a sliver between two
alphabets' edges jump.) The likelihood is that of reports with all other columns at their marginals, to
second order around them (`curvature`), recomputed once the curves are known.

**Peaks** are off any smooth curve: "47 % work exactly 40 hours". An atom that is more likely than both
its neighbors gets a logarithm of its own if the evidence grows by more than the logarithm of the number
of atoms to choose from, the most outstanding first.

**Tails** are where a smooth density puts people without evidence: one in ten thousand at the far end of
wide bounds may double a standard deviation and halve a correlation. A tail that holds half a percent at
most is all but removed if the reports are as likely without it, up to half a nat.

**Bumps** (`Pieces`). Reports of few codes locate a class's people on the line, not within a code. So in
a class z a number in several alphabets has the law

$$ p(v | z) = \sum_b θ_{bz} h_b(v) , \qquad
   h_b(v) = m(v)\, φ_b(u_v) \Big/ \sum_{v'} m(v')\, φ_b(u_{v'}) , $$

m its curve, u the share of people below an atom, φ hats at equal distances of u, which sum to 1. With θ
the bumps' shares of m, it is m itself: within a bump the law has the curve's shape, and from bump to
bump it is as smooth as the curve. Peaks, spikes and missing values are pieces of their own; they take
no part in u.

**Mass points** (`place_mass_points`). A mass on the atom from 40 to 42, say, is of no known number: no
query separates 40, so no report does, whatever their number. What a peak of integers has above the
curve is put on one number, the **roundest** of the atom: fewest digits, of dates the first of a year or
month. It is an assumption, that people round, and nothing in reports can confirm it. Where it is wrong,
and people work 42, nobody is off by more than the atom's width: a distribution function may err by that
mass in between, a quantile by less than the width. Spread over the atom, the mass would be wrong
wherever it is. Numbers that are not integers are not rounded: their peaks may be narrow laws.

**Privacy review.** A function of the schema, and of a curve, which is learned from reports alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy

from privot.local.classes.counts import Array, Ints, Query, ReportGroup, count_tables
from privot.local.classes.expectation import curvature
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.mixture import Places
from privot.local.grid.deconvolution import ORDERS, Hats, SmoothPrior, average
from privot.local.releases import Atoms
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.numeric import NumberColumn
from privot.schema.columns.vector import LineCells

_NEIGHBORS = 6  # atoms on either side, over whose widths a place's width is averaged
_STRENGTHS = np.logspace(3, -3, 13)
_FEW_STRENGTHS = np.logspace(2, -2, 5)
_MAX_PEAKS = 8
_ROUNDS = 2
_MAX_LOSS = 0.5  # nats that removing a tail may cost: one standard error
_MAX_TAIL_MASS = 0.005
_TAIL_FACTOR = 1e-4  # by which a removed tail is multiplied
NUM_BUMPS = 10


@dataclass(frozen=True, eq=False)
class Curve:
    """The marginal of one column, and its peaks."""

    marginal: Array  # probabilities of atoms (a,)
    peaks: Ints  # numbers of the atoms that are peaks
    excess: Array  # share of each peak's probability above the curve without it


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """A `Likelihood` of weights w, to second order around G w = q."""

    law: Array  # G, of all codes of the column's queries (codes, weights)
    around: Array  # q
    slope_around: Array  # the slope at q (codes,)
    curvature_matrix: Array  # the information (codes, codes)
    hats: Hats  # hats of the weights

    def value(self, weights: Array) -> float:
        """Compute the log-likelihood, up to a constant."""
        gap = self.law @ weights - self.around
        return float(self.slope_around @ gap - gap @ self.curvature_matrix @ gap / 2)

    def slope(self, weights: Array) -> Array:
        """Compute the gradient in the weights."""
        gap = self.law @ weights - self.around
        return np.asarray(self.law.T @ (self.slope_around - self.curvature_matrix @ gap))

    def information(self, weights: Array, change: Array) -> Array:
        """Compute the information along changes of the weights, the columns of `change`."""
        moved = self.law @ change
        return np.asarray(moved.T @ self.curvature_matrix @ moved)


@dataclass(frozen=True, eq=False)
class OrderedAtoms:
    """Atoms of a number in order: intervals from left to right, then points and missing values."""

    cells: LineCells  # the atoms' cells

    @cached_property
    def order(self) -> Ints:
        """Numbers of the atoms, in order."""
        wide = self.cells.in_order
        return np.concatenate([wide, np.setdiff1d(np.arange(len(self.cells.low)), wide)])

    @cached_property
    def axis(self) -> Array:
        """Places of the intervals in [−1, 1]."""
        widths = self.cells.widths
        number = np.arange(len(widths))
        near = np.abs(np.subtract.outer(number, number)) <= _NEIGHBORS
        steps = widths / np.exp((near @ np.log(widths)) / near.sum(axis=1))
        centers = np.cumsum(steps) - steps / 2
        return np.asarray(2 * (centers - centers[0]) / (centers[-1] - centers[0]) - 1)

    @cached_property
    def hats(self) -> Hats:
        """Hats with widths in atoms as volumes; points and missing values have the volume of all."""
        widths = self.cells.widths
        relative = widths / widths.sum()
        return Hats(np.append(relative, np.ones(len(self.order) - len(widths))))

    def priors(self, orders: Sequence[int], peaks: Sequence[int]) -> list[SmoothPrior]:
        """Build one prior per order; `peaks` are intervals, by their place in the order."""
        return [SmoothPrior.of(order, self.axis, len(self.order), peaks) for order in orders]

    def excess(self, weights: Array, peaks: Sequence[int]) -> Array:
        """Compute the share of each peak's weight above a curve through the others' densities."""
        inside = np.arange(len(self.axis))
        others = np.setdiff1d(inside, peaks)
        logs = np.log(weights[inside] / self.hats.volumes[inside])
        beyond = np.interp(self.axis[peaks], self.axis[others], logs[others]) - logs[peaks]
        return np.asarray(np.clip(1 - np.exp(beyond), 0.0, 1.0))

    def fit(self, likelihood: SecondOrder) -> tuple[Array, list[int]]:
        """Find weights in order, and the intervals that are peaks."""
        peaks: list[int] = []

        def evidence(peaks: Sequence[int]) -> tuple[Array, float]:
            found = average(likelihood, self.priors(ORDERS[:1], peaks), strengths=_FEW_STRENGTHS)
            return found.weights, found.evidence

        weights, reached = evidence(peaks)
        while len(peaks) < _MAX_PEAKS:
            logs = np.log(weights[: len(self.axis)] / self.hats.volumes[: len(self.axis)])
            beside = np.pad(logs, 1, mode="reflect")
            height = logs - np.maximum(beside[:-2], beside[2:])
            height[peaks] = -np.inf
            tried = [*peaks, int(height.argmax())]
            found, after = evidence(tried)
            if after < reached + np.log(len(logs)):
                break
            peaks, weights, reached = tried, found, after
        weights = average(likelihood, self.priors(ORDERS, peaks), strengths=_STRENGTHS).weights
        return self.trim_tails(likelihood, weights), peaks

    def trim_tails(self, likelihood: SecondOrder, weights: Array) -> Array:
        """All but remove the longest tails whose removal costs at most half a nat of likelihood."""
        last = len(self.axis)
        for outward in (1, -1):
            reached, trimmed = likelihood.value(weights), weights
            for cut in range(1, last):
                tail = slice(last - cut, last) if outward > 0 else slice(0, cut)
                if weights[tail].sum() > _MAX_TAIL_MASS:
                    break
                tried = weights.copy()
                tried[tail] *= _TAIL_FACTOR
                tried /= tried.sum()
                if likelihood.value(tried) > reached - _MAX_LOSS:
                    trimmed = tried
            weights = trimmed
        return weights


def curves_of_numbers(
    atoms: Sequence[Atoms], queries: Sequence[Query], groups: Sequence[ReportGroup]
) -> dict[int, Curve]:
    """Fit the curve of every column of numbers reported in several alphabets, by its number."""
    by_column: dict[int, list[int]] = {}
    sizes = [len(query.law) for query in queries]
    for number, query in enumerate(queries):
        by_column.setdefault(query.column, []).append(number)
    lines = {
        column: OrderedAtoms(cells)
        for column, numbers in by_column.items()
        if (cells := atoms[column].cells) is not None
        and len(numbers) > 1
        and max(3, *(sizes[number] for number in numbers)) < len(cells.widths)
    }
    if not lines:
        return {}
    tables = count_tables(groups, sizes)
    q = stacked_marginals(tables, tolerance=1e-4)[:, 0]
    curves: dict[int, Curve] = {}
    for _ in range(_ROUNDS):
        found = curvature(tables, q)
        for column, line in lines.items():
            numbers = by_column[column]
            codes = [np.arange(*tables.offsets[number : number + 2]) for number in numbers]
            flat, law = np.concatenate(codes), np.concatenate([queries[n].law for n in numbers])
            matrix = scipy.linalg.block_diag(*(found.information[c, : len(c)] for c in codes))
            likelihood = SecondOrder(
                law[:, line.order], q[flat], found.slope[flat], matrix, line.hats
            )
            weights, peaks = line.fit(likelihood)
            marginal = np.empty(len(weights))
            marginal[line.order] = weights
            curves[column] = Curve(marginal, line.order[peaks], line.excess(weights, peaks))
        for column, curve in curves.items():
            for number in by_column[column]:
                q[slice(*tables.offsets[number : number + 2])] = (
                    queries[number].law @ curve.marginal
                )
    return curves


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of one column's law: its atoms, or bumps and peaks of a curve."""

    law: Array  # probabilities of atoms in each piece (a, pieces)
    shares: Array  # shares of the pieces in the marginal; equal where no curve is known
    curve: Curve | None = None  # the curve of a number reported in several alphabets

    @classmethod
    def atoms(cls, number: int) -> Pieces:
        """Return one piece per atom."""
        return cls(np.eye(number), np.full(number, 1 / number))

    @classmethod
    def bumps(cls, curve: Curve, cells: LineCells) -> Pieces:
        """Cut a curve into bumps, with peaks and heavy atoms on their own.

        Examples:
            >>> cells = LineCells(np.arange(50.0), np.arange(50.0) + 1, integer=False)
            >>> curve = Curve(np.full(50, 0.02), np.array([7]), np.zeros(1))
            >>> found = Pieces.bumps(curve, cells)
            >>> found.law.shape, bool(np.allclose(found.law @ found.shares, 0.02))
            ((50, 11), True)
        """
        marginal = curve.marginal
        heavy = np.flatnonzero(marginal > 1 / NUM_BUMPS)
        smooth = np.setdiff1d(cells.in_order, np.concatenate([curve.peaks, heavy]))
        smooth = smooth[np.argsort(cells.low[smooth], kind="stable")]
        others = np.setdiff1d(np.arange(len(marginal)), smooth)
        below = np.cumsum(marginal[smooth]) - marginal[smooth] / 2
        places = below / max(marginal[smooth].sum(), 1e-300) * (NUM_BUMPS - 1)
        hats = np.maximum(1 - np.abs(places[:, None] - np.arange(NUM_BUMPS)), 0.0)
        joint = np.zeros((len(marginal), NUM_BUMPS + len(others)))
        joint[smooth, :NUM_BUMPS] = marginal[smooth, None] * hats
        joint[others, NUM_BUMPS + np.arange(len(others))] = np.maximum(marginal[others], 1e-12)
        joint = joint[:, joint.sum(axis=0) > 0]
        shares = joint.sum(axis=0)
        return cls(joint / shares, shares / shares.sum(), curve)


def pieces_of_columns(
    atoms: Sequence[Atoms], queries: Sequence[Query], groups: Sequence[ReportGroup]
) -> tuple[list[Pieces], list[Query]]:
    """Return the pieces of every column, and the queries in terms of them."""
    curves = curves_of_numbers(atoms, queries, groups)
    pieces = [
        Pieces.bumps(curves[column], own.cells)
        if column in curves and own.cells is not None
        else Pieces.atoms(len(own.codes))
        for column, own in enumerate(atoms)
    ]
    return pieces, [Query(each.column, each.law @ pieces[each.column].law) for each in queries]


def place_mass_points(column: CodedColumn, atoms: Atoms, pieces: Pieces) -> tuple[Places, Array]:
    """Return a column's places, mass points after its atoms, and its pieces' law of them."""
    cells, curve = atoms.cells, pieces.curve
    if cells is None or curve is None or not cells.integer:
        return Places(atoms.codes, atoms.cells), pieces.law
    numbers = cast("NumberColumn", column)
    wide = cells.high[curve.peaks] > cells.low[curve.peaks] + 1
    own, share = curve.peaks[wide], curve.excess[wide]
    low, high = cells.low[own], cells.high[own] - 1
    points = np.array([round(numbers.round_between(*ends)) for ends in zip(low, high, strict=True)])
    points = np.clip(points, low, high)
    count = len(atoms.codes)
    split = np.vstack([np.eye(count), np.zeros((len(own), count))])
    split[own, own] = 1 - share
    split[count + np.arange(len(own)), own] = share
    codes = np.append(atoms.codes, atoms.codes[own])
    ends = np.append(cells.low, points), np.append(cells.high, points)
    return Places(codes, LineCells(*ends, integer=True)), split @ pieces.law
