"""Curves in the plane under Laplace and Gaussian noise: unregularized, entropic, self-corrected.

The papers' half circle, ellipse and rectangle at ε = 5, here the honest one (noise scaled to the
diameter of the public curve). `studies.entropic.manifolds` runs the first two losses at length; this
recipe puts the self-corrected one beside them. In two dimensions the mini-batch bias that it removes is
small, and its second plan adds variance.

Usage:
    python -m studies entropic.manifold_losses -o docs/results/entropic
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from privot.evaluation import sample_distance
from privot.local import FitSettings, fit
from privot.randomizer import Randomizer
from privot.report.panels import LEARNED, PRIVATE, RECEIVED
from studies.common.clouds import Cloud, draw_clouds
from studies.common.image_recipe import Recipe, image_options, recipe_of
from studies.entropic.manifolds import CURVES, SETTINGS, Setting, epsilon_by_radius, raw_points
from studies.rivals.batch_losses import unregularized

_SAMPLES = 20_000
_COMPARED = 1000
SMALL = FitSettings(
    estimator="generator", steps=4000, batch_size=400, averaging=0.998, latent_dim=2
)
PAPER = FitSettings(
    estimator="generator", steps=20_000, batch_size=4000, averaging=0.999, latent_dim=2
)


def run_manifold(
    recipe: Recipe, setting: Setting, settings: FitSettings, num_people: int
) -> dict[str, Any]:
    """Fit three losses to one release, measure raw outputs, and write a row and a picture."""
    curve = CURVES[setting.curve]
    clean = curve.draw(num_people, recipe.seed)
    randomizer = Randomizer.calibrate(
        curve.schema, setting.epsilon, setting.delta, mechanism=setting.mechanism
    )
    release = randomizer.privatize({"x": clean[:, 0], "y": clean[:, 1]})
    settings = replace(settings, seed=recipe.seed)
    smaller = replace(settings, batch_size=250)  # an assignment takes as long as many plans
    models = {
        "unregularized": fit(release, smaller, loss=unregularized),
        "entropic": fit(release, replace(settings, loss="plain"), seed=recipe.seed),
        "self_corrected": fit(release, replace(settings, loss="self_corrected"), seed=recipe.seed),
    }
    table = release.table
    clouds = {"released": np.stack([table.column(name).to_numpy() for name in "xy"], axis=1)}
    clouds |= {name: raw_points(model, _SAMPLES, recipe.seed) for name, model in models.items()}
    distances = {
        name: round(sample_distance(points, clean, _COMPARED), 4)
        for name, points in (clouds | {"floor": curve.draw(_SAMPLES, recipe.seed + 1)}).items()
    }
    row = {
        "curve": setting.curve,
        "mechanism": setting.mechanism,
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "claimed_epsilon": round(epsilon_by_radius(randomizer, curve), 2),
        "num_people": num_people,
        "settings": asdict(settings),
        "w2": distances,
    }
    noise = f"{setting.mechanism.capitalize()} ε = {setting.epsilon:g}"
    panels = [
        Cloud("Clean", "never seen", PRIVATE, clean),
        Cloud("Received", noise, RECEIVED, clouds["released"]),
        *(
            Cloud(title, f"W₂ {distances[name]:.2f}", LEARNED, clouds[name])
            for name, title in (
                ("unregularized", "Unregularized"),
                ("entropic", "Entropic"),
                ("self_corrected", "Self-corrected"),
            )
        ),
    ]
    figure = draw_clouds(panels, np.asarray(curve.corners), margin=0.8)
    recipe.write(row, figure, f"{setting.curve}_{setting.mechanism}")
    return row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    image_options(parser, "docs/results/entropic")


def run(chosen: argparse.Namespace) -> None:
    """The command line: three curves, two mechanisms."""
    recipe = recipe_of("manifold_losses", chosen)
    torch.set_flush_denormal(True)
    for setting in SETTINGS:
        if setting.epsilon == 5.0:
            size = (PAPER, 400_000) if chosen.paper else (SMALL, 50_000)
            settings = replace(size[0], steps=chosen.steps or size[0].steps)
            row = run_manifold(recipe, setting, settings, size[1])
            print(setting.stem, row["w2"], flush=True)
