"""What a schema can be drafted from: SDV's metadata, a JSON Schema, a pydantic model, a pandera schema.

Files are read; `package.module:Name` is **imported**, which runs it, and so only on somebody's command.
Bounds and categories are taken over where a source declares them: whoever wrote them there knew them to
be public, or has to look again, which the draft says.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from privot.core.errors import PrivotError
from privot.schema import draft_json, draft_pandera
from privot.schema.drafts import DraftColumn, draft_schema, write_draft

_HEAD = (
    "A draft: declare what is commented out, and look at the rest: bounds and categories must be public",
    "knowledge. Then: privot schema check",
)


def draft_of(source: str, table: str | None = None) -> str:
    """The draft of a schema, as TOML, of a file or of `package.module:Name`.

    Arguments:
        source: Path, or name.
        table: Which table of SDV's metadata, where there are several.

    Raises:
        PrivotError: if it cannot be read, or is none of these.
    """
    module, colon, name = source.partition(":")
    if (
        colon
        and not Path(source).exists()
        and all(part.isidentifier() for part in module.split("."))
    ):
        return _draft(_columns_of(_imported(module, name), source), table)
    try:
        text = Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"metadata {source} cannot be read: {error}") from None
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        document = None
    if isinstance(document, dict) and ("properties" in document or "$schema" in document):
        return _draft(draft_json.columns_of(document), table)
    return draft_schema(text, table)


def _draft(columns: list[DraftColumn], table: str | None) -> str:
    if table is not None:
        raise PrivotError(f"table {table!r} was named, there is one: leave it out")
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
        return draft_json.columns_of(found.model_json_schema())
    if draft_pandera.is_pandera(found):
        return draft_pandera.columns_of(found)
    raise PrivotError(f"{source} is no pydantic model and no pandera schema: name one of them")
