"""Marginals of numbers asked in several alphabets: a curve over their atoms, and atoms that stand out.

Alphabets with few codes, each at its own places, say little of any one atom. So the density over atoms
has a prior, that of a single number's density (`privot.local.grid.deconvolution`): its logarithm is not
rough, how little is averaged by the evidence of the reports. Places of atoms are not measured in the
column's unit but in atoms, as many to a unit as lie around: where alphabets look closely, more may
happen. (Widths themselves would let a sliver between two alphabets' edges jump.)

**What stands out** is no curve's: "47 % work exactly 40 hours". An atom that is more likely than both
its neighbors gets a logarithm of its own if the evidence grows by more than the logarithm of how many
atoms there are to choose from, the most outstanding first.

**Tails** are where a smooth density has people whom nobody told: one in ten thousand at the far end of
wide bounds may double a standard deviation and halve a correlation. Where reports are as likely
without a tail, up to half a nat, and it holds half a percent at most, next to nothing of it is left.

The likelihood is that of reports with all other columns at their marginals, to second order around them
(`curvature`), taken anew once the curves are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from privot.local.classes.counts import Array, Ints, Question, ReportGroup, count_tables
from privot.local.classes.expectation import Curvature, curvature
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.mixture import Places
from privot.local.grid.deconvolution import ORDERS, Hats, Shapes, average
from privot.local.releases import Atoms
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.number import NumberColumn
from privot.schema.columns.vector import LineCells

_AROUND = 6  # atoms on either side whose mean width is that of the place
_STRENGTHS = np.logspace(3, -3, 13)
_FEW_STRENGTHS = np.logspace(2, -2, 5)
_MOST_ALONE = 8
_ROUNDS = 2
_TELLS = 0.5  # nats, by which a tail is told from nobody: one standard error
_MOST_GHOSTS = 0.005
_FAINT = 1e-4


@dataclass(frozen=True, eq=False)
class Curve:
    """What is known of one column.

    Arguments:
        marginal: Of its atoms (a,).
        alone: Atoms that stand out, by number.
        excess: Which share of each one's people are more than the curve without it would have.
    """

    marginal: Array
    alone: Ints
    excess: Array


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """A likelihood of weights w, by a slope and an information around G w = q.

    Arguments:
        law: G, of all codes of the column's questions (codes, weights).
        around: q.
        slope: There (codes,).
        curved: The information (codes, codes).
        hats: Of the weights.
    """

    law: Array
    around: Array
    slope_there: Array
    curved: Array
    hats: Hats

    def value(self, weights: Array) -> float:
        """See `privot.local.grid.deconvolution.Likelihood`."""
        gap = self.law @ weights - self.around
        return float(self.slope_there @ gap - gap @ self.curved @ gap / 2)

    def slope(self, weights: Array) -> Array:
        """See `privot.local.grid.deconvolution.Likelihood`."""
        gap = self.law @ weights - self.around
        return np.asarray(self.law.T @ (self.slope_there - self.curved @ gap))

    def information(self, weights: Array, change: Array) -> Array:
        """See `privot.local.grid.deconvolution.Likelihood`."""
        moved = self.law @ change
        return np.asarray(moved.T @ self.curved @ moved)


@dataclass(frozen=True, eq=False)
class Line:
    """Atoms of a number in order: intervals from left to right, then points and missing values.

    Arguments:
        cells: Where atoms are.
    """

    cells: LineCells

    @cached_property
    def order(self) -> Ints:
        """Numbers of the atoms."""
        wide = self.cells.in_order
        return np.concatenate([wide, np.setdiff1d(np.arange(len(self.cells.low)), wide)])

    @cached_property
    def axis(self) -> Array:
        """Places of the intervals in [−1, 1]."""
        widths = self.cells.widths
        near = np.abs(np.subtract.outer(np.arange(len(widths)), np.arange(len(widths)))) <= _AROUND
        steps = widths / np.exp((near @ np.log(widths)) / near.sum(axis=1))
        centers = np.cumsum(steps) - steps / 2
        return np.asarray(2 * (centers - centers[0]) / (centers[-1] - centers[0]) - 1)

    @cached_property
    def hats(self) -> Hats:
        """Volumes are widths in atoms; those of points and missing values are those of all."""
        widths = self.cells.widths
        relative = widths / widths.sum()
        return Hats(np.append(relative, np.ones(len(self.order) - len(widths))))

    def shapes(self, orders: Sequence[int], alone: Sequence[int]) -> list[Shapes]:
        """Of the prior; `alone` are intervals, by their place in the order."""
        return [Shapes.of(order, self.axis, len(self.order), alone) for order in orders]

    def excess(self, weights: Array, alone: Sequence[int]) -> Array:
        """Which share of some intervals' weights is above a curve through the others' densities."""
        inside = np.arange(len(self.axis))
        others = np.setdiff1d(inside, alone)
        logs = np.log(weights[inside] / self.hats.volumes[inside])
        beyond = np.interp(self.axis[alone], self.axis[others], logs[others]) - logs[alone]
        return np.asarray(np.clip(1 - np.exp(beyond), 0.0, 1.0))

    def fit(self, likelihood: SecondOrder) -> tuple[Array, list[int]]:
        """Weights in order, and which intervals stand out."""
        alone: list[int] = []

        def evidence(alone: Sequence[int]) -> tuple[Array, float]:
            family = self.shapes(ORDERS[:1], alone)
            found = average(likelihood, family, strengths=_FEW_STRENGTHS)
            return found.fitted.weights, found.evidence

        weights, reached = evidence(alone)
        while len(alone) < _MOST_ALONE:
            logs = np.log(weights[: len(self.axis)] / self.hats.volumes[: len(self.axis)])
            beside = np.pad(logs, 1, mode="reflect")
            height = logs - np.maximum(beside[:-2], beside[2:])
            height[alone] = -np.inf
            tried = [*alone, int(height.argmax())]
            found, after = evidence(tried)
            if after < reached + np.log(len(logs)):
                break
            alone, weights, reached = tried, found, after
        family = self.shapes(ORDERS, alone)
        weights = average(likelihood, family, strengths=_STRENGTHS).fitted.weights
        return self.without_ghosts(likelihood, weights), alone

    def without_ghosts(self, likelihood: SecondOrder, weights: Array) -> Array:
        """Weights with next to nothing in the longest tails that reports do not tell from nobody."""
        last = len(self.axis)
        for outward in (1, -1):
            reached, kept = likelihood.value(weights), weights
            for cut in range(1, last):
                tail = slice(last - cut, last) if outward > 0 else slice(0, cut)
                if weights[tail].sum() > _MOST_GHOSTS:
                    break
                tried = weights.copy()
                tried[tail] *= _FAINT
                tried /= tried.sum()
                if likelihood.value(tried) > reached - _TELLS:
                    kept = tried
            weights = kept
        return weights


def curves_of_numbers(
    atoms: Sequence[Atoms], questions: Sequence[Question], groups: Sequence[ReportGroup]
) -> dict[int, Curve]:
    """The curve of every column of numbers that is asked in several alphabets, by its number."""
    asked: dict[int, list[int]] = {}
    for number, question in enumerate(questions):
        asked.setdefault(question.column, []).append(number)
    lines = {
        column: Line(cells)
        for column, numbers in asked.items()
        if (cells := atoms[column].cells) is not None
        and len(numbers) > 1
        and len(cells.in_order) > max(3, *(questions[number].size for number in numbers))
    }
    if not lines:
        return {}
    tables = count_tables(groups, [question.size for question in questions])
    q = stacked_marginals(tables, tolerance=1e-4)[:, 0]
    curves: dict[int, Curve] = {}
    for _ in range(_ROUNDS):
        found = curvature(tables, q)
        for column, line in lines.items():
            numbers = asked[column]
            parts = [slice(*tables.offsets[number : number + 2]) for number in numbers]
            likelihood = _second_order(line, [questions[n].law for n in numbers], parts, found, q)
            weights, alone = line.fit(likelihood)
            marginal = np.empty(len(weights))
            marginal[line.order] = weights
            curves[column] = Curve(marginal, line.order[alone], line.excess(weights, alone))
        for column, curve in curves.items():
            for number in asked[column]:
                part = slice(*tables.offsets[number : number + 2])
                q[part] = questions[number].law @ curve.marginal
    return curves


def _second_order(
    line: Line, laws: Sequence[Array], parts: Sequence[slice], found: Curvature, q: Array
) -> SecondOrder:
    places = np.cumsum([0, *(len(law) for law in laws)])
    curved = np.zeros((places[-1], places[-1]))
    for start, stop, part in zip(places[:-1], places[1:], parts, strict=True):
        curved[start:stop, start:stop] = found.information[part, : stop - start]
    return SecondOrder(
        np.concatenate(laws)[:, line.order],
        np.concatenate([q[part] for part in parts]),
        np.concatenate([found.slope[part] for part in parts]),
        curved,
        line.hats,
    )


# Pieces of a number's law: bumps that sum to its curve, and atoms that stand out.
#
# Reports of few codes say in which part of the line a class's people are, and not how they lie within
# it. So in a class z a number that is asked in several alphabets has the law
#
# $$ p(v | z) = \sum_b θ_{bz} h_b(v) , \qquad
#    h_b(v) = m(v)\, φ_b(u_v) \Big/ \sum_{v'} m(v')\, φ_b(u_{v'}) , $$
#
# m its curve (`curves`), u the share of people below an atom, φ hats at equal distances of u, which
# sum to
# 1. With θ the bumps' shares of m, it is m itself: within a bump people lie as everybody does, and
#    from bump to bump the law is as smooth as the curve. Atoms that stand out, spikes and missing
#    values are pieces of their own; they take no part in u.


NUMBER = 10  # of bumps


@dataclass(frozen=True, eq=False)
class Pieces:
    """Of one column.

    Arguments:
        law: Probabilities of atoms in each piece (a, pieces).
        shares: Of the pieces in the marginal; equal ones where no curve is known.
        curve: Of a number that is asked in several alphabets.
    """

    law: Array
    shares: Array
    curve: Curve | None = None

    @classmethod
    def atoms(cls, number: int) -> Pieces:
        """Each atom on its own."""
        return cls(np.eye(number), np.full(number, 1 / number))

    @classmethod
    def bumps(cls, curve: Curve, cells: LineCells) -> Pieces:
        """Those of a curve.

        Examples:
            >>> cells = LineCells(np.arange(50.0), np.arange(50.0) + 1, integer=False)
            >>> curve = Curve(np.full(50, 0.02), np.array([7]), np.zeros(1))
            >>> found = Pieces.bumps(curve, cells)
            >>> found.law.shape, bool(np.allclose(found.law @ found.shares, 0.02))
            ((50, 11), True)
        """
        marginal = curve.marginal
        heavy = np.flatnonzero(marginal > 1 / NUMBER)
        smooth = np.setdiff1d(cells.in_order, np.concatenate([curve.alone, heavy]))
        smooth = smooth[np.argsort(cells.low[smooth], kind="stable")]
        others = np.setdiff1d(np.arange(len(marginal)), smooth)
        below = np.cumsum(marginal[smooth]) - marginal[smooth] / 2
        places = below / max(marginal[smooth].sum(), 1e-300) * (NUMBER - 1)
        hats = np.maximum(1 - np.abs(places[:, None] - np.arange(NUMBER)), 0.0)
        joint = np.zeros((len(marginal), NUMBER + len(others)))
        joint[smooth, :NUMBER] = marginal[smooth, None] * hats
        joint[others, NUMBER + np.arange(len(others))] = np.maximum(marginal[others], 1e-12)
        joint = joint[:, joint.sum(axis=0) > 0]
        shares = joint.sum(axis=0)
        return cls(joint / shares, shares / shares.sum(), curve)


def pieces_of(
    atoms: Sequence[Atoms], questions: Sequence[Question], groups: Sequence[ReportGroup]
) -> tuple[list[Pieces], list[Question]]:
    """The pieces of every column, and the questions about them."""
    curves = curves_of_numbers(atoms, questions, groups)
    pieces = []
    for column, own in enumerate(atoms):
        if column in curves and own.cells is not None:
            pieces.append(Pieces.bumps(curves[column], own.cells))
        else:
            pieces.append(Pieces.atoms(own.size))
    asked = [Question(each.column, each.law @ pieces[each.column].law) for each in questions]
    return pieces, asked


# Mass points: of an atom of integers that stands out of the curve, the number that people mean by it.
#
# "47 % work exactly 40 hours" is a mass on the atom from 40 to 42, say: no question isolates 40, so no
# report tells it from its neighbors, whatever their number. What the atom has more than the curve
# (`curves`) is put on one number, the **roundest** of the atom: fewest digits, of dates the first of a
# year or month.
#
# It is an assumption, that people round, and nothing in reports can confirm it. Where it is wrong,
# and people work 42, nobody is further off than the atom is wide: a distribution function may err by
# that mass in between, a quantile by less than the width. Spread over the atom, the mass would be
# wrong wherever it is. Numbers that are not counted are not rounded: their atoms that stand out may
# be narrow laws.
#
# **Privacy review.** A function of the schema, and of a curve, which is learned from reports alone.


def placed(column: CodedColumn, atoms: Atoms, pieces: Pieces) -> tuple[Places, Array]:
    """Where records of a column are drawn, mass points after its atoms, and its pieces' law of them."""
    cells, curve = atoms.cells, pieces.curve
    if cells is None or curve is None or not cells.integer:
        return Places.of(atoms), pieces.law
    numbers = cast("NumberColumn", column)
    wide = cells.high[curve.alone] > cells.low[curve.alone] + 1
    own, share = curve.alone[wide], curve.excess[wide]
    low, high = cells.low[own], cells.high[own] - 1
    points = np.array([round(numbers.round_between(*ends)) for ends in zip(low, high, strict=True)])
    points = np.clip(points, low, high)
    split = np.vstack([np.eye(atoms.size), np.zeros((len(own), atoms.size))])
    split[own, own] = 1 - share
    split[atoms.size + np.arange(len(own)), own] = share
    codes = np.append(atoms.codes, atoms.codes[own])
    ends = np.append(cells.low, points), np.append(cells.high, points)
    return Places(codes, LineCells(*ends, integer=True)), split @ pieces.law
