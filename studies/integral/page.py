"""Tables and pictures of the results on integral privacy, from measured JSON.

    python -m studies integral.page

Reads rows of `clients`, `curves`, `bounds`, `audit` and `accidents` in `docs/results/integral`, draws
`curves.png` and `clients.png` beside them, and rewrites the tables of the page and of those in
the folder (`studies.common.pages`).
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
from studies.common.rows import Rows, in_order, read_rows, select
from studies.common.verdicts import claims_table
from studies.integral.bounds_page import divergences_table, modes_table, rounds_table
from studies.integral.claims import claims_of

TITLES = {
    "ring": "Ring of eight",
    "three": "Three on a line",
    "random_line": "Random, 1-D",
    "random_plane": "Random, 2-D",
}
STYLES: dict[str, tuple[str, str]] = {
    "N(0, I)": (RECEIVED, ":"),
    "optimum": (INK, ":"),
    "Bernstein, published noise": ("#b9c2d6", "-"),
    "Bernstein, lattice noise": ("#7d8bb0", "-"),
    "Bernstein, cross-validated": ("#b9c2d6", "--"),
    "MBDE, published": ("#c0392b", "--"),
    "MBDE, clipped": ("#c0392b", "-"),
    "clipped ratio, N(0, 1.5² I)": (PRIVATE, "-"),
    "clipped ratio": (LEARNED, "-"),
    "clipped ratio, N(0, 1.5² I), 50 draws together": (PRIVATE, "--"),
    "clipped ratio, 50 draws together": (LEARNED, "--"),
}
BOOSTED = ("boost, unknown normalizer", "boost")
STARTS_AT_STANDARD = ("optimum", "MBDE, published", "MBDE, clipped", "clipped ratio", *BOOSTED)
# Rows of the first table: their name on the page, and whose ε it is.
VERDICT = {
    "MBDE, clipped": ("MBDE, as it is proven", "any two data sets"),
    "boost": ("our boosting, with its normalizer", "any two data sets"),
    "clipped ratio": ("clipped ratio, one draw", "any two data sets"),
    "clipped ratio, N(0, 1.5² I)": ("the same from N(0, 1.5² I)", "any two data sets"),
    "clipped ratio, 50 draws together": ("**50 draws together**", "any two data sets"),
    "clipped ratio, N(0, 1.5² I), 50 draws together": (
        "**the same from N(0, 1.5² I)**",
        "any two data sets",
    ),
    "Bernstein, lattice noise": ("Bernstein mechanism, tuned on the truth", "one person of 10 000"),
    "MBDE, published": ("MBDE, as its code is", "claimed; it spends 4.2 or more"),
}


def clients_table(rows: Rows) -> str:
    """Mean / worst KL by method and ε."""
    epsilons = sorted({row["epsilon"] for row in rows})
    body = []
    for method in in_order(rows, "method"):
        cells = [method]
        for epsilon in epsilons:
            found = select(rows, method=method, epsilon=epsilon)
            cells.append(f"{found[0]['mean']:.4f} / {found[0]['worst']:.4f}" if found else "")
        body.append(cells)
    return table(["method", *(f"ε = {e:g}" for e in epsilons)], body)


def curves_table(rows: Rows, target: str, quantity: str) -> str:
    """One quantity of a target, by method and ε."""
    rows = select(rows, target=target)
    epsilons = sorted({row["epsilon"] for row in rows})
    body = []
    for method in (name for name in [*STYLES, *BOOSTED] if select(rows, method=name)):
        cells = [method]
        for epsilon in epsilons:
            found = select(rows, method=method, epsilon=epsilon)
            cells.append(spread([row[quantity] for row in found], 3))
        body.append(cells)
    return table(["", *(f"{e:g}" for e in epsilons)], body)


def ring_table(rows: Rows) -> str:
    """The ring at ε = 1: loss, coverage, and how far the model strays from the reference."""
    rows = select(rows, target="ring", epsilon=1.0)
    body = []
    for method in (name for name in [*STYLES, *BOOSTED] if select(rows, method=name)):
        found = select(rows, method=method)
        cells = [spread([row[q] for row in found], d) for q, d in (("nll", 3), ("coverage", 4))]
        far = max(row["stretch"] for row in found)
        starts_there = method in STARTS_AT_STANDARD
        body.append([method, *cells, f"{far:.2f}" if starts_there else ""])
    return table(["method", "NLL", "mode coverage", "largest ǀlog q/q₀ǀ"], body)


def verdict_table(rows: Rows) -> str:
    """The ring at ε = 1 a draw, in few rows."""
    rows, body = select(rows, target="ring", epsilon=1.0), []
    for method, (name, whose) in VERDICT.items():
        found = select(rows, method=method)
        cells = [spread([row[q] for row in found], 3) for q in ("nll", "kl", "variation")]
        body.append([name, whose, *cells])
    return table(["method", "ε = 1 a draw, for", "NLL", "above the truth", "total variation"], body)


def settings_table(rows: Rows) -> str:
    """Degree, bandwidth and positivity of the Bernstein mechanism that the search found best."""
    rows = [row for row in rows if row["method"].startswith("Bernstein")]
    rows = [row for row in rows if row["method"].endswith("noise")]
    epsilons = sorted({row["epsilon"] for row in rows})
    body = []
    for target in TITLES:
        for method in in_order(rows, "method"):
            cells = [TITLES[target], method.removeprefix("Bernstein, ")]
            for epsilon in epsilons:
                found = select(rows, target=target, method=method, epsilon=epsilon)
                cells.append(", ".join(found[0]["settings"].split("|")[:2]) if found else "")
            body.append(cells)
    return table(["target", "", *(f"ε = {e:g}" for e in epsilons)], body)


def audit_table(rows: Rows) -> str:
    """Searched and audited ε by method, pair and claim."""
    body = []
    for row in sorted(rows, key=lambda r: (r["method"], r["data"], r["epsilon"])):
        audited = f"{row['audited']:.3f}" if "audited" in row else ""
        searched = f"{row['searched']:.6f}" if "searched" in row else ""
        if row.get("searched", 0.0) > row["epsilon"]:
            searched = f"**{searched}**"
        body.append([row["method"], row["data"], f"{row['epsilon']:g}", searched, audited])
    return table(["method", "data sets", "ε", "largest ǀlog q/q′ǀ", "audit, at least"], body)


def accidents_table(rows: Rows) -> str:
    """Gain, distance and times by ε."""
    last = rows[-1]
    body = [["uniform (the reference)", "0", f"{last['reference_w2']:.3f}", "", "", ""]]
    for row in rows[:-1]:
        body.append(
            [
                f"ε = {row['epsilon']:g} a draw",
                f"{row['gain']:.3f}",
                f"{row['w2']:.3f}",
                f"{row['w2_together']:.3f}",
                f"{row['fit_seconds']:.0f}",
                f"{row['draws_a_second']:,}",
            ]
        )
    body.append(["other accidents", "", f"{last['floor_w2']:.3f}", "", "", ""])
    return table(
        ["", "gain, nats a place", "W₂", "W₂, 50 together", "fit, seconds", "draws a second"], body
    )


def draw_curves(rows: Rows) -> Figure:
    """NLL above the truth's own, and coverage, one column a target; bands: over seeds."""
    targets = [name for name in TITLES if select(rows, target=name)]
    quantities = (("kl", "NLL above the truth's (nats)"), ("coverage", "mode coverage"))
    with styled():
        figure = new_figure(3.1 * len(targets), 5.4)
        axes = np.atleast_2d(figure.subplots(2, len(targets), sharex=True, squeeze=False))
        for column, target in enumerate(targets):
            for line, (quantity, label) in enumerate(quantities):
                axis = axes[line, column]
                for method, (color, dashes) in STYLES.items():
                    found = select(rows, target=target, method=method)
                    epsilons = sorted({row["epsilon"] for row in found})
                    values = [[row[quantity] for row in select(found, epsilon=e)] for e in epsilons]
                    if not values:
                        continue
                    mean = np.array([np.mean(v) for v in values])
                    deviation = np.array([np.std(v) for v in values])
                    axis.plot(
                        epsilons, mean, color=color, linestyle=dashes, label=method, linewidth=1.7
                    )
                    if not target.startswith("random"):  # whose targets differ, and say more
                        ends = mean - deviation, mean + deviation
                        axis.fill_between(epsilons, *ends, color=color, alpha=0.15, lw=0)
                axis.set_xscale("log")
                if line == 0:
                    axis.set_title(TITLES[target], fontweight="bold")
                else:
                    axis.set_xlabel("ε")
                if column == 0:
                    axis.set_ylabel(label)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def draw_clients(rows: Rows) -> Figure:
    """Every client's divergence, sorted, at each ε."""
    shown = {
        "MBDE, published": ("#c0392b", "--"),
        "MBDE, clipped": ("#c0392b", "-"),
        "clipped ratio, N(0, 1)": (LEARNED, "-"),
        "clipped ratio, N(0, 1.2²)": (PRIVATE, "-"),
        "optimum, minimax": (INK, ":"),
    }
    epsilons = sorted({row["epsilon"] for row in rows})
    with styled():
        figure = new_figure(3.0 * len(epsilons), 3.2)
        axes = figure.subplots(1, len(epsilons), squeeze=False)[0]
        for axis, epsilon in zip(axes, epsilons, strict=True):
            for method, (color, dashes) in shown.items():
                for row in select(rows, method=method, epsilon=epsilon):
                    values = np.sort(row["clients"])
                    share = (np.arange(len(values)) + 0.5) / len(values)
                    axis.plot(
                        share, values, color=color, linestyle=dashes, label=method, linewidth=1.7
                    )
            axis.set_title(f"ε = {epsilon:g}", fontweight="bold")
            axis.set_yscale("log")
            axis.set_ylim(1e-5, 1)
            axis.set_xlabel("share of clients")
        axes[0].set_ylabel("KL of a client, nats", color=MUTED)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=9)
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    page_options(parser, "integral")


