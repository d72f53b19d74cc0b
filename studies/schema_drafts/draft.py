"""A draft of a schema from a JSON Schema, a pydantic model or a pandera schema.

    python -m studies schema_drafts.draft package.module:Name -o schema.toml

A file is read; `package.module:Name` is **imported**, which runs it, and so only on somebody's command.
Bounds and categories are taken over where a source declares them: whoever wrote them there knew them to
be public, or has to look again, which the draft says. (`privot schema import` reads SDV's metadata.)
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from privot.schema.drafts import DraftColumn, write_draft
from studies.schema_drafts import json_schema, pandera_schema

_HEAD = (
    "A draft: declare what is commented out, and look at the rest: bounds and categories must be public",
    "knowledge. Then: privot schema check",
)


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the source and where its draft is written."""
    parser.add_argument("source", help="a JSON Schema's file, or package.module:Name, which is run")
    parser.add_argument("-o", "--output", type=Path, default=Path("schema.toml"))


def run(chosen: argparse.Namespace) -> None:
    """Write the draft."""
    text = draft_of(chosen.source)
    with replacing_file(chosen.output) as file:
        file.write_text(text, encoding="utf-8")
    print(
        f"{chosen.output}: declare what is commented out, then: privot schema check {chosen.output}"
    )


def draft_of(source: str) -> str:
    """Return the draft, as TOML, of a JSON Schema's file or of `package.module:Name`.

    Raises:
        PrivotError: if it cannot be read, or is none of these.
    """
    module, colon, name = source.partition(":")
    named = colon and all(part.isidentifier() for part in module.split("."))
    if named and not Path(source).exists():
        return _draft(_columns_of(_imported(module, name), source))
    try:
        document = json.loads(Path(source).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"JSON Schema {source} cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise PrivotError(f"JSON Schema {source} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise PrivotError(f"{source} is no JSON Schema: give that of an object with one a column")
    return _draft(json_schema.columns_of(document))


def _draft(columns: list[DraftColumn]) -> str:
    if not any(column.fields for column in columns):
        raise PrivotError(
            "no column is a number, a category, a date or a truth: nothing is left to report"
        )
    return write_draft(columns, _HEAD)


def _imported(module: str, name: str) -> Any:
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PrivotError(f"{module}:{name} cannot be imported: {error}") from None


def _columns_of(found: Any, source: str) -> list[DraftColumn]:
    if isinstance(found, type) and issubclass(found, BaseModel):
        return json_schema.columns_of(found.model_json_schema())
    if pandera_schema.is_pandera(found):
        return pandera_schema.columns_of(found)
    raise PrivotError(f"{source} is no pydantic model and no pandera schema: name one of them")
