"""The picture of docs/results/nearest_rivals.md, from its rows.

python -m studies reports.nearest_picture
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from privot.report.panels import INK, LEARNED, MUTED, PRIVATE, new_figure, save_png, styled
from studies.common.pages import RESULTS
from studies.common.rows import Rows, in_order, read_rows

_COLORS = {"as published": MUTED, "by the truth": PRIVATE}


def ratios(rows: Rows, error: str) -> dict[tuple[str, float], dict[tuple[str, str], float]]:
    """A rival's mean error over that of `privot.fit`, by work (or law) and ε, by rival and tuning.

    Examples:
        >>> ours = {"work": "a", "epsilon": 1.0, "method": "privot.fit", "w2": 0.1}
        >>> ratios([ours, ours | {"method": "DAM", "tuned": "by the truth", "w2": 0.15}], "w2")
        {('a', 1.0): {('DAM', 'by the truth'): 1.5}}
    """
    each = defaultdict(list)
    for row in rows:
        kind = row["method"], row.get("tuned", "")
        each[(str(row.get("law", row["work"])), float(row["epsilon"])), kind].append(row[error])
    found: dict[tuple[str, float], dict[tuple[str, str], float]] = {}
    for (cell, kind), errors in each.items():
        if kind[0] != "privot.fit":
            ours = float(np.mean(each[cell, ("privot.fit", "")]))
            found.setdefault(cell, {})[kind] = float(np.round(np.mean(errors) / ours, 3))
    return found


def draw_ratios(maps: Rows, numbers: Rows) -> Figure:
    """A panel of maps and one of numbers: dots of rivals over ours, which is the line at 1."""
    with styled():
        figure = new_figure(10, 4.2)
        for axis, rows, error in zip(
            figure.subplots(1, 2), (maps, numbers), ("w2", "w1"), strict=True
        ):
            found = ratios(rows, error)
            rivals = in_order([row for row in rows if row["method"] != "privot.fit"], "method")
            markers = dict(zip(rivals, "osD^vP", strict=False))
            for place, kinds in enumerate(found.values()):
                for (method, tuned), ratio in kinds.items():
                    shift = 0.14 if tuned == "by the truth" else -0.14
                    mark = {"marker": markers[method], "color": _COLORS[tuned], "s": 34}
                    axis.scatter(place + shift, ratio, **mark)
            for method in rivals:
                axis.scatter([], [], marker=markers[method], color=INK, s=34, label=method)
            for tuned, color in _COLORS.items():
                axis.plot([], [], color=color, linewidth=5, label=tuned)
            axis.axhline(1, color=LEARNED, label="privot.fit")
            axis.set_yscale("log")
            axis.set_yticks([0.75, 1, 1.5, 2, 3, 5], ["0.75", "1", "1.5", "2", "3", "5"])
            axis.set_yticks([], minor=True)
            # Long names would touch their neighbors'.
            short = {"two peaks": "peaks", "exponential": "expon."}
            names = [f"{short.get(name, name)}\nε = {epsilon:g}" for name, epsilon in found]
            axis.set_xticks(range(len(names)), names, fontsize=6.5)
            axis.set_ylabel(f"{'W₂' if error == 'w2' else 'W₁'} of a rival over ours")
            axis.legend(fontsize=7, ncols=2)
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--results", type=Path, default=RESULTS)


def run(chosen: argparse.Namespace) -> None:
    """Command line."""
    rows = read_rows(chosen.results / "best_report", "nearest_")
    numbers = [row for row in rows if row["work"] == "numbers"]
    maps = [row for row in rows if row["work"] != "numbers"]
    save_png(draw_ratios(maps, numbers), chosen.results / "best_report" / "nearest_rivals.png")
