"""Entropic 1-Wasserstein against noisy 1-Wasserstein under Laplace noise, digits and clothes.

Adding the mechanism's noise to the generator's outputs, and comparing without regularization, has the
right answer too. The papers find that its samples look like noise all the same. Pixels in [−1, 1],
Laplace noise of scale 1, no projection: hardly private, as the honest ε says.

Usage:
    python -m studies entropic.noisy_wasserstein --data DIR
    python -m studies entropic.noisy_wasserstein --data DIR --dataset fashion_mnist
"""

from __future__ import annotations

import argparse
from typing import Any

from privot.local import FitSettings
from studies.common.image_grids import Tile, draw_tiles
from studies.common.image_recipe import Recipe, recipe_of, square
from studies.entropic.image_fits import PAPER, SMALL, facts, fit_losses, fit_options, settings_of
from studies.entropic.image_noise import ImageNoise
from studies.entropic.wording import TITLES, epsilons

LOSSES = ("noisy_wasserstein", "entropic", "self_corrected")
_SCALE = 1.0
_SHOWN = 48


def run_noisy_wasserstein(recipe: Recipe, settings: FitSettings) -> dict[str, Any]:
    """Fit three losses to the same reports, and write a row and a picture."""
    noise = ImageNoise("laplace", _SCALE)
    release = noise.report(recipe.clean)
    released = square(noise.pixels(release)[:_SHOWN])
    tiles = [
        Tile("Original", "", square(recipe.clean[:_SHOWN])),
        Tile("Released", epsilons(noise), released, 1 + 1.5 * noise.stddev),
    ]
    results: dict[str, Any] = {}
    for loss, images, scores in fit_losses(recipe, release, LOSSES, settings):
        results[loss] = scores
        caption = f"Fréchet {scores['frechet']:.0f}"
        tiles.append(Tile(TITLES[loss], caption, square(images[:_SHOWN])))
    row = facts(recipe, noise, settings) | {"scale": _SCALE, "results": results}
    recipe.write(row, draw_tiles(tiles, across=5, num_rows=8, num_columns=6), recipe.dataset)
    return row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    fit_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    settings = settings_of(chosen, SMALL, PAPER)
    run_noisy_wasserstein(recipe_of("noisy_wasserstein", chosen), settings)
