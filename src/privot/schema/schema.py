"""The schema: public declaration of the columns of one record, its unit, and the promised guarantee.

It is written by hand as `schema.toml`, public, and stored as canonical JSON in every randomizer, release
and model. Because noise is scaled to the declared bounds, a schema computed from private data would
itself leak; no function here computes one.

**The promise** states ε, δ and the trust model, before anybody reports:

```toml
[promise]
epsilon = 1
where = "shuffled"
delta = 1e-8
people = 200_000
floor = 8
```

- `"local"`: nobody is trusted; the noise of each report suffices.
- `"shuffled"`: a shuffler permutes batches of at least `people` reports, which it cannot read. If the
  shuffler is dishonest, each report still has the ε₀ of its own noise, at most `floor`.
- `"aggregated"`: two servers, one of which is honest, sum secret shares of counts.
- `"central"`: a trusted curator holds the records (`privot.central`).

All but `"local"` need a δ.
"""

import json
import re
import tomllib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast, get_args

import numpy as np
import pyarrow as pa
import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, model_validator

from privot.core.errors import PrivotError, require_choice, require_finite, require_people
from privot.core.files import read_text, write_file
from privot.core.summary import Summarized
from privot.privacy.rounding import at_most, require_delta
from privot.schema.columns.alphabet import Codes
from privot.schema.columns.array import ArrayColumn
from privot.schema.columns.column import CodedColumn, Column, OutOfBounds, PointColumn
from privot.schema.columns.identifier import IdentifierColumn
from privot.schema.columns.raw_values import refuse
from privot.schema.columns.word import WordColumn
from privot.schema.rules import Rules

# Remedies for missing fields.
_MISSING = {
    "bounds": "declare them in the schema (public knowledge; never computed from the data)",
    "categories": "list them in the schema (public knowledge; never computed from the data)",
    "columns": "name the table columns that make up the vector",
    "pattern": r"declare it, as in pattern = 'P-\d{6}'",
    "shape": "declare it, as in shape = [28, 28] or shape = [64, 64, 3]",
}

TrustModel = Literal["local", "shuffled", "aggregated", "central"]


