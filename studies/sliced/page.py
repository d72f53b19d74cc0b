"""Tables of the results on noisy slices, from measured JSON.

    python -m studies.sliced.page docs/results/sliced docs/results/sliced.md

Reads `images*.json`, `curve*.json`, `once*.json`, `selection*.json`, `rivals*.json`,
`adaptation*.json`, `timing*.json` and `frechet*.json` in the folder (a file holds one row of a recipe,
or a list of them) and rewrites what stands between `<!-- table NAME -->` and `<!-- end -->` in the page.
Numbers are those of the files, but for means over seeds, verdicts and noise, which the accountant works
out on the spot. Published numbers are the papers' own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privot.files import replacing_file
from studies.integral.page import Rows, fill, in_order, select, table
from studies.sliced.accounts import accounting_table, published_epsilons
from studies.sliced.claims import (
    AIMS,
    ASKED,
    ASKED_ADAPTATION,
    ASKED_MILLISECONDS,
    ASKED_MINUTES,
    PUBLISHED,
    PUBLISHED_ADAPTATION,
)

DATA = {"mnist": "MNIST", "fashion_mnist": "Fashion"}
METHODS = {
    "source": "source only",
    "dp_swd": "**noisy slices, rounds**",
    "dp_swd_joint": "noisy slices, as published",
    "dp_dann": "DP-DANN",
    "swd": "SWD, as published",
    "means": "our rounds without noise",
    "dann": "DANN",
}
RIVALS = {
    "dp_merf": "DP-MERF, noise calibrated exactly",
    "published": "published method, run honestly",
    "dpgan": "DPGAN (Opacus)",
    "swd": "SWD without privacy, 6,000 steps",
}


def read(folder: Path, name: str) -> Rows:
    """Rows of all files `name*.json`, each one row or a list of rows."""
    rows: Rows = []
    for path in sorted(folder.glob(f"{name}*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        rows += content if isinstance(content, list) else [content]
    return rows


def percents(values: Sequence[float]) -> str:
    """Every value in percent and, of several, their mean in bold."""
    each = " ".join(f"{100 * v:.1f}" for v in values)
    return each if len(values) < 2 else f"{each}, mean **{100 * np.mean(values):.1f}**"


def images_table(rows: Rows) -> str:
    """Classifiers trained on images from noisy slices: every seed, and means."""
    body = []
    for data, target in ASKED:
        found = _of(rows, data, target)
        body += _image_rows(found, str(target), ASKED[data, target]) if found else []
    head = ("data", "ε asked", "ε spent", "releases", "batch", "σ", "logistic regression", "MLP")
    return table((*head, "asked for", "minutes"), body)


def curve_table(rows: Rows) -> str:
    """Accuracy against ε."""
    body = []
    for row in sorted(rows, key=lambda row: float(row["epsilon"])):
        body += _image_rows([row], f"{row['epsilon']:.3g}", None)
    head = ("data", "ε asked", "ε spent", "releases", "batch", "σ", "logistic regression", "MLP")
    return table(head, [cells[:8] for cells in body])


def _image_rows(rows: Rows, target: str, asked: tuple[int, int] | None) -> list[list[str]]:
    first = rows[0]
    minutes = [row["fit_seconds"] / 60 for row in rows]
    return [
        [
            DATA[first["data"]],
            target,
            f"{max(row['epsilon'] for row in rows):.4g}",
            f"{first['releases']:,}",
            f"{first['batch_size']:,}",
            f"{first['stddev']:.4f}",
            percents([row["logistic_regression"] for row in rows]),
            percents([row["mlp"] for row in rows]),
            "" if asked is None else f"{asked[0]} / {asked[1]}",
            " ".join(f"{m:.0f}" for m in minutes),
        ]
    ]


def rivals_table(images: Rows, rivals: Rows, once: Rows) -> str:
    """Ours, others under our protocol, and published claims, with claimed and honest ε."""
    body = []
    for epsilon in (10, 1):
        ours = [
            " / ".join(_means(_of(images, data, epsilon), "logistic_regression", "mlp"))
            for data in DATA
        ]
        body.append(["**noisy slices of second moments**", f"{epsilon}", f"{epsilon}", *ours])
        for row in once if epsilon == 10 else []:
            cell = " / ".join(_means([row], "logistic_regression", "mlp"))
            body.append(["the same, released once", "10", f"{row['epsilon']:.4g}", cell, ""])
        for method in (m for m in RIVALS if m != "swd"):
            found = [r for r in select(rivals, method=method) if r["epsilon_claimed"] == epsilon]
            body += _rival_rows(found, method, f"{epsilon}")
    body += _rival_rows(select(rivals, method="swd"), "swd", "none")
    noise_alone = published_epsilons()
    for name, claimed, honest, *cells in PUBLISHED:
        told = (
            f"none as run; its σ alone: {noise_alone[honest]:.3g}"
            if honest in noise_alone
            else honest
        )
        body.append([f"*{name}, as claimed*", claimed, told, *cells])
    return table(
        ("method", "ε claimed", "ε honest", *(f"{d}, LogReg / MLP" for d in DATA.values())), body
    )


def _rival_rows(rows: Rows, method: str, claimed: str) -> list[list[str]]:
    if not rows:
        return []
    spent = [r["epsilon_honest"] for r in rows if r["epsilon_honest"] is not None]
    cells = [" / ".join(_means(select(rows, dataset=data), "logreg", "mlp")) for data in DATA]
    return [[RIVALS[method], claimed, f"{max(spent):.4g}" if spent else "none", *cells]]


def adaptation_table(rows: Rows, pairs: Sequence[str], seeds: bool) -> str:
    """Accuracy on the target's test records by method, with published numbers where there are any."""
    body = []
    for method, name in METHODS.items():
        own = [row for row in select(rows, method=method) if row["pair"] in pairs]
        if not own:
            continue
        cells = [name, *_promise(own)]
        for place, pair in enumerate(pairs):
            values = [row["accuracy"] for row in select(own, pair=pair)]
            cells.append(percents(values) if seeds else f"{100 * np.mean(values):.1f}")
            if seeds:
                cells.append(PUBLISHED_ADAPTATION.get(method, ("", ""))[place])
        body.append(cells)
    titles: list[str] = []
    for pair in pairs:
        titles += [_title(pair), "published"] if seeds else [_title(pair)]
    records = [str(f"{select(rows, pair=p)[0]['target_records']:,}") for p in pairs]
    counts = [cell for r in records for cell in ([r, ""] if seeds else [r])]
    body.append(["private target records", "", "", *counts])
    return table(("method", "ε spent", "who differs", *titles), body)


