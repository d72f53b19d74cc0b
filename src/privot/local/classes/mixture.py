r"""Latent classes: a mixture of product distributions over categorical columns, and its sampler.

$$ p(v_1, …, v_m) = \sum_z π_z \prod_c p_c(v_c | z) . $$

Every marginal and every conditional is again a mixture of products, so both are computed exactly. The
joint distribution of some columns is the sum over classes of outer products. Given that columns lie in
sets $W_c$, class z has weight $∝ π_z \prod_c \sum_{v ∈ W_c} p_c(v|z)$, and these columns are drawn from
their restricted probabilities. With enough classes every distribution has this form; `class_fit` chooses
the number of classes from the reports.

**Sampling** (`LatentClassSampler`). A class is drawn, then an atom of every column
(`privot.local.releases`) with the class's probabilities, then a value within the atom: a number or date
from a density that is continuous across the class's atoms (`privot.schema.sampling`), another value from
the atom's code. Conditions are in the schema's codes, which are unions of atoms.

References:
    Lazarsfeld, Henry, *Latent structure analysis* (1968); Dunson, Xing, *Nonparametric Bayes modeling
    of multivariate categorical data* (2009).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.local.classes.counts import Array, ReportGroup, count_tables
from privot.local.classes.expectation import expectation
from privot.local.model import Sampler
from privot.local.releases import Places
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.columns.numeric import NumberColumn
from privot.schema.sampling import LineCells

# Allowed categories by number of the column.
Condition = Mapping[int, int | Sequence[int]]
_HEAVY = 0.6  # share of the people in one interval above which the fit warns
_MAX_CELLS = 2**26  # most cells of a table of a joint distribution


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """Mixture of C product distributions.

    Arguments:
        weights: π (C,), with sum 1.
        probabilities: For each column, $p_c(v|z)$ of its K categories and C classes (K, C); sums over
            categories are 1.

    Raises:
        PrivotError: if shapes disagree, or sums are not 1.

    Examples:
        >>> table = np.array([[0.9, 0.2], [0.1, 0.8]])
        >>> model = LatentClasses(np.array([0.5, 0.5]), (table, table))
        >>> model.marginal([0, 1]).round(3).tolist()
        [[0.425, 0.125], [0.125, 0.325]]
        >>> model.sample(3, np.random.default_rng(0), where={0: 1})[:, 0].tolist()
        [1, 1, 1]
    """

    weights: Array
    probabilities: tuple[Array, ...]

    def __post_init__(self) -> None:
        wrong = [p.shape for p in self.probabilities if p.shape[1:] != self.weights.shape]
        if wrong or not self.weights.size:
            raise PrivotError(f"probabilities have shapes {wrong}: give (categories, classes)")
        for array in (self.weights, *self.probabilities):
            sums = array.sum(axis=0)
            if not (array >= 0).all() or not np.allclose(sums, 1, rtol=0, atol=1e-6):
                raise PrivotError(
                    "weights or probabilities are no distributions: make them sum to 1"
                )

    def coarsened(self, codes: Sequence[NDArray[np.int64]]) -> LatentClasses:
        """Return the distribution of codes, given the code of every category, (K,) for each column."""
        tables = []
        for table, column_codes in zip(self.probabilities, codes, strict=True):
            sums = np.zeros((int(column_codes.max()) + 1, table.shape[1]))
            np.add.at(sums, column_codes, table)
            tables.append(sums)
        return LatentClasses(self.weights, tuple(tables))

    def refined(self, laws: Sequence[Array]) -> LatentClasses:
        """Return the distribution of values, given P(value | category), (values, K) for each column."""
        tables = zip(laws, self.probabilities, strict=True)
        return LatentClasses(self.weights, tuple(law @ table for law, table in tables))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each column."""
        return tuple(map(len, self.probabilities))

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self.weights.size

    def marginal(self, columns: Sequence[int]) -> Array:
        """Compute the joint distribution of `columns`, as an array with one axis per column.

        Raises:
            PrivotError: if a column is named twice or does not exist, or the table has over 2^26 cells.
        """
        require_columns(columns, self.sizes)
        shape = tuple(self.sizes[column] for column in columns)
        if math.prod(shape) > _MAX_CELLS:
            raise PrivotError(f"columns have {math.prod(shape)} cells: name fewer of them")
        if not columns:
            return np.array(1.0)
        table = self.weights[None]
        for column in columns[:-1]:
            part = table[:, None] * self.probabilities[column][None]
            table = part.reshape(-1, self.weights.size)
        return (table @ self.probabilities[columns[-1]].T).reshape(shape)

    def sample(
        self, num_rows: int, rng: np.random.Generator, where: Condition | None = None
    ) -> NDArray[np.int64]:
        """Draw rows of codes (num_rows, m), given that each column in `where` has one of some codes.

        Raises:
            PrivotError: if the condition has probability zero.
        """
        return self.sample_classes(num_rows, rng, where)[1]

    def sample_classes(
        self, num_rows: int, rng: np.random.Generator, where: Condition | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw rows like `sample`; return the class (num_rows,) of each row, and the rows."""
        probabilities = list(self.probabilities)
        weights = self.weights
        for column, codes in (where or {}).items():
            allowed = np.isin(np.arange(self.sizes[column]), codes)
            restricted = probabilities[column] * allowed[:, None]
            mass = restricted.sum(axis=0)  # of the condition in each class (C,)
            weights = weights * mass
            probabilities[column] = restricted / np.where(mass > 0, mass, 1)
        if not weights.sum() > 0:
            raise PrivotError(f"where is {dict(where or {})!r}, which has probability 0: relax it")
        classes = rng.choice(weights.size, size=num_rows, p=weights / weights.sum())
        rows = np.empty((num_rows, len(probabilities)), np.int64)
        for column, table in enumerate(probabilities):
            rows[:, column] = draw_categories(table, classes, rng)
        return classes, rows

    def log_likelihood(self, groups: Iterable[ReportGroup]) -> Array:
        """Compute the log-likelihood (reports,) of every report, up to $\\ln c(y)$ (see `counts`).

        Categories are codes. Reports are in the order of the groups.
        """
        tables = count_tables(groups, self.sizes, merge=False)
        return expectation(tables, np.concatenate(self.probabilities), self.weights).log_likelihood

    def to_dict(self) -> dict[str, Array]:
        """Return the arrays by name."""
        named = {f"column_{i}": table for i, table in enumerate(self.probabilities)}
        return {"weights": self.weights, **named}

    @classmethod
    def from_dict(cls, arrays: Mapping[str, Array]) -> LatentClasses:
        """Restore the model that `to_dict` wrote.

        Raises:
            PrivotError: if arrays are missing or are no distributions.
        """
        names = ["weights", *(f"column_{i}" for i in range(len(arrays) - 1))]
        if missing := [name for name in names if name not in arrays]:
            raise PrivotError(f"arrays lack {missing}: give the dictionary that to_dict returned")
        weights, *tables = (np.asarray(arrays[name], np.float64) for name in names)
        return cls(weights, tuple(tables))

    @classmethod
    def average(cls, models: Sequence[LatentClasses]) -> LatentClasses:
        """Return the equal mixture of several models, which has the classes of all."""
        columns = zip(*(model.probabilities for model in models), strict=True)
        weights = np.concatenate([model.weights for model in models]) / len(models)
        return cls(weights, tuple(np.concatenate(tables, axis=1) for tables in columns))


def require_columns(columns: Sequence[int], sizes: Sequence[int]) -> None:
    """Raise PrivotError for columns that do not exist or are named twice."""
    if len(set(columns)) < len(columns) or not all(0 <= c < len(sizes) for c in columns):
        raise PrivotError(
            f"columns is {list(columns)}: name each of 0 … {len(sizes) - 1} at most once"
        )


def draw_categories(
    table: Array, given: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw a category from each column `given[i]` of `table` (categories, conditions), by inversion."""
    size = len(table)
    cumulative = table.cumsum(axis=0).T
    # Rounding may leave the sums below 1 at the last category of positive probability.
    last = size - 1 - (table[::-1] > 0).argmax(axis=0)
    cumulative[np.arange(size) >= last[:, None]] = 1.0
    # Sums of condition i are shifted to i … i + 1, so that one search serves all conditions.
    shifted = (cumulative + np.arange(table.shape[1])[:, None]).ravel()
    place = np.searchsorted(shifted, rng.random(given.size) + given, side="right")
    return np.clip(place - given * size, 0, last[given])


@dataclass(frozen=True, eq=False)
class LatentClassSampler(Sampler):
    """Sampler of records from latent classes over the columns' atoms."""

    atoms: LatentClasses  # mixture whose categories are the places of each column
    places: tuple[Places, ...]  # atoms and mass points of each column
    schema: Schema  # schema whose coded columns are drawn
    kind: ClassVar[str] = "latent_classes"

    @cached_property
    def classes(self) -> LatentClasses:
        """Mixture over the schema's codes."""
        return self.atoms.coarsened([places.codes for places in self.places])

    def heaviest_interval(self, index: int) -> tuple[int, float]:
        """Return the place and the share of a column's most probable interval of several values.

        The share is 0 if there is no such interval.
        """
        cells = self.places[index].cells
        shares = self.atoms.probabilities[index] @ self.atoms.weights
        shares = shares * (0.0 if cells is None else cells.high - cells.low > float(cells.integer))
        return int(shares.argmax()), float(shares.max())

    def warn_of_heavy_intervals(self) -> None:
        """Warn if most people are in one interval of a number; reports do not show where in it."""
        for index, (name, column) in enumerate(self.schema.coded.items()):
            place, share = self.heaviest_interval(index)
            if share > _HEAVY and not column.alphabet.spikes:
                label = column.labels[int(self.places[index].codes[place])]
                warnings.warn(
                    f"column {name!r}: {share:.0%} of the people are in one interval of {label}, and "
                    "reports do not show where in it: declare typical numbers, or values that many "
                    "people have as spikes (privot schema new --pilot finds both for the next reports)",
                    stacklevel=5,
                )

    def records(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> pa.Table:
        condition = {
            index: np.flatnonzero(np.isin(self.places[index].codes, where[name])).tolist()
            for index, name in enumerate(self.schema.coded)
            if name in where
        }
        return self.decoded(*self.atoms.sample_classes(num_rows, rng, condition), rng)

    def decoded(
        self, classes: NDArray[np.int64], rows: NDArray[np.int64], rng: np.random.Generator
    ) -> pa.Table:
        """Return the values of rows of places (num_rows, m), drawn in the cells of their classes."""
        columns: dict[str, pa.Array] = {}
        for index, (name, column) in enumerate(self.schema.coded.items()):
            places, drawn = self.places[index], rows[:, index]
            if places.cells is None:
                columns |= column.decode_codes(name, places.codes[drawn], rng)
            else:
                masses = self.atoms.probabilities[index]
                numbers = places.cells.draw(drawn, classes, masses, rng)
                columns |= cast("NumberColumn", column).decode_numbers(name, numbers)
        return pa.table(columns)

    def fields(self) -> dict[str, Any]:
        integer = [places.cells and places.cells.integer for places in self.places]
        return {"num_classes": self.atoms.num_classes, "integer": integer}

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = dict(self.atoms.to_dict())
        for index, places in enumerate(self.places):
            arrays[f"codes_{index}"] = places.codes
            if places.cells is not None:
                arrays[f"cells_{index}"] = np.stack([places.cells.low, places.cells.high])
        return arrays

    @classmethod
    def build(
        cls, randomizer: Randomizer, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LatentClassSampler:
        return cls.stored(randomizer.schema, fields, arrays)

    @classmethod
    def stored(
        cls, schema: Schema, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LatentClassSampler:
        """Restore the sampler of a schema's records, whether a randomizer is known or not."""
        arrays = dict(arrays)
        places = []
        for index, integer in enumerate(fields["integer"]):
            ends = arrays.pop(f"cells_{index}", None)
            cells = None if ends is None else LineCells(ends[0], ends[1], integer)
            places.append(Places(arrays.pop(f"codes_{index}"), cells))
        return cls(LatentClasses.from_dict(arrays), tuple(places), schema)
