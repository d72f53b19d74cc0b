r"""Digits and clothes made from noisy slices, judged by classifiers trained on them.

Protocol (Rakotomamonjy, Ralaivola 2021, table 2): 60 000 synthetic images with uniform labels and
pixels in [0, 1]; scikit-learn's `LogisticRegression(max_iter=5000)` and its default `MLPClassifier`
are trained on them and tested on the real test images; δ = 1e-5.

**What was chosen how.** Numbers of releases, batch sizes and directions follow from the accountant
alone.
`low_pass`, `anchor` and `dither` were compared on 10 000 held-out *training* images
(`studies.sliced.selection`); test images were looked at once, at the end. Such looks at
training data are in no ε, as usual in this literature.

**Recipe.** Records are label ⊗ square of the lifted low-pass image (`privot.sliced.images`), of norm 1
whatever the image: nothing is clipped, and Δ = √2 under replace_one. Means of records, pooled over all
releases, are class-conditional first and second moments; classes are drawn from them as Gaussian
factors, with noise on the pixels.

**Batches.** For a mean, what counts is the noise of the pooled record,

$$ σ \sqrt{d · \text{rows} / (T k b^2)}\,, $$

with σ from the accountant. With s = (σ/Δ)√(d/k), T releases are worth μ² = T (b/n)² (e^{1/s²} − 1) for
many directions, so the noise is Δ·s/√(Tb): at fixed μ it falls like T^{−1/4}, and the best batch like
T^{−1/2}. Few directions make the law of the projected sensitivity heavier (k = 8: a tenth more noise
than k = 16), and their drawing is most of a step's time.

Usage:
    python -m studies sliced.images --data mnist.npz --epsilon 10 -o out
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from privot.schema import Schema
from privot.schema.columns.array import tensor_array
from privot.sliced import SlicedModel, SlicedSettings, fit, records_of
from studies.common.rows import write_row

NUM_SYNTHETIC = 60_000
DELTA = 1e-5
SCHEMA = Schema.from_dict(
    {
        "unit": "image",
        "columns": {
            "image": {"kind": "array", "shape": [28, 28], "bounds": [0, 1]},
            "label": {"kind": "categorical", "categories": list("0123456789")},
        },
    }
)
_CHUNK = 16_384
_STEPS = 60_000
# Batch for T = 60 000 releases of 60 000 records, by adjacency and ε.
_BATCH = {
    ("zero_out", 10.0): 320,
    ("zero_out", 1.0): 40,
    ("replace_one", 10.0): 200,
    ("replace_one", 5.0): 100,
    ("replace_one", 2.0): 50,
    ("replace_one", 1.0): 30,
}
# More noise, fewer frequencies: from which ε on how many are kept.
_LOW_PASS = ((5.0, 10), (0.0, 7))


@dataclass(frozen=True)
class Outcome:
    """One row of the table: accuracies on real test images, and what was spent."""

    method: str
    data: str
    neighboring: str
    epsilon: float
    delta: float
    seed: int
    stddev: float
    releases: int
    batch_size: int
    num_projections: int
    low_pass: int | None
    anchor: float
    dither: float
    logistic_regression: float
    mlp: float
    fit_seconds: float


def recipe(
    epsilon: float, neighboring: str, steps: int, seed: int, dither: float = 0.2
) -> SlicedSettings:
    """Settings for 60 000 images in 10 classes; other ε take the batch of the nearest known one.

    Fewer releases take larger batches, as T^{−1/2} says.
    """
    nearest = min((e for n, e in _BATCH if n == neighboring), key=lambda e: abs(e - epsilon))
    return SlicedSettings(
        low_pass=frequencies(epsilon),
        steps=steps,
        batch_size=round(_BATCH[neighboring, nearest] * (_STEPS / steps) ** 0.5),
        num_projections=8,
        neighboring=neighboring,  # type: ignore[arg-type]  # a key of the table above
        dither=dither,
        seed=seed,
    )


def single_recipe(low_pass: int, seed: int, dither: float = 0.2) -> SlicedSettings:
    """Settings that release slices of all records once: a whole frame, k = d, loses nothing.

    Every row of a release bears its own noise, σ = Δ·g(ε, δ), and there is no amplification: the
    pooled mean of n records is off by Δ·g/√n whatever k, so few coordinates suit it.
    """
    records = records_of(SCHEMA, low_pass=low_pass)
    return SlicedSettings(
        low_pass=low_pass,
        steps=1,
        num_projections=records.num_labels * records.width,
        release="once",
        orthonormal=True,
        dither=dither,
        seed=seed,
    )


def frequencies(epsilon: float) -> int:
    """How many along each axis suit 28 × 28 images in 10 classes at ε."""
    return next(kept for least, kept in _LOW_PASS if epsilon >= least)


def as_table(x: torch.Tensor, y: torch.Tensor) -> pa.Table:
    """Images in [0, 1] and labels as `SCHEMA` declares them."""
    return pa.table(
        {"image": tensor_array(x.numpy()), "label": [str(label) for label in y.tolist()]}
    )


def load_split(path: Path, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images in [0, 1] and labels of `"train"` or `"test"`."""
    with np.load(path, allow_pickle=False) as file:
        x, y = file[f"x_{split}"], file[f"y_{split}"]
    return torch.from_numpy(x).float() / 255, torch.from_numpy(y.astype(np.int64))


