"""Rows of results: one JSON file a recipe's run, written whole or not at all, read back by the pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from privot.files import replacing_file

Row = dict[str, Any]
Rows = list[Row]


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a list of rows, one a line, and the folder where there is none."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    _write(path, f"[\n{lines}\n]\n")


def write_row(path: Path, row: Row) -> None:
    """Write a single row, one key a line, and the folder where there is none."""
    _write(path, json.dumps(row, indent=1, ensure_ascii=False) + "\n")


def gather(rows: Iterable[Row], output: Path | None) -> Rows:
    """Print rows as they come; write them to `output`, if any, when all are there."""
    kept = []
    for row in rows:
        kept.append(row)
        print(json.dumps(row, ensure_ascii=False), flush=True)
    if output is not None:
        write_rows(output, kept)
    return kept


def read_rows(folder: Path, name: str) -> Rows:
    """Rows of all files `name*.json`, by file name: each holds one row, or a list of them.

    A row says where it is from: `stem` is the file's name without its ending.
    """
    rows: Rows = []
    for path in sorted(folder.glob(f"{name}*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content if isinstance(content, list) else [content]
        rows += [row | {"stem": path.stem} for row in found]
    return rows


def select(rows: Rows, **wanted: Any) -> Rows:
    """Rows that agree with all of `wanted`."""
    return [row for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def in_order(rows: Rows, key: str) -> list[Any]:
    """Distinct values as they first appear."""
    return list(dict.fromkeys(row[key] for row in rows))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
