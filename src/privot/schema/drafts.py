"""Drafts of schemas, for a person to complete: from one-line declarations, headers, SDV's metadata.

SDV (Synthetic Data Vault) is a library for synthetic data. Bounds and categories that the source lacks
are comments in the draft, and the schema is refused until somebody declares them. This module reads no
data. Conversely, `write_metadata` describes the samples of a schema to SDV.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
from pydantic import ValidationError

from privot.core.errors import PrivotError
from privot.schema.columns.identifier import IdentifierColumn
from privot.schema.columns.numeric import DatetimeColumn
from privot.schema.schema import Schema

PUBLIC = "public knowledge, never computed from the data"
DATE_BOUNDS = f'# bounds = ["2000-01-01", "2030-12-31"]  # first and last: {PUBLIC}'
_NUMBER = [
    f"# bounds = [0, 100]  # smallest and largest: {PUBLIC}",
    "# typical = [20, 70]  # where most are expected, if bounds are wide: as public",
]
_INTEGER = "# integer = true  # if only integers occur"
NULLABLE = "# nullable = true  # if it may be missing"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class DraftColumn:
    """Column of a draft: known fields, and comments on fields to declare."""

    name: str  # name of the column
    # Fields as in a schema; empty if the column is left out.
    fields: Mapping[str, Any] = field(default_factory=dict)
    # Lines of comments: fields to declare, or why the column is left out.
    comments: Sequence[str] = ()


def write_draft(
    columns: Iterable[DraftColumn], head: Sequence[str] = (), rules: Sequence[str] = ()
) -> str:
    """Return the draft of a schema as TOML, which begins with the lines of `head` as comments.

    Examples:
        >>> print(write_draft([DraftColumn("age", {"kind": "numeric", "bounds": [17, 90]})]))
        unit = "person"  # whom one record belongs to: a person must not have two
        <BLANKLINE>
        [columns.age]
        kind = "numeric"
        bounds = [17, 90]
        <BLANKLINE>
    """
    unit = 'unit = "person"  # whom one record belongs to: a person must not have two'
    lines = [*(f"# {line}" for line in head), unit]
    if rules:
        lines += ["rules = [", *(f"    {quoted(rule)}," for rule in rules), "]"]
    for column in columns:
        if column.fields:
            lines += ["", f"[columns.{_toml_key(column.name)}]"]
            fields = column.fields.items()
            lines += [f"{_toml_key(name)} = {_toml_value(value)}" for name, value in fields]
            lines += column.comments
        else:
            lines += ["", f"# {quoted(column.name)} is left out: {'; '.join(column.comments)}"]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    """Return a text, number, truth value or list in TOML; whole floats are written as integers."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        return quoted(value)
    return repr(value) if isinstance(value, float) and value != int(value) else str(int(value))


