"""What is wrong with raw values: which column, which rows, what kind of problem, and what to do.

A problem never says a value. Errors end up in logs, bug reports and terminals of others than those who
hold the records; a column and a row are enough for these to look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError


@dataclass(frozen=True, eq=False)
class Problem:
    """One thing that is wrong in some rows of one table column.

    Arguments:
        column: Name of the table column.
        what: The kind of problem, as `"has no value"`.
        remedy: What to do about it.
        rows: Which rows, as a mask (n,).
    """

    column: str
    what: str
    remedy: str
    rows: NDArray[np.bool_] = field(repr=False)

    @property
    def words(self) -> str:
        """Column, kind and remedy."""
        return f"column {self.column!r} {self.what}: {self.remedy}"

    @property
    def first(self) -> int:
        """The first such row, counted from 0."""
        return int(np.flatnonzero(self.rows)[0])


class RecordError(PrivotError):
    """A record that cannot be used.

    Arguments:
        row: Of the table or of the whole source, counted from 0.
        words: What is wrong with it, and what to do.
        place: Where a person finds it; the row of the table by default.
    """

    def __init__(self, row: int, words: str, place: str | None = None) -> None:
        self.row, self.words = row, words
        super().__init__(f"{place or f'row {row + 1:,}'}: {words}")

    def after(self, rows: int) -> Self:
        """The same, of a source in which so many rows precede the table."""
        return type(self)(self.row + rows, self.words)

    def at(self, place: str) -> Self:
        """The same, with a place that a person finds."""
        return type(self)(self.row, self.words, place)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise what is wrong in the first row that has a problem.

    Raises:
        RecordError: if there is any.
    """
    for problem in sorted(problems, key=lambda problem: problem.first):
        raise RecordError(problem.first, problem.words)
