r"""Labeled vectors of a curator, judged by classifiers that are trained on draws.

Vectors are the lowest cosine coefficients of images, `--side` along each axis, with bounds that follow
from the pixels' range and the usual fall-off of images with frequency f, $±14/\sqrt{1 + f^2}$: nothing
of the data is in them. 60 000 draws; scikit-learn's `LogisticRegression(max_iter=5000)` and its default
`MLPClassifier` are trained on them, in units of the bounds, and tested on the real test images.
δ = 1e-5, `replace_one`.

- `mixture`: `privot.central.fit`, rounds of noisy sums.
- `gaussian`: the same with one component a label.
- `slices`: the network that is trained on noisy slices, `--steps` releases.
- `dp_merf`: one noisy mean embedding (`studies.rivals.dp_merf`).
- `real`: the training images themselves, without privacy.

`--held-out` judges by the last 10 000 training images: the bandwidth of DP-MERF was chosen so.

Usage:
    python -m studies sliced.vectors --data mnist.npz --methods mixture gaussian -o out
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy.fft import dctn
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from privot.central import SliceSettings, SumSettings, fit
from privot.schema import Schema
from studies.common.rows import write_row
from studies.rivals.dp_merf import DPMERFSettings, fit_dp_merf
from studies.rivals.vector_generator import VectorGenerator
from studies.sliced.images import DELTA, NUM_SYNTHETIC, load_split

Floats = np.ndarray
_HELD_OUT = 10_000
_LARGEST = 14.0  # half of what the mean's coefficient can be, of 28 × 28 pixels
BANDWIDTH = 0.7


@dataclass(frozen=True, eq=False)
class Drawn:
    """Vectors in units of their bounds (n, d), their labels, and the ε that was spent."""

    vectors: Floats
    labels: Floats
    epsilon: float | None = None


def bounds_of(side: int) -> tuple[Floats, Floats]:
    """Low and high bounds (d,) of the coefficients."""
    squares = np.add.outer(np.arange(side) ** 2, np.arange(side) ** 2).ravel()
    high = _LARGEST / np.sqrt(1.0 + squares)
    low = -high
    low[0], high[0] = 0.0, 2 * _LARGEST
    return low, high


def vectors_of(path: Path, split: str, side: int) -> tuple[Floats, Floats]:
    """Coefficients (n, side²) within their bounds, in units of [0, 1], and labels."""
    x, y = load_split(path, split)
    low, high = bounds_of(side)
    found = dctn(x.numpy(), axes=(1, 2), norm="ortho")[:, :side, :side].reshape(len(x), -1)
    return np.clip((found - low) / (high - low), 0.0, 1.0), y.numpy()


def declared(side: int) -> Schema:
    """Vectors in the unit cube, and their label."""
    names = [f"f{place}" for place in range(side * side)]
    vector = {"kind": "vector", "columns": names, "bounds": [[0, 1]] * len(names)}
    label = {"kind": "categorical", "categories": list("0123456789")}
    return Schema.from_dict({"unit": "image", "columns": {"vector": vector, "label": label}})


def fitted(
    x: Floats, y: Floats, settings: SumSettings | SliceSettings, chosen: argparse.Namespace
) -> Drawn:
    """Draws of a model of ours."""
    schema = declared(chosen.side)
    names = schema.columns["vector"].table_columns("vector")
    table = pa.table(dict(zip(names, x.T, strict=True)) | {"label": [str(label) for label in y]})
    model = fit(table, schema, epsilon=chosen.epsilon, delta=DELTA, method=settings)
    drawn = model.sample(chosen.count, seed=chosen.seed)
    vectors = np.stack([drawn[name].to_numpy() for name in names], axis=1)
    labels = np.array([int(label) for label in drawn["label"].to_pylist()])
    return Drawn(vectors, labels, model.guarantee.epsilon)


def rival(x: Floats, y: Floats, chosen: argparse.Namespace) -> Drawn:
    """Draws of DP-MERF's generator, with uniform labels."""
    settings = DPMERFSettings(bandwidth=chosen.bandwidth, steps=600)
    generator = VectorGenerator(x.shape[1], chosen.seed)
    found = fit_dp_merf(
        x.astype(np.float32),
        y,
        chosen.epsilon,
        DELTA,
        settings,
        seed=chosen.seed,
        generator=generator,
    )
    labels = np.arange(chosen.count) % 10
    drawn = generator.sample(torch.from_numpy(labels), chosen.seed)
    return Drawn(drawn, labels, found.guarantee.epsilon)


Method = Callable[[Floats, Floats, argparse.Namespace], Drawn]
METHODS: dict[str, Method] = {
    "mixture": lambda x, y, c: fitted(x, y, SumSettings(seed=c.seed), c),
    "gaussian": lambda x, y, c: fitted(x, y, SumSettings(components=1, seed=c.seed), c),
    "slices": lambda x, y, c: fitted(x, y, SliceSettings(steps=c.steps, seed=c.seed), c),
    "dp_merf": rival,
    "real": lambda x, y, c: Drawn(x, y),
}


def judged(method: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Fit, draw, train classifiers on the draws, test them."""
    x, y = vectors_of(chosen.data, "train", chosen.side)
    if chosen.held_out:
        test, (x, y) = (x[-_HELD_OUT:], y[-_HELD_OUT:]), (x[:-_HELD_OUT], y[:-_HELD_OUT])
    else:
        test = vectors_of(chosen.data, "test", chosen.side)
    started = time.process_time()
    drawn = METHODS[method](x, y, chosen)
    row = {
        "method": method,
        "data": chosen.data.stem,
        "dimension": x.shape[1],
        "epsilon": drawn.epsilon,
        "seed": chosen.seed,
        "held_out": chosen.held_out,
        "fit_seconds": round(time.process_time() - started, 1),
    }
    classifiers: dict[str, Any] = {
        "logistic_regression": LogisticRegression(max_iter=5000),
        "mlp": MLPClassifier(random_state=chosen.seed),
    }
    for name, classifier in classifiers.items():
        classifier.fit(2 * drawn.vectors - 1, drawn.labels)
        row[name] = round(float(classifier.score(2 * test[0] - 1, test[1])), 4)
    return row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, required=True, help="npz of x_train, y_train, …")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--side", type=int, default=8, help="coefficients along each axis")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=10_000, help="releases of slices")
    parser.add_argument("--bandwidth", type=float, default=BANDWIDTH, help="of DP-MERF")
    parser.add_argument("--held-out", action="store_true", help="judge by training images")
    parser.add_argument("--count", type=int, default=NUM_SYNTHETIC, help="draws")
    parser.add_argument("--seed", type=int, default=0, help="of starts, draws and classifiers")
    parser.add_argument("-o", "--output", type=Path, default=Path("sliced_vectors"))


def run(chosen: argparse.Namespace) -> None:
    """One row a method."""
    for method in chosen.methods:
        row = judged(method, chosen)
        print(row, flush=True)
        name = f"{method}_{row['data']}_{row['dimension']}_{chosen.epsilon:g}_{chosen.seed}.json"
        write_row(chosen.output / name, row)
