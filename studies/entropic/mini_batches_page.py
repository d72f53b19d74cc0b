"""Tables and the picture of what transport between mini-batches learns, from measured JSON.

    python -m studies entropic.mini_batches_page

Reads rows of `entropic.mini_batches` in `docs/results/mini_batches`, draws `mini_batches.png` beside
them, and rewrites the tables of the page (`studies.common.pages`).
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

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
from studies.common.pages import folder_of, page_options, rewrite, table
from studies.common.rows import Rows, read_rows, select
from studies.entropic.mini_batches import NOISE, RECORDS, REPORTS

_COLORS = (RECEIVED, MUTED, LEARNED, PRIVATE, INK)


def variances_table(rows: Rows, weight: float, corrected: bool) -> str:
    """Learned variance by dimension and batch, with twice the standard error."""
    rows = select(rows, weight=weight, corrected=corrected)
    batches = sorted({row["batch"] for row in rows})
    body = []
    for dimension in sorted({row["dimension"] for row in rows}):
        found = {row["batch"]: row for row in select(rows, dimension=dimension)}
        cells = [_cell(found[batch]) if batch in found else "" for batch in batches]
        body.append([f"d = {dimension}", *cells])
    return table(["", *(f"m = {batch:,}" for batch in batches)], body)


def _cell(row: dict[str, float]) -> str:
    return f"{row['variance']:.2f} ± {2 * row['error']:.2f}"


def picture(rows: Rows) -> Figure:
    """Learned variance against batch size, a panel a weight, a line a dimension."""
    with styled():
        weights = sorted({row["weight"] for row in rows})
        figure = new_figure(9.5, 3.2)
        panels = figure.subplots(1, len(weights), sharey=True)
        for panel, weight in zip(panels, weights, strict=True):
            plain = select(rows, weight=weight, corrected=False)
            for color, dimension in zip(
                _COLORS, sorted({r["dimension"] for r in plain}), strict=True
            ):
                line = sorted(select(plain, dimension=dimension), key=lambda row: row["batch"])
                panel.plot(
                    [row["batch"] for row in line],
                    [row["variance"] for row in line],
                    color=color,
                    marker="o",
                    markersize=3,
                    label=f"d = {dimension}",
                )
            limit = max(REPORTS - weight * NOISE, 0.0)
            for height, text in ((RECORDS, "records"), (REPORTS, "reports")):
                panel.axhline(height, color=MUTED, linewidth=0.8, linestyle=":")
                if panel is panels[0]:
                    panel.text(1300, height + 0.03, text, color=MUTED, fontsize=8)
            panel.plot([4000], [limit], marker="_", markersize=14, color=INK, clip_on=False)
            panel.set_xscale("log")
            panel.set_title(f"entropic weight {weight:g}", loc="left")
            panel.set_xlabel("points in a batch")
        panels[0].set_ylabel("learned variance of a coordinate")
        panels[0].set_ylim(0, 2.2)
        panels[-1].legend(frameon=False, fontsize=8, loc="upper right", bbox_to_anchor=(1.0, 0.9))
        return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    page_options(parser, "mini_batches")


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    page: Path = chosen.page
    rows = read_rows(folder_of(page), "rows")
    save_png(picture(rows), folder_of(page) / "mini_batches.png")
    tables = {
        f"weight {weight:g}".replace(".", " "): partial(variances_table, rows, weight, False)
        for weight in (0.0, 0.5, 1.0)
    }
    corrected = {"corrected": partial(variances_table, rows, 1.0, True)}
    corrected["corrected unregularized"] = partial(variances_table, rows, 0.0, True)
    rewrite(page, tables | corrected)