def below_source(rows: Rows, pairs: Sequence[str]) -> str:
    """On how many pairs private adaptation is worse than none, in the mean over seeds."""
    worse = {
        method: sum(_mean(rows, p, method) < _mean(rows, p, "source") - 1e-9 for p in pairs)
        for method in ("dp_swd", "dp_dann")
    }
    return (
        f"In the mean over seeds, noisy slices are worse than source only on {worse['dp_swd']} of "
        f"{len(pairs)} pairs,\nDP-DANN on {worse['dp_dann']}."
    )


def asked_table(images: Rows, adaptation: Rows, timing: Rows) -> str:
    """What was asked for, what was hoped for, what was measured."""
    body = []
    for (data, epsilon), asked in ASKED.items():
        found = _of(images, data, epsilon)
        for place, (key, name) in enumerate((("logistic_regression", "LogReg"), ("mlp", "MLP"))):
            mean = 100 * float(np.mean([row[key] for row in found]))
            least, aim = asked[place], AIMS[data, epsilon][place]
            body.append(_verdict(f"{DATA[data]}, ε = {epsilon}, {name}", mean, least, aim))
    for pair, (least_share, aim_share) in ASKED_ADAPTATION.items():
        mean = 100 * _mean(adaptation, pair, "dp_swd")
        body.append(_verdict(f"{_title(pair)}, ε = 10", mean, least_share, aim_share))
    for row in timing:
        reached = "yes" if row["median_ms"] <= ASKED_MILLISECONDS else "**no**"
        cells = [f"≤ {ASKED_MILLISECONDS:g} ms", "", f"{row['median_ms']:g} ms", reached]
        body.append(["a release at B = 100, k = 1000, d = 784", *cells])
    longest = max(row["fit_seconds"] for row in images) / 60
    cells = [f"≤ {ASKED_MINUTES:g} min", "", f"{longest:.1f} min"]
    body.append(
        ["longest fit of the table", *cells, "yes" if longest <= ASKED_MINUTES else "**no**"]
    )
    return table(("in the mean over seeds", "asked", "aim", "measured", "asked is reached"), body)


