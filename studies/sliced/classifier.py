r"""Classifiers of digits, clothes and incomes by noisy sums, judged by test records.

`privot.central.fit_classifier` on all 60 000 training images, or, of a folder with Adult, on the 40 000
people and ten columns of `tables.adult`; δ = 1e-5. Accuracy is the share of test images, or of the other
people, whose label it predicts. Noise is secret and has no seed: `--seed` only names a run.

**What was chosen how.** Features, shares of the budget, the number of rounds and their step were
compared on 10 000 held-out *training* images of both data sets (`--held-out`), which is in no ε.

Usage:
    python -m studies sliced.classifier --data mnist.npz --epsilon 10 -o out
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pyarrow as pa

from privot.central import fit_classifier
from privot.schema import Schema
from studies.common.rows import write_row
from studies.sliced.images import DELTA, SCHEMA, as_table, load_split
from studies.tables.adult import PEOPLE, read_adult

_HELD_OUT = 10_000


def loaded(path: Path, held_out: bool) -> tuple[Schema, str, pa.Table, pa.Table]:
    """Schema, label, and the records to learn from and to be judged by."""
    if path.is_dir():
        schema, people = read_adult(path)
        return schema, "income", people.slice(0, PEOPLE), people.slice(PEOPLE)
    x, y = load_split(path, "train")
    test = load_split(path, "test")
    if held_out:
        test, (x, y) = (x[-_HELD_OUT:], y[-_HELD_OUT:]), (x[:-_HELD_OUT], y[:-_HELD_OUT])
    return SCHEMA, "label", as_table(x, y), as_table(*test)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "--data", type=Path, required=True, help="npz of x_train, …, or a folder with Adult"
    )
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--neighboring", default="replace_one", help="or zero_out")
    parser.add_argument("--held-out", action="store_true", help="judge by training images")
    parser.add_argument("--seed", type=int, default=0, help="number of the run: noise is secret")
    parser.add_argument("-o", "--output", type=Path, default=Path("classifiers"))


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    schema, label, table, test = loaded(chosen.data, chosen.held_out)
    started = time.process_time()
    model = fit_classifier(
        table,
        schema,
        label=label,
        epsilon=chosen.epsilon,
        delta=DELTA,
        neighboring=chosen.neighboring,
    )
    seconds = round(time.process_time() - started, 1)
    right = model.predict(test) == test[label].to_numpy()
    row = {
        "data": "adult" if chosen.data.is_dir() else chosen.data.stem,
        "epsilon": model.guarantee.epsilon,
        "delta": model.guarantee.delta,
        "neighboring": model.guarantee.neighboring,
        "seed": chosen.seed,
        "held_out": chosen.held_out,
        "releases": model.plan.uses,
        "accuracy": round(float(right.mean()), 4),
        "fit_seconds": seconds,
    }
    print(row)
    name = f"{row['data']}_{chosen.epsilon:g}_{chosen.neighboring}_{chosen.seed}.json"
    write_row(chosen.output / name, row)
