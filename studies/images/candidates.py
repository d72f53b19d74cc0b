"""Labeled images under pure local ε: one report of candidates a person, from device to classifier.

Every person reports image and label together, with the whole ε, in 12 bytes; Gaussian classes are fitted
to the reports; logistic regression (scikit-learn's, as it is) is trained on samples, and judged on the
test set, which nothing before has seen. `named` is the share of people whose label an attacker names
from their one report (`privot.evaluation.prediction`). `spread` is the samples' variance over the test
images', along the latter's first 20 principal components.

Usage:
    python -m studies images.candidates --data DIR --epsilon 10
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from privot.evaluation.prediction import infer_labels
from privot.local import fit
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.columns.array import tensor_array, tensor_values
from studies.common.image_grids import Tile, draw_tiles
from studies.common.image_judge import linear_accuracy
from studies.common.image_recipe import Recipe, image_options, recipe_of

_COMPONENTS = 20
_SAMPLES, _OF_LABEL = 20_000, 10
SCHEMA = """
unit = "person"
[columns.image]
kind = "array"
shape = [28, 28]
bounds = [0, 255]
[columns.label]
kind = "categorical"
categories = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
"""


def run_candidates(recipe: Recipe, epsilon: float) -> dict[str, Any]:
    """Privatize the training set, fit, sample, measure; write a row and a sheet of samples."""
    data = recipe.images
    labels = np.array([str(label) for label in data.y_train])
    people = pa.table({"image": tensor_array(data.x_train), "label": labels})
    randomizer = Randomizer.calibrate(Schema.from_toml(SCHEMA), epsilon)
    started = time.perf_counter()
    release = randomizer.privatize(people, keep_order=True)  # for the attacker
    privatized = time.perf_counter()
    model = fit(release, seed=recipe.seed)
    fitted = time.perf_counter()
    table = model.sample(_SAMPLES, seed=recipe.seed)
    sampled = time.perf_counter()
    x, y = (
        np.asarray(tensor_values(table["image"]), np.float64) / 255,
        np.array(table["label"].to_pylist()).astype(int),
    )
    flat, tested = x.reshape(len(x), -1), data.x_test.reshape(len(data.x_test), -1) / 255
    values, axes = np.linalg.eigh(np.cov(tested, rowvar=False))
    spread = (flat @ axes[:, -_COMPONENTS:]).var(axis=0).sum() / values[-_COMPONENTS:].sum()
    row = {
        "epsilon": epsilon,
        "num_people": len(people),
        "accuracy": round(linear_accuracy(255 * x, y, data.x_test, data.y_test), 4),
        "named": round(infer_labels(release, people), 4),
        "spread": round(float(spread), 4),
        "ink": round(float(flat.mean() / tested.mean()), 4),
        "privatize_seconds": round(privatized - started, 1),
        "fit_seconds": round(fitted - privatized, 1),
        "sample_seconds": round(sampled - fitted, 1),
        "guarantee": str(model.guarantee),
    }
    chosen = np.concatenate([np.flatnonzero(y == label)[:_OF_LABEL] for label in range(10)])
    caption = f"a classifier trained on samples: {row['accuracy']:.1%}"
    tile = Tile(f"Pure local ε = {epsilon:g}", caption, 2 * x[chosen] - 1)
    figure = draw_tiles([tile], across=1, num_rows=10, num_columns=10, inches=5.0)
    recipe.write(row, figure, f"{recipe.dataset}_epsilon{epsilon:g}")
    return row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    image_options(parser, "docs/results/images")
    parser.add_argument("--epsilon", type=float, action="append", help="10, 5 and 2 by default")


def run(chosen: argparse.Namespace) -> None:
    """The command line: one data set, some ε."""
    torch.set_num_threads(1)
    recipe = recipe_of("candidates", chosen)
    for epsilon in chosen.epsilon or (10.0, 5.0, 2.0):
        print(recipe.dataset, run_candidates(recipe, epsilon), flush=True)
