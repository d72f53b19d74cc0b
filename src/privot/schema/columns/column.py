"""Columns: public declarations of the values that one part of a record may have.

A column declares which columns of a table it covers and which values they may contain. Its fields are
never computed from data, since bounds, bins, categories or radii computed from data would leak.

A column can be reported in one or both of two ways, by its kind:

- as a **point** of its [`Domain`][privot.schema.domains.Domain], with noise added;
- as a **code** of its [`Alphabet`][privot.schema.columns.alphabet], one of finitely many.

A kind is a class that derives from [`PointColumn`][privot.schema.columns.column.PointColumn],
[`CodedColumn`][privot.schema.columns.column.CodedColumn] or both, and declares its name as
`kind: Literal["…"]`; from then on schemas may use it. Other packages look at a column's `domain`,
`alphabet` and `image_shape`, never at its kind. Methods take the column's `name` in the schema, which
the column itself does not store.

Encoding runs on the device. It reads raw values and stores nothing; a value that the schema does not
allow raises an error that names the column and the row. Decoding is for sampled records: it restores
types, categories, integers, dates, missing values and bounds.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from privot.core.errors import PrivotError, register_kind
from privot.schema.columns.alphabet import MISSING, Alphabet, Codes
from privot.schema.columns.raw_values import Problem, refuse
from privot.schema.domains import Array, Domain, to_unit

Bounds = tuple[float, float]
TableColumns = dict[str, pa.Array]  # by name
OutOfBounds = Literal["refuse", "clip"]
RANGE = ".."  # between the ends of a range in a condition, as in "30..40"


class Column(BaseModel):
    """Base of all kinds of columns: frozen pydantic models that refuse unknown fields.

    Arguments:
        nullable: Whether a value may be missing.
        kind: Name of the kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    nullable: bool = False
    kind: str

    kinds: ClassVar[dict[str, "type[Column]"]] = {}  # all kinds, by name
    # Whether devices report it; other columns are generated for samples and never read.
    reported: ClassVar[bool] = True
    # Type of its values in rules; None if rules cannot name it.
    in_rules: ClassVar[Literal["number", "date", "text", "truth"] | None] = None
    holds_numbers: ClassVar[bool] = False  # whether texts in a CSV are parsed as numbers
    is_number: ClassVar[bool] = False  # whether a value is one number or date (`NumberColumn`)
    open_vocabulary: ClassVar[bool] = False  # whether a pilot has to find its values (`WordColumn`)

    def __eq__(self, other: object) -> bool:
        """Compare the declared fields, not cached properties."""
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in type(self).model_fields
        )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        for kind in get_args(cls.model_fields["kind"].annotation):
            register_kind(Column.kinds, kind, cls, "column")

    @classmethod
    def of_kind(cls, fields: Any) -> "Column":
        """Build a column from its fields, one of which is `kind`."""
        if isinstance(fields, Column):
            return fields
        if not isinstance(fields, Mapping):
            raise PydanticCustomError("no_fields", "give its kind and what the kind declares")
        if "kind" not in fields:
            raise PydanticCustomError("kind_missing", "kind is missing")
        if str(fields["kind"]) not in Column.kinds:
            raise PydanticCustomError("kind_unknown", "kind is not known")
        return Column.kinds[fields["kind"]].model_validate(fields)

    @property
    def domain(self) -> Domain | None:
        """Domain of its points; None if it cannot be reported as a point."""
        return None

    @property
    def alphabet(self) -> Alphabet | None:
        """Alphabet of its codes; None if it cannot be reported as a code."""
        return None

    @property
    def declares_codes(self) -> bool:
        """Whether the schema declares its codes, instead of using default bins."""
        return self.alphabet is not None

    def code_program(self, name: str, codings: Sequence[Any]) -> dict[str, Any] | None:
        """Return the encoding of codes of codings (`privot.device.device`); None if devices lack it."""
        return None

    def point_program(self, name: str) -> dict[str, Any] | None:
        """Return the encoding of unit coordinates; None if devices lack it."""
        domain = self.domain
        if domain is None or domain.program is None or self.image_shape is not None:
            return None
        columns = list(self.table_columns(name))
        encoding = {"take": "point", "columns": columns, "domain": domain.program}
        return encoding | {"nullable": self.nullable}

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """(Height, width[, channels]) of its images; None for other columns."""
        return None

    def title(self, name: str) -> str:
        """Return its title in reports: its name, with the unit of measurement if there is one."""
        return name

    def table_columns(self, name: str) -> tuple[str, ...]:
        """Return the names of its table columns."""
        return (name,)

    def in_format(self, name: str, table: pa.Table) -> pa.Table:
        """Return a table of sampled records with this column as its schema writes it."""
        return table

    @abstractmethod
    def read(self, name: str, table: pa.Table) -> tuple[NDArray[Any], list[Problem]]:
        """Return (raw values (n, …) in the kind's representation, all their problems)."""

    def accept(self, name: str, table: pa.Table) -> NDArray[Any]:
        """Return the values of `read`; raise a RecordError for the first row that has a problem."""
        values, problems = self.read(name, table)
        if problems:
            refuse(problems)
        return values


