"""Tables and the picture of maps by place of trust, from measured JSON.

    python -m studies promise.page

Reads rows of `places` and `images` in `docs/results/promise` and of `forecasts` in the folder below
it, draws `places.png` beside them, and rewrites the tables of the page (`studies.common.pages`).
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
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
from studies.common.pages import Tables, folder_of, page_options, rewrite, spread, table
from studies.common.rows import Rows, read_rows, select

TITLES = {"towns": "Towns, 200 000 people", "accidents": "Accidents, 140 029 places"}
IMAGES = {"mnist": "MNIST", "fashion_mnist": "Fashion"}
LINES = {
    "local": ("nobody (local)", RECEIVED, "-"),
    "shuffled": ("a shuffler", PRIVATE, "-"),
    "aggregated": ("one of two servers", LEARNED, "-"),
    "central": ("a curator", INK, "--"),
}


def errors_table(rows: Rows, work: str) -> str:
    """W₂ by place of trust and ε, blank where none was measured."""
    rows = select(rows, work=work)
    epsilons = sorted({row["epsilon"] for row in rows if "epsilon" in row})
    body = []
    for where, (name, _, _) in LINES.items():
        found = [select(rows, where=where, epsilon=epsilon) for epsilon in epsilons]
        body.append([name, *(_cell([row["w2"] for row in each]) for each in found)])
    return table(["who is trusted", *(f"ε = {e:g}" for e in epsilons)], body)


def _cell(values: list[float]) -> str:
    """A mean and its deviation; of fewer than three seeds, with their number."""
    return spread(values, 3) + (f" ({len(values)})" if 0 < len(values) < 3 else "")


def floors_table(rows: Rows) -> str:
    """What two samples of the truth are apart."""
    body = []
    for work, title in TITLES.items():
        found = {row["seed"]: row["w2"] for row in select(rows, work=work, where="floor")}
        body.append([title, spread(list(found.values()), 3)])
    return table(["", "floor"], body)


def reports_table(rows: Rows) -> str:
    """ε₀ of a report by itself, under a shuffler's ε."""
    rows = [row for row in select(rows, where="shuffled", seed=0) if row["work"] in TITLES]
    epsilons = sorted({row["epsilon"] for row in rows})
    body = []
    for work, title in TITLES.items():
        found = [select(rows, work=work, epsilon=epsilon) for epsilon in epsilons]
        body.append([title, *(f"{each[0]['epsilon0']:.2f}" if each else "" for each in found)])
    return table(["", *(f"ε = {e:g}" for e in epsilons)], body)


def images_table(rows: Rows) -> str:
    """Accuracy of a linear classifier by place of trust, and a report's ε by itself."""
    rows = [row for row in rows if "accuracy" in row and not row["held_out"]]
    works = [work for work in IMAGES if select(rows, work=work)]
    body = []
    for where, (name, _, _) in LINES.items():
        own = select(rows, where=where)
        found = [select(own, work=work) for work in works]
        alone = {f"{row['epsilon0']:.2f}" for row in own if "epsilon0" in row}
        cells = [_cell([row["accuracy"] for row in each]) for each in found]
        body.append([name, *cells, ", ".join(sorted(alone))])
    heads = [IMAGES[work] for work in works]
    return table(["who is trusted", *heads, "ε₀ of a report by itself"], body)


def tables_table(rows: Rows) -> str:
    """Two-way errors of a table learned from the sums of both servers, by people and δ."""
    rows = [row for row in rows if "through" in row]
    keys = sorted({(-row["people"], -row["delta"], row["through"]) for row in rows})
    body = []
    for people, delta, through in keys:
        found = select(rows, people=-people, delta=-delta, through=through)
        errors = spread([row["two_way"] for row in found], 4)
        body.append([f"{-people:,}".replace(",", " "), f"{-delta:g}", through, errors])
    return table(["people", "δ", "through", "two-way error"], body)


