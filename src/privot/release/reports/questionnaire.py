r"""Questionnaires: what joint reports ask, and with which public coins a device draws what it answers.

A **question** is a column in one of its **codings**: an alphabet over its values. A **form** is a tuple
of columns that are asked together, of any length, and is drawn in proportion to a positive integer
**weight**. Where some columns have several codings, a **view** v is drawn uniformly below their number
V, and asks every column in its coding v modulo the number of its codings. V is the least common
multiple of those numbers, so all codings of a column are asked equally often. A form in a view is a
**sheet**: its number is form · V + view, its cells the product of its questions' alphabets, in C order.

**Privacy review.** Forms, weights and views are public; the coins know nothing of the record, and are
exact: the form is the one whose share of 0 … W−1 holds a uniform integer below the sum W of the
weights, the view another uniform integer. What a mechanism proves for any two cells of a sheet holds for
any two records that it asks; coins of one law, whatever the record, change no likelihood ratio. Where
the search for a form takes longer for one than for another, it tells the form, which the report says
anyway.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms.samplers.entropy import uniforms_below
from privot.schema import Array

# More cells than this make reports of many numbers and tables that nobody can estimate.
MOST_CELLS = 2**16
MOST_FORMS, _MOST_SHEETS = 2**16, 2**20
_MOST_WEIGHT = 2**31 - 1
_LISTED = 2**20  # up to this sum of weights, the form of every number is looked up

Codes = NDArray[np.int64]
Sheets = NDArray[np.int32]


def largest_fitting(sizes: Collection[int]) -> int:
    """The most columns that all forms of one length may have: cells and forms stay countable."""
    descending = sorted(sizes, reverse=True)
    fits = 0
    for k in range(1, len(descending) + 1):
        cells, ways = math.prod(descending[:k]), math.comb(len(descending), k)
        if cells <= MOST_CELLS and ways <= MOST_FORMS:
            fits = k
        else:
            break
    return fits


@dataclass(frozen=True)
class Questionnaire:
    """Which columns are asked together, how often, and in which codings.

    Arguments:
        codings: Number of codes of each coding of every column, by name, in the schema's order.
        forms: Columns that are asked together, by their index, in increasing order.
        weights: Forms are drawn in proportion to these integers.

    Examples:
        >>> asked = Questionnaire({"sex": (2,), "age": (10, 12)}, ((0,), (0, 1)), (1, 3))
        >>> [asked.questions(sheet) for sheet in range(4)]
        [((0, 0),), ((0, 0),), ((0, 0), (1, 0)), ((0, 0), (1, 1))]
        >>> asked.num_cells.tolist()
        [2, 2, 20, 24]
    """

    codings: Mapping[str, tuple[int, ...]]
    forms: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        _require_codings(self.codings)
        _require_forms(self.columns, self.forms)
        _require_weights(self.forms, self.weights)
        if self.num_sheets > _MOST_SHEETS:
            raise PrivotError(
                f"{len(self.forms)} forms in {self.views} views are more than {_MOST_SHEETS}: give "
                "fewer forms, or columns as many codings each"
            )
        largest = int(np.argmax(self.num_cells))
        if self.num_cells[largest] > MOST_CELLS:
            names = [self.columns[column] for column, _ in self.questions(largest)]
            raise PrivotError(
                f"columns {names} have more than {MOST_CELLS} cells together: ask fewer of them in one "
                "form, or declare fewer bins"
            )

    @classmethod
    def uniform(cls, codings: Mapping[str, tuple[int, ...]], report_columns: int) -> Self:
        """All forms of `report_columns` columns, each as often as another.

        Raises:
            PrivotError: if the number is no number of these columns, or too large.
        """
        k, total = report_columns, len(codings)
        if type(k) is not int or not 1 <= k <= total:
            raise PrivotError(
                f"report_columns {k} is not between 1 and the table's {total} columns"
            )
        _require_codings(codings)
        sizes = [max(each) for each in codings.values()]
        most = math.prod(sorted(sizes)[-k:])
        if most > MOST_CELLS or math.comb(total, k) > MOST_FORMS:
            raise PrivotError(
                f"report_columns {k} makes up to {most} cells in {math.comb(total, k)} "
                f"combinations: give at most {largest_fitting(sizes)}, or declare fewer bins"
            )
        forms = tuple(combinations(range(total), k))
        return cls(codings, forms, (1,) * len(forms))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """What `to_dict` made."""
        codings = {name: tuple(sizes) for name, sizes in fields["codings"].items()}
        return cls(codings, tuple(map(tuple, fields["forms"])), tuple(fields["weights"]))

    def to_dict(self) -> dict[str, Any]:
        """Its arguments as plain values."""
        return {
            "codings": {name: list(sizes) for name, sizes in self.codings.items()},
            "forms": [list(form) for form in self.forms],
            "weights": list(self.weights),
        }

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.codings)

    @cached_property
    def lengths(self) -> tuple[int, int]:
        """Fewest and most columns of a form."""
        lengths = [len(form) for form in self.forms]
        return min(lengths), max(lengths)

    @cached_property
    def views(self) -> int:
        """Number V of views."""
        return math.lcm(*(len(sizes) for sizes in self.codings.values()))

    @property
    def num_sheets(self) -> int:
        """Number of forms in all views."""
        return len(self.forms) * self.views

    @cached_property
    def shares(self) -> Array:
        """Probability of every sheet."""
        low, high = self.draw_cells(np.arange(self.num_sheets))
        return high - low

    def questions(self, sheet: int) -> tuple[tuple[int, int], ...]:
        """Column and coding of each digit of a sheet's cells."""
        form, view = divmod(sheet, self.views)
        counts = list(map(len, self.codings.values()))
        return tuple((column, view % counts[column]) for column in self.forms[form])

    def numbers(self, sheet: int) -> tuple[int, ...]:
        """The same questions, numbered one column's after another's."""
        return tuple(int(self._first[column]) + coding for column, coding in self.questions(sheet))

    def shape(self, sheet: int) -> tuple[int, ...]:
        """Sizes of a sheet's questions; cells are their C-order indices."""
        sizes = list(self.codings.values())
        return tuple(sizes[column][coding] for column, coding in self.questions(sheet))

    @cached_property
    def _first(self) -> Codes:
        """Number of every column's first question."""
        counts = np.array(list(map(len, self.codings.values())))
        return np.cumsum(counts) - counts

    @cached_property
    def _digits(self) -> tuple[Codes, Codes, Codes]:
        """Of every sheet the questions of its places (k, s), what codes count there, and its cells (s,).

        Questions are numbered one column's after another's. Where a form has no place, codes count 0.
        """
        most = self.lengths[1]
        forms = np.array([form + (-1,) * (most - len(form)) for form in self.forms])
        forms, view = forms.repeat(self.views, axis=0), np.tile(range(self.views), len(self.forms))
        counts = np.array(list(map(len, self.codings.values())))
        place = self._first[forms] + view[:, None] % counts[forms]
        sizes = np.concatenate(list(self.codings.values()))[place]
        sizes = np.where(forms < 0, 1.0, sizes)[:, ::-1]  # floats: products of any size
        products = np.cumprod(np.insert(sizes, 0, 1.0, axis=1), axis=1)
        held = np.minimum(products, MOST_CELLS + 1).astype(np.int64)
        strides = np.where(forms < 0, 0, held[:, -2::-1])
        place = np.where(forms < 0, 0, place)
        return np.ascontiguousarray(place.T), np.ascontiguousarray(strides.T), held[:, -1]

    @property
    def num_cells(self) -> Codes:
        """Number of cells of every sheet."""
        return self._digits[2]

    def draw(self, number: int) -> Sheets:
        """Sheets of so many reports, by fresh coins."""
        drawn = uniforms_below(int(self._ends[-1]), number)
        form = self._listed[drawn] if self._listed.size else self._form(drawn)
        if self.views > 1:
            form = form * self.views + uniforms_below(self.views, number)
        return form.astype(np.int32)

    def draw_cells(self, sheets: NDArray[Any]) -> tuple[Array, Array]:
        """The interval of (0, 1) that each drawn sheet stands for; they cover it."""
        weights = np.repeat(np.array(self.weights, np.int64), self.views)
        ends = np.cumsum(weights)
        return (ends - weights)[sheets] / ends[-1], ends[sheets] / ends[-1]

    def cell(self, sheets: Sheets, codes: Codes) -> Codes:
        """The cell, on each one's sheet, of the codes (n, q) of all codings of all columns."""
        places, strides, _ = self._digits
        number, flat = len(codes), codes.T.reshape(-1)
        cell, rows = np.zeros(number, np.int64), np.arange(number)
        for place, stride in zip(places, strides, strict=True):
            cell += stride[sheets] * flat[place[sheets] * number + rows]
        return cell

    @cached_property
    def _ends(self) -> Codes:
        return np.cumsum(self.weights, dtype=np.int64)

    def _form(self, drawn: Codes) -> Codes:
        return np.searchsorted(self._ends, drawn, side="right")

    @cached_property
    def _listed(self) -> Codes:
        total = int(self._ends[-1])
        return self._form(np.arange(total if total <= _LISTED else 0))


