"""The editor of `privot schema new`: asks for one column after another, and shows how each is reported.

Asks what is public and nothing else: there is no way to show it a record. Works in a terminal and on a
pipe; Ctrl-C, or the end of the pipe, asks whether to keep what is declared so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import typer
from pydantic import ValidationError

from privot.cli.console import note
from privot.errors import PrivotError
from privot.schema import CodedColumn, Schema
from privot.schema.drafts.draft import DraftColumn

_KINDS = "number, date, category, yes/no, identifier"
_EXAMPLES = 4


def ask_columns() -> list[DraftColumn]:
    """What a person declares, column by column; none if it is not to be kept."""
    note("Declare what one record may be. It is public: from a questionnaire, a law, published")
    note("statistics, never from the records; nothing here looks at any. An empty name ends.")
    declared: list[DraftColumn] = []
    try:
        while name := typer.prompt("\nColumn", default="", show_default=False).strip():
            if any(name == column.name for column in declared):
                note(f"{name!r} is declared already: give another name")
                continue
            column = _ask_column(name)
            if column is not None:
                declared.append(column)
    except (typer.Abort, KeyboardInterrupt):
        if not declared or not _keeps(len(declared)):
            return []
    return declared


def _keeps(number: int) -> bool:
    note("")
    try:
        return typer.confirm(f"Keep the {number} columns declared so far?", default=True)
    except (typer.Abort, KeyboardInterrupt):
        return False


def _ask_column(name: str) -> DraftColumn | None:
    """One column, asked again until it can be; None to leave it out."""
    while True:
        kind = typer.prompt(f"  Kind ({_KINDS})").strip().lower()
        ask = next((ask for word, ask in _ASKED.items() if kind and word.startswith(kind)), None)
        if ask is None:
            note(f"  {kind!r} is none of them")
            continue
        fields = ask()
        if fields["kind"] != "identifier" and typer.confirm("  May it be missing?", default=False):
            fields["nullable"] = True
        try:
            made = Schema.from_dict({"columns": {name: fields} | _COMPANION})
        except (PrivotError, ValidationError) as error:
            note(f"  {error}")
            continue
        _show(name, made)
        if typer.confirm("  Keep it?", default=True):
            return DraftColumn(name, fields)
        if not typer.confirm("  Declare it again?", default=True):
            return None


# A schema needs a column that is reported, which an identifier is not.
_COMPANION = {"(another)": {"kind": "boolean"}}


def _show(name: str, schema: Schema) -> None:
    if name in schema.identifiers:
        made = schema.identifiers[name].made_up(_EXAMPLES, np.random.default_rng())
        note(f"  made up, never reported: {', '.join(made(_EXAMPLES).to_pylist())}, …")
        return
    column: CodedColumn = schema.coded[name]
    shown = column.labels[:_EXAMPLES]
    more = ", …" if len(column.labels) > _EXAMPLES else ""
    note(f"  reported as one of {len(column.labels)}: {', '.join(shown)}{more}")
    rng = np.random.default_rng()
    codes = rng.integers(0, len(column.labels), _EXAMPLES)
    (values,) = column.decode_codes(name, codes, rng).values()
    drawn = ["missing" if value is None else str(value) for value in values.to_pylist()]
    note(f"  samples may have: {', '.join(drawn)}")


def _ask_number() -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": "numeric"}
    fields["bounds"] = [typer.prompt("  Lowest", type=float), typer.prompt("  Highest", type=float)]
    decimals = typer.prompt(
        "  Decimals (0: whole numbers; empty: any)", default="", show_default=False
    )
    if decimals.strip() == "0":
        fields["integer"] = True
    elif decimals.strip().isdigit():
        fields["decimals"] = int(decimals)
    if fields["bounds"][0] > 0 and typer.confirm(
        "  Does it spread over powers of ten?", default=False
    ):
        fields["scale"] = "log"
    spikes = typer.prompt(
        "  Values that many share exactly (as 0, 40; empty: none)", default="", show_default=False
    )
    if spikes.strip():
        fields["spikes"] = _numbers(spikes)
    unit = typer.prompt("  Measured in (empty: nothing)", default="", show_default=False).strip()
    return fields | ({"measured_in": unit} if unit else {})


def _numbers(text: str) -> list[Any]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return [text]  # which the schema refuses with its reason


def _ask_date() -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": "datetime"}
    fields["bounds"] = [
        typer.prompt("  First (2020-01-01)").strip(),
        typer.prompt("  Last (2024-12-31)").strip(),
    ]
    resolution = typer.prompt("  To the day, hour, minute or second", default="day").strip()
    return fields | ({} if resolution == "day" else {"resolution": resolution})


def _ask_category() -> dict[str, Any]:
    listed = typer.prompt("  Categories, with commas")
    other = typer.prompt(
        "  What stands for any other (empty: others are refused)", default="", show_default=False
    ).strip()
    names = [name.strip() for name in listed.split(",") if name.strip()]
    return {"kind": "categorical", "categories": names} | ({"other": other} if other else {})


def _ask_identifier() -> dict[str, Any]:
    note(r"  It is never learned: samples have made-up ones, such as P-\d{6} or [A-Z]{2}[0-9]{4}.")
    return {"kind": "identifier", "pattern": typer.prompt("  Pattern").strip()}


_ASKED: dict[str, Callable[[], dict[str, Any]]] = {
    "number": _ask_number,
    "date": _ask_date,
    "category": _ask_category,
    "yes/no": lambda: {"kind": "boolean"},
    "identifier": _ask_identifier,
}
