"""A draft of a schema from the metadata of SDV, the Synthetic Data Vault.

SDV's metadata names the columns and their *sdtypes*, and often was detected from data. A schema needs
more, and all of it public: bounds and categories. So what comes out is a **draft**: TOML with each
column's kind, and what only a person can declare as a comment in its place. Until that is filled in,
`privot schema check` refuses it and names what is missing. Nothing is computed from data, and
categories that the metadata lists (`order`) are a comment too: they may have been.

Identifiers with a plain `regex_format` are made up for samples; others, personal details and free text
are left out. Nothing can be learned of a column in which everybody differs from everybody.

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

from pydantic import ValidationError

from privot.errors import PrivotError
from privot.schema.columns.identifier import IdentifierColumn
from privot.schema.drafts.draft import NO_DATES, NULLABLE, PUBLIC, DraftColumn, quoted, write_draft

_VERSIONS = ("SINGLE_TABLE_V1", "MULTI_TABLE_V1", "V1")
# strftime codes of hours, minutes, seconds; others are days or longer.
_TIME_OF_DAY = re.compile(r"%-?[HIMSfpcXsTRr]")


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
        # "guest" is left out: sdtype "id": identifiers cannot be learned
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
    drafts = [_column(name, column) for name, column in columns.items()]
    written = write_draft(drafts, _head(fields))
    if not any(draft.fields.get("kind", "identifier") != "identifier" for draft in drafts):
        raise PrivotError(
            "the metadata has no numerical, categorical, boolean or datetime column: nothing is left "
            "to report"
        )
    return written


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


def _head(fields: Mapping[str, Any]) -> list[str]:
    lines = [
        "A draft from SDV's metadata: fill in what is commented out, then `privot schema check`."
    ]
    primary = fields.get("primary_key")
    if isinstance(primary, str):
        lines.append(f"One row is one {quoted(primary)}, says the metadata.")
    if "sequence_key" in fields:
        lines.append(
            "It has a sequence key, so several rows of one person: reduce them to one row each, on "
            "the device."
        )
    return lines


def _column(name: str, column: Mapping[str, Any]) -> DraftColumn:
    kind, pattern = column.get("sdtype"), column.get("regex_format")
    if kind == "numerical":
        bounds = f"# bounds = [0, 100]  # smallest and largest: {PUBLIC}"
        bins = '# bins = 10  # of equal width, or their edges, or "integers"'
        integer, left = _integer(column.get("computer_representation"))
        return DraftColumn(name, {"kind": "numeric"} | integer, [bounds, *left, bins, NULLABLE])
    if kind == "categorical":
        other = '# other = "other"  # stands for what is not listed; without it that is refused'
        left = [_categories(column.get("order")), other, NULLABLE]
        return DraftColumn(name, {"kind": "categorical"}, left)
    if kind == "datetime":
        return _moments(name, column.get("datetime_format"))
    if kind == "boolean":
        return DraftColumn(name, {"kind": "boolean"}, [NULLABLE])
    if kind == "id" and _is_plain(pattern):
        return DraftColumn(name, {"kind": "identifier", "pattern": str(pattern)})
    why = {
        "id": "identifiers cannot be learned",
        "unknown": "declare it by hand if it is a number, a category or a date",
        "text": "free text cannot be learned; a category that sums it up can",
    }.get(str(kind), "personal details cannot be learned; a coarse category of them can")
    return DraftColumn(name, {}, [f"sdtype {quoted(str(kind))}: {why}"])


def _is_plain(pattern: object) -> bool:
    """Whether identifiers of this pattern can be made up."""
    try:
        return bool(IdentifierColumn(kind="identifier", pattern=str(pattern or "")))
    except ValidationError:
        return False


def _integer(representation: object) -> tuple[dict[str, Any], list[str]]:
    if representation is None:
        return {}, ["# integer = true  # if only integers occur"]
    whole = isinstance(representation, str) and "int" in representation.lower()
    return ({"integer": True} if whole else {}), []


def _categories(order: object) -> str:
    listed = ", ".join(quoted(str(c)) for c in order) if isinstance(order, list) and order else ""
    if not listed:
        return f'# categories = ["a", "b"]  # all of them: {PUBLIC}'
    return f"# categories = [{listed}]  # the metadata's list, if it is {PUBLIC}"


def _moments(name: str, written: object) -> DraftColumn:
    fields, example = {"kind": "datetime"}, NO_DATES
    if isinstance(written, str) and _TIME_OF_DAY.search(written):
        fields |= {"resolution": "second"}
        example = example.replace("-01-01", "-01-01T00:00:00").replace("-12-31", "-12-31T23:59:59")
    left = [example]
    if isinstance(written, str) and not written.startswith("%Y-%m-%d"):
        left.append(f"# SDV reads {quoted(written)}: give dates, or text such as 2024-05-31")
    return DraftColumn(name, fields, [*left, "# bins = 10", NULLABLE])