class PointColumn(Column):
    """Base of columns that can be reported as a point of their domain."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Domain of its points."""

    def encode_points(self, name: str, table: pa.Table) -> Array:
        """Return raw values as points (n, d), not projected to the domain; rows of NaN are missing."""
        return self.accept(name, table)

    def in_values(self, points: Array) -> Array:
        """Return points (n, d) in the table's units, not rounded; dates are steps since 1970."""
        return points

    def encode_units(self, name: str, table: pa.Table) -> Array:
        """Return raw values in unit coordinates (n, d), projected to the domain; NaN is missing."""
        domain, raw = self.domain, self.encode_points(name, table)
        if not self.nullable:
            return self._project(raw)
        absent = np.isnan(raw).any(axis=1, keepdims=True)
        return np.where(absent, np.nan, self._project(np.where(absent, domain.center, raw)))

    def _project(self, raw: Array) -> Array:
        """Return points (n, d), none missing, projected to the domain and in unit coordinates."""
        units = to_unit(self.domain, self.domain.project(raw))
        # Division by the scale rounds; after a second projection the diameter Δ holds exactly.
        return self.domain.unit.project(units)

    def decode_points(self, name: str, points: Array) -> TableColumns:
        """Project points (n, d) to the domain and return table columns; rows of NaN are missing."""
        absent = np.asarray(np.isnan(points).any(axis=1))
        points = self.domain.project(np.where(absent[:, None], self.domain.center, points))
        return self._write_points(name, np.where(absent[:, None], np.nan, points))

    def count_outside(self, name: str, table: pa.Table) -> int:
        """Return the number of raw values outside the domain; missing values do not count."""
        return int(self._outside(self.encode_points(name, table)).any(axis=1).sum())

    def _outside(self, points: Array) -> NDArray[np.bool_]:
        """Return a mask (n, d) of coordinates that projection moves by more than rounding errors."""
        present, outside = ~np.isnan(points).any(axis=1), np.zeros(points.shape, np.bool_)
        moved = np.abs(self.domain.project(points[present]) - points[present])
        outside[present] = moved > self._rounding_errors
        return outside

    @property
    def _rounding_errors(self) -> Array:
        """Largest rounding error of each coordinate (d,)."""
        return 1e-9 * self.domain.scale

    def refused(self, name: str, table: pa.Table, default: OutOfBounds) -> list[Problem]:
        """Return the problems of raw values out of bounds, if the column or else the default refuses."""
        return []

    @abstractmethod
    def make_up_points(self, name: str, units: Array) -> TableColumns:
        """Return table columns of test values at unit coordinates (n, d), some outside the domain.

        Rows of NaN are missing. Audits of devices use these values, because only values beyond the
        bounds detect an encoder that does not project them.
        """

    @abstractmethod
    def _write_points(self, name: str, points: Array) -> TableColumns:
        """Return the table columns of points (n, d) of the domain; rows of NaN are missing."""


