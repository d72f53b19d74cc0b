"""Tables of the results on noisy slices, from measured JSON.

    python -m studies sliced.page

Reads `images.json`, `convolutional.json`, `held_out.json`, `classifiers.json`, `vectors.json`,
`tables.json`, `rivals.json`, `printed.json`, `tuning.json`, `adaptation.json`, `timing.json`,
`frechet.json`, and what papers published (`published_images.json`, `published_adaptation.json`), in
`docs/results/central`, and rewrites the tables of the page (`studies.common.pages`). Noise is what the
accountant works out on the spot.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from studies.common.pages import Tables, folder_of, page_options, rewrite, table
from studies.common.rows import Row, Rows, in_order, read_rows, select
from studies.common.verdicts import claims_table
from studies.sliced.accounts import accounting_table
from studies.sliced.claims import claims_of
from studies.sliced.comparison import (
    DATA,
    FITS,
    SCORES,
    best_table,
    held_out_table,
    of_fit,
    pair_title,
    printed_table,
    rivals_table,
    tuning_table,
)

DIGITS = ("mnist_usps", "usps_mnist")
SYNTHETIC = ("fonts_mnist", "mnist_usps_features")
METHODS = {
    "source": "source only",
    "sums": "**noisy sums, rounds**",
    "sums_anyway": "the same, not refused",
    "dp_coral": "CORAL, noisy moments",
    "dp_swd": "noisy slices (DP-SWD)",
    "dp_dann": "DP-DANN",
    "sums_no_noise": "our rounds, next to no noise",
    "swd": "SWD",
    "dann": "DANN",
}
VECTORS = {
    "mixture": "**mixtures by noisy sums**",
    "gaussian": "one component a label",
    "slices": "a network on noisy slices, 2,000 releases",
    "dp_merf": "DP-MERF, noise calibrated exactly",
    "real": "real records",
}


def percents(values: Sequence[float]) -> str:
    """Every value in percent and, of several, their mean in bold."""
    each = " ".join(f"{100 * v:.1f}" for v in values)
    return each if len(values) < 2 else f"{each}, mean **{100 * np.mean(values):.1f}**"


def images_table(rows: Rows, keys: Sequence[str] = SCORES) -> str:
    """Classifiers trained on drawn images: every seed, and means."""
    body = []
    frequencies = sorted({row["residual_low_pass"] for row in rows})
    for (data, epsilon), method, kept in product(
        FITS, sorted(in_order(rows, "method")), frequencies
    ):
        found = of_fit(select(rows, method=method, residual_low_pass=kept), data, epsilon)
        if not found:
            continue
        scores = [percents([row[key] for row in found]) for key in keys]
        body.append([
            DATA[data], f"{max(row['epsilon'] for row in found):.4g}",
            DRAWS[method],
            str(found[0]["components"]), str(kept), *scores,
            " ".join(f"{row['fit_seconds']:.0f}" for row in found),
        ])  # fmt: skip
    return table((*_IMAGES_HEAD[:-1], *(JUDGES[key] for key in keys), _IMAGES_HEAD[-1]), body)


def classifiers_table(rows: Rows) -> str:
    """Classifiers of noisy gradients themselves: every run, and means, by data, ε and neighbors."""
    body = []
    fits = [*FITS, *(("adult", epsilon) for epsilon in (10, 1, 0.1))]
    for (data, epsilon), neighboring in product(fits, ("replace_one", "zero_out")):
        found = of_fit(select(rows, neighboring=neighboring, held_out=False), data, epsilon)
        if found:
            seconds = " ".join(f"{row['fit_seconds']:.2g}" for row in found)
            told = f"{max(row['epsilon'] for row in found):.4g}"
            accuracy = percents([row["accuracy"] for row in found])
            body.append([DATA.get(data, "Adult"), told, neighboring, accuracy, seconds])
    return table(("data", "ε", "who differs", "test records known", "processor seconds"), body)


_IMAGES_HEAD = (
    "data", "ε", "draws", "components a label", "frequencies of what is left", "seconds of the fit",
)  # fmt: skip
DRAWS = {
    "mixture": "as drawn",
    "mixture, augmented": "moved in public",
    "mixture, calibrated": "calibrated",
    "mixture, calibrated, augmented": "calibrated, moved in public",
    "mixture, calibrated, borders": "calibrated, borders",
    "mixture, calibrated, borders, augmented": "calibrated, borders, moved in public",
}
JUDGES = {"logistic_regression": "logistic regression", "mlp": "MLP", "cnn": "CNN"}


def central_table(rows: Rows) -> str:
    """Tables of a curator: total variation of one and two columns, by method."""
    body = [
        [f"{row['epsilon']:g}", row["estimator"], f"{row['one_way']:.4f}",
         f"{row['two_way']:.4f}", f"{row['seconds']:.0f}"]
        for row in rows
    ]  # fmt: skip
    return table(("ε", "method", "one-way TV", "two-way TV", "seconds"), body)


def vectors_table(rows: Rows) -> str:
    """Classifiers trained on drawn vectors, by ε and method: every seed, and means."""
    body = []
    for method in VECTORS:
        own = select(rows, method=method)
        told = sorted({f"{row['epsilon'] or 0:.4g}" for row in own}, key=float, reverse=True)
        for epsilon in told:
            found = [row for row in own if f"{row['epsilon'] or 0:.4g}" == epsilon]
            body.append([
                VECTORS[method], epsilon if float(epsilon) else "none",
                *(percents([row[key] for row in found]) for key in SCORES),
                " ".join(f"{row['fit_seconds']:.1f}" for row in found),
            ])  # fmt: skip
    return table(("method", "ε", "logistic regression", "MLP", "processor seconds"), body)


def adaptation_table(
    rows: Rows, pairs: Sequence[str], seeds: bool, published: Rows | None = None
) -> str:
    """Accuracy on the target's test records by method, with published numbers where there are any."""
    claims = {row["method"]: row for row in published or []}
    rows = [row for row in rows if row["pair"] in pairs and "accuracy" in row and _usual(row)]
    pairs = [pair for pair in pairs if select(rows, pair=pair)]
    body = []
    for method, name in METHODS.items():
        own = select(rows, method=method)
        if not own:
            continue
        cells = [name, *_promise(own)]
        for pair in pairs:
            values = [row["accuracy"] for row in select(own, pair=pair)]
            told = percents(values) if seeds or not values else f"{100 * np.mean(values):.1f}"
            cells.append(told if values else "")
            if published:
                cells.append(claims.get(method, {}).get(pair, ""))
        body.append(cells)
    titles: list[str] = []
    for pair in pairs:
        titles += [pair_title(pair), "published"] if published else [pair_title(pair)]
    records = [str(f"{select(rows, pair=p)[0]['target_records']:,}") for p in pairs]
    counts = [cell for r in records for cell in ([r, ""] if published else [r])]
    body.append(["private target records", "", "", *counts])
    return table(("method", "ε spent", "who differs", *titles), body)


