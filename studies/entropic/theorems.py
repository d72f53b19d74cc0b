"""The papers' theorems, evaluated: the rate–distortion function, recovery, excess and its bound.

The statements are in `studies.entropic.theory`. Writes the rows and the picture in
`docs/results/theorems/`, and the tables of `docs/results/theorems.md`.

Usage:
    python -m studies entropic.theorems
"""

from __future__ import annotations

import argparse
import datetime
import os
import time

import numpy as np
from matplotlib.axes import Axes
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
from studies.common.pages import Tables, folder_of, page_options, rewrite, table
from studies.common.rows import Row, Rows, select, write_row
from studies.common.verdicts import Estimate
from studies.entropic.theory import (
    EPSILONS,
    SEEDS,
    STDDEV,
    distortion_rows,
    misfit_rows,
    noise_rows,
    printed_bound_rows,
    rate_rows,
    response_rows,
    source,
    weight_rows,
)

FACTORS = sorted({*np.round(np.geomspace(0.0625, 2.25, 22), 3).tolist(), 0.25, 1.0, 1.5})


def draw(rates: list[Row], distortions: list[Row]) -> Figure:
    """The rate–distortion function with its slope, three reconstructions, and the rate in n."""
    with styled():
        figure = new_figure(12, 3.8)
        left, middle, right = figure.subplots(1, 3)
        _draw_distortion(left, distortions)
        _draw_laws(middle, distortions)
        _draw_rates(right, rates)
    return figure


def _draw_distortion(axis: Axes, rows: list[Row]) -> None:
    variance = [row["distortion"] / STDDEV**2 for row in rows]
    axis.plot(
        variance,
        [row["lower"] for row in rows],
        color=RECEIVED,
        linestyle="--",
        label="Shannon's lower bound",
    )
    axis.plot(variance, [row["rate"] for row in rows], color=INK, label="rate of the noisy source")
    matched = select(rows, factor=1.0)[0]
    axis.plot(
        [matched["distortion"] / STDDEV**2], [matched["rate"]], "o", color=LEARNED, label="λ = 2σ²"
    )
    axis.set_xlabel("distortion / σ²")
    axis.set_ylabel("nats")
    axis.set_title("Up to σ² the bound is reached", fontsize=10, fontweight="bold")
    axis.legend()


def _draw_laws(axis: Axes, rows: list[Row]) -> None:
    nodes, clean = source()
    axis.fill_between(nodes, clean, color="#e4e8f1", label="clean")
    for factor, color in ((0.25, PRIVATE), (1.0, LEARNED), (1.5, MUTED)):
        law = select(rows, factor=factor)[0]["law"]
        axis.plot(nodes, law, color=color, linewidth=1.4, label=f"λ = {2 * factor:g}σ²")
    axis.set_ylim(0, 0.055)
    axis.set_yticks([])
    axis.set_title("What each weight reconstructs", fontsize=10, fontweight="bold")
    axis.legend()


def _draw_rates(axis: Axes, rows: list[Row]) -> None:
    for epsilon, color in zip(EPSILONS, (PRIVATE, LEARNED), strict=True):
        found = select(rows, epsilon=epsilon)
        lines = (("bound", "--", f"ε = {epsilon:g}: bound"), ("excess", "o-", "excess"))
        for name, style, label in (*lines, ("divergence", ":", "smoothed KL")):
            values = [row[name] for row in found]
            axis.loglog(
                [row["people"] for row in found],
                values,
                style,
                color=color,
                markersize=4,
                label=label,
            )
    axis.set_ylim(bottom=1e-8)
    axis.set_xlabel("people")
    axis.set_title("Nats above the best", fontsize=10, fontweight="bold")
    axis.legend(fontsize=8, loc="lower left")


def tables_of(row: Row) -> Tables:
    """The page's tables, of a run."""
    return {
        "rates": lambda: table(
            ("ε", "people", "excess", "smoothed KL", "bound", "W₁ to the clean law", "left of the fit"),
            [
                (
                    f"{r['epsilon']:g}", f"{r['people']:,}",
                    *(f"{r[name]:.2g}" for name in ("excess", "divergence", "bound", "w1", "gap")),
                )
                for r in row["rates"]
            ],
        ),
        "misfit": lambda: table(
            ("spacing of the laws' points", "least excess", "bound W₁/b"),
            [(f"{r['spacing']:.3f}", f"{r['excess']:.2g}", f"{r['bound']:.2g}") for r in row["misfits"]],
        ),
        "exponents": lambda: exponents_table(row),
        "noises": lambda: table(
            ("noise", "people", "excess", "risk 2σ²e", "smoothed KL", "W₁ to the clean law"),
            [
                (
                    title_of(r), f"{r['people']:,}",
                    *(f"{r[name]:.2g}" if name in r else ""
                      for name in ("excess", "risk", "divergence", "w1")),
                )
                for r in row["noises"]
            ],
        ),
        "weights": lambda: table(
            ("ε", "W₁ at Δ₁/ε", "W₁ at ε/Δ₁, as printed", "points of this law"),
            [
                (
                    f"{r['epsilon']:g}", f"{r['matched_w1']:.3f}", f"{r['printed_w1']:.3f}",
                    f"{r['printed_points']} of {r['nodes']}",
                )
                for r in row["weights"]
            ],
        ),
        "printed": lambda: table(
            ("noise", "scale", "KL under noise", "bound as printed, W_p^p", "with the factor 1/pσ^p"),
            [
                (
                    r["noise"].capitalize(), f"{r['scale']:g}",
                    *(f"{r[name]:.3g}" for name in ("divergence", "printed", "bound")),
                )
                for r in row["printed"]
            ],
        ),
    }  # fmt: skip


def groups(row: Row) -> dict[str, Rows]:
    """Rows of one noise at several numbers of people, by title."""
    found: dict[str, Rows] = {}
    for point in row["rates"] + row["noises"]:
        found.setdefault(title_of(point), []).append(point)
    return found


def title_of(point: Row) -> str:
    """What noise, and how much."""
    if point.get("noise") == "gaussian":
        return f"Gaussian, σ = {point['stddev']:g}"
    kind = "randomized response" if point.get("noise") == "response" else "Laplace"
    return f"{kind}, ε = {point['epsilon']:g}"


def exponents_table(row: Row) -> str:
    """Exponents of n by noise, with two standard deviations."""
    names = ("excess", "divergence", "w1")
    body = [
        (title, *(str(Estimate.exponent(points, "people", name)) for name in names))
        for title, points in groups(row).items()
    ]
    return table(("noise", "excess", "smoothed KL", "W₁ to the clean law"), body)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--seeds", type=int, default=SEEDS, help="draws of reports, for means")
    page_options(parser, "theorems")


def run(chosen: argparse.Namespace) -> None:
    """The command line: rows, the picture, the page's tables."""
    started, folder = time.perf_counter(), folder_of(chosen.page)
    row: Row = {
        "recipe": "theorems", "command": chosen.command, "seeds": chosen.seeds,
        "cores": os.cpu_count(), "date": datetime.date.today().isoformat(),
        "rates": rate_rows(chosen.seeds),
        "noises": noise_rows(chosen.seeds) + response_rows(chosen.seeds),
        "misfits": misfit_rows(), "distortions": distortion_rows(FACTORS),
        "weights": weight_rows(), "printed": printed_bound_rows(),
    }  # fmt: skip
    row["seconds"] = round(time.perf_counter() - started, 1)
    write_row(folder / "theorems.json", row)
    save_png(draw(row["rates"], row["distortions"]), folder / "theorems.png")
    rewrite(chosen.page, tables_of(row))
