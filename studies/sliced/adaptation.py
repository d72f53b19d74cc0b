r"""Domain adaptation to a private target: digits, and office objects through GoogLeNet features.

Target records are the **training** split without its labels, and private; accuracies are of the target's
**test** split. Pairs:

- `mnist_usps`, `usps_mnist`: 16 × 16 grey values in [0, 1]; MNIST is resized from 28 × 28 by area-aware
  bilinear interpolation, nothing is cropped or centered.
- `amazon_dslr`, … (Office-Caltech10 in place of Office-31): 1024 features after a rectifier, every
  record divided by its norm and multiplied by 10 (a function of the record alone). These domains have no
  splits: a public random half (seed 0) of the target is private, the other half tests.

Methods: `source` (nothing of the target), `dp_swd` (`privot.sliced.adapt`: rounds with an adapter),
`dp_swd_joint` (as published, source-branch gradient), and without privacy `swd` (as published, both
branches), `means` (our rounds without noise), `dann`; `dp_dann` with clipped, noised gradients. Every
method has the same networks, the same jitter of source images, and the same steps on the source
where it trains in one go.

Rows are JSON files, one a run:

    {"pair", "method", "epsilon": what was spent (null without privacy, 0 for source), "delta",
     "neighboring", "seed", "accuracy": on the target's test split, "source_accuracy": on 2 000 source
     records (training ones), "releases", "stddev", "target_records", "seconds", "settings", "command"}

**What was chosen how.** Settings of `dp_swd` were looked at on MNIST → USPS with labels of USPS's
training split, a handful of runs (number of rounds); they were then used unchanged for USPS → MNIST.
No test split chose anything. Such looks are in no ε.

Usage:
    python -m studies sliced.adaptation --data DIR --pair usps_mnist --method dp_swd -o out
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from privot.errors import PrivotError
from privot.sliced import AdaptationSettings, adapt
from privot.sliced.adaptation.classifier import Classifier, as_records
from privot.sliced.adaptation.rounds import Course
from privot.training import TrainingSettings, train
from studies.common.rows import write_row
from studies.rivals.dann import DANNSettings, fit_dann
from studies.rivals.public_alignment import align_means, align_slices

EPSILON, DELTA = 10.0, 1e-5
SIDE = 16
OFFICE = ("amazon", "dslr", "webcam")
METHODS = ("source", "dp_swd", "dp_swd_joint", "swd", "means", "dann", "dp_dann")
_OFFICE_NORM = 10.0


@dataclass(frozen=True, eq=False)
class Pair:
    """A public source, a private target and its test split."""

    name: str
    source_x: np.ndarray
    source_y: np.ndarray
    target_x: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load_pair(folder: Path, name: str) -> Pair:
    """Read a pair from `mnist.npz` and `usps.npz`, or `office_caltech10_features.npz`."""
    source, _, target = name.partition("_")
    if {source, target} == {"mnist", "usps"}:
        with np.load(folder / f"{source}.npz", allow_pickle=False) as file:
            public = images(file["x_train"]), file["y_train"].astype(np.int64)
        with np.load(folder / f"{target}.npz", allow_pickle=False) as file:
            test_y = file["y_test"].astype(np.int64)
            return Pair(name, *public, images(file["x_train"]), images(file["x_test"]), test_y)
    if source == target or source not in OFFICE or target not in OFFICE:
        raise PrivotError(f"pair {name!r}: give mnist_usps, usps_mnist, or two of {OFFICE}")
    with np.load(folder / "office_caltech10_features.npz", allow_pickle=False) as file:
        x = {domain: file[f"{domain}_googlenet1024"] for domain in (source, target)}
        y = {domain: file[f"{domain}_y"].astype(np.int64) for domain in (source, target)}
    unit = {k: _OFFICE_NORM * v / np.linalg.norm(v, axis=1, keepdims=True) for k, v in x.items()}
    order = np.random.default_rng(0).permutation(len(unit[target]))
    private, test = np.array_split(order, 2)
    tests = unit[target][test], y[target][test]
    return Pair(name, unit[source], y[source], unit[target][private], *tests)


def images(pixels: np.ndarray) -> np.ndarray:
    """Grey values (n, 16, 16) in [0, 1]."""
    x = torch.from_numpy(pixels).float()[:, None] / 255
    if x.shape[-1] != SIDE:
        x = torch.nn.functional.interpolate(
            x, (SIDE, SIDE), mode="bilinear", antialias=True, align_corners=False
        )
    return np.asarray(x[:, 0].clamp(0, 1).numpy())


def settings_for(pair: Pair, seed: int) -> AdaptationSettings:
    """Settings of our adaptation; the other methods take networks, jitter and rates from them."""
    if pair.source_x.ndim == 3:
        return AdaptationSettings(epsilon=EPSILON, unit="image", delta=DELTA, seed=seed)
    return AdaptationSettings(
        epsilon=EPSILON,
        unit="record",
        delta=DELTA,
        steps=300,
        batch_size=16,
        num_projections=32,
        rounds=1,
        training_steps=400,
        jitter=0.0,
        feature_dim=16,
        channels=(),
        hidden=(64,),
        source_batch=64,
        averaging=0.98,
        seed=seed,
    )


def run_method(
    pair: Pair, method: str, settings: AdaptationSettings
) -> tuple[Classifier, dict[str, Any]]:
    """Train; the classifier and what was spent of the target."""
    data = pair.source_x, pair.source_y, pair.target_x
    spent: dict[str, Any] = {"epsilon": None, "delta": None, "neighboring": None}
    # As many steps on the source as the rounds take in all.
    steps = settings.training_steps + settings.rounds * (settings.training_steps // 2)
    if method == "source":
        return source_only(pair, settings, steps), spent | {"epsilon": 0.0}
    if method == "swd":
        joint = replace(settings, steps=steps, num_projections=128)
        return align_slices(*data, joint), spent
    if method == "means":
        return align_means(*data, settings), spent
    if method in ("dann", "dp_dann"):
        private = method == "dp_dann"
        dann = DANNSettings(
            settings,
            epsilon=EPSILON if private else None,
            delta=DELTA,
            steps=steps // 2 if private else steps,
            batch_size=min(64, len(pair.target_x) // 4),
        )
        classifier, stddev = fit_dann(*data, dann)
        if private:
            spent = {"epsilon": EPSILON, "delta": DELTA, "neighboring": "zero_out"}
            spent |= {"stddev": stddev, "releases": dann.steps}
        return classifier, spent
    if method == "dp_swd_joint":
        settings = replace(settings, alignment="joint", steps=steps)
    adapted = adapt(*data, settings)
    return adapted.classifier, {
        "epsilon": adapted.guarantee.epsilon,
        "delta": adapted.guarantee.delta,
        "neighboring": settings.neighboring,
        "releases": adapted.releases,
        "stddev": adapted.plan.stddev,
    }


def source_only(pair: Pair, settings: AdaptationSettings, steps: int) -> Classifier:
    """The classifier trained on the (jittered) source alone."""
    course = Course.of(pair.source_x, pair.source_y, settings)
    how = TrainingSettings(steps, settings.learning_rate, settings.averaging, settings.seed)
    train(course.classifier, course.classify, how)
    return course.classifier.eval()


@torch.no_grad()
def accuracy(classifier: Classifier, x: np.ndarray, y: np.ndarray) -> float:
    """Share of records that are classified rightly."""
    found = [classifier(part).argmax(dim=1) for part in as_records("x", x).split(2000)]
    return round(float((torch.cat(found).numpy() == y).mean()), 4)


def run_pair(pair: Pair, method: str, seed: int, folder: Path, command: str) -> dict[str, Any]:
    """Train one method, test it, write its row."""
    settings = settings_for(pair, seed)
    started = time.perf_counter()
    classifier, spent = run_method(pair, method, settings)
    seconds = round(time.perf_counter() - started, 1)
    row = {"pair": pair.name, "method": method, **spent, "seed": seed}
    row |= {
        "accuracy": accuracy(classifier, pair.test_x, pair.test_y),
        "source_accuracy": accuracy(classifier, pair.source_x[:2000], pair.source_y[:2000]),
        "target_records": len(pair.target_x),
        "seconds": seconds,
        "settings": asdict(settings),
        "command": command,
    }
    write_row(folder / f"{pair.name}_{method}_{seed}.json", row)
    return row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, required=True, help="folder of the npz files")
    parser.add_argument("--pair", default="mnist_usps")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["dp_swd"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("sliced_adaptation"))


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    torch.set_num_threads(1)
    pair = load_pair(chosen.data, chosen.pair)
    for method in chosen.methods:
        for seed in chosen.seeds:
            row = run_pair(pair, method, seed, chosen.output, chosen.command)
            row.pop("settings")
            print(json.dumps(row), flush=True)
