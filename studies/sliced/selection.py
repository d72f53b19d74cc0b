r"""Choosing the public settings of noisy slices on held-out training images.

50 000 training images are fitted, 10 000 judge; test images are not touched. Fits are simulated: the
pooled mean is the true one of the 50 000 plus Gaussian noise of the error that the plan states
(`privot.sliced.loss.noise_stddev`), which is what a fit gives within a tenth and costs
seconds instead of minutes. So nothing here is private: it is a curator's rehearsal, and its looks at
data are in no ε.

Usage:
    python -m studies sliced.selection --data mnist.npz --epsilon 10 \
        --low-pass 7 10 --anchor 3 5 --dither 0.1 0.2 0.35 -o mnist.json
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privot.sliced import SlicedModel, SlicedSettings, SlicePlan, records_of
from privot.sliced.factors import estimate_factors
from privot.sliced.loss import PooledMean, noise_stddev
from privot.sliced.records import Records
from studies.common.rows import write_rows
from studies.sliced.images import (
    DELTA,
    SCHEMA,
    accuracies,
    load_split,
    recipe,
    single_recipe,
)

_HELD_OUT = 10_000
_CHUNK = 2000


class Rehearsal(PooledMean):
    """A pooled mean whose error was added to the truth at once."""

    def __init__(self, plan: SlicePlan, truth: Tensor, rng: torch.Generator) -> None:
        super().__init__(plan)
        self._stated = noise_stddev(plan)
        self.mean = truth + self._stated * torch.randn(truth.shape, generator=rng)
        self.bias.zero_()

    @property
    def stddev(self) -> float:
        """What the plan states."""
        return self._stated


def mean_record(x: Tensor, y: Tensor, records: Records) -> Tensor:
    """The true mean record (d,) of images and labels."""
    total = torch.zeros(records.num_labels, records.width, dtype=torch.float64)
    for label in range(records.num_labels):
        for part in x[y == label].split(_CHUNK):
            total[label] += records.features(records.prepare(part).double()).sum(dim=0)
    return (total / len(x)).flatten().float()


def compare(
    path: Path, epsilon: float, settings: SlicedSettings, dithers: Sequence[float], count: int
) -> list[dict[str, Any]]:
    """Held-out accuracies of every dither, from `count` synthetic images each."""
    x, y = load_split(path, "train")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(settings.seed))
    held, kept = order[:_HELD_OUT], order[_HELD_OUT:]
    records = records_of(SCHEMA, **settings.features)
    images = records.squared_images
    assert images is not None
    plan = settings.plan(epsilon, DELTA, len(kept), records)
    rng = torch.Generator().manual_seed(settings.seed)
    pooled = Rehearsal(plan, mean_record(x[kept], y[kept], records), rng)
    rows = []
    for dither in dithers:
        law = estimate_factors(pooled, images, dither)
        model = SlicedModel(law, records, plan, 0, {})
        scores = accuracies(model, x[held].numpy(), y[held].numpy(), settings.seed, count)
        rows.append(
            {
                "data": path.stem,
                "epsilon": epsilon,
                "release": settings.release,
                "low_pass": settings.low_pass,
                "anchor": settings.anchor,
                "dither": dither,
                "error": pooled.stddev,
            }
            | scores
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, required=True, help="npz of x_train, y_train")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--neighboring", choices=("replace_one", "zero_out"), default="replace_one")
    parser.add_argument("--release", choices=("every_step", "once"), default="every_step")
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--low-pass", type=int, nargs="+", default=[7, 10])
    parser.add_argument("--anchor", type=float, nargs="+", default=[3.0, 5.0])
    parser.add_argument("--dither", type=float, nargs="+", default=[0.1, 0.2, 0.35])
    parser.add_argument("--count", type=int, default=10_000, help="synthetic images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("sliced_selection.json"))


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    rows = []
    for low_pass, anchor in itertools.product(chosen.low_pass, chosen.anchor):
        settings = (
            single_recipe(low_pass, chosen.seed)
            if chosen.release == "once"
            else recipe(chosen.epsilon, chosen.neighboring, chosen.steps, chosen.seed)
        )
        settings = replace(settings, low_pass=low_pass, anchor=anchor)
        rows += compare(chosen.data, chosen.epsilon, settings, chosen.dither, chosen.count)
    best = max(rows, key=lambda row: float(np.mean([row["logistic_regression"], row["mlp"]])))
    print(f"best: {best}")
    write_rows(chosen.output, rows)