def _require_codings(codings: Mapping[str, Sequence[int]]) -> None:
    sizes = [size for each in codings.values() for size in each]
    if not all(codings.values()) or any(type(size) is not int or size < 2 for size in sizes):
        raise PrivotError(
            f"columns have {dict(codings)} values: give each at least 2, or leave out what cannot "
            "vary"
        )


def _require_forms(columns: Sequence[str], forms: Sequence[Sequence[int]]) -> None:
    if not 1 <= len(forms) <= MOST_FORMS or len(set(forms)) < len(forms):
        raise PrivotError(
            f"{len(forms)} forms are none, too many, or some are there twice: give 1 to {MOST_FORMS} "
            "different ones"
        )
    for form in forms:
        indices = all(type(column) is int and 0 <= column < len(columns) for column in form)
        if not form or not indices or sorted(set(form)) != list(form):
            raise PrivotError(
                f"form {list(form)} is no list of columns: give increasing numbers from 0 to "
                f"{len(columns) - 1}"
            )
    if unasked := sorted(set(range(len(columns))) - {column for form in forms for column in form}):
        raise PrivotError(
            f"columns {[columns[i] for i in unasked]} are in no form, so nothing would be learned of "
            "them: give each a form"
        )


def _require_weights(forms: Sequence[Any], weights: Sequence[int]) -> None:
    whole = all(type(weight) is int and weight > 0 for weight in weights)
    if len(weights) != len(forms) or not whole or sum(weights) > _MOST_WEIGHT:
        raise PrivotError(
            f"{len(weights)} weights are not of {len(forms)} forms, or no positive integers of sum up "
            f"to {_MOST_WEIGHT}: give one for each form"
        )
