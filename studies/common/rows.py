"""Rows of results: one JSON file a recipe's run, written whole or not at all, read back by the pages."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from privot.core.files import replacing_file

Row = dict[str, Any]
Rows = list[Row]
_MEASURED = ("results", "points", "w2")


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


def over_seeds(rows: Rows) -> Rows:
    """Rows of one recipe that differ by seed, as one: the first, with the means of its measured numbers.

    Beside every number x of `results`, `points` and `w2` whose seeds differ stands `x_std`, their
    standard deviation. Rows are of one kind if their file names agree but for the ending `_seedN`.

    Examples:
        >>> rows = [{"stem": "a", "seed": 0, "w2": {"floor": 1.0}}]
        >>> over_seeds([*rows, {"stem": "a_seed1", "seed": 1, "w2": {"floor": 3.0}}])[0]["w2"]
        {'floor': 2.0, 'floor_std': 1.4142135623730951}
    """
    kinds: dict[str, Rows] = {}
    for row in sorted(rows, key=lambda row: (_kind(row), row["seed"])):
        kinds.setdefault(_kind(row), []).append(row)
    merged = []
    for found in kinds.values():
        measured = {key: _mean([row[key] for row in found]) for key in _MEASURED if key in found[0]}
        merged.append(found[0] | measured)
    return merged


def with_spread(rows: Rows, seeds: Rows) -> Rows:
    """Rows with the `x_std` of `over_seeds` beside their own numbers x.

    Arguments:
        rows: Of one recipe, in any folder, of kinds that are among the seeds'.
        seeds: Rows whose kinds have several seeds.

    Examples:
        >>> rows = [{"stem": "a", "seed": 0, "w2": {"floor": 1.0}}]
        >>> rows += [{"stem": "a_seed1", "seed": 1, "w2": {"floor": 3.0}}]
        >>> with_spread([{"stem": "other/a", "seed": 0, "w2": {"floor": 5.0}}], rows)[0]["w2"]
        {'floor': 5.0, 'floor_std': 1.4142135623730951}
    """
    kinds = {_kind(row): row for row in over_seeds(seeds)}
    return [
        row | {key: _beside(row[key], kinds[_kind(row)][key]) for key in _MEASURED if key in row}
        for row in rows
    ]


def _kind(row: Row) -> str:
    """A row's file name but for the ending `_seedN`."""
    stem: str = row["stem"]
    return stem.split("/")[-1].split("_seed")[0]


def _beside(value: Any, merged: Any) -> Any:
    """The value itself, with the deviations that stand in what was merged of it and others."""
    if isinstance(value, dict):
        spread = {key: merged[key] for key in merged if key not in value}
        return {key: _beside(each, merged[key]) for key, each in value.items()} | spread
    if isinstance(value, list):
        return [_beside(*each) for each in zip(value, merged, strict=True)]
    return value


def _mean(values: list[Any]) -> Any:
    """Of numbers their mean, of the same collections of them the same of means; else the first."""
    if len(values) == 1:
        return values[0]
    if isinstance(values[0], dict):
        made: Row = {}
        for key in values[0]:
            found = [value[key] for value in values]
            made[key] = _mean(found)
            if isinstance(found[0], float) and len(set(found)) > 1:
                made[f"{key}_std"] = statistics.stdev(found)
        return made
    if isinstance(values[0], list):
        return [_mean(list(each)) for each in zip(*values, strict=True)]
    return statistics.fmean(values) if isinstance(values[0], float) else values[0]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