def run_images(
    path: Path,
    epsilon: float,
    settings: SlicedSettings,
    folder: Path | None = None,
    method: str = "moments",
    say: Callable[[str], None] = print,
    kept: Path | None = None,
) -> Outcome:
    """Fit, draw, train classifiers on the draws, test them; write a JSON row to `folder`."""
    started = time.perf_counter()
    table = as_table(*load_split(path, "train"))
    model = fit(table, SCHEMA, epsilon=epsilon, delta=DELTA, settings=settings)
    seconds = time.perf_counter() - started
    if kept is not None:
        model.save(kept)
    return judge(path, model, settings, seconds, folder, method, say)


def judge(
    path: Path,
    model: SlicedModel,
    settings: SlicedSettings,
    seconds: float,
    folder: Path | None,
    method: str = "moments",
    say: Callable[[str], None] = print,
) -> Outcome:
    """The row of a fitted model."""
    test_x, test_y = load_split(path, "test")
    scores = accuracies(model, test_x.numpy(), test_y.numpy(), settings.seed)
    outcome = Outcome(
        method,
        path.stem,
        settings.neighboring,
        model.guarantee.epsilon,
        model.guarantee.delta,
        settings.seed,
        model.plan.stddev,
        model.releases,
        model.plan.accounting.batch_size,
        settings.num_projections,
        settings.low_pass,
        settings.anchor,
        settings.dither,
        scores["logistic_regression"],
        scores["mlp"],
        round(seconds, 1),
    )
    say(
        f"{outcome.data} {method} {model.guarantee}: logistic regression "
        f"{outcome.logistic_regression:.3f}, MLP {outcome.mlp:.3f}"
    )
    if folder is not None:
        epsilon = model.made_with["epsilon"]
        name = f"{method}_{path.stem}_{settings.neighboring}_{epsilon:g}_{settings.seed}.json"
        write_row(folder / name, asdict(outcome))
    return outcome


def accuracies(
    model: SlicedModel,
    test_x: np.ndarray,
    test_y: np.ndarray,
    seed: int,
    count: int = NUM_SYNTHETIC,
) -> dict[str, float]:
    """Accuracy on real images of classifiers trained on `count` synthetic ones, by classifier."""
    labels = torch.arange(count) % 10
    rng = torch.Generator().manual_seed(seed)
    x = torch.cat([model.law.values(part, rng) for part in labels.split(_CHUNK)]).numpy()
    classifiers: dict[str, Any] = {
        "logistic_regression": LogisticRegression(max_iter=5000),
        "mlp": MLPClassifier(random_state=seed),
    }
    flat, test = x.reshape(len(x), -1), test_x.reshape(len(test_x), -1)
    return {
        name: round(float(classifier.fit(flat, labels.numpy()).score(test, test_y)), 4)
        for name, classifier in classifiers.items()
    }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, required=True, help="npz of x_train, y_train, …")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--neighboring", choices=("replace_one", "zero_out"), default="replace_one")
    parser.add_argument("--steps", type=int, default=_STEPS, help="releases; 15000 in minutes")
    parser.add_argument("--dither", type=float, default=0.2, help="noise on drawn pixels")
    parser.add_argument("--release", choices=("every_step", "once"), default="every_step")
    parser.add_argument("--low-pass", type=int, help="frequencies kept; by default they follow ε")
    parser.add_argument("--seed", type=int, default=0, help="of draws and classifiers")
    parser.add_argument("-o", "--output", type=Path, default=Path("sliced_images"))
    parser.add_argument("--model", type=Path, help="where to keep the model")


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    low_pass = chosen.low_pass or frequencies(chosen.epsilon)
    if chosen.release == "once":
        settings = single_recipe(low_pass, chosen.seed, chosen.dither)
    else:
        settings = recipe(
            chosen.epsilon, chosen.neighboring, chosen.steps, chosen.seed, chosen.dither
        )
        settings = replace(settings, low_pass=low_pass)
    method = "moments" if chosen.release == "every_step" else "once"
    run_images(chosen.data, chosen.epsilon, settings, chosen.output, method, kept=chosen.model)
