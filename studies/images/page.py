"""Tables of the page on images, from the rows of `studies.images.recipe` and `.candidates`.

    python -m studies images.page

Rewrites the tables of `docs/results/images.md` (`studies.common.pages`). Which row is best at a noise
follows from the rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from privot.core.errors import PrivotError
from studies.common.pages import (
    Tables,
    folder_of,
    page_options,
    pictures,
    provenance,
    rewrite,
    table,
)
from studies.common.rows import Row, Rows, read_rows, select

_DEFAULTS = ("recipe", "labeled")


def tables_of(folder: Path) -> Tables:
    """The page's tables, of the rows in its folder.

    Raises:
        PrivotError: if there are none.
    """
    found = read_rows(folder, "recipe")
    runs = [run for run in found if run.get("of_epsilon") is None]
    honest = [run for run in found if run.get("of_epsilon") is not None]
    if not runs:
        raise PrivotError(f"{folder} has no rows: run images.recipe with -o {folder} first")
    runs.sort(key=lambda run: (run["stddev"], run["seconds_of_cpu"]))
    seeded = read_rows(folder, "candidates")
    seeded.sort(key=lambda row: (row["dataset"] != "mnist", -row["epsilon"], row["seed"]))
    return {
        "in short": partial(over_seeds, seeded),
        "candidates": partial(candidates, seeded, folder),
        "honest": partial(at_epsilon, honest, folder),
        "summary": partial(summary, runs),
        "runs": lambda: "\n\n".join(_section(run, folder) for run in runs),
        "made": partial(provenance, runs),
    }


def over_seeds(runs: Rows) -> str:
    """Accuracies and the rest of each data set and ε, as means over seeds and half of their range."""
    body = []
    for dataset, epsilon in dict.fromkeys((run["dataset"], run["epsilon"]) for run in runs):
        seeds = select(runs, dataset=dataset, epsilon=epsilon)
        measured = [
            middle([run[key] for run in seeds], digits)
            for key, digits in (("accuracy", 3), ("spread", 2), ("ink", 2), ("named", 2))
        ]
        body.append([dataset, f"{epsilon:g}", str(len(seeds)), *measured])
    head = ("images", "pure ε", "seeds", "accuracy", "variance", "ink", "labels named")
    return table(head, body)


def middle(values: Sequence[float], digits: int) -> str:
    """Mean ± half of the range.

    Examples:
        >>> middle([0.83, 0.84, 0.82], 3)
        '0.830 ± 0.010'
    """
    half = (max(values) - min(values)) / 2
    return f"{sum(values) / len(values):.{digits}f} ± {half:.{digits}f}"


def candidates(runs: Rows, folder: Path) -> str:
    """A row for each data set, ε and seed, and the sheets of samples."""
    body = [
        (
            run["dataset"],
            f"{run['epsilon']:g}",
            str(run["seed"]),
            f"{run['accuracy']:.3f}",
            f"{run['spread']:.2f}",
            f"{run['ink']:.2f}",
            f"{run['named']:.2f}",
            f"{run['privatize_seconds']:.0f}",
            f"{run['fit_seconds']:.0f}",
        )
        for run in runs
    ]
    head = (
        "images", "pure ε", "seed", "accuracy", "variance", "ink", "labels named",
        "s to privatize", "s to fit",
    )  # fmt: skip
    sheets = [run for run in runs if run["seed"] == min(other["seed"] for other in runs)]
    parts = [table(head, body), provenance(runs), pictures(sheets, folder)] if runs else []
    return "\n\n".join(parts)


def at_epsilon(runs: Rows, folder: Path) -> str:
    """Rows whose image and label have one honest ε together, and a picture of each length."""
    body = [
        (
            row["name"],
            f"{row['epsilon']:.1f}",
            f"{run['delta']:g}",
            str(run["seed"]),
            f"{row['stddev']:.2f}",
            f"{row['cpu_seconds']:.0f}",
            f"{row['frechet']:.1f}",
            f"{row['spread']:.3f}",
            _accuracy(row),
        )
        for run in runs
        for row in run["rows"]
    ]
    head = ("row", "ε", "δ", "seed", "σ", "CPU s", "Fréchet", "variance", "accuracy")
    sheets = [run for run in runs if run["seed"] == 0]
    parts = [table(head, body), provenance(runs), pictures(sheets, folder)] if runs else []
    return "\n\n".join(parts)


def summary(runs: Rows) -> str:
    """The defaults of `privot fit` and the best row of each run, beside the papers' loss."""
    body = []
    for run in runs:
        found = {str(row["name"]): row for row in run["rows"]}
        best = min(found, key=lambda name: float(found[name]["frechet"]))
        for name in dict.fromkeys((*_DEFAULTS, best)):
            if name in found:
                body.append([f"{run['stddev']:g}", *_beside_plain(found[name], found.get("plain"))])
    head = ("σ", "row", "CPU s", "Fréchet", "of plain's", "variance", "accuracy")
    return table(head, body)


def _beside_plain(row: Row, plain: Row | None) -> list[str]:
    ratio = "" if plain is None else f"1/{plain['frechet'] / row['frechet']:.1f}"
    return [
        row["name"],
        f"{row['cpu_seconds']:.0f}",
        f"{row['frechet']:.1f}",
        ratio,
        f"{row['spread']:.3f}",
        _accuracy(row),
    ]


def _accuracy(row: Row) -> str:
    return f"{row['accuracy']:.3f}" if "accuracy" in row else ""


def _section(run: Row, folder: Path) -> str:
    body = [
        (
            row["name"],
            f"{row['stddev']:.2f}",
            f"{row['epsilon']:.0f}",
            f"{row['cpu_seconds']:.0f}",
            f"{row['steps']:,}",
            f"{row['frechet']:.1f}",
            f"{row['spread']:.3f}",
            f"{row['precision']:.2f}",
            f"{row['recall']:.2f}",
            f"{row['coverage']:.2f}",
            _accuracy(row),
        )
        for row in run["rows"]
    ]
    head = ("row", "σ", "ε", "CPU s", "steps", "Fréchet", "variance", "precision", "recall",
            "coverage", "accuracy")  # fmt: skip
    return (
        f"### σ = {run['stddev']:g}, about {run['seconds_of_cpu']:g} s\n\n"
        + table(head, body)
        + f"\n\nδ = {run['delta']:g}. Floor of Fréchet {run['floor']['frechet']:.1f}; clean "
        f"images teach logistic regression {run['clean_accuracy']:.3f}. In labeled rows ε includes "
        f"{run['label_epsilon']:g} of the label. Shuffling lowers neither: the noised image tells whose "
        "label it is.\n\n" + pictures([run], folder)
    )


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    page_options(parser, "images")


def run(chosen: argparse.Namespace) -> None:
    """All tables of the page."""
    rewrite(chosen.page, tables_of(folder_of(chosen.page)))
