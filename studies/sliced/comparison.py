"""Ours beside rivals: every row of synthetic images, and the best rival over ours, work by work.

What is ours is fitted by default settings; a rival has the best mean of the rows that keep an ε.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from studies.common.pages import table
from studies.common.rows import Row, Rows, in_order, select
from studies.sliced.accounts import published_epsilons

DATA = {"mnist": "MNIST", "fashion_mnist": "Fashion"}
# Data and ε of the fits in the main table.
FITS = (("mnist", 10), ("mnist", 1), ("fashion_mnist", 10), ("fashion_mnist", 1))
SCORES = ("logistic_regression", "mlp")
USUAL = {10: 18, 1: 14}  # frequencies of what is left, by default, of 60 000 images
# By method, and frequencies of what is left; None for the default.
OURS = {
    ("mixture", None): "**mixtures by noisy sums**",
    ("mixture, augmented", None): "**the same, moved in public**",
    ("mixture", 28): "**mixtures, all frequencies of what is left**",
    ("mixture, augmented", 28): "**these, moved in public**",
}
RIVALS = {
    "dp_merf": "DP-MERF, noise calibrated exactly",
    "dp_merf_cosines": "DP-MERF on low frequencies",
    "dp_ntk": "DP-NTK, noise calibrated exactly",
    "published": "published method, run honestly",
    "dpgan": "DPGAN (Opacus)",
    "swd": "SWD without privacy, label by label",
}
_PAIRS = {"usps": "USPS", "mnist": "MNIST", "fonts": "Fonts", "features": "(features)"}
# Of adaptation: those that keep an ε of the target, and those that are ours.
PRIVATE = {"dp_coral": "CORAL", "dp_swd": "DP-SWD", "dp_dann": "DP-DANN"}
_ADAPTED = ("sums", "sums_anyway")


def rivals_table(images: Rows, rivals: Rows, published: Rows) -> str:
    """Ours, others under our protocol, and published claims, with claimed and honest ε."""
    body = []
    for epsilon in (10, 1):
        for (method, kept), name in OURS.items():
            own = select(images, method=method, residual_low_pass=kept or USUAL[epsilon])
            cells = [" / ".join(_means(of_fit(own, data, epsilon), *SCORES)) for data in DATA]
            if any(cells):
                body.append([name, f"{epsilon}", f"{epsilon}", *cells])
        for method in (m for m in RIVALS if m != "swd"):
            found = [r for r in select(rivals, method=method) if r["epsilon_claimed"] == epsilon]
            body += _rival_rows(found, method, f"{epsilon}")
    body += _rival_rows(select(rivals, method="swd"), "swd", "none")
    noise_alone = published_epsilons()
    for row in published:
        honest, cells = row["epsilon_honest"], [row[data] for data in DATA]
        told = (
            f"none as run; its σ alone: {noise_alone[honest]:.3g}"
            if honest in noise_alone
            else honest
        )
        body.append([f"*{row['method']}, as claimed*", row["epsilon_claimed"], told, *cells])
    return table(
        ("method", "ε claimed", "ε honest", *(f"{d}, LogReg / MLP" for d in DATA.values())), body
    )


def _rival_rows(rows: Rows, method: str, claimed: str) -> list[list[str]]:
    if not rows:
        return []
    spent = [r["epsilon_honest"] for r in rows if r["epsilon_honest"] is not None]
    cells = [" / ".join(_means(select(rows, dataset=data), "logreg", "mlp")) for data in DATA]
    return [[RIVALS[method], claimed, f"{max(spent):.4g}" if spent else "none", *cells]]


def printed_table(rows: Rows) -> str:
    """DP-SWD at printed noise, labels inside the record or outside: every run."""
    body = [
        [
            DATA[row["dataset"]],
            "public, slices by label" if row["settings"]["by_label"] else "appended to the record",
            f"{row['settings']['stddev']:g}", f"{row['settings']['steps']:,}",
            f"{row['epsilon_honest']:.2g}", f"{100 * row['logreg']:.1f} / {100 * row['mlp']:.1f}",
        ]
        for row in rows
    ]  # fmt: skip
    head = ("data", "labels", "σ", "releases", "ε that σ alone is worth", "LogReg / MLP")
    return table(head, body)


def tuning_table(rows: Rows) -> str:
    """Settings of embeddings on held-out training images, by data and ε."""
    cells = [(data, epsilon) for data, epsilon in FITS if _of_cell(rows, data, epsilon)]
    body = []
    for key in dict.fromkeys(map(_features, rows)):
        own = [row for row in rows if _features(row) == key]
        found = [_of_cell(own, *cell) for cell in cells]
        accuracies = [f"{100 * _mean(each, 'held_out'):.1f}" if each else "" for each in found]
        body.append([*key, *accuracies])
    titles = [f"{DATA[data]}, ε = {epsilon}" for data, epsilon in cells]
    return table(("features", "of", *titles), body)


def _of_cell(rows: Rows, data: str, epsilon: float) -> Rows:
    return select(rows, dataset=data, epsilon=epsilon)


def _features(row: Row) -> tuple[str, str]:
    low = row["low_pass"]
    seen = "pixels" if low is None else f"{low} × {low} frequencies"
    if row["features"] == "tangent":
        return f"tangents of {row['num_frequencies']} units", seen
    return f"Fourier, bandwidth {row['bandwidth']:g}", seen


def held_out_table(rows: Rows) -> str:
    """Ours on held-out training images, by frequencies of what is left."""
    body = []
    for kept in sorted({row["residual_low_pass"] for row in rows}):
        found = [select(rows, residual_low_pass=kept, data=data) for data in DATA]
        body.append([str(kept), *(" / ".join(_means(each, *SCORES)) for each in found)])
    return table(("frequencies", *(f"{d}, LogReg / MLP" for d in DATA.values())), body)


def best_table(rows: dict[str, Rows]) -> str:
    """Work by work: ours, the best private rival that was run, and that over ours."""
    body = [
        *_best_images(rows["images"], rows["rivals"]),
        *_best_vectors(rows["vectors"]),
        *_best_central(rows["tables"]),
        *_best_adaptation(rows["adaptation"]),
    ]
    return table(("work", "ours", "best private rival", "rival over ours"), body)


def _best_images(images: Rows, rivals: Rows) -> Iterable[list[str]]:
    for data, epsilon in FITS:
        usual = select(images, method="mixture", residual_low_pass=USUAL[epsilon])
        own, others = of_fit(usual, data, epsilon), select(rivals, dataset=data)
        others = [row for row in others if row["epsilon_claimed"] == epsilon]
        if own and others:
            told = [
                _most(100 * _mean(own, ours), {
                    RIVALS[m].split(",")[0]: 100 * _mean(select(others, method=m), theirs)
                    for m in in_order(others, "method")
                })
                for ours, theirs in zip(SCORES, ("logreg", "mlp"), strict=True)
            ]  # fmt: skip
            yield [f"images, {DATA[data]}, ε = {epsilon}, LogReg / MLP", *_side_by_side(told)]


def _best_vectors(vectors: Rows) -> Iterable[list[str]]:
    for epsilon in (10, 1):
        near = [row for row in vectors if _near(row["epsilon"], epsilon)]
        own, others = select(near, method="mixture"), select(near, method="dp_merf")
        if own and others:
            told = [
                _most(100 * _mean(own, key), {"DP-MERF": 100 * _mean(others, key)})
                for key in SCORES
            ]
            yield [f"vectors, ε = {epsilon}, LogReg / MLP", *_side_by_side(told)]


def _best_central(central: Rows) -> Iterable[list[str]]:
    for epsilon in in_order(central, "epsilon"):
        own, *others = select(central, epsilon=epsilon)
        others = [row for row in others if not row["estimator"].startswith("mixture")]
        if others:
            best = min(others, key=lambda row: row["two_way"])
            yield [
                f"tables, ε = {epsilon:g}, two-way TV (less is better)", f"{own['two_way']:.4f}",
                f"{best['two_way']:.4f} ({best['estimator']})",
                f"{best['two_way'] / own['two_way']:.1f}",
            ]  # fmt: skip


def _best_adaptation(adaptation: Rows) -> Iterable[list[str]]:
    usual = [r for r in adaptation if "accuracy" in r and _near(r["epsilon"], 10)]
    for pair in in_order(usual, "pair"):
        found = select(usual, pair=pair)
        own = [row for row in found if row["method"] in _ADAPTED]
        others = {
            name: 100 * _mean(select(found, method=m), "accuracy")
            for m, name in PRIVATE.items()
            if select(found, method=m)
        }
        if own and others:
            told = _side_by_side([_most(100 * _mean(own, "accuracy"), others)])
            refused = ", not refused" if own[0]["method"] != "sums" else ""
            yield [f"adaptation, {pair_title(pair)}, ε = 10{refused}", *told]


def _most(ours: float, others: dict[str, float]) -> tuple[str, str, str]:
    name, best = max(others.items(), key=lambda each: each[1])
    return f"{ours:.1f}", f"{best:.1f} ({name})", f"{best / ours:.2f}"


def _side_by_side(told: list[tuple[str, str, str]]) -> list[str]:
    return [" / ".join(cells) for cells in zip(*told, strict=True)]


def _near(spent: float | None, epsilon: float) -> bool:
    return spent is not None and abs(spent - epsilon) < 0.01 * epsilon


def _mean(rows: Rows, key: str) -> float:
    return float(np.mean([row[key] for row in rows]))


def pair_title(pair: str) -> str:
    """A pair of adaptation in words."""
    source, target, *rest = (_PAIRS.get(name, name.title()) for name in pair.split("_"))
    return " ".join([f"{source} → {target}", *rest])


def of_fit(rows: Rows, data: str, epsilon: float) -> Rows:
    """Rows of a data set at an ε, by seed."""
    found = [row for row in select(rows, data=data) if _near(row["epsilon"], epsilon)]
    return sorted(found, key=lambda row: int(row["seed"]))


def _means(rows: Rows, *keys: str) -> list[str]:
    return [f"{100 * np.mean([row[key] for row in rows]):.1f}" for key in keys] if rows else []
