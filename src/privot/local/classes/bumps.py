r"""Pieces of a number's law: bumps that sum to its curve, and atoms that stand out.

Reports of few codes say in which part of the line a class's people are, and not how they lie within it.
So in a class z a number that is asked in several alphabets has the law

$$ p(v | z) = \sum_b θ_{bz} h_b(v) , \qquad
   h_b(v) = m(v)\, φ_b(u_v) \Big/ \sum_{v'} m(v')\, φ_b(u_{v'}) , $$

m its curve (`curves`), u the share of people below an atom, φ hats at equal distances of u, which sum to
1. With θ the bumps' shares of m, it is m itself: within a bump people lie as everybody does, and from
bump to bump the law is as smooth as the curve. Atoms that stand out, spikes and missing values are
pieces of their own; they take no part in u.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privot.local.atoms import Atoms
from privot.local.classes.count_tables import ReportGroup
from privot.local.classes.curves import Curve, curves_of_numbers
from privot.local.classes.questions import Array, Question
from privot.schema.columns.within_cells import LineCells

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
