"""Higher privacy on smaller domains: Laplace noise on cosines in an ℓ1 ball, Gaussian in an ℓ2 ball.

The papers' ε, which take the radius for the sensitivity, stand beside the honest ones, which are more
than twice as large. `projected` is the best that could be learned: the clean images after the projection
that the devices apply.

Usage:
    python -m studies entropic.higher_privacy --data DIR
    python -m studies entropic.higher_privacy --data DIR --dataset fashion_mnist
"""

from __future__ import annotations

import argparse
from typing import Any

from torch import Tensor

from privot.local import FitSettings
from studies.common.image_grids import Tile, draw_tiles
from studies.common.image_recipe import NUM_JUDGED, Recipe, recipe_of, square
from studies.entropic.image_fits import PAPER, SMALL, facts, fit_losses, fit_options, settings_of
from studies.entropic.image_noise import ball_noise
from studies.entropic.wording import TITLES, epsilons

CLAIMED = {
    ("mnist", "laplace"): (65.25, 49.0, 35.0, 25.0),
    ("mnist", "gaussian"): (35.0, 30.0, 25.0, 24.0),
    ("fashion_mnist", "laplace"): (65.25, 35.0),
    ("fashion_mnist", "gaussian"): (35.0, 25.0),
}
LOSSES = ("entropic", "self_corrected")
_SHOWN = 100


def run_higher_privacy(
    recipe: Recipe, kind: str, settings: FitSettings, claimed: tuple[float, ...]
) -> dict[str, Any]:
    """Fit both losses at each of the papers' ε, and write a row and sheets of a hundred samples."""
    points: list[dict[str, Any]] = []
    sheets: dict[str, list[tuple[str, Tensor]]] = {loss: [] for loss in LOSSES}
    for epsilon in claimed:
        noise = ball_noise(kind, epsilon)
        projected = recipe.judge.score(noise.projected(recipe.clean[:NUM_JUDGED])).frechet
        release = noise.report(recipe.clean)
        for loss, images, scores in fit_losses(recipe, release, LOSSES, settings):
            point = {"loss": loss, "scale": round(noise.scale, 4), **noise.both_epsilons()}
            point |= {"claimed_epsilon": epsilon, "projected_frechet": round(projected, 4)}
            points.append(point | scores)
            sheets[loss].append((epsilons(noise), images[:_SHOWN]))
    row = facts(recipe, noise, settings) | {"kind": kind, "points": points}
    tiles = [
        Tile(TITLES[loss], caption, square(images))
        for loss in LOSSES
        for caption, images in sheets[loss]
    ]
    figure = draw_tiles(
        tiles, across=len(claimed), num_rows=10, num_columns=10, inches=2.6, paper=-1.0
    )
    recipe.write(row, figure, f"{recipe.dataset}_{kind}")
    return row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    fit_options(parser)
    parser.add_argument("--kind", choices=("laplace", "gaussian"), action="append")


def run(chosen: argparse.Namespace) -> None:
    """The command line: both mechanisms."""
    settings = settings_of(chosen, SMALL, PAPER)
    recipe = recipe_of("higher_privacy", chosen)
    for kind in chosen.kind or ("laplace", "gaussian"):
        run_higher_privacy(recipe, kind, settings, CLAIMED[chosen.dataset, kind])