def _usual(row: Row) -> bool:
    """Whether a row is of ε = 10, or of none."""
    return not row["epsilon"] or abs(row["epsilon"] - 10) < 0.1


def curve_table(rows: Rows, pairs: Sequence[str]) -> str:
    """Means over seeds by ε, with how many there are; what was refused, and what it asked for."""
    body = []
    for epsilon in (1, 3, 5, 10):
        cells = [f"{epsilon}"]
        for pair in pairs:
            own = select(rows, pair=pair, method="sums")
            found = [
                row["accuracy"]
                for row in own
                if "accuracy" in row and abs(row["epsilon"] - epsilon) < 0.01 * epsilon
            ]
            refused = [row for row in own if row.get("asked") == epsilon]
            asks = "refused: " + refused[0]["refused"].split("; ")[-1] if refused else ""
            cells.append(f"{100 * np.mean(found):.1f} ({len(found)})" if found else asks)
        body.append(cells)
    body.append(["source only", *(f"{100 * _mean(rows, p, 'source'):.1f}" for p in pairs)])
    return table(("ε", *map(pair_title, pairs)), body)


def refusals_table(rows: Rows, pairs: Sequence[str]) -> str:
    """What is said, before anything is spent, of pairs with few records."""
    body = []
    for pair in pairs:
        (first, *_) = select(rows, pair=pair, method="sums")
        told = first.get("refused", "; runs").split("; ")[-1]
        body.append([pair_title(pair), f"{first['target_records']:,}", told])
    return table(("pair", "private records", "what is said at ε = 10"), body)


