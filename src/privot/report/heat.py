"""The map of all pairs: what the model gets wrong below the diagonal, what there is to get above it.

Colors go by the root of an error up to the largest, so that none is cut off and small ones are told
apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

MOST_PAIRED = 30
_MOST_NUMBERS, _LONGEST = 12, 16
_CELL, _LETTER, _GAP = 40.0, 7.2, 6.0


@dataclass(frozen=True)
class Cell:
    """A pair's number: where it stands, how strong its color is, and what to say of it."""

    x: float
    y: float
    strength: float
    words: str
    text: str
    kind: str


@dataclass(frozen=True)
class HeatMap:
    """A square of cells with names at its left and below it.

    Arguments:
        names: Of columns, shortened.
        cells: Two a pair, one a column.
        margin: Room for names.
        size: Of a cell.
        marks: Of the color bar: how far along it, and the number there.
    """

    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    margin: float
    size: float
    marks: tuple[tuple[float, str], ...]

    @property
    def side(self) -> float:
        """Length of the square."""
        return self.size * len(self.names)


def heat_map(
    names: Sequence[str],
    own: Mapping[str, float],
    below: Mapping[tuple[str, str], float],
    above: Mapping[tuple[str, str], float],
    words: tuple[str, str, str],
) -> HeatMap:
    """Of the columns most wrong, at most 30.

    Arguments:
        names: Columns in order.
        own: Errors of single columns, on the diagonal.
        below: By pairs of names in that order, errors.
        above: What there is to find.
        words: What the three kinds of numbers are: own, below, above.
    """
    errors: dict[str, list[float]] = {name: [] for name in names}
    for (first, second), error in below.items():
        errors[first].append(error)
        errors[second].append(error)
    shown = worst([float(np.mean(errors[name] or [0.0])) for name in names], MOST_PAIRED)
    kept = [names[i] for i in shown]
    place = {name: i for i, name in enumerate(kept)}
    pairs = [pair for pair in below if pair[0] in place and pair[1] in place]
    numbers = [*(own[n] for n in kept), *(below[p] for p in pairs), *(above[p] for p in pairs)]
    top = max(max(numbers), 1e-9)
    few = len(kept) <= _MOST_NUMBERS

    def cell(i: int, j: int, value: float, what: str, kind: str) -> Cell:
        said = f"{kept[i]}: {what}" if i == j else f"{kept[min(i, j)]} × {kept[max(i, j)]}: {what}"
        text = f"{value:.2f}".removeprefix("0") if few else ""
        strength = round(float(np.sqrt(value / top)), 3)
        return Cell(_CELL * j, _CELL * i, strength, f"{said} {value:.3f}", text, kind)

    cells = [cell(i, i, own[name], words[0], "own") for name, i in place.items()]
    for first, second in pairs:
        i, j = place[first], place[second]
        cells.append(cell(j, i, below[first, second], words[1], "error"))
        cells.append(cell(i, j, above[first, second], words[2], "there"))
    labels = tuple(n if len(n) <= _LONGEST else n[: _LONGEST - 1] + "…" for n in kept)
    marks = tuple((share, f"{top * share**2:.2g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0))
    margin = max(map(len, labels)) * _LETTER + _GAP
    return HeatMap(labels, tuple(cells), margin, _CELL, marks)


def worst(errors: Sequence[float], most: int) -> list[int]:
    """Places of the largest errors, in their own order."""
    return [int(i) for i in np.sort(np.argsort(-np.asarray(errors), kind="stable")[:most])]
