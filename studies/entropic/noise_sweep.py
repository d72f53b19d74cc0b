"""How far four losses are from the clean digits as Gaussian noise grows: σ = 1, 1.5, 2, 3, 4, 5.

The papers' claim: entropic transport is lowest for every σ, and grows least. They measure W₂; see
`studies.entropic.measures` for what W₂ of samples rewards. Beside it stand the Fréchet distance,
the learned share of the variance, and the excess entropic cost on held-out reports.

Usage:
    python -m studies entropic.noise_sweep --data DIR -o docs/results/entropic
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from privot.local import FitSettings
from privot.report.panels import MUTED
from studies.common.image_recipe import Recipe, recipe_of
from studies.entropic.image_fits import SMALL, facts, fit_losses, fit_options, settings_of
from studies.entropic.image_noise import ImageNoise
from studies.entropic.measures import NUM_POINTS, Excess, w2_reference
from studies.entropic.wording import draw_sweep

STDDEVS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
LOSSES = ("entropic", "self_corrected", "unregularized", "sinkhorn_divergence")
# The papers': an MLP of 2 × 500, a latent of 2 numbers, batches of 200.
PAPER = replace(
    SMALL, steps=30_000, batch_size=200, learning_rate=1e-4, hidden=(500, 500), latent_dim=2
)


def run_noise_sweep(
    recipe: Recipe, settings: FitSettings, stddevs: tuple[float, ...] = STDDEVS
) -> dict[str, Any]:
    """Fit every loss at every σ, measure, and write a row and a picture."""
    points = []
    for stddev in stddevs:
        noise = ImageNoise("gaussian", stddev)
        release = noise.report(recipe.clean)
        excess = Excess(recipe.clean, noise.report(recipe.held_out[:NUM_POINTS]))
        for loss, images, scores in fit_losses(recipe, release, LOSSES, settings):
            point = {"stddev": stddev, "loss": loss, **noise.both_epsilons()}
            points.append(point | {"excess": excess.of(images)} | scores)
    row = facts(recipe, noise, settings) | {
        "reference": w2_reference(recipe.clean, recipe.held_out),
        "points": points,
    }
    recipe.write(row, draw(row))
    return row


def draw(row: dict[str, Any]) -> Figure:
    """W₂, Fréchet distance and share of variance against σ, a line a loss."""
    quantities = (
        ("w2", "W₂ of 1000 samples", row["floor"]["w2"]),
        ("frechet", "Fréchet distance", row["floor"]["frechet"]),
        ("spread", "variance, learned / true", 1.0),
    )
    with draw_sweep(row, "stddev", "noise σ (pixels in [−1, 1])", quantities) as figure:
        mean = row["reference"]["mean_image"]
        figure.axes[0].axhline(mean, color=MUTED, linewidth=1, linestyle="--", label="Mean image")
        figure.axes[2].set_ylim(0, 1.1)
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    fit_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    run_noise_sweep(recipe_of("noise_sweep", chosen), settings_of(chosen, SMALL, PAPER))
