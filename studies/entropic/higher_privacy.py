"""Higher privacy on smaller domains: Laplace noise on cosines in an ℓ1 ball, Gaussian in an ℓ2 ball.

The papers' ε, which take the radius for the sensitivity, stand beside the honest ones, which are more
than twice as large. `projected` is the best that could be learned: the clean images after the projection
that the devices apply. What a loss learns is told beside two baselines, in rows of their own: the
generator before any step, at the covariance that the reports show, and the unregularized loss.

Usage:
    python -m studies entropic.higher_privacy --data DIR
    python -m studies entropic.higher_privacy --data DIR --dataset fashion_mnist
    python -m studies entropic.higher_privacy --data DIR --baselines
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain
from typing import Any

from torch import Tensor

from privot.local import FitSettings
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
from studies.entropic.image_noise import ball_noise
from studies.entropic.wording import TITLES, epsilons

CLAIMED = {
    ("mnist", "laplace"): (65.25, 49.0, 35.0, 25.0),
    ("mnist", "gaussian"): (35.0, 30.0, 25.0, 24.0),
    ("fashion_mnist", "laplace"): (65.25, 35.0),
    ("fashion_mnist", "gaussian"): (35.0, 25.0),
}
LOSSES = ("entropic", "self_corrected")
BASELINES = ("start", "unregularized")
_SHOWN = 100


def run_higher_privacy(
    recipe: Recipe,
    kind: str,
    settings: FitSettings,
    claimed: Sequence[float],
    names: Sequence[str] = LOSSES,
) -> dict[str, Any]:
    """Fit losses or baselines at each of the papers' ε; write a row and sheets of a hundred samples."""
    points: list[dict[str, Any]] = []
    sheets: dict[str, list[tuple[str, Tensor]]] = {name: [] for name in names}
    for epsilon in claimed:
        noise = ball_noise(kind, epsilon)
        projected = recipe.judge.score(noise.projected(recipe.clean[:NUM_JUDGED])).frechet
        release = noise.report(recipe.clean)
        found = fit_losses(recipe, release, [n for n in names if n != "start"], settings)
        if "start" in names:
            start = drawn(unfitted(release, settings), NUM_JUDGED, recipe.seed + 1)
            found = chain([("start", start, recipe.judge.score(start).to_dict())], found)
        for name, images, scores in found:
            point = {"loss": name, "scale": round(noise.scale, 4), **noise.both_epsilons()}
            point |= {"claimed_epsilon": epsilon, "projected_frechet": round(projected, 4)}
            points.append(point | scores)
            sheets[name].append((epsilons(noise), images[:_SHOWN]))
    row = facts(recipe, noise, settings) | {"kind": kind, "points": points}
    tiles = [
        Tile(TITLES[name], caption, square(images))
        for name in names
        for caption, images in sheets[name]
    ]
    figure = draw_tiles(
        tiles, across=len(claimed), num_rows=10, num_columns=10, inches=2.6, paper=-1.0
    )
    of_baselines = "" if names == LOSSES else "_baselines"
    recipe.write(row, figure, f"{recipe.dataset}_{kind}{of_baselines}")
    return row


def beside_baselines(rows: Rows) -> Rows:
    """Rows of losses, each with the points of its baselines' row, if there is one, by falling ε.

    Examples:
        >>> of = {"dataset": "mnist", "kind": "laplace", "seed": 0}
        >>> start, entropic = ({"loss": loss, "claimed_epsilon": 25.0} for loss in ("start", "entropic"))
        >>> beside_baselines([of | {"points": [entropic]}, of | {"points": [start]}])[0]["points"]
        [{'loss': 'start', 'claimed_epsilon': 25.0}, {'loss': 'entropic', 'claimed_epsilon': 25.0}]
    """

    def of(row: Row) -> tuple[str, str, int]:
        return row["dataset"], row["kind"], row["seed"]

    def points(row: Row) -> Rows:
        both = [*baselines.get(of(row), []), *row["points"]]
        return sorted(both, key=lambda point: -point["claimed_epsilon"])

    def is_of_baselines(row: Row) -> bool:
        return row["points"][0]["loss"] in BASELINES

    baselines = {of(row): row["points"] for row in rows if is_of_baselines(row)}
    return [row | {"points": points(row)} for row in rows if not is_of_baselines(row)]


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    fit_options(parser)
    parser.add_argument("--kind", choices=("laplace", "gaussian"), action="append")
    parser.add_argument(
        "--baselines", action="store_true", help="the start and the unregularized loss instead"
    )


def run(chosen: argparse.Namespace) -> None:
    """The command line: both mechanisms."""
    settings = settings_of(chosen, SMALL, PAPER)
    recipe = recipe_of("higher_privacy", chosen)
    for kind in chosen.kind or ("laplace", "gaussian"):
        claimed = CLAIMED[chosen.dataset, kind]
        run_higher_privacy(
            recipe, kind, settings, claimed, BASELINES if chosen.baselines else LOSSES
        )
