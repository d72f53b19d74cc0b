"""How far four losses are from the clean digits as Gaussian noise grows: σ = 1, 1.5, 2, 3, 4, 5.

The papers' claim: entropic transport is lowest for every σ, and grows least. They measure W₂; see
`studies.entropic.measures` for what W₂ of samples rewards. Beside it stand the Fréchet distance,
the learned share of the variance, and the excess entropic cost on held-out reports.

Usage:
    python -m studies entropic.noise_sweep --data DIR -o docs/results/entropic
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from privot.report.style import MUTED, new_figure, styled
from studies.common.image_recipe import NUM_JUDGED, Recipe, image_options, recipe_of
from studies.entropic.batch_fit import FitPlan, fit_images, planned, suited
from studies.entropic.image_noise import DELTA, pixel_noise
from studies.entropic.measures import NUM_POINTS, Excess, w2_reference
from studies.entropic.wording import draw_losses

STDDEVS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
LOSSES = ("entropic", "self_corrected", "unregularized", "sinkhorn_divergence")
SMALL = FitPlan(steps=2400)
# The papers': an MLP of 2 × 500, z ~ U[0, 1]², 200 iterations, batches of 200.
PAPER = FitPlan(
    steps=30_000, batch_size=200, learning_rate=1e-4, hidden=(500, 500), latent_dim=2,
    latent="uniform",
)  # fmt: skip


def run_noise_sweep(
    recipe: Recipe, plan: FitPlan, stddevs: tuple[float, ...] = STDDEVS
) -> dict[str, Any]:
    """Fit every loss at every σ, measure, and write a row and a picture."""
    points = []
    for stddev in stddevs:
        noise = pixel_noise("gaussian", stddev)
        reports = noise.report(recipe.clean)
        excess = Excess(recipe.clean, noise.report(recipe.held_out[:NUM_POINTS]), noise, NUM_POINTS)
        for loss in LOSSES:
            fitted = fit_images(
                reports, noise, loss, plan if recipe.paper else suited(plan, loss), recipe.device
            )
            images = fitted.sample(NUM_JUDGED, recipe.seed + 1)
            scores = recipe.judge.score(images)
            points.append(
                {
                    "stddev": stddev,
                    "loss": loss,
                    "epsilon": noise.guarantee.epsilon,
                    "claimed_epsilon": noise.claimed_epsilon,
                    "excess": excess.of(images),
                    "fit_seconds": round(fitted.seconds, 1),
                    **scores.to_dict(),
                }
            )
            print(stddev, loss, f"W2 {scores.w2:.2f} Fréchet {scores.frechet:.0f}", flush=True)
    row = {
        "delta": DELTA,
        "plan": asdict(plan),
        "reference": w2_reference(recipe.clean, recipe.held_out),
        "floor": recipe.floor,
        "points": points,
    }
    recipe.write(row, draw_sweep(row))
    return row


def draw_sweep(row: dict[str, Any]) -> Figure:
    """W₂, Fréchet distance and share of variance against σ, a line a loss."""
    quantities = (
        ("w2", "W₂ of 1000 samples", row["floor"]["w2"]),
        ("frechet", "Fréchet distance", row["floor"]["frechet"]),
        ("spread", "variance, learned / true", 1.0),
    )
    with styled():
        figure = new_figure(11, 3.4)
        for axis, (name, title, floor) in zip(figure.subplots(1, 3), quantities, strict=True):
            draw_losses(axis, row, "stddev", name, title, floor)
            if name == "w2":
                mean = row["reference"]["mean_image"]
                axis.axhline(mean, color=MUTED, linewidth=1, linestyle="--", label="Mean image")
            if name == "spread":
                axis.set_ylim(0, 1.1)
            axis.set_xlabel("noise σ (pixels in [−1, 1])")
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6
        )
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    image_options(parser, "docs/results/entropic")


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    plan = planned(PAPER if chosen.paper else SMALL, chosen)
    run_noise_sweep(recipe_of("noise_sweep", chosen), plan)
