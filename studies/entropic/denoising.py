r"""Denoising fails, entropic transport works: one release, eight ways of reading it.

Original · released · wavelet shrinkage tuned with the clean images · blind-spot denoiser · generators by
the unregularized distance, by the same on wavelet-denoised images, by entropic transport, and by its
self-corrected form.

The papers show pictures. Here every panel has two numbers: images that belong to a person (released,
denoised) are shown to a classifier trained on clean images, and its accuracy is counted; everything is
compared with held-out clean images by the Fréchet distance of that classifier's features.

A clean-trained classifier tells how readable an image is to someone who has only seen clean ones. How
much of the label the reports hold for someone who trains *on reports* is another number: `learnable` is
the held-out accuracy of logistic regression trained on labeled reports.

`start` is the generator before any step, at the covariance that the reports show: what a loss adds to
it, or takes away.

The blind-spot denoiser is a sketch beside the generators; `--denoisers` trains it at length and nothing
else, in rows of their own.

Usage:
    python -m studies entropic.denoising --data DIR -o docs/results/entropic
    python -m studies entropic.denoising --data DIR --denoisers
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional

from privot.local import FitSettings
from privot.privacy import calibrate_gaussian_zhao
from studies.common.frechet import frechet_distance
from studies.common.image_grids import Tile, draw_tiles
from studies.common.image_recipe import NUM_JUDGED, Recipe, recipe_of, square
from studies.common.rows import Row, Rows
from studies.entropic.image_fits import (
    PAPER,
    SMALL,
    drawn,
    facts,
    fit_losses,
    fit_options,
    settings_of,
    unfitted,
)
from studies.entropic.image_noise import DELTA, SIDE, ImageNoise, in_place_of
from studies.entropic.wording import TITLES, epsilons
from studies.rivals.blind_spot import train_blind_spot
from studies.rivals.wavelet_shrinkage import tune

_TUNED_ON = 500
_SKETCHED, _AT_LENGTH = 300, 4000
_SHOWN = 24
SETTINGS = {
    "gaussian2": ImageNoise("gaussian", 2.0),
    "gaussian35": ImageNoise("gaussian", calibrate_gaussian_zhao(28.0, 35.0, DELTA)),
    "laplace196": ImageNoise("laplace", 4.0),
}


def run_denoising(recipe: Recipe, setting: str, settings: FitSettings) -> dict[str, Any]:
    """All panels of one setting; writes a row and a picture."""
    noise = SETTINGS[setting]
    release = noise.report(recipe.clean)
    panels, results, row = _denoised(recipe, noise, noise.pixels(release), settings, _SKETCHED)
    start = drawn(unfitted(release, settings), NUM_JUDGED, recipe.seed + 1)
    results["start"] = recipe.judge.score(start).to_dict()
    denoised = in_place_of(release, panels["wavelet"])
    for seen, losses in (
        (release, ("unregularized",)),
        (denoised, ("unregularized",)),
        (release, ("entropic", "self_corrected")),
    ):
        for loss, images, scores in fit_losses(recipe, seen, losses, settings):
            name = "denoised" if seen is denoised else loss
            panels[name], results[name] = images, scores
    recipe.write(row, _picture(noise, panels, results), setting)
    return row


def run_denoisers(recipe: Recipe, setting: str, settings: FitSettings) -> dict[str, Any]:
    """Denoisers alone, the blind-spot one at length; writes a row and a picture."""
    noise = SETTINGS[setting]
    reports = noise.pixels(noise.report(recipe.clean))
    panels, results, row = _denoised(recipe, noise, reports, settings, _AT_LENGTH)
    recipe.write(row, _picture(noise, panels, results), f"{setting}_denoisers")
    return row


def with_denoisers(rows: Rows) -> Rows:
    """Rows with generators, each with the results of its denoisers' row, if there is one.

    Examples:
        >>> row = {"label": "a", "seed": 0, "results": {"blind_spot": 1, "entropic": 2}}
        >>> alone = {"label": "a_denoisers", "seed": 0, "results": {"blind_spot": 3}}
        >>> with_denoisers([row, alone])[0]["results"]
        {'blind_spot': 3, 'entropic': 2}
    """
    alone = {(row["label"], row["seed"]): row["results"] for row in rows}

    def denoisers(row: Row) -> Row:
        found: Row = alone.get((f"{row['label']}_denoisers", row["seed"]), {})
        return found

    return [
        row | {"results": row["results"] | denoisers(row)}
        for row in rows
        if not row["label"].endswith("_denoisers")
    ]


def _denoised(
    recipe: Recipe, noise: ImageNoise, reports: Tensor, settings: FitSettings, steps: int
) -> tuple[dict[str, Tensor], dict[str, dict[str, Any]], Row]:
    """Panels of all images, original, released and denoised; their results; the row that holds them."""
    labels = recipe.images.y_train[:NUM_JUDGED]
    shrink = tune(square(reports[:_TUNED_ON]), square(recipe.clean[:_TUNED_ON]), noise.stddev)
    shrunk = torch.from_numpy(shrink(square(reports))).float().reshape(len(reports), -1)
    steps = 20_000 if recipe.paper else steps
    blind = train_blind_spot(reports.reshape(-1, SIDE, SIDE), steps=steps, seed=recipe.seed)
    guessed = blind.denoise(reports[:NUM_JUDGED].reshape(-1, SIDE, SIDE)).reshape(NUM_JUDGED, -1)
    panels = {
        "original": recipe.clean,
        "released": reports,
        "wavelet": shrunk,
        "blind_spot": guessed,
    }
    results: dict[str, dict[str, Any]] = {}
    for name, images in panels.items():
        shown = images[:NUM_JUDGED]
        features = recipe.judge.features(shown)
        error = ((shown - recipe.clean[:NUM_JUDGED]) ** 2).mean()
        results[name] = {
            "accuracy": round(recipe.classifier.accuracy(shown, labels), 4),
            "frechet": round(frechet_distance(features, recipe.judge.clean_features), 2),
            "mean_squared_error": round(float(error), 4),
        }
    results["blind_spot"]["steps"] = steps
    row = facts(recipe, noise, settings) | {
        "noise": {"kind": noise.kind, "scale": round(noise.scale, 4)},
        "wavelet": asdict(shrink),
        "learnable": round(learnable(reports, recipe.images.y_train), 4),
        "results": results,
    }
    return panels, results, row


def learnable(reports: Tensor, labels: np.ndarray, steps: int = 600) -> float:
    """Accuracy on held-out reports of logistic regression trained on the others, true labels known."""
    targets = torch.from_numpy(labels.astype(np.int64))
    first = len(reports) - NUM_JUDGED
    model = nn.Linear(reports.shape[1], int(targets.max()) + 1)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    rng = torch.Generator().manual_seed(0)
    for _ in range(steps):
        index = torch.randint(first, (500,), generator=rng)
        loss = functional.cross_entropy(model(reports[index]), targets[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return float((model(reports[first:]).argmax(dim=1) == targets[first:]).float().mean())


def _picture(
    noise: ImageNoise, panels: dict[str, Tensor], results: dict[str, dict[str, Any]]
) -> Figure:
    titles = {
        "original": "Original",
        "released": "Released",
        "wavelet": "Wavelet",
        "blind_spot": "Blind spot",
        "denoised": "Wavelet + W",
        **TITLES,
    }
    tiles = []
    for name, images in panels.items():
        found = results[name]
        caption = f"{100 * float(found['accuracy']):.0f} % readable" if "accuracy" in found else ""
        caption = epsilons(noise) if name == "released" else caption
        caption = caption or f"Fréchet {float(found['frechet']):.0f}"
        limit = 1 + 1.5 * noise.stddev if name == "released" else 1.0
        tiles.append(Tile(titles[name], caption, square(images[:_SHOWN]), limit))
    return draw_tiles(tiles, across=4, num_rows=4, num_columns=6, inches=2.3)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    fit_options(parser)
    parser.add_argument("--setting", choices=sorted(SETTINGS), action="append")
    parser.add_argument("--denoisers", action="store_true", help="these alone, at length")


def run(chosen: argparse.Namespace) -> None:
    """The command line: every setting."""
    recipe = recipe_of("denoising", chosen)
    for setting in chosen.setting or SETTINGS:
        settings = settings_of(chosen, SMALL, PAPER)
        row = (run_denoisers if chosen.denoisers else run_denoising)(recipe, setting, settings)
        print(setting, row["epsilon"], row["results"], flush=True)
