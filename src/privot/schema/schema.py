"""The schema: what one record may be, whose record it is, and nothing that was learned from data.

It is written by hand as `schema.toml`, shared with everyone, and travels as canonical JSON inside
every randomizer, release and model. Because noise is scaled to what the schema declares, a schema
computed from private data would itself leak; there is no function here that does it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self, cast

import numpy as np
import pyarrow as pa
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    model_validator,
)  # fmt: skip

from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from privot.core.summary import Summarized
from privot.schema.columns.alphabet import Codes
from privot.schema.columns.array import ArrayColumn
from privot.schema.columns.column import CodedColumn, Column, PointColumn
from privot.schema.columns.identifier import IdentifierColumn
from privot.schema.promise import Promise
from privot.schema.rules import Rules

_MISSING = {
    "bounds": "declare them in the schema (public knowledge; never computed from the data)",
    "categories": "list them in the schema (public knowledge; never computed from the data)",
    "columns": "name the table columns that make up the vector",
    "pattern": r"say what it looks like, as in pattern = 'P-\d{6}'",
    "shape": "declare it, as in shape = [28, 28] or shape = [64, 64, 3]",
}


class Schema(Summarized, BaseModel):
    """Columns of one record, in order, and the `unit` (a person, a household) it belongs to.

    Arguments:
        unit: Whom one record belongs to.
        rules: What samples keep, in words (`privot.schema.rules`).
        promise: ε, and who is trusted for it (`privot.schema.promise`), if it is declared here.
        declared: All columns by name, in a file `columns`; also those that no report is about.

    Examples:
        >>> schema = Schema.from_toml('''
        ... [columns.age]
        ... kind = "numeric"
        ... bounds = [17, 90]
        ... ''')
        >>> schema.table_columns
        ('age',)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: str = Field(default="person", min_length=1)
    rules: tuple[str, ...] = ()
    promise: Promise | None = None
    declared: dict[str, SerializeAsAny[Annotated[Column, BeforeValidator(Column.of_kind)]]] = Field(
        min_length=1, alias="columns"
    )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read `schema.toml` (or the canonical JSON, by suffix)."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PrivotError(f"schema {path} cannot be read: {error}") from None
        return cls.from_json(text) if path.suffix == ".json" else cls.from_toml(text)

    def save(self, path: str | Path) -> None:
        """Write the canonical JSON, which `load` reads; an existing file survives any failure.

        Raises:
            PrivotError: if the path does not end with `.json`, or cannot be written.
        """
        if Path(path).suffix != ".json":
            raise PrivotError(f"schema {path} is written as JSON: give a path that ends with .json")
        with replacing_file(path) as draft:
            draft.write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Parse a schema written in TOML."""
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise PrivotError(f"the schema is not TOML: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the canonical JSON of [`to_json`][privot.schema.schema.Schema.to_json]."""
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise PrivotError(f"the schema is not JSON: {error}") from None

    @classmethod
    def from_dict(cls, fields: Any) -> Self:
        """Check plain values and build the schema."""
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise PrivotError(_explain(error)) from None

    def to_json(self) -> str:
        """Canonical JSON: the same schema always gives the same text."""
        return json.dumps(self.to_dict(), sort_keys=False, separators=(",", ":"))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without fields that were left at their defaults."""
        held = self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        return held | {"unit": self.unit}

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        kinds = {name: column.kind for name, column in self.columns.items()}
        return {"columns": kinds, "one record per": self.unit}

    @cached_property
    def read_rules(self) -> Rules:
        """Its rules, read."""
        return Rules.of(self.rules, self.declared)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The columns that reports are about: all but identifiers, and those that rules define."""
        made = self.read_rules.defined
        return {n: c for n, c in self.declared.items() if c.reported and n not in made}

    @cached_property
    def identifiers(self) -> dict[str, IdentifierColumn]:
        """The columns that are made up for every sample."""
        return {n: cast(IdentifierColumn, c) for n, c in self.declared.items() if not c.reported}

    @cached_property
    def coded(self) -> dict[str, CodedColumn]:
        """The columns that can be reported as codes."""
        return {n: cast(CodedColumn, c) for n, c in self.columns.items() if c.alphabet is not None}

    @cached_property
    def points(self) -> dict[str, PointColumn]:
        """The columns that can be reported as points."""
        return {n: cast(PointColumn, c) for n, c in self.columns.items() if c.domain is not None}

    @cached_property
    def images(self) -> dict[str, ArrayColumn]:
        """The columns of images."""
        return {
            n: cast(ArrayColumn, c) for n, c in self.columns.items() if c.image_shape is not None
        }

    @cached_property
    def vectors(self) -> dict[str, PointColumn]:
        """The columns of several numbers, which are no images."""
        points = self.points.items()
        return {n: c for n, c in points if n not in self.images and not c.is_number}

    def encode_codings(self, names: Collection[str], table: pa.Table) -> Codes:
        """Raw values of columns as codes (n, q) of all their codings, one column's after another's."""
        codes = [self.coded[name].encode_codings(name, table) for name in names]
        # Those of a coding lie together.
        return np.concatenate([np.empty((0, table.num_rows), np.int64), *codes]).T

    def point_column(self, name: str) -> PointColumn:
        """A column that has a domain, so that it can be reported as a point.

        Raises:
            PrivotError: for a column of categories.
        """
        if name not in self.points:
            raise PrivotError(
                f"column {name!r} is {self.columns[name].kind}, which has no domain to add noise in: "
                "report it by a mechanism for categories"
            )
        return self.points[name]

    @property
    def table_columns(self) -> tuple[str, ...]:
        """Names of the table columns that reports are about, in the order of the schema."""
        return tuple(part for name, c in self.columns.items() for part in c.table_columns(name))

    @property
    def sampled_columns(self) -> tuple[str, ...]:
        """Names of all table columns that samples have, in the order of the schema."""
        return tuple(part for name, c in self.declared.items() for part in c.table_columns(name))

    @property
    def unread_columns(self) -> tuple[str, ...]:
        """Names of the table columns that records may have, and that nothing is read of."""
        return tuple(name for name in self.sampled_columns if name not in self.table_columns)

    def check_table(self, table: pa.Table) -> None:
        """Refuse tables that lack columns of the reports, have others than the schema's, or no rows."""
        names = table.column_names
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise PrivotError(f"columns {repeated} appear twice in the table: rename or remove one")
        missing = [name for name in self.table_columns if name not in names]
        if missing:
            raise PrivotError(
                f"columns {missing} are missing from the table, which has {names}: "
                "add them, or remove them from the schema"
            )
        extra = [name for name in names if name not in self.sampled_columns]
        if extra:
            raise PrivotError(
                f"columns {extra} are not in the schema: remove them from the table, or declare them"
            )
        if table.num_rows == 0:
            raise PrivotError("the table has no rows: give at least one record")

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = self.sampled_columns
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise PrivotError(f"table columns {repeated} are declared twice: declare each once")
        if not self.columns:
            raise PrivotError(
                f"columns {list(self.declared)} are all made up, or defined by rules: declare one to "
                "report"
            )
        return self


