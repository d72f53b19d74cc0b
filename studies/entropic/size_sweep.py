r"""What more people bring, at σ = 2: n from 1 000 to 60 000.

The papers plot W₂ against n and read $n^{−1/2}$ off their theorem. The theorem is about the *excess
entropic cost* on held-out reports, and says nothing of W₂ (deconvolution can be logarithmic in n). Both
are here, with the excess on the reports trained on beside it: their gap is what was learned by heart.

Usage:
    python -m studies entropic.size_sweep --data DIR -o docs/results/entropic
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from privot.report.style import new_figure, styled
from studies.common.image_recipe import NUM_JUDGED, Recipe, image_options, recipe_of
from studies.common.rows import select
from studies.entropic.batch_fit import FitPlan, fit_images, planned, suited
from studies.entropic.image_noise import DELTA, pixel_noise
from studies.entropic.measures import NUM_POINTS, Excess, w2_reference
from studies.entropic.noise_sweep import PAPER
from studies.entropic.wording import COLORS, TITLES, draw_losses

SIZES = (1_000, 4_000, 16_000, 60_000)
LOSSES = ("entropic", "self_corrected")
_STDDEV = 2.0
SMALL = FitPlan(steps=2400)
_BATCHES = 2


def run_size_sweep(recipe: Recipe, plan: FitPlan, sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """Fit both losses to the first n reports, measure, and write a row and a picture."""
    noise = pixel_noise("gaussian", _STDDEV)
    reports = noise.report(recipe.clean)
    fresh = recipe.held_out[_BATCHES * NUM_POINTS :]
    on_test = Excess(
        fresh, noise.report(recipe.held_out[: _BATCHES * NUM_POINTS]), noise, NUM_POINTS, _BATCHES
    )
    points = []
    for size in sizes:
        batches = min(size // NUM_POINTS, _BATCHES)
        on_train = Excess(fresh, reports, noise, NUM_POINTS, batches)
        for loss in LOSSES:
            fitted = fit_images(
                reports[:size],
                noise,
                loss,
                plan if recipe.paper else suited(plan, loss),
                recipe.device,
            )
            images = fitted.sample(NUM_JUDGED, recipe.seed + 1)
            points.append(
                {
                    "num_people": size,
                    "loss": loss,
                    "excess_test": on_test.of(images),
                    "excess_train": on_train.of(images),
                    **recipe.judge.score(images).to_dict(),
                }
            )
            print(points[-1], flush=True)
    row = {
        "delta": DELTA,
        "stddev": _STDDEV,
        "epsilon": noise.guarantee.epsilon,
        "claimed_epsilon": noise.claimed_epsilon,
        "plan": asdict(plan),
        "reference": w2_reference(recipe.clean, recipe.held_out),
        "floor": recipe.floor,
        "points": points,
    }
    recipe.write(row, draw_sizes(row))
    return row


def draw_sizes(row: dict[str, Any]) -> Figure:
    """W₂, Fréchet distance and held-out excess against n, a line a loss."""
    quantities = (
        ("w2", "W₂ of 1000 samples", row["floor"]["w2"]),
        ("frechet", "Fréchet distance", row["floor"]["frechet"]),
        ("excess_test", "excess cost, held out (nats)", 0.0),
    )
    with styled():
        figure = new_figure(11, 3.4)
        for axis, (name, title, floor) in zip(figure.subplots(1, 3), quantities, strict=True):
            draw_losses(axis, row, "num_people", name, title, floor)
            for loss in LOSSES if name == "excess_test" else ():
                found = select(row["points"], loss=loss)
                axis.plot(
                    [p["num_people"] for p in found], [p["excess_train"] for p in found], ":",
                    color=COLORS[loss], label=f"{TITLES[loss]}, on the reports trained on",
                )  # fmt: skip
            axis.set_xscale("log")
            axis.set_xlabel("number of people n")
        figure.legend(
            *figure.axes[2].get_legend_handles_labels(), loc="outside lower center", ncols=5
        )
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    image_options(parser, "docs/results/entropic")


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    plan = planned(PAPER if chosen.paper else SMALL, chosen)
    run_size_sweep(recipe_of("size_sweep", chosen), plan)