def _toml_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """Return a text as a TOML basic string on one line."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PrivotError(f"the draft has the text {text!r}, which is not Unicode") from None
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04X}", escaped) + '"'


# One-line declarations.

_DECLARATION = re.compile(r"(?P<name>[^:]+):(?P<kind>.+)", re.DOTALL)
_BOUNDED = re.compile(
    r"(?P<kind>[a-z]+)\[(?P<low>[^,\]]+),(?P<high>[^,\]]+)\](?P<rest>.*)", re.DOTALL
)
_IDENTIFIER = re.compile(r"id\((?P<pattern>.+)\)")
# Fields of each kind of declaration that has bounds.
_KINDS: dict[str, dict[str, Any]] = {
    "int": {"kind": "numeric", "integer": True},
    "number": {"kind": "numeric"},
    "money": {"kind": "numeric", "decimals": 2},
    "date": {"kind": "datetime"},
    "time": {"kind": "datetime", "resolution": "second"},
}
_FIELD_NAMES = {"unit": "measured_in"}  # fields of options with another name


def read_declaration(line: str) -> DraftColumn:
    r"""Parse a one-line declaration of a column.

    ```
    NAME:KIND[LOW,HIGH]?:OPTION:…
    ```

    | line | column |
    |---|---|
    | `age:int[17,90]` | integers between public bounds |
    | `weight:number[0,200]:decimals=1:unit=kg` | numbers of one decimal |
    | `paid:money[1,20000]:log` | two decimals, on a log scale |
    | `came:date[2020-01-01,2024-12-31]` | dates; `time[…]` to seconds, or `:resolution=hour` |
    | `sex:F\|M` | categories; in `north\|south\|other*`, the last stands for all that are not listed |
    | `owner:bool?` | true or false; with the question mark, the value may be missing |
    | `patient:id(P-\d{6})` | identifiers, generated for samples and never reported |

    Options are `log`, or a field of the kind and its value: `bins=5`, `bins=0;10;50`, `typical=4;11`,
    `spikes=0;40`, `step=0.5`. Bounds and typical numbers must be public knowledge.

    Examples:
        >>> read_declaration("age:int[17,90]?:bins=4").fields
        {'kind': 'numeric', 'integer': True, 'bounds': [17, 90], 'bins': 4, 'nullable': True}
        >>> read_declaration("region:north|south|other*").fields
        {'kind': 'categorical', 'categories': ['north', 'south'], 'other': 'other'}

    Raises:
        PrivotError: naming the line and the correct form.
    """
    match = _DECLARATION.fullmatch(line.strip())
    if match is None:
        raise _syntax_error(line)
    name, text = match["name"].strip(), match["kind"].strip()
    identifier, bounded = _IDENTIFIER.fullmatch(text), _BOUNDED.fullmatch(text)
    if identifier:
        return DraftColumn(name, {"kind": "identifier", "pattern": identifier["pattern"]})
    if bounded:
        if bounded["kind"] not in _KINDS:
            raise _syntax_error(line)
        ends = [_parse_value(bounded["low"]), _parse_value(bounded["high"])]
        fields, rest = _KINDS[bounded["kind"]] | {"bounds": ends}, bounded["rest"].strip()
        nullable, options = rest.startswith("?"), rest.removeprefix("?").strip()
        if options and not options.startswith(":"):
            raise _syntax_error(line)
    else:
        listed, _, options = text.partition(":")
        nullable = listed.endswith("?")
        fields = _parse_categories(listed.removesuffix("?").strip(), line)
    for option in filter(None, map(str.strip, options.split(":"))):
        fields |= _parse_option(option)
    return DraftColumn(name, fields | ({"nullable": True} if nullable else {}))


def _parse_categories(listed: str, line: str) -> dict[str, Any]:
    """Return the fields of categories separated by bars, or of a truth value."""
    if listed in ("bool", "yes|no"):
        return {"kind": "boolean"}
    names = [name.strip() for name in listed.split("|")]
    other = [name for name in names if name.endswith("*")]
    if len(names) < 2 or not all(names) or len(other) > 1:
        raise _syntax_error(line)
    fields = {"kind": "categorical", "categories": [name for name in names if name not in other]}
    return fields | ({"other": other[0].removesuffix("*")} if other else {})


def _parse_option(option: str) -> dict[str, Any]:
    """Return the field that an option declares."""
    if option == "log":
        return {"scale": "log"}
    name, equals, value = option.partition("=")
    name = _FIELD_NAMES.get(name, name)
    if not equals:
        raise PrivotError(f"option {option!r} has no value: write {option}=VALUE, or log")
    several = ";" in value or name == "spikes"
    return {name: [*map(_parse_value, value.split(";"))] if several else _parse_value(value)}


def _parse_value(text: str) -> int | float | str:
    """Return the finite number that a text denotes, or else the text."""
    text = text.strip()
    for kind in (int, float):
        with suppress(ValueError):
            number = kind(text)
            if math.isfinite(number):
                return number
    return text


def _syntax_error(line: str) -> PrivotError:
    """Return the error for a declaration that cannot be parsed."""
    return PrivotError(
        f"column {line!r} cannot be read: write it as age:int[17,90], paid:money[1,20000]:log, "
        "came:date[2020-01-01,2024-12-31], sex:F|M, owner:bool? or patient:id(P-\\d{6})"
    )


def draft_header(header: Mapping[str, Any], source: str) -> str:
    """Return a draft schema, as TOML, for columns of these names and Arrow types; None if unknown.

    Kinds that are unknown, bounds and categories are left to a person. They are never computed from
    rows: they are public, and would show the table's extreme and rare records without noise.
    """
    head = [
        f"A draft from the header of {source}: complete it, then `privot schema check`.",
        "No row was read: bounds and categories computed from records would show some to everybody.",
    ]
    return write_draft([_draft_typed(name, kind) for name, kind in header.items()], head)


def _draft_typed(name: str, kind: pa.DataType | None) -> DraftColumn:
    """Return the draft of a column of an Arrow type, by the SDV type of the same values."""
    types, fields = pa.types, {"sdtype": "categorical"}
    if not name:
        return DraftColumn(name, {}, ["it has no name, and may number the rows"])
    if kind is None:
        kinds = "# kind: numeric, datetime, categorical, boolean or identifier"
        comments = [kinds, *_NUMBER, _INTEGER, _categories_comment(None), NULLABLE]
        return DraftColumn(name, {"kind": ""}, comments)
    if types.is_nested(kind):
        return DraftColumn(name, {}, [f"type {kind}: declare an array or a vector by hand"])
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        fields = {"sdtype": "numerical", "computer_representation": str(kind)}
    elif types.is_boolean(kind):
        fields = {"sdtype": "boolean"}
    elif types.is_temporal(kind):
        form = "%Y-%m-%d" if types.is_date(kind) else "%Y-%m-%d %H:%M:%S"
        fields = {"sdtype": "datetime", "datetime_format": form}
    return _draft_column(name, fields)


# SDV's metadata.

_VERSIONS = ("SINGLE_TABLE_V1", "MULTI_TABLE_V1", "V1")
# Codes of strftime for hours, minutes and seconds; the other codes are for days or longer.
_TIME_OF_DAY = re.compile(r"%-?[HIMSfpcXsTRr]")


def draft_schema(text: str, table: str | None = None) -> str:
    """Return a draft schema, as TOML, for one table in SDV's metadata.

    SDV's metadata contains the names of the columns and their types, *sdtypes*, and was often detected
    from data. Bounds and categories, which a schema needs and which must be public, are comments in the
    draft for a person to complete. Until then, `privot schema check` refuses the draft and names the
    missing fields. The metadata may list categories (`order`); these are a comment, too, as they may be
    computed from data.

    Identifiers with a simple `regex_format` are generated for samples; other identifiers, personal
    details and free text are left out, because they cannot be learned.

    The metadata is of a single table (`SINGLE_TABLE_V1`) or of several `tables` (`V1`,
    `MULTI_TABLE_V1`), of which one is drafted, since a guarantee is for one record of each person.

    References:
        SDV documentation, *Metadata JSON* and *Sdtypes*.

    Arguments:
        text: The metadata's JSON.
        table: Name of the table, if there are several.

    Examples:
        >>> print(draft_schema('''{
        ...     "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
        ...     "columns": {"guest": {"sdtype": "id"}, "paid": {"sdtype": "boolean"}}
        ... }'''))
        # A draft from SDV's metadata: fill in what is commented out, then `privot schema check`.
        unit = "person"  # whom one record belongs to: a person must not have two
        <BLANKLINE>
        # "guest" is left out: sdtype "id": identifiers cannot be learned
        <BLANKLINE>
        [columns.paid]
        kind = "boolean"
        # nullable = true  # if it may be missing
        <BLANKLINE>

    Raises:
        PrivotError: if it is not SDV's metadata, the table is unknown, or no column can be reported.
    """
    fields = _choose_table(_parse_metadata(text), table)
    columns = fields.get("columns")
    if not isinstance(columns, dict) or not all(isinstance(c, dict) for c in columns.values()):
        raise PrivotError("the metadata has no columns as SDV writes them: give SDV's JSON")
    drafts = [_draft_column(name, column) for name, column in columns.items()]
    written = write_draft(drafts, _head_comments(fields))
    if not any(draft.fields.get("kind", "identifier") != "identifier" for draft in drafts):
        raise PrivotError(
            "the metadata has no numerical, categorical, boolean or datetime column: nothing is left "
            "to report"
        )
    return written


def _parse_metadata(text: str) -> dict[str, Any]:
    """Return the fields of SDV's metadata, of a known version."""
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise PrivotError(f"the metadata is not JSON: {error}") from None
    version = fields.get("METADATA_SPEC_VERSION") if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or version not in _VERSIONS:
        raise PrivotError(
            f"METADATA_SPEC_VERSION of the metadata is {version!r}: give SDV's metadata JSON, of "
            f"version {', '.join(_VERSIONS)}"
        )
    return fields


