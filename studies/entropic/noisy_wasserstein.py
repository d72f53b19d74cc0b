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
from dataclasses import asdict, replace
from typing import Any

from studies.common.image_grids import Tile, draw_tiles
from studies.common.image_recipe import NUM_JUDGED, Recipe, image_options, recipe_of, square
from studies.entropic.batch_fit import PAPERS_PLAN, FitPlan, fit_images, planned, suited
from studies.entropic.image_noise import pixel_noise
from studies.entropic.wording import TITLES, epsilons

LOSSES = ("noisy_wasserstein", "entropic", "self_corrected")
SMALL = FitPlan(steps=4000)
_SCALE = 1.0
_SHOWN = 48


def run_noisy_wasserstein(recipe: Recipe, plan: FitPlan) -> dict[str, Any]:
    """Fit three losses to the same reports, and write a row and a picture."""
    noise = pixel_noise("laplace", _SCALE)
    reports = noise.report(recipe.clean)
    both = epsilons(noise.guarantee.epsilon, noise.claimed_epsilon)
    tiles = [
        Tile("Original", "", square(recipe.clean[:_SHOWN])),
        Tile("Released", both, square(reports[:_SHOWN]), 1 + 1.5 * noise.stddev),
    ]
    results: dict[str, Any] = {}
    for loss in LOSSES:
        fitted = fit_images(
            reports, noise, loss, plan if recipe.paper else suited(plan, loss), recipe.device
        )
        images = fitted.sample(NUM_JUDGED, recipe.seed + 1)
        results[loss] = recipe.judge.score(images).to_dict() | {
            "fit_seconds": round(fitted.seconds, 1)
        }
        caption = f"Fréchet {results[loss]['frechet']:.0f}"
        tiles.append(Tile(TITLES[loss], caption, square(images[:_SHOWN])))
        print(recipe.dataset, loss, results[loss], flush=True)
    row = {
        "scale": _SCALE,
        "epsilon": noise.guarantee.epsilon,
        "claimed_epsilon": noise.claimed_epsilon,
        "plan": asdict(plan),
        "floor": recipe.floor,
        "results": results,
    }
    recipe.write(row, draw_tiles(tiles, across=5, num_rows=8, num_columns=6), recipe.dataset)
    return row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    image_options(parser, "docs/results/entropic")


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    plan = PAPERS_PLAN if chosen.paper else SMALL
    network = "dcgan_no_norm" if chosen.paper else "mlp"
    plan = replace(planned(plan, chosen), network=network)
    run_noisy_wasserstein(recipe_of("noisy_wasserstein", chosen), plan)
