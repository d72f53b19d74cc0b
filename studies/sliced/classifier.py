r"""Classifiers of digits and clothes by noisy sums, judged by test images.

`privot.central.fit_classifier` on all 60 000 training images, δ = 1e-5; the share of test images whose
label it predicts. Noise is secret and has no seed: `--seed` only names a run.

**What was chosen how.** Features, shares of the budget, the number of rounds and their step were
compared on 10 000 held-out *training* images of both data sets (`--held-out`), which is in no ε.

Usage:
    python -m studies sliced.classifier --data mnist.npz --epsilon 10 -o out
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from privot.central import fit_classifier
from studies.common.rows import write_row
from studies.sliced.images import DELTA, SCHEMA, as_table, load_split

_HELD_OUT = 10_000


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, required=True, help="npz of x_train, y_train, …")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--neighboring", default="replace_one", help="or zero_out")
    parser.add_argument("--held-out", action="store_true", help="judge by training images")
    parser.add_argument("--seed", type=int, default=0, help="number of the run: noise is secret")
    parser.add_argument("-o", "--output", type=Path, default=Path("classifiers"))


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    x, y = load_split(chosen.data, "train")
    test = load_split(chosen.data, "test")
    if chosen.held_out:
        test, (x, y) = (x[-_HELD_OUT:], y[-_HELD_OUT:]), (x[:-_HELD_OUT], y[:-_HELD_OUT])
    table = as_table(x, y)
    started = time.process_time()
    model = fit_classifier(
        table, SCHEMA, epsilon=chosen.epsilon, delta=DELTA, neighboring=chosen.neighboring
    )
    seconds = round(time.process_time() - started, 1)
    predicted = model.predict(as_table(*test)).astype(np.int64)
    row = {
        "data": chosen.data.stem,
        "epsilon": model.guarantee.epsilon,
        "delta": model.guarantee.delta,
        "neighboring": model.guarantee.neighboring,
        "seed": chosen.seed,
        "held_out": chosen.held_out,
        "releases": model.plan.uses,
        "accuracy": round(float((predicted == test[1].numpy()).mean()), 4),
        "fit_seconds": seconds,
    }
    print(row)
    name = f"{row['data']}_{chosen.epsilon:g}_{chosen.neighboring}_{chosen.seed}.json"
    write_row(chosen.output / name, row)