class CodedColumn(Column):
    """Base of columns that can be reported as a code of their alphabet."""

    @property
    @abstractmethod
    def alphabet(self) -> Alphabet:
        """Alphabet of its codes."""

    @cached_property
    def codings(self) -> tuple[Alphabet, ...]:
        """The c alphabets that a joint report may use; by default, only `alphabet`."""
        return (self.alphabet,)

    @cached_property
    def atoms(self) -> tuple[Alphabet, Codes]:
        """Coarsest alphabet that refines all c codings, and the codes (c, a) of its a atoms in each."""
        alphabet = self.alphabet
        return alphabet, np.arange(alphabet.size)[None]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all codes."""
        return self.labels_in(self.alphabet)

    def labels_in(self, coding: Any) -> tuple[str, ...]:
        """Return the labels of all codes of a coding."""
        return tuple(coding.labels)

    def find_code(self, name: str, value: object) -> int:
        """Return the code of a value in a condition, given by its label; None means missing.

        Raises:
            PrivotError: listing the labels, for a value that is not a label.
        """
        label = MISSING if value is None else value
        if label not in self.labels:
            known = ", ".join(repr(known) for known in self.labels[:8])
            more = ", …" if len(self.labels) > 8 else ""
            raise PrivotError(f"where gives column {name!r} the value {value!r}: use {known}{more}")
        return self.labels.index(str(label))

    def find_codes(self, name: str, value: object) -> list[int]:
        """Return the codes of a value in a condition; for a range, all bins that intersect it."""
        return [self.find_code(name, value)]

    def encode_codes(self, name: str, table: pa.Table) -> Codes:
        """Return raw values as codes (n,) of the alphabet."""
        return self.accept(name, table)

    def encode_atoms(self, name: str, table: pa.Table) -> Codes:
        """Return raw values as codes (n,) of the atoms."""
        return self.encode_codes(name, table)

    def encode_codings(self, name: str, table: pa.Table) -> Codes:
        """Return raw values as codes (c, n) of all codings."""
        return self.atoms[1][:, self.encode_atoms(name, table)]

    @abstractmethod
    def decode_codes(self, name: str, codes: Codes, rng: Generator) -> TableColumns:
        """Return the table columns of codes (n,); a number is drawn within its bin."""

    def refined(self, name: str, drawn: pa.Table, rarest: float = 0.0) -> Self:
        """Return the column with codes that suit records drawn from a model.

        Numbers get typical numbers, and spikes; categories with a share below `rarest` are merged into
        `other`, if there is one. `drawn` must not be raw records.
        """
        return self

    def decode_atoms(self, name: str, atoms: Codes, rng: Generator) -> TableColumns:
        """Return the table columns of atoms (n,); a number is drawn within its atom."""
        return self.decode_codes(name, atoms, rng)

    def common_values(self, name: str, others: Sequence["CodedColumn"]) -> TableColumns:
        """Return table columns with at least one raw value for each combination of codes.

        A combination consists of a code in this declaration of the column, and a code in each of
        `others`, which are declarations of the column in other schemas, of the same kind.

        Raises:
            PrivotError: if the declarations cannot be compared.
        """
        if any(other != self for other in others):
            raise PrivotError(
                f"column {name!r} is declared otherwise in another release, which only numbers and "
                "categories may be: fit the releases apart"
            )
        return self.decode_codes(name, np.arange(self.alphabet.size), np.random.default_rng(0))

    def make_up_codes(self, name: str, coding: Any, codes: Codes, rng: Generator) -> TableColumns:
        """Return table columns of raw test values with codes (n,) in a coding, or in the atoms.

        Some values lie far outside the bounds, for audits, as in `make_up_points`.
        """
        return self.decode_codes(name, codes, rng)


class BoundedColumn(PointColumn, CodedColumn):
    """Base of columns of numbers in a domain, with a rule for values out of bounds.

    **Privacy review.** Both rules are functions of one record, and a clipped record is in the domain, so
    Δ and ε do not change. A device refuses before it draws anything, and only its owner learns it. But
    a device whose value nobody corrects sends nothing, which the collector may notice: declare `"clip"`
    for values that no person enters. Refusals of tables name column, row and bounds, and the counts of
    clipped values are exact; both are **not private**, and for the holder of the table alone.

    Arguments:
        out_of_bounds: Whether to `"refuse"` values outside the domain, or to `"clip"` (project) them. By
            default devices refuse, and tables are clipped.
    """

    out_of_bounds: OutOfBounds | None = None

    @abstractmethod
    def limits(self, axis: int) -> str:
        """Return the bounds of a coordinate in words."""

    def refused(self, name: str, table: pa.Table, default: OutOfBounds) -> list[Problem]:
        if (self.out_of_bounds or default) == "clip":
            return []
        outside = self._outside(self.encode_points(name, table))
        remedy = 'correct it, or declare out_of_bounds = "clip"'
        return [
            Problem(part, f"is out of bounds ({self.limits(axis)})", remedy, outside[:, axis])
            for axis, part in enumerate(self.table_columns(name))
            if outside[:, axis].any()
        ]

    def point_program(self, name: str) -> dict[str, Any] | None:
        encoding = super().point_program(name)
        return encoding and encoding | self.clip_program

    @property
    def clip_program(self) -> dict[str, str]:
        """Field of a device's program by which it clips; without it, a device refuses."""
        return {"out_of_bounds": "clip"} if self.out_of_bounds == "clip" else {}