def _choose_table(fields: dict[str, Any], table: str | None) -> Mapping[str, Any]:
    """Return the metadata of the table of this name; without a name, of the only table."""
    tables = fields.get("tables")
    if fields["METADATA_SPEC_VERSION"] == "SINGLE_TABLE_V1":
        if table is not None:
            raise PrivotError(f"table {table!r} was named, but there is only one: leave it out")
        return fields
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise PrivotError("the metadata has no tables as SDV writes them: give SDV's metadata JSON")
    if table is None and len(tables) == 1:
        return dict(next(iter(tables.values())))
    if table not in tables:
        raise PrivotError(
            f"table {table!r} is not one of the metadata's {sorted(tables)}: name the one with one row "
            "a person (--table), or join them into one"
        )
    return dict(tables[table])


def _head_comments(fields: Mapping[str, Any]) -> list[str]:
    """Return comments for the beginning of a draft: the next step, and what keys mean."""
    step = "A draft from SDV's metadata: fill in what is commented out, then `privot schema check`."
    lines, primary = [step], fields.get("primary_key")
    if isinstance(primary, str):
        lines.append(f"One row is one {quoted(primary)}, says the metadata.")
    if "sequence_key" in fields:
        lines.append(
            "It has a sequence key, so several rows of one person: reduce them to one row each, on "
            "the device."
        )
    return lines


