r"""Domain adaptation to a private target: digits, rendered digits, features.

Target records are the **training** split without its labels, and private; accuracies are of the target's
**test** split. Pairs: `studies.sliced.pairs`.

Methods: `source` (nothing of the target), `sums` (`privot.central.adapt`), `sums_anyway` (the same where
it refuses to run), `sums_no_noise` (the same at ε = 10⁶: what noise costs), `dp_coral` (one noisy
mean and covariance for all classes), `dp_swd` (as published, noisy slices, source-branch gradient),
`dp_dann` (clipped, noised gradients), and without privacy `swd` (as published, both branches) and
`dann`. Every method has the same networks, the same changes of source images, and as many training
steps as ours in all its stages; private batches are a quarter of the target at most.

Rows are JSON files, one a run:

    {"pair", "method", "epsilon": what was spent (null without privacy, 0 for source), "delta",
     "neighboring", "seed", "accuracy": on the target's test split, "source_accuracy": on 2 000 source
     records (training ones), "releases", "target_records", "seconds": of one processor, "settings",
     "command"}; of a run that was refused before anything was spent, "refused" in place of accuracies.

**What was chosen how.** Settings of `sums`, and how source images are changed, were looked at on MNIST →
USPS with labels of USPS's *training* split, a dozen runs; they were then used unchanged for the other
pairs. No test split chose anything. Such looks are in no ε.

Usage:
    python -m studies sliced.adaptation --data DIR --pair usps_mnist --methods source sums -o out
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from privot.central import adapt
from privot.central.classifiers.adaptation import Adaptation
from privot.central.classifiers.adapted import AdaptationSettings, Classifier, as_records
from privot.core.errors import PrivotError
from privot.training.loop import train
from studies.common.rows import write_row
from studies.rivals.coral import fit_coral
from studies.rivals.dann import DANNSettings, fit_dann
from studies.rivals.joint_slices import JointSettings, align_slices, fit_joint
from studies.sliced.pairs import Pair, load_pair

EPSILON, DELTA = 10.0, 1e-5
METHODS = (
    "source", "sums", "sums_anyway", "sums_no_noise", "dp_coral", "dp_swd", "dp_dann", "swd", "dann",
)  # fmt: skip
_NO_NOISE = 1e6


def settings_for(pair: Pair, seed: int, epsilon: float = EPSILON) -> AdaptationSettings:
    """Settings of our adaptation; the other methods take networks, jitter and rates from them."""
    if pair.source_x.ndim == 3:
        return AdaptationSettings(epsilon=epsilon, unit="image", delta=DELTA, seed=seed)
    return AdaptationSettings(
        epsilon=epsilon,
        unit="record",
        delta=DELTA,
        directions=64,
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
    paid = {"epsilon": settings.epsilon, "delta": settings.delta}
    # As many steps as the rounds take in all.
    steps = settings.training_steps + settings.rounds * math.ceil(settings.training_steps / 2)
    if method == "source":
        return source_only(pair, settings, steps), spent | {"epsilon": 0.0}
    if method == "swd":
        joint = JointSettings(network=settings, steps=steps, num_projections=128)
        return align_slices(*data, joint), spent
    if method == "dp_coral":
        classifier, promise = fit_coral(*data, settings, steps)
        return classifier, paid | {"neighboring": promise.neighboring, "releases": 2}
    few = len(pair.target_x) // 4
    if method == "dp_swd":
        joint = JointSettings(
            network=settings,
            steps=steps,
            batch_size=min(JointSettings.batch_size, few),
            num_projections=min(JointSettings.num_projections, settings.feature_dim),
        )
        classifier, plan = fit_joint(*data, joint)
        return classifier, paid | {"neighboring": "replace_one", "releases": plan.steps}
    if method in ("dann", "dp_dann"):
        private = method == "dp_dann"
        dann = DANNSettings(
            settings,
            epsilon=settings.epsilon if private else None,
            delta=DELTA,
            steps=steps // 2 if private else steps,
            batch_size=min(64, few),
        )
        classifier, _ = fit_dann(*data, dann)
        told = paid | {"neighboring": "zero_out", "releases": dann.steps}
        return classifier, told if private else spent
    if method == "sums_no_noise":
        return adapt(*data, replace(settings, epsilon=_NO_NOISE)).classifier, spent
    most = math.inf if method == "sums_anyway" else settings.most_noise
    adapted = adapt(*data, replace(settings, most_noise=most))
    return adapted.classifier, {
        "epsilon": adapted.guarantee.epsilon,
        "delta": adapted.guarantee.delta,
        "neighboring": "replace_one",
        "releases": adapted.releases,
    }


def source_only(pair: Pair, settings: AdaptationSettings, steps: int) -> Classifier:
    """The classifier trained on the (changed) source alone."""
    course = Adaptation(pair.source_x, pair.source_y, settings)
    train(course.classifier, course.classify, settings.training(steps, 0))
    return course.classifier.eval()


def accuracy(classifier: Classifier, x: np.ndarray, y: np.ndarray) -> float:
    """Share of records that are classified rightly."""
    found = classifier.classes(as_records("x", x)).numpy()
    return round(float((found == y).mean()), 4)


def run_pair(
    pair: Pair, method: str, settings: AdaptationSettings, folder: Path, command: str
) -> dict[str, Any]:
    """Train one method, test it, write its row."""
    started = time.process_time()
    row: dict[str, Any] = {"pair": pair.name, "method": method, "seed": settings.seed}
    row["target_records"] = len(pair.target_x)
    try:
        classifier, spent = run_method(pair, method, settings)
    except PrivotError as error:
        row |= {"asked": settings.epsilon, "refused": str(error)}
    else:
        row |= spent | {
            "accuracy": accuracy(classifier, pair.test_x, pair.test_y),
            "source_accuracy": accuracy(classifier, pair.source_x[:2000], pair.source_y[:2000]),
        }
    row["seconds"] = round(time.process_time() - started, 1)
    row |= {"settings": asdict(settings), "command": command}
    write_row(folder / f"{pair.name}_{method}_{settings.epsilon:g}_{settings.seed}.json", row)
    return row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, required=True, help="folder of the npz files")
    parser.add_argument("--pair", default="mnist_usps")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["sums"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[EPSILON])
    parser.add_argument("-o", "--output", type=Path, default=Path("sliced_adaptation"))


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    torch.set_num_threads(1)
    pair = load_pair(chosen.data, chosen.pair)
    for method in chosen.methods:
        for epsilon in chosen.epsilons:
            for seed in chosen.seeds:
                settings = settings_for(pair, seed, epsilon)
                row = run_pair(pair, method, settings, chosen.output, chosen.command)
                row.pop("settings")
                print(json.dumps(row, ensure_ascii=False), flush=True)
