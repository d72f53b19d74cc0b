"""Sections of the page of the entropic-transport papers' figures: a table and its pictures each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from studies.common.run import TITLES

Row = dict[str, Any]

_NAMES = {
    "original": "Original",
    "released": "Released",
    "wavelet": "Wavelet shrinkage",
    "blind_spot": "Blind-spot denoiser",
    "start": "Start of all generators",
    "denoised": "Unregularized, on wavelet-denoised",
}


def curves_section(rows: list[Row]) -> str:
    """Section a."""
    names = ("released", "unregularized", "entropic", "self_corrected", "floor")
    body = [
        (
            row["curve"].replace("_", " "),
            row["mechanism"].capitalize(),
            f"{row['epsilon']:g}",
            f"{row['claimed_epsilon']:.2f}",
            *(f"{row['w2'][name]:.3f}" for name in names),
        )
        for row in rows
    ]
    head = (
        "curve",
        "noise",
        "ε",
        "called",
        "reports",
        "unregularized",
        "plain",
        "self-corrected",
        "floor",
    )
    return (
        "## a. Curves in the plane\n\nExact W₂ of 1 000 raw outputs to clean records, "
        f"n = {rows[0]['num_people']:,}. Long runs of the first two losses: "
        "[half circle](../half_circle.md).\n\n" + table(head, body) + "\n" + _pictures(rows)
    )


def denoising_section(rows: list[Row]) -> str:
    """Section b."""
    parts = ["## b. Denoising fails, entropic transport works\n"]
    for row in rows:
        results = row["results"]
        body = [
            (
                _NAMES.get(name, TITLES.get(name, name)),
                _percent(found.get("accuracy")),
                f"{found['frechet']:.1f}",
                _number(found.get("precision")),
                _number(found.get("recall")),
                _number(found.get("coverage")),
                _number(found.get("spread")),
            )
            for name, found in results.items()
        ]
        notes = "".join(
            f"{body[k][0]}: {found['note']}.\n"
            for k, found in enumerate(results.values())
            if "note" in found
        )
        wavelet = row["wavelet"]
        parts.append(
            f"### {row['noise']['kind'].capitalize()} noise of scale {row['noise']['scale']:g}: "
            f"ε = {row['epsilon']:.1f}, called {row['claimed_epsilon']:g}\n\n"
            + table(
                ("", "readable", "Fréchet", "precision", "recall", "coverage", "variance"), body
            )
            + f"\n*Readable*: accuracy of the clean-trained classifier. Floor of Fréchet "
            f"{row['floor']['frechet']:.1f}. Wavelet chosen with the clean images: "
            f"{wavelet['wavelet']}, level {wavelet['level']}, {wavelet['mode']} threshold "
            f"{wavelet['threshold']:.2f}. Logistic regression trained on the reports with their true "
            f"labels reads {100 * row['learnable']:.1f} % of held-out reports: what a denoiser that had "
            "seen clean digits could still find. *Start*: before any step, at the covariance of the "
            "reports less that of the noise.\n" + notes + _pictures([row])
        )
    return "\n".join(parts)


def noise_sweep_section(rows: list[Row]) -> str:
    """Section c."""
    row = rows[0]
    body = [
        (
            f"{p['stddev']:g}",
            f"{p['epsilon']:.0f}",
            f"{p['claimed_epsilon']:.0f}",
            TITLES[p["loss"]],
            f"{p['w2']:.2f}",
            f"{p['frechet']:.0f}",
            f"{p['spread']:.2f}",
            f"{p['coverage']:.2f}",
            f"{p['excess']:.2f}",
        )
        for p in row["points"]
    ]
    head = ("σ", "ε", "called", "loss", "W₂", "Fréchet", "variance", "coverage", "excess (nats)")
    return (
        "## c. Growing noise\n\n" + table(head, body) + f"\nW₂ of fresh clean images "
        f"{row['floor']['w2']:.2f}, of the mean image {row['reference']['mean_image']:.2f}; floor of "
        f"Fréchet {row['floor']['frechet']:.1f}. *Variance*: learned over true, on 20 principal "
        "components. *Excess*: entropic cost against held-out reports, less that of fresh clean "
        "images, between batches of 1 000; below zero, the batch is fitted better than the truth "
        "fits it.\n" + _pictures(rows)
    )


def size_sweep_section(rows: list[Row]) -> str:
    """Section d."""
    row = rows[0]
    body = [
        (
            f"{p['num_people']:,}",
            TITLES[p["loss"]],
            f"{p['w2']:.2f}",
            f"{p['frechet']:.0f}",
            f"{p['spread']:.2f}",
            f"{p['excess_test']:.2f}",
            f"{p['excess_train']:.2f}",
        )
        for p in row["points"]
    ]
    head = ("n", "loss", "W₂", "Fréchet", "variance", "excess, held out", "excess, trained on")
    return (
        f"## d. More people\n\nσ = {row['stddev']:g}, ε = {row['epsilon']:.0f} (called "
        f"{row['claimed_epsilon']:.0f}). Excess in nats, as above.\n\n"
        + table(head, body) + "\n" + _pictures(rows)
    )  # fmt: skip


def higher_privacy_section(rows: list[Row]) -> str:
    """Sections e and g."""
    parts = ["## e, g. Higher privacy\n"]
    for row in rows:
        body = [
            (
                f"{p['epsilon']:.1f}",
                f"{p['claimed_epsilon']:g}",
                f"{p['scale']:.2f}",
                TITLES[p["loss"]],
                f"{p['frechet']:.0f}",
                f"{p['projected_frechet']:.0f}",
                f"{p['precision']:.2f}",
                f"{p['recall']:.2f}",
                f"{p['coverage']:.2f}",
                f"{p['spread']:.2f}",
            )
            for p in row["points"]
        ]
        head = ("ε", "called", "scale", "loss", "Fréchet", "projected", "precision", "recall",
                "coverage", "variance")  # fmt: skip
        where = (
            "cosines in the ℓ1 ball of radius 140"
            if row["kind"] == "laplace"
            else ("pixels in the ℓ2 ball of radius 20")
        )
        parts.append(
            f"### {row['dataset'].replace('_', '-')}, {row['kind'].capitalize()} noise, {where}\n\n"
            + table(head, body)
            + f"\n*Projected*: Fréchet distance of the clean images after the devices' projection, the "
            f"best that can be learned; floor without it {row['floor']['frechet']:.1f}. 400 samples "
            "each, upper row plain, lower row self-corrected.\n" + _pictures([row])
        )
    return "\n".join(parts)


def noisy_section(rows: list[Row]) -> str:
    """Section f."""
    body = [
        (
            row["dataset"].replace("_", "-"),
            f"{row['epsilon']:.0f}",
            f"{row['claimed_epsilon']:.0f}",
            TITLES[name],
            f"{found['frechet']:.0f}",
            f"{row['floor']['frechet']:.1f}",
            f"{found['precision']:.2f}",
            f"{found['recall']:.2f}",
            f"{found['coverage']:.2f}",
        )
        for row in rows
        for name, found in row["results"].items()
    ]
    head = ("data", "ε", "called", "loss", "Fréchet", "floor", "precision", "recall", "coverage")
    return (
        "## f. Entropic against noisy 1-Wasserstein\n\n"
        + table(head, body) + "\n" + _pictures(rows)
    )  # fmt: skip


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    Examples:
        >>> print(table(("a", "b"), [("1", "2")]).strip())
        | a | b |
        |---|---|
        | 1 | 2 |
    """
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)]) + "\n"


def _pictures(rows: Sequence[Row]) -> str:
    return (
        "\n".join(f"\n![{row['stem'].replace('_', ' ')}]({row['stem']}.png)" for row in rows) + "\n"
    )


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
