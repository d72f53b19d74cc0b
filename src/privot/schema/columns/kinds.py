"""Columns: what one part of a record may be, declared in public and by hand.

A column says which table columns it covers and what values they may hold. None of its fields is ever
computed from data: bounds, bins, categories and radii are public knowledge, or they leak.

There are two ways to report a column, and a column offers one or both:

- as a **point** of its [`Domain`][privot.schema.domains.domain.Domain], with noise added: `numeric`,
  `datetime`, `vector` and `array` columns (`privot.schema.columns.array`);
- as a **code** of its [`Alphabet`][privot.schema.columns.alphabet], one of finitely many: every column
  of a table but vectors and arrays, numbers and dates in public bins.
"""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from privot.errors import PrivotError
from privot.schema.columns.alphabet import Bins, Categories, choose_edges
from privot.schema.columns.array import ArrayColumn
from privot.schema.columns.declaration import Bounds, Declaration
from privot.schema.domains.domain import Box, Domain, L1Ball, L2Ball
from privot.schema.domains.polyline import Polyline

_DAY = 86_400
_EPOCH = dt.datetime(1970, 1, 1)


def _as_text(moment: object) -> object:
    return moment.isoformat() if isinstance(moment, dt.date) else moment


# A date or a time in ISO 8601; TOML's own dates are welcome.
Moment = Annotated[str, BeforeValidator(_as_text)]


class _ScalarColumn(Declaration):
    """A column that covers the one table column of its own name."""

    nullable: bool = False

    def table_columns(self, name: str) -> tuple[str, ...]:
        """Names of the table columns that hold this column's values."""
        return (name,)


class NumericColumn(_ScalarColumn):
    """One number between two public bounds.

    Arguments:
        bounds: Smallest and largest value.
        integer: Whether only integers occur.
        bins: How the number is coded: a number of equal bins, or their edges (the outer two are the
            bounds), or `"integers"` for a code each; ten bins by default.
        spikes: Values that many people share exactly, each with a code of its own.
        nullable: Whether it may be missing.
    """

    kind: Literal["numeric"]
    bounds: Bounds
    integer: bool = False
    bins: int | tuple[float, ...] | Literal["integers"] | None = None
    spikes: tuple[float, ...] = ()

    @cached_property
    def domain(self) -> Domain:
        """The interval of the bounds."""
        return Box((self.bounds[0],), (self.bounds[1],))

    @cached_property
    def alphabet(self) -> Bins:
        """Bins, spikes, and the missing value."""
        low, high = self.bounds
        if isinstance(self.bins, tuple):
            if not self.bins or (self.bins[0], self.bins[-1]) != self.bounds:
                raise PrivotError(
                    f"bins {list(self.bins)} do not begin and end with the bounds "
                    f"{list(self.bounds)}: give all edges, the bounds included"
                )
            last = high + 1 if self.integer else high
            edges = (*self.bins[:-1], last)
        elif self.bins == "integers":
            if not self.integer:
                raise PrivotError("bins 'integers' need integer = true: declare it, or other bins")
            edges = choose_edges(low, high, True, int(high) - int(low) + 1)
        else:
            edges = choose_edges(low, high, self.integer, self.bins)
        return Bins(edges, tuple(sorted(self.spikes)), self.integer, self.nullable)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every code."""
        return self.alphabet.labels

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain  # building it checks the bounds
        if self.integer and any(bound != round(bound) for bound in self.bounds):
            raise PrivotError(f"bounds {list(self.bounds)} of an integer column: give integers")
        _ = self.alphabet
        return self


class DatetimeColumn(_ScalarColumn):
    """A date, or a time to the second, between two public bounds; coded in bins like a number.

    Arguments:
        bounds: First and last moment, dates or times without an offset (they are UTC).
        resolution: `"day"` or `"second"`.
        bins: A number of equal bins, or their edges; ten bins by default.
        nullable: Whether it may be missing.
    """

    kind: Literal["datetime"]
    bounds: tuple[Moment, Moment]
    resolution: Literal["day", "second"] = "day"
    bins: int | tuple[Moment, ...] | None = None

    @property
    def unit(self) -> int:
        """Seconds in one step of the resolution."""
        return _DAY if self.resolution == "day" else 1

    def number(self, moment: str) -> float:
        """Steps of the resolution since 1970, rounded down."""
        try:
            time = dt.datetime.fromisoformat(moment)
        except ValueError:
            raise PrivotError(
                f"{moment!r} is not a date: write it as 2024-05-31 or 2024-05-31T12:00:00"
            ) from None
        if time.tzinfo is not None:
            time = time.astimezone(dt.UTC).replace(tzinfo=None)
        return float((time - _EPOCH) // dt.timedelta(seconds=self.unit))

    def moment(self, number: float) -> str:
        """The date or time of a number of steps since 1970."""
        time = _EPOCH + dt.timedelta(seconds=number * self.unit)
        return (time.date() if self.resolution == "day" else time).isoformat()

    @cached_property
    def domain(self) -> Domain:
        """The interval of the bounds, in steps of the resolution since 1970."""
        return Box((self.number(self.bounds[0]),), (self.number(self.bounds[1]),))

    @cached_property
    def alphabet(self) -> Bins:
        """Bins of steps since 1970, and the missing value."""
        low, high = (self.number(bound) for bound in self.bounds)
        if isinstance(self.bins, tuple):
            inner = [self.number(moment) for moment in self.bins]
            if not inner or (inner[0], inner[-1]) != (low, high):
                raise PrivotError(
                    "bins do not begin and end with the bounds: give all edges, bounds included"
                )
            edges = (*inner[:-1], high + 1)
        else:
            edges = choose_edges(low, high, True, self.bins)
        return Bins(edges, (), integer=True, nullable=self.nullable)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every code: the first and the last moment of each bin."""
        edges = self.alphabet.edges
        bins = tuple(
            f"{self.moment(low)} to {self.moment(high - 1)}" for low, high in pairwise(edges)
        )
        return bins + self.alphabet.labels[len(bins) :]

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain, self.alphabet  # building them checks bounds and bins
        return self


