r"""Mass points: of an atom of integers that stands out of the curve, the number that people mean by it.

"47 % work exactly 40 hours" is a mass on the atom from 40 to 42, say: no question isolates 40, so no
report tells it from its neighbors, whatever their number. What the atom has more than the curve
(`curves`) is put on one number, the **roundest** of the atom: fewest digits, of dates the first of a
year or month.

It is an assumption, that people round, and nothing in reports can confirm it. Where it is wrong, and
people work 42, nobody is further off than the atom is wide: a distribution function may err by that mass
in between, a quantile by less than the width. Spread over the atom, the mass would be wrong wherever it
is. Numbers that are not counted are not rounded: their atoms that stand out may be narrow laws.

**Privacy review.** A function of the schema, and of a curve, which is learned from reports alone.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from privot.local.atoms import Atoms
from privot.local.classes.bumps import Pieces
from privot.local.classes.questions import Array
from privot.local.classes.sampler import Places
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.number import NumberColumn
from privot.schema.columns.within_cells import LineCells


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
