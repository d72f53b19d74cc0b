r"""Record spaces: maps between records and points, for a schema's tables and for arrays.

| column | coordinates | marginal unless declared |
|---|---|---|
| numeric, vector in a box | one each | uniform between the bounds; of integers, over them |
| datetime | days or seconds since 1970 | uniform over them |
| categorical, boolean | its code | uniform over the categories |

A nullable column of codes has one more code, of public probability `missing`. Nullable numbers have one
more coordinate that indicates whether they are missing; the numbers of a missing value are drawn from
their marginals, so that they carry no information, and are ignored in decoding. Numbers are clipped to
their bounds.

**Privacy review: who sees what.** The reference depends only on the schema and on declared marginals,
and is public. Only the curator's process reads records, and error messages contain no values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from privot.central.fitting import raw_table
from privot.central.records import TableRecords
from privot.central.sums import whole_records
from privot.core.errors import PrivotError
from privot.integral.density import require_inside
from privot.integral.references import (
    Categorical,
    Floats,
    Integers,
    Marginal,
    ProductReference,
    Reference,
    Uniform,
    marginal_from_dict,
)
from privot.schema import Box, Column, Schema

MISSING_SHARE = 0.1
_CHUNK = 4096


@dataclass(frozen=True)
class PointSpace:
    """Space of an array's unchanged rows, with any public reference.

    Arguments:
        reference: Public density of the rows.
        unit: Owner of one row, such as `"person"`.

    Examples:
        >>> from privot.integral.references import StandardNormal
        >>> PointSpace(StandardNormal(2), "person").take([[0.0, 1.0]]).shape
        (1, 2)
    """

    reference: Reference
    unit: str
    schema: ClassVar[None] = None

    def take(self, data: Any) -> Floats:
        """Return rows (n, dim); refuse rows outside the support."""
        return require_inside(self.reference, data)

    def encode(self, raw: Floats, seed: int) -> Floats:
        """Return the rows themselves."""
        return raw

    def rows(self, raw: Floats) -> Iterator[Floats]:
        """Yield the rows, for the fingerprint by which repeated runs are recognized."""
        yield raw

    def decode(self, points: Floats) -> Floats:
        """Return drawn points (n, dim) themselves."""
        return points

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a reference that is no product is not among them."""
        return {"reference": self.reference.to_dict(), "unit": self.unit}


