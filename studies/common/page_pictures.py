"""Pictures for pages whose tables come from benchmarks, drawn from the tables, so that both agree.

Writes `docs/results/NAME/NAME.png` for every page that is named here.

Usage:
    python -m studies common.page_pictures
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from privot.core.errors import PrivotError
from privot.report.panels import (
    INK,
    LEARNED,
    MUTED,
    PRIVATE,
    RECEIVED,
    new_figure,
    save_png,
    styled,
)
from studies.common.pages import RESULTS

Cells = list[dict[str, str]]
_COLORS = (LEARNED, PRIVATE, RECEIVED, MUTED)


def read_table(page: str, first: str) -> Cells:
    """The rows, by column, of the page's table whose first heading is `first`.

    Raises:
        PrivotError: if the page has none.

    Examples:
        >>> read_table("| a | b |\\n|---|---|\\n| 1 | **2** (x) |\\n", "a")
        [{'a': '1', 'b': '2 (x)'}]
    """
    found = re.search(
        rf"^\| *{re.escape(first)} *\|.*\n\|[-|]+\n((?:\|.*\n?)+)", page, re.MULTILINE
    )
    if found is None:
        raise PrivotError(f"the page has no table whose first heading is {first!r}: see its text")
    head = _cells(found.group(0).splitlines()[0])
    return [dict(zip(head, _cells(line), strict=True)) for line in found.group(1).splitlines()]


def number(cell: str) -> float:
    """The number that a cell begins with; NaN if it begins with none.

    Examples:
        >>> number("1 135× more"), number("326,000"), number("")
        (1135.0, 326000.0, nan)
    """
    found = re.match(r"[≤≥ ]*(-?\d[\d, ]*(?:\.\d+)?)", cell)
    return float(re.sub("[, ]", "", found.group(1))) if found else float("nan")


def solver(page: str) -> Figure:
    """Milliseconds a step, a dot a library."""
    rows = read_table(page, "setting")
    return _dots(
        rows, "setting", ("Privot", "POT", "OTT", "geomloss"), "ms a step, logarithmic", 6.0
    )


def privacy(page: str) -> Figure:
    """Bounds of audits over what is claimed, of honest and of broken mechanisms."""
    with styled():
        figure = new_figure(9, 4.6)
        axis = figure.subplots()
        labels, shown = [], 0
        for kind, color in (("honest", PRIVATE), ("broken, claimed ε", LEARNED)):
            for row in read_table(page, kind):
                claims = [(number(name.removeprefix("ε = ")), name) for name in row if name != kind]
                ratios = [number(row[name]) / claim for claim, name in claims]
                axis.plot(ratios, [shown] * len(ratios), "o", color=color, markersize=5)
                labels.append(row[kind])
                shown += 1
        axis.axvline(1, color=INK, linewidth=1)
        axis.set_yticks(range(shown), labels)
        axis.invert_yaxis()
        axis.set_xscale("log", base=2)
        axis.set_xticks([0.5, 1, 2, 4, 8, 16], ["½", "1", "2", "4", "8", "16"])
        axis.set_xlabel("audit's lower bound / claimed ε, at ε = ½, 1, 2, 4")
        axis.set_title(
            "Honest noise stays below its claim; broken noise is seen", fontweight="bold"
        )
    return figure


def candidates(page: str) -> Figure:
    """Errors of the mean by two mechanisms."""
    rows = read_table(page, "ε")
    return _bars(rows, "ε", ("candidates", "PrivUnit"), "error of a mean's coordinates", "ε = ")


def collector(page: str) -> Figure:
    """Reports a second, beside commits of SQLite."""
    rows = read_table(page, "")
    figure = _dots(rows, "", ("reports a second",), "reports a second, logarithmic", 2.4)
    for k, row in enumerate(rows):
        at = (number(row["reports a second"]), k)
        figure.axes[0].annotate(
            row["reports a second"], at, (0, 7), textcoords="offset points", ha="center", fontsize=8
        )
    return figure


def scale(page: str) -> Figure:
    """Time of a step and memory, for thousands and for millions of reports."""
    rows = read_table(page, "reports fitted")
    with styled():
        figure = new_figure(9, 2.6)
        for axis, name in zip(figure.subplots(1, 2), ("ms a step", "peak memory"), strict=True):
            heights = [number(row[name]) for row in rows]
            bars = axis.barh(
                [row["reports fitted"] for row in rows], heights, color=(RECEIVED, LEARNED)
            )
            axis.bar_label(bars, [row[name] for row in rows], padding=4)
            axis.set_title(f"{name}, fitting", fontsize=10, fontweight="bold")
            axis.set_xlim(0, 1.25 * max(heights))
            axis.set_xticks([])
    return figure


PICTURES: dict[str, Callable[[str], Figure]] = {
    "solver": solver,
    "privacy": privacy,
    "candidates": candidates,
    "collector": collector,
    "scale": scale,
}


def _dots(rows: Cells, first: str, names: tuple[str, ...], label: str, height: float) -> Figure:
    """A line a row, a dot a column of numbers, on a logarithmic axis."""
    with styled():
        figure = new_figure(9, height)
        axis = figure.subplots()
        for name, color in zip(names, _COLORS, strict=False):
            values = [number(row[name]) for row in rows]
            axis.plot(values, range(len(rows)), "o", color=color, markersize=7, label=name)
        axis.set_yticks(range(len(rows)), [row[first] for row in rows])
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.set_xlabel(label)
        axis.grid(axis="y", color="#eef1f6")
        if len(names) > 1:
            figure.legend(loc="outside upper center", ncols=len(names))
    return figure


def _bars(rows: Cells, first: str, names: tuple[str, ...], label: str, prefix: str) -> Figure:
    """A group of bars a row."""
    with styled():
        figure = new_figure(8, 3)
        axis = figure.subplots()
        for k, (name, color) in enumerate(zip(names, _COLORS, strict=False)):
            heights = [number(row[name]) for row in rows]
            bars = axis.bar(np.arange(len(rows)) + 0.36 * k, heights, 0.34, color=color, label=name)
            axis.bar_label(bars, [row[name] for row in rows], fontsize=8)
        axis.set_xticks(np.arange(len(rows)) + 0.18, [prefix + row[first] for row in rows])
        axis.set_ylabel(label)
        if len(names) > 1:
            figure.legend(loc="outside upper center", ncols=len(names))
    return figure


def _cells(line: str) -> list[str]:
    return [re.sub(r"\*\*|`", "", cell).strip() for cell in line.strip().strip("|").split("|")]


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("folder", type=Path, nargs="?", default=RESULTS, help="of the pages")


def run(chosen: argparse.Namespace) -> None:
    """Every picture of the pages in a folder."""
    for name, draw in PICTURES.items():
        folder = chosen.folder / name
        folder.mkdir(exist_ok=True)
        page = (chosen.folder / f"{name}.md").read_text(encoding="utf-8")
        save_png(draw(page), folder / f"{name}.png")
        print(folder / f"{name}.png")