class CategoricalColumn(_ScalarColumn):
    """One of a public list of categories.

    Arguments:
        categories: The list.
        other: The category, one of the list or one more, that stands for whatever is not listed;
            without it, a value that is not listed is refused.
        nullable: Whether it may be missing.
    """

    kind: Literal["categorical"]
    categories: tuple[str, ...]
    other: str | None = None

    @cached_property
    def alphabet(self) -> Categories:
        """The categories, `other`, and the missing value."""
        more = () if self.other is None or self.other in self.categories else (self.other,)
        return Categories(self.categories + more, self.other, self.nullable)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every code."""
        return self.alphabet.labels

    @model_validator(mode="after")
    def _check(self) -> Self:
        repeated = sorted({c for c in self.categories if self.categories.count(c) > 1})
        if repeated:
            raise PrivotError(f"categories {repeated} are declared twice: declare each once")
        if not self.categories or self.alphabet.size < 2:
            raise PrivotError(
                f"categories {list(self.categories)} leave nothing to hide: declare at least two"
            )
        return self


class BooleanColumn(_ScalarColumn):
    """True or false."""

    kind: Literal["boolean"]

    @property
    def alphabet(self) -> Categories:
        """False, true, and the missing value."""
        return Categories(("false", "true"), None, self.nullable)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every code."""
        return self.alphabet.labels


class VectorColumn(Declaration):
    """Several numbers under one domain: a box, an ℓ1 or ℓ2 ball, or a known support.

    Exactly one of `bounds` (a pair a coordinate), `radius` (with `norm` 1 or 2, and `non_negative`
    where it is known) and `support` (corners of a public polyline) declares the domain. With
    `nullable`, the vector may be missing: it is, if any of its coordinates is.
    """

    kind: Literal["vector"]
    columns: tuple[str, ...]
    bounds: tuple[Bounds, ...] | None = None
    radius: float | None = None
    norm: Literal[1, 2] = 2
    non_negative: bool = False
    support: tuple[tuple[float, ...], ...] | None = None
    nullable: bool = False

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


# Columns that can be reported as a code, and as a point.
CodedColumn = NumericColumn | DatetimeColumn | CategoricalColumn | BooleanColumn
PointColumn = NumericColumn | DatetimeColumn | VectorColumn | ArrayColumn
Column = Annotated[CodedColumn | VectorColumn | ArrayColumn, Field(discriminator="kind")]
