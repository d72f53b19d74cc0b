"""Beyond the papers: what decides quality at the same noise, and what less noise at the same ε is worth.

All rows learn 28 × 28 images from Gaussian reports, in the same CPU time on one thread:

| row | record | how it is learned |
|---|---|---|
| `plain` | image | the papers' loss, batches of 400 |
| `corrected` | image | self-corrected, batches of 250, Adam at 1e-3, hidden layers of 500 |
| `recipe` | image | self-corrected, what `privot fit` does by default |
| `labeled` | image and label | the same; labels by randomized response, a reported label a step |
| `low_pass` | image and label | the same; noise on the 14 × 14 lowest cosines alone |
| `ball` | image and label | the same; pixels, images in a ball about the darkest one |
| `ball_low_pass` | image and label | both |

**Same ε.** The first four add N(0, σ²) to pixels in [−1, 1], whose diameter is 56; so is that of their
lowest cosines. Images in the ball of radius R about the darkest one are at most √2·R apart, so that the
noise of the same ε is σ·√2·R/56: for R = 25, 1.26 where σ = 2. The labels take ε = 4 more in all labeled
rows.

**Shuffling** lowers none of these ε. Amplification is about whole reports, whose ε is of hundreds; a
label that is sent beside its noised image is told apart from the others' by the image.

With `--epsilon`, image and label together have that ε at `--delta`, instead of noise of one σ.

Usage:
    python -m studies images.recipe --data DIR
    python -m studies images.recipe --data DIR --stddev 4 --only plain --only labeled
    python -m studies images.recipe --data DIR --epsilon 35 --delta 1e-4 --only ball_low_pass
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn
from torch.nn import functional

from privot.local import FitSettings, fit
from privot.mechanisms import Gaussian, RandomizedResponse
from privot.mechanisms.additive_noise import choose_grid
from privot.randomizer import Randomizer, Release
from privot.schema import Schema
from privot.schema.columns.array import tensor_array, tensor_values
from studies.common.image_grids import Tile, draw_tiles
from studies.common.image_recipe import NUM_JUDGED, Recipe, image_options, recipe_of, square

DELTA = 1e-5
LABEL_EPSILON = 4.0
RADIUS = 25.0
LOW_PASS = 14
_ACROSS = 4
_BOX_DIAMETER = 56.0
_TIMED_STEPS = 200
_FEWEST_STEPS = 100
_STEPS_OF_REGRESSION = 1500


@dataclass(frozen=True)
class Row:
    """One way of learning; see the module's table."""

    settings: FitSettings = field(default_factory=FitSettings)
    labels: bool = True
    radius: float | None = None
    low_pass: int | None = None


ROWS = {
    "plain": Row(FitSettings(loss="plain", batch_size=400, learning_rate=1e-3), labels=False),
    "corrected": Row(
        FitSettings(batch_size=250, learning_rate=1e-3, hidden=(500, 500)), labels=False
    ),
    "recipe": Row(labels=False),
    "labeled": Row(),
    "low_pass": Row(low_pass=LOW_PASS),
    "ball": Row(radius=RADIUS),
    "ball_low_pass": Row(radius=RADIUS, low_pass=LOW_PASS),
}


@dataclass(frozen=True)
class Noise:
    """How private reports are: as N(0, stddev²) makes pixels of the box, and a label's share more.

    Arguments:
        stddev: σ; ignored where ε is given.
        delta: At which ε is told.
        epsilon: Of image and label together, instead of σ.
    """

    stddev: float = 2.0
    delta: float = DELTA
    epsilon: float | None = None

    @property
    def name(self) -> str:
        """For files."""
        return f"stddev{self.stddev:g}" if self.epsilon is None else f"epsilon{self.epsilon:g}"


def image_noise(randomizer: Randomizer) -> float:
    """The standard deviation that images get."""
    return float(randomizer.mechanisms["image"].stddev)  # type: ignore[attr-defined]  # Gaussian's


def randomizer_of(row: Row, noise: Noise) -> Randomizer:
    """Reports of a row, as private as the noise says."""
    image: dict[str, Any] = {"kind": "array", "shape": [28, 28], "bounds": [0, 255]}
    if row.radius is not None:
        image |= {"radius": row.radius, "center": "lower"}
    if row.low_pass is not None:
        image |= {"transform": "dct", "low_pass": row.low_pass}
    columns = {"image": image}
    if row.labels:
        columns["label"] = {"kind": "categorical", "categories": [str(k) for k in range(10)]}
    schema = Schema.from_dict({"columns": columns})
    if noise.epsilon is not None:
        shares = {"label": LABEL_EPSILON} if row.labels else None
        return Randomizer.calibrate(
            schema, noise.epsilon, noise.delta, mechanism="gaussian", shares=shares
        )
    diameter = schema.images["image"].domain.diameter(2)
    scale = noise.stddev * diameter / _BOX_DIAMETER
    mechanisms: dict[str, Any] = {"image": Gaussian(scale, choose_grid(scale))}
    if row.labels:
        mechanisms["label"] = RandomizedResponse(10, LABEL_EPSILON)
    return Randomizer(schema, mechanisms, delta=noise.delta)