def _explain(error: ValidationError) -> str:
    """Write one of pydantic's complaints as one line that names column, value and remedy.

    A misspelled field comes first: it explains what is missing.
    """
    detail = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    location = [str(part) for part in detail["loc"]]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    of_column = len(location) >= 2 and location[0] == "columns"
    where = f" of column {location[1]!r}" if of_column else ""
    field = ".".join(location[2:] if of_column else location)
    kinds = f"say one of {', '.join(sorted(Column.kinds))}"
    if detail["type"] == "kind_missing":
        return f"kind{where} is missing: {kinds}{more}"
    if detail["type"] == "kind_unknown":
        return f"kind {detail['input']['kind']!r}{where} is not known: {kinds}{more}"
    if detail["type"] == "missing":
        remedy = _MISSING.get(field, "declare it in the schema")
        if not where and field == "columns":
            remedy = "declare at least one, as [columns.NAME]"
        verb = "are" if field.endswith("s") else "is"
        return f"{field}{where} {verb} missing: {remedy}{more}"
    if detail["type"] == "extra_forbidden":
        return f"{field or 'field'}{where} is not known: correct its spelling or remove it{more}"
    if detail["type"] in ("value_error", "assertion_error"):
        message = str((detail.get("ctx") or {}).get("error", detail["msg"]))
        return f"{where.removeprefix(' of ')}{': ' if where else ''}{message}{more}"
    pairs = detail["type"] == "tuple_type"
    problem = "give a pair [low, high] for each" if pairs else detail["msg"]
    return f"{field or 'schema'}{where} = {detail['input']!r} cannot be used: {problem}{more}"
