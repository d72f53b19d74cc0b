"""What the page of the entropic-transport papers' figures shows: tables with their pictures."""

from __future__ import annotations

from pathlib import Path

from studies.common.pages import pictures, table
from studies.common.rows import Row, Rows
from studies.entropic.wording import TITLES

_NAMES = {
    "original": "Original",
    "released": "Released",
    "wavelet": "Wavelet shrinkage",
    "blind_spot": "Blind-spot denoiser",
    "denoised": "Unregularized, on wavelet-denoised",
}


def curves_table(rows: Rows, folder: Path) -> str:
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
        "entropic",
        "self-corrected",
        "floor",
    )
    return f"{table(head, body)}\n\n{pictures(rows, folder)}"


def denoising_tables(rows: Rows, folder: Path) -> str:
    """Section b."""
    parts = []
    for row in rows:
        results = row["results"]
        body = [
            (
                _NAMES.get(name, TITLES.get(name, name)),
                _percent(found.get("accuracy")),
                _spread(found, "frechet", 1),
                _number(found.get("precision")),
                _number(found.get("recall")),
                _number(found.get("coverage")),
                _number(found.get("spread")),
                _number(found.get("w2")),
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
                ("", "readable", "Fréchet", "precision", "recall", "coverage", "variance", "W₂"),
                body,
            )
            + f"\n\nFloor of Fréchet {row['floor']['frechet']:.1f}. Wavelet chosen with the clean "
            f"images: {wavelet['wavelet']}, level {wavelet['level']}, {wavelet['mode']} threshold "
            f"{wavelet['threshold']:.2f}. Logistic regression trained on the reports with their true "
            f"labels reads {100 * row['learnable']:.1f} % of held-out reports. The "
            f"blind-spot denoiser took {results['blind_spot']['steps']:,} steps.\n"
            + notes
            + "\n"
            + pictures([row], folder)
        )
    return "\n\n".join(parts)


def noise_sweep_table(rows: Rows, folder: Path) -> str:
    """Section c."""
    row = rows[0]
    body = [
        (
            f"{p['stddev']:g}",
            f"{p['epsilon']:.0f}",
            f"{p['claimed_epsilon']:.0f}",
            TITLES[p["loss"]],
            _spread(p, "w2", 2),
            _spread(p, "frechet", 0),
            f"{p['spread']:.2f}",
            f"{p['coverage']:.2f}",
            f"{p['excess']:.2f}",
        )
        for p in row["points"]
    ]
    head = ("σ", "ε", "called", "loss", "W₂", "Fréchet", "variance", "coverage", "excess (nats)")
    return (
        table(head, body) + f"\n\nW₂ of fresh clean images "
        f"{row['floor']['w2']:.2f}, of the mean image {row['reference']['mean_image']:.2f}; floor of "
        f"Fréchet {row['floor']['frechet']:.1f}.\n\n" + pictures(rows, folder)
    )


def size_sweep_table(rows: Rows, folder: Path) -> str:
    """Section d."""
    row = rows[0]
    body = [
        (
            f"{p['num_people']:,}",
            TITLES[p["loss"]],
            _number(p.get("w2_train")),
            _spread(p, "w2", 2),
            _spread(p, "frechet", 0),
            f"{p['spread']:.2f}",
            f"{p['excess_test']:.2f}",
            f"{p['excess_train']:.2f}",
        )
        for p in row["points"]
    ]
    head = ("n", "loss", "W₂ to images trained on", "W₂", "Fréchet", "variance", "excess, held out",
            "excess, trained on")  # fmt: skip
    return (
        f"σ = {row['stddev']:g}, ε = {row['epsilon']:.0f} (called "
        f"{row['claimed_epsilon']:.0f}). Excess in nats, over 2 000 fresh held-out images.\n\n"
        + table(head, body) + "\n\n" + pictures(rows, folder)
    )  # fmt: skip


def higher_privacy_tables(rows: Rows, folder: Path) -> str:
    """Sections e and g."""
    parts = []
    for row in rows:
        body = [
            (
                f"{p['epsilon']:.1f}",
                f"{p['claimed_epsilon']:g}",
                f"{p['scale']:.2f}",
                TITLES[p["loss"]],
                _spread(p, "frechet", 0),
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
            + f"\n\nFloor without projection {row['floor']['frechet']:.1f}.\n\n"
            + pictures([row], folder)
        )
    return "\n\n".join(parts)


def noisy_table(rows: Rows, folder: Path) -> str:
    """Section f."""
    body = [
        (
            row["dataset"].replace("_", "-"),
            f"{row['epsilon']:.0f}",
            f"{row['claimed_epsilon']:.0f}",
            TITLES[name],
            _spread(found, "frechet", 0),
            f"{row['floor']['frechet']:.1f}",
            f"{found['precision']:.2f}",
            f"{found['recall']:.2f}",
            f"{found['coverage']:.2f}",
        )
        for row in rows
        for name, found in row["results"].items()
    ]
    head = ("data", "ε", "called", "loss", "Fréchet", "floor", "precision", "recall", "coverage")
    return f"{table(head, body)}\n\n{pictures(rows, folder)}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _spread(scores: Row, name: str, digits: int) -> str:
    """A number, ± its standard deviation over seeds where there are several."""
    shown = f"{scores[name]:.{digits}f}"
    return f"{shown} ± {scores[f'{name}_std']:.{digits}f}" if f"{name}_std" in scores else shown
