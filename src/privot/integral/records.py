r"""Record spaces: maps between records and points of R^dim, for a schema's tables and for arrays.

A `RecordSpace` represents columns by coordinates; the product of their public marginals is the reference
(`privot.integral.references`):

| column | coordinates | marginal unless declared |
|---|---|---|
| numeric, vector in a box | one each | uniform between the bounds; over the integers, if declared so |
| datetime | days or seconds since 1970 | uniform over those between the bounds |
| categorical, boolean | its code | uniform over the categories |

A nullable column of codes has one more code, of public probability `missing`. Nullable numbers have one
more coordinate, which indicates whether the value is missing; then the numbers are drawn from their
marginals, so that they carry no information, and decoding ignores them. Numbers are clipped to their
bounds.

**Privacy review: who sees what.** The reference depends only on the schema and on declared marginals,
and is public. Only the curator's process reads records, and error messages contain no values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from privot.central.fitting import raw_table, unit_rows
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

MISSING_SHARE = 0.1  # default probability that a nullable value is missing
_CHUNK = 4096  # rows encoded at once for the fingerprint


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
        """Return an array's rows (n, dim); refuse rows outside the support."""
        return require_inside(self.reference, data)

    def encode(self, raw: Floats, seed: int) -> Floats:
        """Return the rows (n, dim) unchanged."""
        return raw

    def rows(self, raw: Floats) -> Iterator[Floats]:
        """Yield the rows (n, dim), for the fingerprint that recognizes repeated runs."""
        yield raw

    def decode(self, points: Floats) -> Floats:
        """Return drawn points (n, dim) unchanged."""
        return points

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `space_from_dict`, without a reference that is no product."""
        return {"reference": self.reference.to_dict(), "unit": self.unit}


@dataclass(frozen=True)
class RecordSpace:
    """Space of points that represent a schema's records.

    Arguments:
        schema: Schema of the records.
        marginals: Public marginals by column, where not uniform; refused if they do not fit a column.
        missing: Public probability that a nullable value is missing, in (0, 1).

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
        by_column = self._marginals_by_column.values()
        return ProductReference([marginal for marginals in by_column for marginal in marginals])

    @cached_property
    def _marginals_by_column(self) -> dict[str, list[Marginal]]:
        """Marginals of the coordinates of each column."""
        return {name: self._marginals_of(name, col) for name, col in self.schema.columns.items()}

    def _marginals_of(self, name: str, column: Column) -> list[Marginal]:
        """Return the marginals of a column's code, or of its numbers and their indicator."""
        declared = self.marginals.get(name)
        if column.domain is None:
            return [self._marginal_of_codes(name, declared)]
        missing = [Categorical((1 - self.missing, self.missing))] if column.nullable else []
        numbers = _uniform_marginals(name, column)
        if declared is None:
            return [*numbers, *missing]
        if not column.is_number:
            raise PrivotError(f"marginal of column {name!r}, a vector, cannot be declared: omit it")
        # The marginal must cover all values between the bounds, or some would have density 0.
        (uniform,) = numbers
        ends = np.array([uniform.low, uniform.high], np.float64)
        only_integers = declared.num_values is not None and uniform.num_values is None
        if only_integers or not declared.contains(ends).all():
            raise PrivotError(
                f"marginal of column {name!r} is {declared}, and excludes some values that the schema "
                f"allows: give one over {uniform}"
            )
        return [declared, *missing]

    def _marginal_of_codes(self, name: str, declared: Marginal | None) -> Marginal:
        """Return the marginal of a column's code; the last code is that of missing values."""
        alphabet = self.schema.coded[name].alphabet
        missing = (self.missing,) if alphabet.nullable else ()
        listed = alphabet.size - len(missing)
        if declared is None:
            return Categorical(((1 - sum(missing)) / listed,) * listed + missing)
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
        columns = [self._encode_column(name, raw, rng) for name in self.schema.columns]
        return np.concatenate(columns, axis=1)

    def _encode_column(self, name: str, table: pa.Table, rng: np.random.Generator) -> Floats:
        """Return the coordinates (n, k) of a column."""
        if self.schema.columns[name].domain is None:
            return self.schema.coded[name].encode_codes(name, table).astype(np.float64)[:, None]
        column, marginals = self.schema.point_column(name), self._marginals_by_column[name]
        raw = column.encode_points(name, table)
        missing = np.asarray(np.isnan(raw).any(axis=1))
        points = column.domain.project(np.where(missing[:, None], column.domain.center, raw))
        points = np.rint(points) if _is_integer(column) else points
        for j in range(points.shape[1]):
            points[missing, j] = marginals[j].sample(int(missing.sum()), rng)
        return np.concatenate([points, missing[:, None]], axis=1) if column.nullable else points

    def rows(self, raw: pa.Table) -> Iterator[Floats]:
        """Yield rows in chunks, encoded as by `privot.central`, so that accounts recognize them."""
        for start in range(0, raw.num_rows, _CHUNK):
            values = unit_rows(self.schema, raw.slice(start, _CHUNK))
            parts = whole_records(values, np.zeros(len(values)))
            yield from (rows.astype(np.float64) for rows in parts)

    def decode(self, points: Floats) -> pa.Table:
        """Return drawn points (n, dim) as a table with the schema's columns."""
        columns: dict[str, pa.Array] = {}
        start = 0
        for name, column in self.schema.columns.items():
            coordinates = points[:, start : start + len(self._marginals_by_column[name])]
            start += coordinates.shape[1]
            if column.domain is None:
                codes, unused = coordinates[:, 0].astype(np.int64), np.random.default_rng(0)
                columns |= self.schema.coded[name].decode_codes(name, codes, unused)
            else:
                if column.nullable:
                    missing = coordinates[:, -1:] == 1
                    coordinates = np.where(missing, np.nan, coordinates[:, :-1])
                columns |= self.schema.point_column(name).decode_points(name, coordinates)
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
    """Build the space from `to_dict`; `reference` is used if the values contain none."""
    if "schema" in fields:
        declared = {name: marginal_from_dict(plain) for name, plain in fields["marginals"].items()}
        return RecordSpace(Schema.from_dict(fields["schema"]), declared, fields["missing"])
    if fields["reference"] is not None:
        reference = ProductReference([marginal_from_dict(plain) for plain in fields["reference"]])
    assert reference is not None  # required by the caller, which read the fields
    return PointSpace(reference, fields["unit"])


def _uniform_marginals(name: str, column: Column) -> list[Uniform] | list[Integers]:
    """Return the uniform marginals between a column's bounds."""
    if column.image_shape is not None:
        raise PrivotError(
            f"column {name!r} is an image, which has too many numbers for a density: leave it out"
        )
    if not isinstance(column.domain, Box) or (column.nullable and not column.is_number):
        raise PrivotError(
            f"column {name!r} has no bounds, or is a vector that may be missing: declare bounds and "
            "fill in missing values, or give an array with a reference of your own"
        )
    bounds = list(zip(column.domain.lower, column.domain.upper, strict=True))
    if _is_integer(column):
        return [Integers(int(low), int(high)) for low, high in bounds]
    return [Uniform(low, high) for low, high in bounds]


def _is_integer(column: Column) -> bool:
    """Return whether the numbers of a column are integers; those of a vector never are."""
    return getattr(column.alphabet, "integer", False)