def time_table(timing: Rows) -> str:
    """Processor time of a release of slices."""
    body = [
        ["a release at B = 100, k = 1000, d = 784", f"{row['median_ms']:g} ms"] for row in timing
    ]
    return table(("", "measured"), body)


def frechet_table(rows: Rows) -> str:
    """Distances of draws from test images, means over models, with the training images' as floor."""
    keys = ("frechet", "precision", "recall", "coverage", "spread")
    body = []
    for data, epsilon in FITS:
        found = of_fit(rows, data, epsilon)
        if found:
            means = [np.mean([row[key] for row in found]) for key in keys]
            body.append([f"{DATA[data]}, ε = {epsilon}", *_judged(means)])
            body.append(["training images", *_judged([found[0]["floor"][key] for key in keys])])
    return table(("draws of", "Fréchet", "precision", "recall", "coverage", "variance"), body)


def _judged(values: Sequence[float]) -> list[str]:
    return [f"{values[0]:.3g}", *(f"{value:.2f}" for value in values[1:])]


def _mean(rows: Rows, pair: str, method: str) -> float:
    return float(np.mean([row["accuracy"] for row in select(rows, pair=pair, method=method)]))


def _promise(rows: Rows) -> tuple[str, str]:
    spent: Any = rows[0]["epsilon"]
    told = "none" if spent is None else f"{max(row['epsilon'] for row in rows):.4g}"
    return told, rows[0]["neighboring"] or ""


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    page_options(parser, "central")


def run(chosen: argparse.Namespace) -> None:
    """All tables of the page."""
    rewrite(chosen.page, tables_of(folder_of(chosen.page)))


def tables_of(folder: Path) -> Tables:
    """The page's tables, of the rows in its folder."""
    names = (
        "images", "convolutional", "held_out", "classifiers", "vectors", "tables", "rivals", "printed",
        "tuning", "adaptation", "timing", "frechet",
    )  # fmt: skip
    rows = {name: read_rows(folder, name) for name in names}
    adaptation = rows["adaptation"]
    claimed = {name: read_rows(folder, f"published_{name}") for name in ("images", "adaptation")}
    office = [p for p in in_order(adaptation, "pair") if p not in DIGITS + SYNTHETIC]
    claims = partial(claims_of, rows, claimed, read_rows(folder.parent, "sliced_toy"))
    return {
        "claims": lambda: claims_table(claims()),
        "accounting": accounting_table,
        "images": lambda: images_table(rows["images"]),
        "classifiers": lambda: classifiers_table(rows["classifiers"]),
        "convolutional": lambda: images_table(rows["convolutional"], ["cnn"]),
        "vectors": lambda: vectors_table(rows["vectors"]),
        "tables": lambda: central_table(rows["tables"]),
        "rivals": lambda: rivals_table(rows["images"], rows["rivals"], claimed["images"]),
        "printed": lambda: printed_table(rows["printed"]),
        "held_out": lambda: held_out_table(rows["held_out"]),
        "tuning": lambda: tuning_table(rows["tuning"]),
        "best": lambda: best_table(rows),
        "digits": lambda: adaptation_table(
            adaptation, DIGITS, seeds=True, published=claimed["adaptation"]
        ),
        "curve": lambda: curve_table(adaptation, DIGITS),
        "synthetic": lambda: adaptation_table(adaptation, SYNTHETIC, seeds=True),
        "refusals": lambda: refusals_table(adaptation, office),
        "office": lambda: adaptation_table(adaptation, office, seeds=False),
        "frechet": lambda: frechet_table(rows["frechet"]),
        "time": lambda: time_table(rows["timing"]),
    }