def run(chosen: argparse.Namespace) -> None:
    """Tables and pictures."""
    folder = folder_of(chosen.page)
    rewrite(chosen.page, tables_of(folder))
    save_png(draw_curves(read_rows(folder, "curves")), folder / "curves.png", dpi=120)
    save_png(draw_clients(read_rows(folder, "clients")), folder / "clients.png", dpi=120)


def tables_of(folder: Path) -> Tables:
    """The page's tables, of the rows in its folder."""
    names = ("clients", "curves", "bounds", "audit", "accidents")
    rows = {name: read_rows(folder, name) for name in names}
    rows["curves"] += rows["bounds"]  # boosting as in the paper
    dpgan = read_rows(folder, "ring_dpgan")
    return {
        "claims": lambda: claims_table(claims_of(rows, dpgan)),
        "divergences": lambda: divergences_table(rows["bounds"], TITLES),
        "rounds": lambda: rounds_table(rows["bounds"], "ring"),
        "modes": lambda: modes_table(rows["bounds"], TITLES),
        "settings": lambda: settings_table(rows["curves"]),
        "clients": lambda: clients_table(rows["clients"]),
        "ring": lambda: ring_table(rows["curves"]),
        "verdict": lambda: verdict_table(rows["curves"]),
        "audit": lambda: audit_table(rows["audit"]),
        "accidents": lambda: accidents_table(rows["accidents"]),
    } | {
        f"{target} {quantity}": partial(curves_table, rows["curves"], target, quantity)
        for target in TITLES
        for quantity in ("nll", "coverage")
    }
