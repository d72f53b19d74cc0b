"""Pages of results: prose is written by hand, tables by a command from measured rows.

The page `docs/results/NAME.md` has its rows, pictures and further pages in the folder
`docs/results/NAME/`. Between `<!-- table TITLE -->` and `<!-- end -->` a command puts what the rows
say; all else on the pages is left as it is. Nothing is computed that is not in the rows, but means,
deviations and comparisons of them.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from studies.common.rows import Row, Rows

RESULTS = Path("docs/results")
Tables = Mapping[str, Callable[[], str]]


def page_options(parser: argparse.ArgumentParser, name: str) -> None:
    """The page to rewrite: `docs/results/NAME.md` unless told otherwise."""
    parser.add_argument("page", type=Path, nargs="?", default=RESULTS / f"{name}.md")


def folder_of(page: Path) -> Path:
    """Where the rows and pictures of a page lie.

    Raises:
        PrivotError: if that folder does not exist.
    """
    folder = page.with_suffix("")
    if not folder.is_dir():
        raise PrivotError(f"{page} has no folder of rows {folder}: run its recipes first")
    return folder


def rewrite(page: Path, tables: Tables) -> None:
    """Write the marked tables of a page, and of the further pages in its folder, anew."""
    folder = page.with_suffix("")
    for path in (page, *sorted(folder.glob("*.md"))):
        inside = "" if path == page else folder.name
        text = fill(path.read_text(encoding="utf-8"), tables, inside)
        with replacing_file(path) as draft:
            draft.write_text(text, encoding="utf-8")
        print(path)


def fill(page: str, tables: Tables, folder: str = "") -> str:
    """The page with every marked table written anew.

    Links in tables are relative to the first page; `folder` names the folder beside it in which a
    further page lies.

    Raises:
        PrivotError: if the page marks a table that is not known.
    """

    def written(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in tables:
            raise PrivotError(f"the page marks table {name!r}: known are {', '.join(tables)}")
        text = tables[name]().strip()
        if folder:
            text = re.sub(r"\]\((?!http|#)", "](../", text).replace(f"](../{folder}/", "](")
        return f"<!-- table {name} -->\n{text}\n<!-- end -->"

    return re.sub(r"<!-- table ([\w ]+) -->\n.*?<!-- end -->", written, page, flags=re.DOTALL)


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    Examples:
        >>> print(table(("a", "b"), [("1", "2")]))
        | a | b |
        |---|---|
        | 1 | 2 |
    """
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)])


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation over seeds.

    Examples:
        >>> spread([1.0, 2.0], 1)
        '1.5 ± 0.7'
    """
    if not values:
        return ""
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean} ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else mean


def pictures(rows: Rows, folder: Path) -> str:
    """The picture that lies beside each row, one below the other."""
    return "\n\n".join(
        f"![{row['stem'].replace('_', ' ')}]({folder.name}/{row['stem']}.png)" for row in rows
    )


def provenance(rows: Rows) -> str:
    """How rows were made: command, steps, seed, seconds of wall time, cores, date."""
    body = [
        (
            f"`{row['stem']}`",
            f"`{row['command']}`",
            _steps(row),
            str(row["seed"]),
            f"{row['seconds']:.0f}",
            f"{row['cores']}, {row['threads']} used",
            row["date"],
        )
        for row in rows
    ]
    return table(("row", "command", "steps", "seed", "seconds", "cores", "date"), body)


def _steps(row: Row) -> str:
    settings = row.get("plan") or row.get("settings") or {}
    return str(settings.get("steps", ""))
