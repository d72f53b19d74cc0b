"""Columns: what one part of a record may be, declared in public and by hand.

A column says which table columns it covers, how raw values become numbers that a mechanism can
randomize (`encode`), and how a model's numbers become values again (`decode`). None of its fields
is ever computed from data: bounds, categories and radii are public knowledge, or they leak.

Continuous columns (`numeric`, `vector`) have a [`Domain`][privot.schema.domain.Domain]; a
`categorical` column has a list of categories and encodes to their indices.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from privot.errors import PrivotError
from privot.schema.domain import Array, Box, Domain, L1Ball, L2Ball
from privot.schema.polyline import Polyline

Bounds = tuple[float, float]


class _Column(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NumericColumn(_Column):
    """One number between two public bounds."""

    kind: Literal["numeric"]
    bounds: Bounds

    @cached_property
    def domain(self) -> Domain:
        """The interval of the bounds."""
        return Box((self.bounds[0],), (self.bounds[1],))

    def table_columns(self, name: str) -> tuple[str, ...]:
        """Names of the table columns that hold this column's values."""
        return (name,)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain  # building it checks the bounds
        return self


class VectorColumn(_Column):
    """Several numbers under one domain: a box, an ℓ1 or ℓ2 ball, or a known support.

    Exactly one of `bounds` (a pair a coordinate), `radius` (with `norm` 1 or 2, and `non_negative`
    where it is known) and `support` (corners of a public polyline) declares the domain.
    """

    kind: Literal["vector"]
    columns: tuple[str, ...]
    bounds: tuple[Bounds, ...] | None = None
    radius: float | None = None
    norm: Literal[1, 2] = 2
    non_negative: bool = False
    support: tuple[tuple[float, ...], ...] | None = None

    @cached_property
    def domain(self) -> Domain:
        """The declared set."""
        declared = [
            field for field in ("bounds", "radius", "support") if getattr(self, field) is not None
        ]
        if len(declared) != 1:
            raise PrivotError(
                f"bounds are missing or not alone (declared: {', '.join(declared) or 'nothing'}): "
                "declare exactly one of bounds, radius, support in the schema "
                "(public knowledge; never computed from the data)"
            )
        domain: Domain
        if self.bounds is not None:
            domain = Box(tuple(b[0] for b in self.bounds), tuple(b[1] for b in self.bounds))
        elif self.radius is not None:
            ball = L1Ball if self.norm == 1 else L2Ball
            domain = ball(len(self.columns), self.radius, self.non_negative)
        else:
            assert self.support is not None
            domain = Polyline(self.support)
        if domain.dimension != len(self.columns):
            raise PrivotError(
                f"{declared[0]} has {domain.dimension} coordinates for {len(self.columns)} columns "
                f"{list(self.columns)}: give one a column"
            )
        return domain

    def table_columns(self, name: str) -> tuple[str, ...]:
        """Names of the table columns that hold this column's coordinates."""
        return self.columns

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain  # building it checks what declares it
        return self


class CategoricalColumn(_Column):
    """One of a public list of categories."""

    kind: Literal["categorical"]
    categories: tuple[str, ...]

    def table_columns(self, name: str) -> tuple[str, ...]:
        """Names of the table columns that hold this column's values."""
        return (name,)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.categories) < 2:
            raise PrivotError(
                f"categories {list(self.categories)} leave nothing to hide: declare at least two"
            )
        repeated = sorted({c for c in self.categories if self.categories.count(c) > 1})
        if repeated:
            raise PrivotError(f"categories {repeated} are declared twice: declare each once")
        return self


ContinuousColumn = NumericColumn | VectorColumn
Column = Annotated[NumericColumn | VectorColumn | CategoricalColumn, Field(discriminator="kind")]


def encode_continuous(column: ContinuousColumn, name: str, table: pa.Table) -> Array:
    """Raw values of a numeric or vector column as points (n, d), finite but not yet projected."""
    return np.stack([_numbers(table, part) for part in column.table_columns(name)], axis=1)


def decode_continuous(column: ContinuousColumn, name: str, points: Array) -> dict[str, pa.Array]:
    """Table columns of points (n, d), projected to the domain."""
    points = column.domain.project(points)
    return {part: pa.array(points[:, j]) for j, part in enumerate(column.table_columns(name))}


def encode_categorical(column: CategoricalColumn, name: str, table: pa.Table) -> NDArray[np.int64]:
    """Indices (n,) of a categorical column's values in its list of categories."""
    values = table.column(name)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        try:
            values = values.cast(pa.string())
        except pa.ArrowException:
            raise PrivotError(
                f"column {name!r} has type {values.type}: give text, as in its categories"
            ) from None
    codes = pc.index_in(values.cast(pa.string()), value_set=pa.array(column.categories))
    if codes.null_count:
        row = int(np.flatnonzero(codes.is_null().to_numpy())[0])
        raise PrivotError(
            f"column {name!r} holds {values[row].as_py()!r} in row {row + 1}, which is not among "
            f"its {len(column.categories)} categories: correct it, or add it to the schema"
        )
    return np.asarray(codes.to_numpy(), dtype=np.int64)


def decode_categorical(
    column: CategoricalColumn, name: str, codes: NDArray[np.int64]
) -> dict[str, pa.Array]:
    """Table column of category indices (n,)."""
    return {name: pa.array(column.categories, type=pa.string()).take(pa.array(codes))}


def _numbers(table: pa.Table, name: str) -> Array:
    """One table column as finite float64, or a refusal that names the row."""
    values = table.column(name)
    kind = values.type
    if pa.types.is_boolean(kind) or not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    ):
        example = values[0].as_py() if len(values) else None
        raise PrivotError(
            f"column {name!r} has type {kind} (first value {example!r}): give numbers only"
        )
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy())[0])
        raise PrivotError(
            f"column {name!r} has no value in row {row + 1}: fill or remove the row, "
            "by a rule that does not look at other people's records"
        )
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise PrivotError(
            f"column {name!r} holds {numbers[row]} in row {row + 1}: give finite numbers only"
        )
    return np.asarray(numbers, dtype=np.float64)
