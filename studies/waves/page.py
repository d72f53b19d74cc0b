"""Writes the tables of docs/results/waves.md from its rows.

python -m studies waves.page
"""

from __future__ import annotations

import argparse

import numpy as np

from studies.common.pages import folder_of, page_options, rewrite, table
from studies.common.rows import Rows, read_rows, select


def _root(rows: Rows, key: str) -> float:
    return float(np.sqrt(np.mean([row[key] ** 2 for row in rows])))


def _mean(rows: Rows, key: str) -> float:
    return float(np.mean([row[key] for row in rows]))


def shares(rows: Rows) -> str:
    """Both schemes, each wave alone and with history."""
    lines = []
    for trend in ("grows", "jumps"):
        for scheme in ("panel", "split"):
            own = select(rows, trend=trend, scheme=scheme)
            errors = [f"{_root(own, key):.4f}" for key in ("alone", "history")]
            most = max(row["p_value"] for row in own)
            least = min(row["p_value"] for row in own)
            covered = f"{_mean(own, 'covered'):.1%}"
            lines.append([trend, scheme, *errors, covered, f"{least:.3f} to {most:.3f}"])
    head = [
        "share",
        "scheme",
        "each wave alone",
        "with history",
        "bands hold",
        "p-values of a change",
    ]
    return table(head, lines)


def places(rows: Rows) -> str:
    """W₂ by how far a town moves."""
    lines = []
    for move in sorted({row["move"] for row in rows}):
        own = select(rows, move=move)
        ratio = _mean(own, "history") / _mean(own, "alone")
        values = [f"{_mean(own, key):.3f}" for key in ("alone", "history", "together")]
        lines.append([f"{move:g}", str(len(own)), *values, f"{ratio:.2f}"])
    head = ["a town moves", "seeds", "last wave alone", "with history", "all together", "ratio"]
    return table(head, lines)


def rehearsed(rows: Rows) -> str:
    """Predicted and realized errors."""
    lines = []
    for row in rows:
        cells = [row["table"], f"{row['epsilon']:g}", f"{row['people']:,}".replace(",", " ")]
        for key in ("two_way", "one_way"):
            cells += [f"{row[part][key]:.4f}" for part in ("predicted", "realized")]
            cells.append(f"{row['ratio'][key]:.2f}")
        lines.append(cells)
    head = ["columns", "ε", "people", "two-way: predicted", "realized", "ratio"]
    return table([*head, "one-way: predicted", "realized", "ratio"], lines)


def waves(rows: Rows) -> str:
    """Seconds of a processor."""
    each = [(row["fit_seconds"], row["add_seconds"], row["covered"]) for row in rows]
    lines = [
        [str(i), f"{fit:.1f} s", f"{add:.2f} s", f"{c:.0%}"] for i, (fit, add, c) in enumerate(each)
    ]
    return table(["seed", "23 waves fitted", "one added", "bands hold"], lines)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    page_options(parser, "waves")


def run(chosen: argparse.Namespace) -> None:
    """Rewrite the page's tables."""
    folder = folder_of(chosen.page)
    rewrite(
        chosen.page,
        {
            "shares": lambda: shares(read_rows(folder, "share")),
            "places": lambda: places(read_rows(folder, "places")),
            "a wave": lambda: waves(read_rows(folder, "wave")),
            "rehearsals": lambda: rehearsed(read_rows(folder, "rehearsed")),
        },
    )
