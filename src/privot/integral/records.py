r"""Tables as points: a schema's columns as coordinates with public marginals, and back.

| column | coordinates | marginal unless declared |
|---|---|---|
| numeric | the number | uniform between the bounds; of integers, over them |
| datetime | days or seconds since 1970 | uniform over them |
| categorical, boolean | its code | uniform over the categories |
| vector in a box | one each | uniform between the bounds |

A nullable column of codes has one more code, of public probability `missing`. A nullable number has a
second coordinate that says whether it is missing; the number of a missing one is drawn from its
marginal, so that it tells nothing, and is ignored on the way back. Numbers beyond the bounds are brought
to them, as everywhere in this package.

**Who sees what.** The reference is made of the schema and of declared marginals alone: public. Records
are seen by the curator's process only, and no refusal repeats a value of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privot.errors import PrivotError
from privot.integral.densities.marginals import Choice, Integers, Marginal, Uniform
from privot.integral.densities.references import ProductReference
from privot.integral.densities.secure import Array
from privot.release.reports.rows import require_raw
from privot.schema import (
    ArrayColumn,
    BooleanColumn,
    Box,
    CategoricalColumn,
    Column,
    DatetimeColumn,
    NumericColumn,
    Schema,
    VectorColumn,
)

MISSING_SHARE = 0.1


@dataclass(frozen=True)
class RecordSpace:
    """The points that stand for a schema's records, and their public reference.

    Arguments:
        schema: What a record may be.
        marginals: By column, a declared public marginal instead of the uniform one.
        missing: Public probability that a nullable value is missing.

    Examples:
        >>> schema = Schema.from_toml('[columns.age]\\nkind = "numeric"\\nbounds = [0, 100]')
        >>> RecordSpace(schema).reference.dim
        1
    """

    schema: Schema
    marginals: Mapping[str, Marginal] = field(default_factory=dict)
    missing: float = MISSING_SHARE

    def __post_init__(self) -> None:
        unknown = [name for name in self.marginals if name not in self.schema.columns]
        if unknown:
            raise PrivotError(f"marginals name {unknown}, which the schema lacks: correct them")
        if not 0 < self.missing < 1:
            raise PrivotError(f"missing {self.missing} is not in (0, 1): give a public guess")
        for name, column in self.schema.columns.items():
            if isinstance(column, ArrayColumn):
                raise PrivotError(
                    f"column {name!r} is an image, too many numbers for a density: leave it out"
                )
            if isinstance(column, VectorColumn) and not isinstance(column.domain, Box):
                raise PrivotError(
                    f"column {name!r} is a vector in a ball or on a line: declare bounds instead, or "
                    "give records as an array with a reference of your own"
                )

    @cached_property
    def reference(self) -> ProductReference:
        """The product of the marginals."""
        return ProductReference([m for part in self._coordinates.values() for m in part])

    @cached_property
    def _coordinates(self) -> dict[str, list[Marginal]]:
        return {name: self._of(name, column) for name, column in self.schema.columns.items()}

    def _of(self, name: str, column: Column) -> list[Marginal]:
        if isinstance(column, VectorColumn):
            domain = column.domain
            assert isinstance(domain, Box)
            if name in self.marginals:
                raise PrivotError(f"marginal of column {name!r}: a vector's cannot be declared")
            return [
                Uniform(low, high) for low, high in zip(domain.lower, domain.upper, strict=True)
            ]
        declared = self.marginals.get(name)
        if isinstance(column, CategoricalColumn | BooleanColumn):
            uniform = self._codes(len(column.alphabet.names), column.nullable)
            if declared is not None and declared.num_values != uniform.num_values:
                raise PrivotError(
                    f"marginal of column {name!r} has {declared.num_values} values: give one for each "
                    f"of its {uniform.num_values} categories, the missing one last"
                )
            return [declared or uniform]
        assert isinstance(column, NumericColumn | DatetimeColumn)  # images are refused before
        flag = [Choice((1 - self.missing, self.missing))] if column.nullable else []
        numbers = _numbers(column)
        if declared is not None and not _holds(declared, numbers):
            raise PrivotError(
                f"marginal of column {name!r} is {declared}, which leaves out some of what the schema "
                f"allows: give one over {numbers}"
            )
        return [declared or numbers, *flag]

    def _codes(self, num: int, nullable: bool) -> Choice:
        if not nullable:
            return Choice((1 / num,) * num)
        return Choice(((1 - self.missing) / num,) * num + (self.missing,))

    def encode(self, table: pa.Table, seed: int) -> Array:
        """Raw records as points (n, dim); `seed` fills in what is missing (**not private**).

        Raises:
            RecordError: naming column and row of what the schema does not allow, and no value.
            PrivotError: for a release.
        """
        self.schema.check_table(require_raw(table))
        rng, parts = np.random.default_rng(seed), []
        for name, column in self.schema.columns.items():
            parts.append(self._encode(name, column, table, rng))
        return np.concatenate(parts, axis=1)

    def _encode(
        self, name: str, column: Column, table: pa.Table, rng: np.random.Generator
    ) -> Array:
        if isinstance(column, CategoricalColumn | BooleanColumn):
            return column.encode_codes(name, table).astype(np.float64)[:, None]
        domain, points = (p := self.schema.point_column(name)).domain, p.encode_points(name, table)
        if not isinstance(column, NumericColumn | DatetimeColumn) or not column.nullable:
            return _whole(column, domain.project(points))
        numbers = points[:, 0]
        absent = np.isnan(numbers)
        marginal = self._coordinates[name][0]
        filled = np.empty((len(absent), 2))
        filled[:, 1] = absent
        filled[~absent, :1] = _whole(column, domain.project(numbers[~absent, None]))
        filled[absent, 0] = marginal.sample(int(absent.sum()), rng)
        return filled

    def decode(self, points: Array) -> pa.Table:
        """Points (n, dim) as a table with the schema's columns."""
        columns: dict[str, pa.Array] = {}
        start = 0
        for name, column in self.schema.columns.items():
            own = points[:, start : start + len(self._coordinates[name])]
            start += own.shape[1]
            if isinstance(column, CategoricalColumn | BooleanColumn):
                codes, unused = own[:, 0].astype(np.int64), np.random.default_rng(0)
                columns |= column.decode_codes(name, codes, unused)
            elif isinstance(column, VectorColumn) or not column.nullable:
                columns |= self.schema.point_column(name).decode_points(name, own)
            else:
                values = self.schema.point_column(name).decode_points(name, own[:, :1])[name]
                columns[name] = pc.if_else(pa.array(own[:, 1] == 1), None, values)
        return pa.table(columns).select(list(self.schema.table_columns))


def _numbers(column: NumericColumn | DatetimeColumn) -> Uniform | Integers:
    domain = column.domain
    assert isinstance(domain, Box)
    low, high = domain.lower[0], domain.upper[0]
    if isinstance(column, DatetimeColumn) or column.integer:
        return Integers(int(low), int(high))
    return Uniform(low, high)


def _holds(declared: Marginal, column: Uniform | Integers) -> bool:
    """Whether everything between a column's bounds can be drawn: nothing else has a density."""
    whole = declared.num_values is None or isinstance(column, Integers)
    return whole and bool(declared.contains(np.array([column.low, column.high], np.float64)).all())


def _whole(column: Column, points: Array) -> Array:
    if isinstance(column, DatetimeColumn) or (isinstance(column, NumericColumn) and column.integer):
        return np.rint(points)
    return points
