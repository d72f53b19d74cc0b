"""A draft of a schema from the metadata of SDV, the Synthetic Data Vault.

SDV's metadata names the columns and their *sdtypes*, and often was detected from data. A schema needs
more, and all of it public: bounds and categories. So what comes out is a **draft**: TOML with each
column's kind, and what only a person can declare as a comment in its place. Until that is filled in,
`privot schema check` refuses it and names what is missing. Nothing is computed from data, and
categories that the metadata lists (`order`) are a comment too: they may have been.

Identifiers, personal details and free text are left out. Nothing can be learned of a column in which
everybody differs from everybody, and a synthetic name is not worth any privacy.

Reads single-table metadata (`SINGLE_TABLE_V1`) and the form with `tables` (`V1`, `MULTI_TABLE_V1`), of
which it takes one table: a guarantee is for one record of each person, not for tables that are joined.

References:
    SDV documentation, *Metadata JSON* and *Sdtypes*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from privot.errors import PrivotError

_VERSIONS = ("SINGLE_TABLE_V1", "MULTI_TABLE_V1", "V1")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# strftime codes of hours, minutes, seconds; others are days or longer.
_TIME_OF_DAY = re.compile(r"%-?[HIMSfpcXsTRr]")
_PUBLIC = "public knowledge, never computed from the data"


def draft_schema(text: str, table: str | None = None) -> str:
    """The draft of a schema, as TOML, of one table in SDV's metadata.

    Arguments:
        text: The metadata's JSON.
        table: Which table, where there are several.

    Examples:
        >>> print(draft_schema('''{
        ...     "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
        ...     "columns": {"guest": {"sdtype": "id"}, "paid": {"sdtype": "boolean"}}
        ... }'''))
        # A draft from SDV's metadata: fill in what is commented out, then `privot schema check`.
        unit = "person"  # whom one record belongs to: a person must not have two
        <BLANKLINE>
        # "guest" is left out (sdtype "id"): identifiers cannot be learned
        <BLANKLINE>
        [columns.paid]
        kind = "boolean"
        # nullable = true  # if it may be missing
        <BLANKLINE>

    Raises:
        PrivotError: if it is not SDV's metadata, the table is not there or not named, or no column is
            left.
    """
    fields = _choose_table(_read(text), table)
    columns = fields.get("columns")
    if not isinstance(columns, dict) or not all(isinstance(c, dict) for c in columns.values()):
        raise PrivotError(
            "the metadata has no columns as SDV writes them: give SDV's metadata JSON"
        )
    parts = [_head(fields)]
    kept = 0
    for name, column in columns.items():
        lines = _column(name, column)
        kept += lines is not None
        parts.append(lines or _left_out(name, column))
    if not kept:
        raise PrivotError(
            "the metadata has no numerical, categorical, boolean or datetime column: nothing is left "
            "to report"
        )
    return "\n".join(parts)


def _read(text: str) -> dict[str, Any]:
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
    tables = fields.get("tables")
    if fields["METADATA_SPEC_VERSION"] == "SINGLE_TABLE_V1":
        if table is not None:
            raise PrivotError(
                f"table {table!r} was named, the metadata has one table: leave it out"
            )
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


def _head(fields: Mapping[str, Any]) -> str:
    lines = [
        "# A draft from SDV's metadata: fill in what is commented out, then `privot schema check`."
    ]
    key = fields.get("primary_key")
    if isinstance(key, str):
        lines.append(f"# One row is one {_quoted(key)}, says the metadata.")
    if "sequence_key" in fields:
        lines.append(
            "# It has a sequence key, so several rows of one person: reduce them to one row each, on "
            "the device."
        )
    lines.append('unit = "person"  # whom one record belongs to: a person must not have two')
    return "\n".join(lines) + "\n"


def _column(name: str, column: Mapping[str, Any]) -> str | None:
    """Lines of a column that can be reported, or None."""
    kind = column.get("sdtype")
    lines = [f"[columns.{_key(name)}]"]
    if kind == "numerical":
        lines += ['kind = "numeric"', f"# bounds = [0, 100]  # smallest and largest: {_PUBLIC}"]
        lines += _integer(column.get("computer_representation"))
        lines.append('# bins = 10  # of equal width, or their edges, or "integers"')
    elif kind == "categorical":
        lines += ['kind = "categorical"', *_categories(column.get("order"))]
        lines.append(
            '# other = "other"  # stands for what is not listed; without it that is refused'
        )
    elif kind == "datetime":
        lines += ['kind = "datetime"', *_moments(column.get("datetime_format"))]
    elif kind == "boolean":
        lines.append('kind = "boolean"')
    else:
        return None
    return "\n".join([*lines, "# nullable = true  # if it may be missing"]) + "\n"


def _integer(representation: object) -> list[str]:
    if representation is None:
        return ["# integer = true  # if only integers occur"]
    whole = isinstance(representation, str) and "int" in representation.lower()
    return ["integer = true"] if whole else []


def _categories(order: object) -> list[str]:
    listed = ", ".join(_quoted(str(c)) for c in order) if isinstance(order, list) and order else ""
    if not listed:
        return [f'# categories = ["a", "b"]  # all of them: {_PUBLIC}']
    return [f"# categories = [{listed}]  # the metadata's list, if it is {_PUBLIC}"]


def _moments(written: object) -> list[str]:
    to_the_second = isinstance(written, str) and _TIME_OF_DAY.search(written) is not None
    example = '"2000-01-01", "2030-12-31"'
    if to_the_second:
        example = '"2000-01-01T00:00:00", "2030-12-31T23:59:59"'
    lines = [f"# bounds = [{example}]  # first and last: {_PUBLIC}"]
    lines += ['resolution = "second"'] if to_the_second else []
    if isinstance(written, str) and not written.startswith("%Y-%m-%d"):
        lines.append(f"# SDV reads {_quoted(written)}: give dates, or text such as 2024-05-31")
    return [*lines, "# bins = 10"]


def _left_out(name: str, column: Mapping[str, Any]) -> str:
    kind = column.get("sdtype")
    why = {
        "id": "identifiers cannot be learned",
        "unknown": "declare it by hand if it is a number, a category or a date",
        "text": "free text cannot be learned; a category that sums it up can",
    }.get(str(kind), "personal details cannot be learned; a coarse category of them can")
    return f"# {_quoted(name)} is left out (sdtype {_quoted(str(kind))}): {why}\n"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """A TOML basic string, on one line whatever the text holds."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PrivotError(f"the metadata has the text {text!r}, which is not Unicode") from None
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04X}", escaped) + '"'