def reports_of(recipe: Recipe, randomizer: Randomizer) -> Release:
    """What 60 000 people send."""
    images = recipe.images
    table = {"image": tensor_array(images.x_train)}
    if "label" in randomizer.schema.columns:
        table["label"] = pa.array([str(label) for label in images.y_train])
    return randomizer.privatize(pa.table(table))


def in_seconds(release: Release, settings: FitSettings, seconds: float) -> FitSettings:
    """The settings with as many steps as take so many seconds of CPU here, measured on a few."""
    fit(release, replace(settings, steps=5))  # what is compiled or read at the first use
    rates = []
    for steps in (5, 5 + _TIMED_STEPS):
        start = time.process_time()
        fit(release, replace(settings, steps=steps))
        rates.append(time.process_time() - start)
    each = (rates[1] - rates[0]) / _TIMED_STEPS
    return replace(settings, steps=max(_FEWEST_STEPS, int((seconds - rates[0]) / each)))


def learned_from(images: Tensor, labels: np.ndarray, recipe: Recipe) -> float:
    """Accuracy on clean test images of logistic regression trained on these."""
    targets, steps = torch.from_numpy(labels.astype(np.int64)), _STEPS_OF_REGRESSION
    model = nn.Linear(images.shape[1], 10)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, steps)
    rng = torch.Generator().manual_seed(0)
    for _ in range(steps):
        index = torch.randint(len(images), (256,), generator=rng)
        loss = functional.cross_entropy(model(images[index]), targets[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        right = model(recipe.held_out).argmax(dim=1).numpy() == recipe.images.y_test
    return float(right.mean())


def run_row(
    recipe: Recipe, name: str, noise: Noise, seconds: float
) -> tuple[dict[str, Any], Tensor]:
    """Report, learn, draw, judge: the row and its images."""
    row = ROWS[name]
    randomizer = randomizer_of(row, noise)
    release = reports_of(recipe, randomizer)
    settings = replace(row.settings, seed=recipe.seed, steps=recipe.steps)
    if recipe.steps is None:
        settings = in_seconds(release, settings, seconds)
    cpu, wall = time.process_time(), time.perf_counter()
    model = fit(release, settings)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    drawn = model.sample(NUM_JUDGED, seed=recipe.seed + 1)
    raw = tensor_values(drawn.column("image"))
    images = torch.from_numpy(raw.reshape(NUM_JUDGED, -1).astype(np.float32) / 127.5 - 1)
    guarantee = randomizer.guarantee
    result: dict[str, Any] = {
        "name": name,
        "stddev": round(image_noise(randomizer), 4),
        "epsilon": guarantee.epsilon,
        "steps": settings.steps,
        "batch_size": model.made_with["batch_size"],
        "cpu_seconds": round(cpu, 1),
        "wall_seconds": round(wall, 1),
        **recipe.judge.score(images).to_dict(),
    }
    if row.labels:
        labels = np.array(drawn.column("label").to_pylist()).astype(int)
        result["accuracy"] = round(learned_from(images, labels, recipe), 4)
    return result, images


def run_recipe(
    recipe: Recipe, noise: Noise, seconds: float, names: tuple[str, ...] = tuple(ROWS)
) -> dict[str, Any]:
    """All rows at one noise in a JSON file and a picture, written anew after each row."""
    started, first = time.perf_counter(), recipe.clean[:NUM_JUDGED]
    clean = learned_from(first, recipe.images.y_train[:NUM_JUDGED], recipe)
    tiles = [Tile("Clean", f"accuracy {clean:.0%}", square(recipe.held_out))]
    written: dict[str, Any] = {
        "stddev": noise.stddev if noise.epsilon is None else None,
        "of_epsilon": noise.epsilon,
        "delta": noise.delta,
        "seconds_of_cpu": seconds,
        "num_people": len(recipe.clean),
        "label_epsilon": LABEL_EPSILON,
        "floor": recipe.floor,
        "clean_accuracy": round(clean, 4),
        "rows": [],
    }
    for name in names:
        row, images = run_row(recipe, name, noise, seconds)
        print(row, flush=True)
        written["rows"].append(row)
        written["seconds"] = round(time.perf_counter() - started, 1)
        accuracy = f", accuracy {row['accuracy']:.0%}" if "accuracy" in row else ""
        caption = f"Fréchet {row['frechet']:.1f}{accuracy}"
        tiles.append(Tile(name.replace("_", " ").capitalize(), caption, square(images)))
        figure = draw_tiles(tiles, across=min(_ACROSS, len(tiles)), num_rows=6, num_columns=6)
        label = f"{recipe.dataset}_{noise.name}_{seconds:g}s"
        recipe.write(written, figure, label)
    return written


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    image_options(parser, "docs/results/images")
    parser.add_argument("--stddev", type=float, default=2.0, help="of pixels in [-1, 1]")
    parser.add_argument("--epsilon", type=float, help="of image and label, instead of --stddev")
    parser.add_argument("--delta", type=float, default=DELTA)
    parser.add_argument("--seconds", type=float, default=100.0, help="of CPU, for each fit")
    parser.add_argument("--only", choices=tuple(ROWS), action="append")


def run(chosen: argparse.Namespace) -> None:
    """The command line: one noise."""
    recipe = recipe_of("recipe", chosen)
    torch.set_num_threads(1)
    noise = Noise(chosen.stddev, chosen.delta, chosen.epsilon)
    run_recipe(recipe, noise, chosen.seconds, tuple(chosen.only or ROWS))
