"""Options that mean the same in every command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from privot.tables.csv_records import RecordForm

Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]
Separator = Annotated[
    str, typer.Option(help="What stands between a CSV's fields: one character, or tab.")
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(help="A column of the records that the schema does not know. May be repeated."),
]


def record_form(separator: str, ignore: list[str] | None) -> RecordForm:
    """What `--separator` and `--ignore` say."""
    from privot.tables.csv_records import RecordForm

    return RecordForm(separator, tuple(ignore or ()))