def _draft_column(name: str, column: Mapping[str, Any]) -> DraftColumn:
    """Return the draft of a column that SDV's metadata describes."""
    kind, pattern = column.get("sdtype"), column.get("regex_format")
    if kind == "numerical":
        stored = column.get("computer_representation")
        is_integer = isinstance(stored, str) and "int" in stored.lower()
        fields = {"kind": "numeric"} | ({"integer": True} if is_integer else {})
        integer = [_INTEGER] if stored is None else []
        return DraftColumn(name, fields, [*_NUMBER, *integer, NULLABLE])
    if kind == "categorical":
        other = '# other = "other"  # stands for what is not listed; without it that is refused'
        comments = [_categories_comment(column.get("order")), other, NULLABLE]
        return DraftColumn(name, {"kind": "categorical"}, comments)
    if kind == "datetime":
        return _draft_datetime(name, column.get("datetime_format"))
    if kind == "boolean":
        return DraftColumn(name, {"kind": "boolean"}, [NULLABLE])
    if kind == "id" and _can_generate(pattern):
        return DraftColumn(name, {"kind": "identifier", "pattern": str(pattern)})
    why = {
        "id": "identifiers cannot be learned",
        "unknown": "declare it by hand if it is a number, a category or a date",
        "text": "free text cannot be learned; a category that sums it up can",
    }.get(str(kind), "personal details cannot be learned; a coarse category of them can")
    return DraftColumn(name, {}, [f"sdtype {quoted(str(kind))}: {why}"])


def _can_generate(pattern: object) -> bool:
    """Return whether identifiers of this pattern can be generated."""
    try:
        return bool(IdentifierColumn(kind="identifier", pattern=str(pattern or "")))
    except ValidationError:
        return False


def _categories_comment(order: object) -> str:
    """Return a comment with the categories that the metadata lists, or with an example."""
    listed = ", ".join(quoted(str(c)) for c in order) if isinstance(order, list) and order else ""
    if not listed:
        return f'# categories = ["a", "b"]  # all of them: {PUBLIC}'
    return f"# categories = [{listed}]  # the metadata's list, if it is {PUBLIC}"


def _draft_datetime(name: str, date_format: object) -> DraftColumn:
    """Return the draft of a column of dates or times, whose format of strftime may be known."""
    fields, example = {"kind": "datetime"}, DATE_BOUNDS
    if isinstance(date_format, str) and _TIME_OF_DAY.search(date_format):
        fields |= {"resolution": "second"}
        example = example.replace("-01-01", "-01-01T00:00:00").replace("-12-31", "-12-31T23:59:59")
    comments = [example]
    if isinstance(date_format, str) and not date_format.startswith("%Y-%m-%d"):
        if {*re.findall("%(.?)", date_format)} <= {*"YmdHMS"}:
            fields |= {"format": date_format}
        else:
            comments += [f"# SDV reads {quoted(date_format)}: give dates in digits, as 2024-05-31"]
    return DraftColumn(name, fields, [*comments, "# bins = 10", NULLABLE])


_SDTYPES = {"number": "numerical", "date": "datetime", "text": "categorical", "truth": "boolean"}


def write_metadata(schema: Schema) -> str:
    r"""Return SDV's metadata, as JSON, of the columns of a schema's samples.

    It has the type of each column and the patterns of identifiers; SDV's metadata has no bounds. The
    format is `SINGLE_TABLE_V1`, which SDV reads from version 1.0 on.

    Examples:
        >>> schema = Schema.from_toml('[columns.owner]\nkind = "boolean"')
        >>> json.loads(write_metadata(schema))["columns"]
        {'owner': {'sdtype': 'boolean'}}

    Raises:
        PrivotError: for images, which SDV does not support.
    """
    columns: dict[str, Any] = {}
    for name, column in schema.declared.items():
        if column.image_shape is not None:
            raise PrivotError(f"column {name!r} holds images: SDV's metadata knows none")
        for part in column.table_columns(name):
            columns[part] = {"sdtype": _SDTYPES.get(column.in_rules or "", "id")}
        if name in schema.identifiers:
            columns[name]["regex_format"] = schema.identifiers[name].pattern
        if column.in_rules == "date":
            dates = cast("DatetimeColumn", column)
            iso = "%Y-%m-%d" if dates.resolution == "day" else "%Y-%m-%d %H:%M:%S"
            columns[name]["datetime_format"] = dates.format or iso
    key = next(iter(schema.identifiers), None)
    fields: dict[str, Any] = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns}
    return json.dumps(fields | ({"primary_key": key} if key else {}), indent=4) + "\n"
