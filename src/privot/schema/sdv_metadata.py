"""A schema as the metadata of SDV, the Synthetic Data Vault, so that its reports run on samples.

Says kinds, and what an identifier looks like; SDV knows no bounds. Written as `SINGLE_TABLE_V1`, which
every SDV from 1.0 on reads. A function of the schema, which is public.

References:
    SDV documentation, *Metadata JSON* and *Sdtypes*.
"""

from __future__ import annotations

import json
from typing import Any, cast

from privot.errors import PrivotError
from privot.schema.columns.datetime import DatetimeColumn
from privot.schema.schema import Schema

_SDTYPES = {"number": "numerical", "date": "datetime", "text": "categorical", "truth": "boolean"}


def write_metadata(schema: Schema) -> str:
    """The metadata's JSON, of the columns that samples have.

    Examples:
        >>> schema = Schema.from_toml('[columns.owner]\\nkind = "boolean"')
        >>> json.loads(write_metadata(schema))["columns"]
        {'owner': {'sdtype': 'boolean'}}

    Raises:
        PrivotError: for images, which SDV does not know.
    """
    columns: dict[str, Any] = {}
    for name, column in schema.declared.items():
        if column.image_shape is not None:
            raise PrivotError(f"column {name!r} holds images: SDV's metadata knows none")
        for part in column.table_columns(name):
            columns[part] = {"sdtype": _SDTYPES.get(column.in_rules or "", "id")}
    for name, identifier in schema.identifiers.items():
        columns[name] = {"sdtype": "id", "regex_format": identifier.pattern}
    for name, column in schema.declared.items():
        if column.in_rules == "date":
            days = cast("DatetimeColumn", column).resolution == "day"
            columns[name]["datetime_format"] = "%Y-%m-%d" if days else "%Y-%m-%d %H:%M:%S"
    key = next(iter(schema.identifiers), None)
    fields: dict[str, Any] = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns}
    return json.dumps(fields | ({"primary_key": key} if key else {}), indent=4) + "\n"