def _verdict(name: str, mean: float, least: float, aim: float) -> list[str]:
    reached = "yes" if mean >= least else "**no**"
    reached += ", and the aim" if mean >= aim else ""
    return [name, f"{least:g}", f"{aim:g}", f"{mean:.1f}", reached]


def selection_table(rows: Rows) -> str:
    """Settings compared on held-out training images."""
    head = ("data", "ε", "frequencies", "anchor", "dither", "logistic regression", "MLP")
    body = [
        [
            DATA[row["data"]] + (", once" if row.get("release") == "once" else ""),
            f"{row['epsilon']:g}",
            str(row["low_pass"]),
            f"{row['anchor']:g}",
            f"{row['dither']:g}",
            *(f"{100 * row[key]:.1f}" for key in ("logistic_regression", "mlp")),
        ]
        for row in rows
    ]
    return table(head, body)


def frechet_table(rows: Rows) -> str:
    """Distances of draws from test images, means over models, with the training images' as floor."""
    keys = ("frechet", "precision", "recall", "coverage", "spread")
    body = []
    for data, epsilon in ASKED:
        found = _of(rows, data, epsilon)
        if found:
            means = [np.mean([row[key] for row in found]) for key in keys]
            body.append([f"{DATA[data]}, ε = {epsilon}", *_judged(means)])
            body.append(["training images", *_judged([found[0]["floor"][key] for key in keys])])
    return table(("draws of", "Fréchet", "precision", "recall", "coverage", "variance"), body)


def _judged(values: Sequence[float]) -> list[str]:
    return [f"{values[0]:.3g}", *(f"{value:.2f}" for value in values[1:])]


def _of(rows: Rows, data: str, epsilon: float) -> Rows:
    found = [r for r in select(rows, data=data) if abs(r["epsilon"] - epsilon) < 0.01 * epsilon]
    return sorted(found, key=lambda row: int(row["seed"]))


def _means(rows: Rows, *keys: str) -> list[str]:
    return [f"{100 * np.mean([row[key] for row in rows]):.1f}" for key in keys] if rows else []


def _mean(rows: Rows, pair: str, method: str) -> float:
    return float(np.mean([row["accuracy"] for row in select(rows, pair=pair, method=method)]))


def _promise(rows: Rows) -> tuple[str, str]:
    spent: Any = rows[0]["epsilon"]
    told = "none" if spent is None else f"{max(row['epsilon'] for row in rows):.4g}"
    return told, rows[0]["neighboring"] or ""


def _title(pair: str) -> str:
    return " → ".join(n.upper() if n in ("mnist", "usps") else n.title() for n in pair.split("_"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("page", type=Path)
    chosen = parser.parse_args(arguments)
    names = ("images", "curve", "once", "selection", "rivals", "adaptation", "timing", "frechet")
    data = {name: read(chosen.folder, name) for name in names}
    adaptation = data["adaptation"]
    digits = list(ASKED_ADAPTATION)
    office = [p for p in in_order(adaptation, "pair") if p not in digits]
    tables: dict[str, Callable[[], str]] = {
        "accounting": accounting_table,
        "asked": lambda: asked_table(data["images"], adaptation, data["timing"]),
        "images": lambda: images_table(data["images"]),
        "curve": lambda: curve_table(data["curve"]),
        "rivals": lambda: rivals_table(data["images"], data["rivals"], data["once"]),
        "digits": lambda: adaptation_table(adaptation, digits, seeds=True),
        "office": lambda: adaptation_table(adaptation, office, seeds=False),
        "below source": lambda: below_source(adaptation, office),
        "selection": lambda: selection_table(data["selection"]),
        "frechet": lambda: frechet_table(data["frechet"]),
    }
    text = fill(chosen.page.read_text(encoding="utf-8"), tables)
    with replacing_file(chosen.page) as draft:
        draft.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
