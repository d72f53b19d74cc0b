"""Options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

if TYPE_CHECKING:
    from privot.tables.csv_records import RecordForm

SchemaFile = Annotated[Path, Argument(help="The schema: schema.toml.")]
Force = Annotated[bool, Option("--force", help="Replace an output that exists.")]
Separator = Annotated[
    str, Option(help="What stands between a CSV's fields: one character, or tab.")
]
Ignore = Annotated[
    list[str] | None,
    Option(help="A column of the records that the schema does not know. May be repeated."),
]


def record_form(separator: str, ignore: list[str] | None) -> RecordForm:
    """What `--separator` and `--ignore` say."""
    from privot.tables.csv_records import RecordForm

    return RecordForm(separator, tuple(ignore or ()))
