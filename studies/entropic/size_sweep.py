r"""What more people bring, at σ = 2: n from 1 000 to 60 000.

The papers plot W₂ against n and read $n^{−1/2}$ off their theorem. The theorem is about the *excess
entropic cost* on held-out reports, and says nothing of W₂ (deconvolution can be logarithmic in n). Both
are here, with the excess on the reports trained on beside it: their gap is what was learned by heart.

Usage:
    python -m studies entropic.size_sweep --data DIR -o docs/results/entropic
"""

from __future__ import annotations

import argparse
from typing import Any

from matplotlib.figure import Figure

from privot.local import FitSettings
from studies.common.image_judge import pixel_distance
from studies.common.image_recipe import Recipe, recipe_of
from studies.common.rows import select
from studies.entropic.image_fits import SMALL, facts, fit_losses, fit_options, settings_of
from studies.entropic.image_noise import ImageNoise, first_of
from studies.entropic.measures import NUM_POINTS, Excess, w2_reference
from studies.entropic.noise_sweep import PAPER
from studies.entropic.wording import COLORS, TITLES, draw_sweep

SIZES = (1_000, 4_000, 16_000, 60_000)
LOSSES = ("entropic", "self_corrected")
_STDDEV = 2.0
_BATCHES = 2


def run_size_sweep(
    recipe: Recipe, settings: FitSettings, sizes: tuple[int, ...] = SIZES
) -> dict[str, Any]:
    """Fit both losses to the first n reports, measure, and write a row and a picture."""
    noise = ImageNoise("gaussian", _STDDEV)
    release = noise.report(recipe.clean)
    held_out = noise.report(recipe.held_out[: _BATCHES * NUM_POINTS])
    fresh = recipe.held_out[_BATCHES * NUM_POINTS :]
    on_test = Excess(fresh, held_out, _BATCHES)
    points = []
    for size in sizes:
        seen = first_of(release, size)
        on_train = Excess(fresh, seen, min(size // NUM_POINTS, _BATCHES))
        for loss, images, scores in fit_losses(recipe, seen, LOSSES, settings):
            point = {"num_people": size, "loss": loss, "excess_test": on_test.of(images)}
            point |= {"excess_train": on_train.of(images)}
            trained_on = pixel_distance(images, recipe.clean[:size], NUM_POINTS)
            points.append(point | {"w2_train": round(trained_on, 4)} | scores)
    row = facts(recipe, noise, settings) | {
        "stddev": _STDDEV,
        "reference": w2_reference(recipe.clean, recipe.held_out),
        "points": points,
    }
    recipe.write(row, draw(row))
    return row


def draw(row: dict[str, Any]) -> Figure:
    """W₂, Fréchet distance and held-out excess against n, a line a loss."""
    quantities = (
        ("w2", "W₂ of 1000 samples", row["floor"]["w2"]),
        ("frechet", "Fréchet distance", row["floor"]["frechet"]),
        ("excess_test", "excess cost, held out (nats)", 0.0),
    )
    with draw_sweep(row, "num_people", "number of people n", quantities) as figure:
        for loss in LOSSES:
            found = select(row["points"], loss=loss)
            figure.axes[2].plot(
                [p["num_people"] for p in found], [p["excess_train"] for p in found], ":",
                color=COLORS[loss], label=f"{TITLES[loss]}, on the reports trained on",
            )  # fmt: skip
        for axis in figure.axes:
            axis.set_xscale("log")
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    fit_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    run_size_sweep(recipe_of("size_sweep", chosen), settings_of(chosen, SMALL, PAPER))