@dataclass(frozen=True)
class RecordSpace:
    """Space of points that represent a schema's records.

    Arguments:
        schema: Schema of the records.
        marginals: Public marginals by column, where they are not uniform.
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
        _ = self.reference  # refuses columns and marginals that do not fit

    @property
    def unit(self) -> str:
        """Owner of one row, such as a person."""
        return self.schema.unit

    @cached_property
    def reference(self) -> ProductReference:
        """Product of the marginals."""
        return ProductReference([m for part in self._coordinates.values() for m in part])

    @cached_property
    def _coordinates(self) -> dict[str, list[Marginal]]:
        return {name: self._of(name, column) for name, column in self.schema.columns.items()}

    def _of(self, name: str, column: Column) -> list[Marginal]:
        declared = self.marginals.get(name)
        if column.domain is None:
            return [self._codes(name, declared)]
        flag = [Categorical((1 - self.missing, self.missing))] if column.nullable else []
        numbers = _numbers(name, column)
        if declared is None:
            return [*numbers, *flag]
        if not column.is_number:
            raise PrivotError(f"marginal of column {name!r}: a vector's cannot be declared")
        # The marginal must cover all values between the bounds, or their density would be 0.
        ends = np.array([numbers[0].low, numbers[0].high], np.float64)
        whole = declared.num_values is None or numbers[0].num_values is not None
        if not whole or not declared.contains(ends).all():
            raise PrivotError(
                f"marginal of column {name!r} is {declared}, which leaves out some of what the schema "
                f"allows: give one over {numbers[0]}"
            )
        return [declared, *flag]

    def _codes(self, name: str, declared: Marginal | None) -> Marginal:
        alphabet = self.schema.coded[name].alphabet
        last = (self.missing,) if alphabet.nullable else ()
        listed = alphabet.size - len(last)
        if declared is None:
            return Categorical(((1 - sum(last)) / listed,) * listed + last)
        if declared.num_values != alphabet.size:
            raise PrivotError(
                f"marginal of column {name!r} has {declared.num_values} values: give one for each "
                f"of its {alphabet.size} categories, the missing one last"
            )
        return declared

    def take(self, data: Any) -> pa.Table:
        """Return a table or its file, checked against the schema."""
        return raw_table(data, self.schema)

    def encode(self, raw: pa.Table, seed: int) -> Floats:
        """Return points (n, dim) in the support, with random missing numbers; **not private**."""
        rng = np.random.default_rng(seed)
        return np.concatenate([self._encode(name, raw, rng) for name in self._coordinates], axis=1)

    def _encode(self, name: str, table: pa.Table, rng: np.random.Generator) -> Floats:
        if self.schema.columns[name].domain is None:
            return self.schema.coded[name].encode_codes(name, table).astype(np.float64)[:, None]
        column, marginals = self.schema.point_column(name), self._coordinates[name]
        raw = column.encode_points(name, table)
        absent = np.asarray(np.isnan(raw).any(axis=1))
        points = column.domain.project(np.where(absent[:, None], column.domain.center, raw))
        points = np.rint(points) if _is_whole(column) else points
        for j in range(points.shape[1]):
            points[absent, j] = marginals[j].sample(int(absent.sum()), rng)
        return np.concatenate([points, absent[:, None]], axis=1) if column.nullable else points

    def rows(self, raw: pa.Table) -> Iterator[Floats]:
        """Yield rows in chunks, encoded as by `privot.central`, so that accounts recognize them."""
        records = TableRecords(self.schema)
        for start in range(0, raw.num_rows, _CHUNK):
            values, _ = records.encode(raw.slice(start, _CHUNK))
            parts = whole_records(values.numpy(), np.zeros(len(values)))
            yield from (rows.astype(np.float64) for rows in parts)

    def decode(self, points: Floats) -> pa.Table:
        """Return drawn points (n, dim) as a table with the schema's columns."""
        columns: dict[str, pa.Array] = {}
        start = 0
        for name, column in self.schema.columns.items():
            own = points[:, start : start + len(self._coordinates[name])]
            start += own.shape[1]
            if column.domain is None:
                codes, unused = own[:, 0].astype(np.int64), np.random.default_rng(0)
                columns |= self.schema.coded[name].decode_codes(name, codes, unused)
            else:
                if column.nullable:
                    own = np.where(own[:, -1:] == 1, np.nan, own[:, :-1])
                columns |= self.schema.point_column(name).decode_points(name, own)
        return pa.table(columns).select(list(self.schema.table_columns))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "schema": self.schema.to_dict(),
            "marginals": {name: marginal.to_dict() for name, marginal in self.marginals.items()},
            "missing": self.missing,
        }


Space = PointSpace | RecordSpace


def space_from_dict(fields: dict[str, Any], reference: Reference | None) -> Space:
    """Build the space from `to_dict`; `reference` is used if the space's is not among the values."""
    if "schema" in fields:
        declared = {name: marginal_from_dict(plain) for name, plain in fields["marginals"].items()}
        return RecordSpace(Schema.from_dict(fields["schema"]), declared, fields["missing"])
    if fields["reference"] is not None:
        reference = ProductReference([marginal_from_dict(plain) for plain in fields["reference"]])
    assert reference is not None  # required by the caller, which read the fields
    return PointSpace(reference, fields["unit"])


def _numbers(name: str, column: Column) -> list[Uniform] | list[Integers]:
    """Return the uniform marginals between a column's bounds."""
    if column.image_shape is not None:
        raise PrivotError(
            f"column {name!r} is an image, too many numbers for a density: leave it out"
        )
    if not isinstance(column.domain, Box) or (column.nullable and not column.is_number):
        raise PrivotError(
            f"column {name!r} is a vector in a ball, on a line, or one that may be missing: declare "
            "bounds, and fill it in, or give an array with a reference of your own"
        )
    bounds = list(zip(column.domain.lower, column.domain.upper, strict=True))
    if _is_whole(column):
        return [Integers(int(low), int(high)) for low, high in bounds]
    return [Uniform(low, high) for low, high in bounds]


def _is_whole(column: Column) -> bool:
    """Return whether its numbers are integers; a vector's never are."""
    return getattr(column.alphabet, "integer", False)