@dataclass(frozen=True)
class Promise:
    """Promised ε and δ, and the trust model.

    Arguments:
        epsilon: ε of one unit's record, > 0.
        where: Trust model: `"local"`, `"shuffled"`, `"aggregated"` or `"central"`.
        delta: δ; it may be 0 for `"local"`, and must be in (0, 1/`people`) otherwise.
        people: Least number of records in a batch, for all but `"local"`; no smaller batch is opened.
        floor: Largest ε₀ of one report by itself, at least ε; optional, for `"shuffled"` only.

    Raises:
        PrivotError: if a number does not suit the trust model.

    Examples:
        >>> print(Promise(epsilon=1, where="shuffled", delta=1e-6, people=200_000))
        ε = 1, δ = 1e-06, shuffled, at least 200,000 people
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    epsilon: float
    where: str = "local"
    delta: float = 0.0
    people: int | None = None
    floor: float | None = None

    def __post_init__(self) -> None:
        require_finite("epsilon", self.epsilon, positive=True)
        require_choice("where", self.where, get_args(TrustModel))
        if self.where == "local":
            require_delta(self.delta)
            self._require_none("people", "floor")
            return
        if not self.delta:
            raise PrivotError(
                f"delta is 0, and where is {self.where!r}: give a δ far below one over the number of "
                "people, such as 1e-8"
            )
        require_delta(self.delta, positive=True)
        if self.people is None:
            raise PrivotError(
                f"people is missing, and where is {self.where!r}: give the least number of records in a "
                "batch, which is not opened before"
            )
        require_people(self.people)
        if self.delta >= 1 / self.people:
            raise PrivotError(
                f"delta is {self.delta!r}: with {self.people:,} people, publishing one whole record has "
                f"that δ; give less than {0.1 / self.people:.1g}"
            )
        if self.where != "shuffled":
            self._require_none("floor")
        elif self.floor is not None and self.floor < self.epsilon:
            raise PrivotError(
                f"floor is {self.floor!r}, below epsilon {self.epsilon!r}: the noise of a report is "
                "never more than local privacy needs; give a larger floor, or where = 'local'"
            )

    def _require_none(self, *names: str) -> None:
        """Raise PrivotError if a field that the trust model does not use is given."""
        for name in names:
            if getattr(self, name) is not None:
                raise PrivotError(
                    f"{name} is {getattr(self, name)!r}, which {self.where!r} has no use for: leave it "
                    "out"
                )

    def __str__(self) -> str:
        delta = f", δ = {at_most(self.delta, 3)}" if self.delta else ""
        people = f", at least {self.people:,} people" if self.people else ""
        floor = f", ε = {at_most(self.floor)} by itself" if self.floor else ""
        return f"ε = {at_most(self.epsilon)}{delta}, {self.where}{people}{floor}"


class Schema(Summarized, BaseModel):
    """Public declaration of one record: its columns, in order, and the unit that it belongs to.

    Arguments:
        unit: Owner of one record, such as a person or a household.
        rules: Rules that samples satisfy (`privot.schema.rules`).
        promise: Promised guarantee, if the schema declares one.
        declared: All columns by name (`columns` in a file), including those that are not reported.

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
        """Read a file of TOML, or of the canonical JSON if its name ends with `.json`."""
        path = Path(path)
        text = read_text(path, "schema")
        return cls.from_json(text) if path.suffix == ".json" else cls.from_toml(text)

    def save(self, path: str | Path) -> None:
        """Write the canonical JSON, which `load` reads; an existing file survives any failure.

        Raises:
            PrivotError: if the path does not end with `.json`, or cannot be written.
        """
        if Path(path).suffix != ".json":
            raise PrivotError(f"schema {path} is written as JSON: give a path that ends with .json")
        write_file(path, self.to_json() + "\n")

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Parse a schema written in TOML."""
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            problem = f"the schema is not TOML: {error}"
            if twice := re.match(r"Cannot declare \('columns', '(.*?)'.*\) twice (.*)", str(error)):
                problem = f"column {twice[1]!r} is declared twice {twice[2]}: declare each once"
            raise PrivotError(problem) from None

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the canonical JSON of [`to_json`][privot.schema.schema.Schema.to_json]."""
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise PrivotError(f"the schema is not JSON: {error}") from None

    @classmethod
    def from_dict(cls, fields: Any) -> Self:
        """Build the schema from plain values; raise PrivotError if they are invalid."""
        try:
            return cls.model_validate(fields)
        except pydantic.ValidationError as error:
            raise PrivotError(_explain(error)) from None

    def to_json(self) -> str:
        """Return canonical JSON: equal schemas have equal texts."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without fields that have their defaults."""
        fields = self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        return fields | {"unit": self.unit}

    def summary(self) -> dict[str, object]:
        kinds = {name: column.kind for name, column in self.columns.items()}
        return {"columns": kinds, "one record per": self.unit}

    @cached_property
    def read_rules(self) -> Rules:
        """Rules, parsed."""
        return Rules.of(self.rules, self.declared)

    @property
    def shuffled_promise(self) -> Promise | None:
        """The promise, if it is of shuffled reports."""
        return self.promise if self.promise and self.promise.where == "shuffled" else None

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Reported columns: all but identifiers and the columns that rules define."""
        reported = {name: column for name, column in self.declared.items() if column.reported}
        return {name: reported[name] for name in reported if name not in self.read_rules.defined}

    @cached_property
    def identifiers(self) -> dict[str, IdentifierColumn]:
        """Columns that are generated for samples."""
        generated = {name: column for name, column in self.declared.items() if not column.reported}
        return cast(dict[str, IdentifierColumn], generated)

    def _reported(self, holds: Callable[[Column], bool]) -> dict[str, Any]:
        """Return the reported columns for which a condition holds."""
        return {name: column for name, column in self.columns.items() if holds(column)}

    @cached_property
    def coded(self) -> dict[str, CodedColumn]:
        """Reported columns that have an alphabet."""
        return self._reported(lambda column: column.alphabet is not None)

    @cached_property
    def words(self) -> dict[str, WordColumn]:
        """Columns of words that a pilot has to find; they are among `coded`."""
        return self._reported(lambda column: column.open_vocabulary)

    def require_listed(self) -> None:
        """Raise PrivotError if there are words, which only local reports of a pilot can find."""
        if self.words:
            raise PrivotError(
                f"columns {[*self.words]} are words that nobody listed: report them locally in a pilot, "
                "find the frequent ones by `privot schema new --pilot RELEASE`, and use that schema"
            )

    @cached_property
    def points(self) -> dict[str, PointColumn]:
        """Reported columns that have a domain."""
        return self._reported(lambda column: column.domain is not None)

    @cached_property
    def images(self) -> dict[str, ArrayColumn]:
        """Columns of images."""
        return self._reported(lambda column: column.image_shape is not None)

    @cached_property
    def vectors(self) -> dict[str, PointColumn]:
        """Columns of points that are neither images nor single numbers."""
        others = {*self.images, *self._reported(lambda column: column.is_number)}
        return {name: column for name, column in self.points.items() if name not in others}

    def encode_codings(self, names: Collection[str], table: pa.Table) -> Codes:
        """Encode raw values as codes (n, q) in all q codings of the columns, column after column."""
        columns = [(name, self.coded[name]) for name in names]
        size = sum(len(column.codings) for _, column in columns)
        codes = np.empty((size, table.num_rows), np.int64)  # the codes of one coding are contiguous
        start = 0
        for name, column in columns:  # one at a time, to hold only one column's codes twice
            end = start + len(column.codings)
            codes[start:end] = column.encode_codings(name, table)
            start = end
        return codes.T

    def point_column(self, name: str) -> PointColumn:
        """Return the column of this name, which must be one that can be reported as a point.

        Raises:
            PrivotError: for a column without a domain.
        """
        if name not in self.points:
            raise PrivotError(
                f"column {name!r} is {self.columns[name].kind}, which has no domain to add noise in: "
                "report it by a mechanism for categories"
            )
        return self.points[name]

    @cached_property
    def table_columns(self) -> tuple[str, ...]:
        """Names of the reported table columns, in the order of the schema."""
        return _table_columns(self.columns)

    @cached_property
    def sampled_columns(self) -> tuple[str, ...]:
        """Names of all table columns that samples have, in the order of the schema."""
        return _table_columns(self.declared)

    @property
    def unread_columns(self) -> tuple[str, ...]:
        """Names of the table columns that a table of records may have, but that are never read."""
        return tuple(name for name in self.sampled_columns if name not in self.table_columns)

    def check_table(self, table: pa.Table, out_of_bounds: OutOfBounds = "clip") -> None:
        """Raise PrivotError as `check_columns`, and for values out of bounds if they must be refused.

        `out_of_bounds` is the rule for columns that declare none.
        """
        self.check_columns(table)
        columns = self.points.items()
        refuse(p for name, column in columns for p in column.refused(name, table, out_of_bounds))

    def check_columns(self, table: pa.Table) -> None:
        """Raise PrivotError for missing, repeated or unknown columns, and for a table without rows."""
        names = table.column_names
        require_different(names, "the table")
        missing = [name for name in self.table_columns if name not in names]
        if missing:
            raise PrivotError(
                f"columns {missing} are missing from the table, which has {names}: "
                "add them, or remove them from the schema"
            )
        extra = [name for name in names if name not in self.sampled_columns]
        if extra:
            raise PrivotError(
                f"columns {extra} are not in the schema: remove them from the table, declare them, or "
                "ignore them (privot privatize --ignore NAME)"
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
                f"columns {list(self.declared)} are all generated, or defined by rules: declare one to "
                "report"
            )
        if self.promise and self.promise.where != "local":
            self.require_listed()
        return self


def require_different(names: list[str], source: str) -> None:
    """Raise PrivotError if a name of a column appears twice."""
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise PrivotError(f"columns {repeated} appear twice in {source}: rename or remove one")


def _table_columns(columns: dict[str, Column]) -> tuple[str, ...]:
    """Return the names of all table columns of the declared columns, in order."""
    return tuple(part for name in columns for part in columns[name].table_columns(name))


def _explain(error: pydantic.ValidationError) -> str:
    """Return a line with column, value and remedy for each field of a column that has an error.

    Misspelled fields come first, because they usually explain missing ones. Errors outside of columns
    share one line, since a file with many unknown fields is no schema.
    """
    details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    lines: dict[tuple[int | str, ...], str] = {}
    for detail in details:
        lines.setdefault(detail["loc"][:3] if len(detail["loc"]) > 1 else (), _explain_one(detail))
    return "\n".join(lines.values())


def _explain_one(detail: Any) -> str:
    """Return one line for an error of pydantic."""
    location = [str(part) for part in detail["loc"]]
    of_column = len(location) >= 2 and location[0] == "columns"
    column = f"column {location[1]!r}" if of_column else ""
    where = f" of {column}" if of_column else ""
    field = ".".join(location[2:] if of_column else location)
    kinds = f"say one of {', '.join(sorted(Column.kinds))}"
    if detail["type"] == "kind_missing":
        return f"kind{where} is missing: {kinds}"
    if detail["type"] == "kind_unknown":
        return f"kind {detail['input']['kind']!r}{where} is not known: {kinds}"
    if detail["type"] == "missing":
        remedy = _MISSING.get(field, "declare it in the schema")
        if not where and field == "columns":
            remedy = "declare at least one, as [columns.NAME]"
        verb = "are" if field.endswith("s") else "is"
        return f"{field}{where} {verb} missing: {remedy}"
    if detail["type"] == "extra_forbidden":
        return f"{field or 'field'}{where} is not known: correct its spelling or remove it"
    if detail["type"] in ("value_error", "assertion_error"):
        message = str((detail.get("ctx") or {}).get("error", detail["msg"]))
        return f"{column}: {message}" if of_column else f"{message}"
    needs_pairs = detail["type"] == "tuple_type"
    problem = "give a pair [low, high] for each" if needs_pairs else detail["msg"]
    return f"{field or 'schema'}{where} = {detail['input']!r} cannot be used: {problem}"


def promise_or_epsilon(
    promise: Promise | None, epsilon: float | None, delta: float | None, remedy: str = ""
) -> Promise | None:
    """Return the promise to calibrate by; None if ε is given instead, with or without a δ.

    Raises:
        PrivotError: if both or neither are given; the error ends with `remedy`.
    """
    if promise is None:
        if epsilon is None:
            raise PrivotError(
                "epsilon is missing, and the schema promises nothing: give it, or declare [promise] "
                f"with an epsilon{remedy}"
            )
        return None
    for name, given in (("epsilon", epsilon), ("delta", delta)):
        if given is not None:
            raise PrivotError(
                f"{name} is {given!r}, and the schema promises {promise}: leave one of them out"
            )
    return promise