def shares_table(rows: Rows) -> str:
    """What one client's shares cost, by their number of cells."""
    rows = sorted((row for row in rows if "cells" in row), key=lambda row: row["cells"])
    body = [
        [
            f"{row['cells']:,}".replace(",", " ")
            + (" (Adult, from the record)" if "columns" in row else ""),
            f"{row['client_ms']:.2g}",
            f"{row['leader_bytes'] / 1000:.1f} kB, {row['helper_bytes']} bytes",
        ]
        for row in rows
    ]
    return table(["cells", "client, ms", "to leader, to helper"], body)


ROWS = ("predicted", "realized")
PLANS = {"towns": "Towns", "accidents": "Accidents", "adult": "Adult, ten columns"}


def forecasts_table(rows: Rows) -> str:
    """Errors that a plan predicts and those realized: W₂ of maps, total variation of pairs."""
    rows = [row for row in rows if row["stem"] == "measured"]
    epsilons = sorted({row["epsilon"] for row in rows})
    body = []
    for plan, title in PLANS.items():
        for where, (name, _, _) in LINES.items():
            line = [title, name]
            for epsilon in epsilons:
                found = select(rows, plan=plan, where=where, epsilon=epsilon)
                line += _compared(*(_mean_error(select(found, row=name)) for name in ROWS))
            body.append(line)
    head = [f"{each}, ε = {e:g}" for e in epsilons for each in ("predicted", "realized", "off by")]
    return table(["learned", "who is trusted", *head], body)


def _mean_error(rows: Rows) -> float | None:
    """Mean over seeds of the error to show, which is the last."""
    return float(np.mean([[*row["errors"].values()][-1] for row in rows])) if rows else None


def _compared(predicted: float | None, realized: float | None) -> list[str]:
    if predicted is None or realized is None:
        return ["", "", ""]
    return [f"{predicted:.4f}", f"{realized:.4f}", f"{100 * (predicted / realized - 1):+.0f} %"]


def draw_errors(rows: Rows) -> Figure:
    """Error against ε, one line a place of trust, and the floor."""
    with styled():
        figure = new_figure(9.0, 3.9)
        axes = figure.subplots(1, len(TITLES), squeeze=False)[0]
        for axis, (work, title) in zip(axes, TITLES.items(), strict=True):
            for where, (name, color, dashes) in LINES.items():
                found = select(rows, work=work, where=where)
                epsilons = sorted({row["epsilon"] for row in found})
                values = [[row["w2"] for row in select(found, epsilon=e)] for e in epsilons]
                means = [float(np.mean(each)) for each in values]
                axis.plot(epsilons, means, color=color, linestyle=dashes, marker="o", label=name)
                ends = [[f(each) for each in values] for f in (min, max)]
                axis.fill_between(epsilons, *ends, color=color, alpha=0.15, lw=0)
            floor = [row["w2"] for row in select(rows, work=work, where="floor")]
            axis.axhline(
                np.mean(floor), color=MUTED, linestyle=":", label="two samples of the truth"
            )
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_yticks(
                [0.03, 0.05, 0.1, 0.2, 0.4, 0.8], labels=[".03", ".05", ".1", ".2", ".4", ".8"]
            )
            axis.minorticks_off()
            axis.set_title(title, fontweight="bold")
            axis.set_xlabel("ε")
        axes[0].set_ylabel("W₂ to these people, box = 2 × 2")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=9)
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    page_options(parser, "promise")


def run(chosen: argparse.Namespace) -> None:
    """Tables and the picture."""
    folder = folder_of(chosen.page)
    rewrite(chosen.page, tables_of(folder))
    save_png(draw_errors(read_rows(folder, "")), folder / "places.png", dpi=120)


def tables_of(folder: Path) -> Tables:
    """The page's tables, of the rows in its folder."""
    rows = read_rows(folder, "")
    return {
        "floors": partial(floors_table, rows),
        "reports": partial(reports_table, rows),
        "images": partial(images_table, rows),
        "tables": partial(tables_table, rows),
        "shares": partial(shares_table, rows),
        "forecasts": partial(forecasts_table, read_rows(folder / "forecasts", "")),
    } | {f"{work}": partial(errors_table, rows, work) for work in TITLES}
