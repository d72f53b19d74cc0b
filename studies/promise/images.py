r"""Labeled images learned at the same ε where different parties are trusted.

    python -m studies promise.images mnist --data FOLDER -o images_mnist.json

- `local`: nobody is trusted; every report of an image with its label keeps ε (δ = 0).
- `shuffled`: all reports are mixed, and keep (ε, δ) together; the ε₀ of one by itself is in the row.
- `aggregated`: two servers sum products of frequencies and labels once, and each adds noise that is
  enough alone. Sums are those of `Encoder.contributions`, with **both noises drawn here**: no shares are
  sent, and the estimator is `privot.aggregated.fit`.
- `central`: a curator sees all images (`privot.central.fit`, in two rounds).

δ = 10^-6, the promise's least number of people is the number that there is. Logistic regression
(scikit-learn's, of at most 200 iterations) is trained on 20 000 draws of the model and judged on the
test set, as in `images.candidates`. `--held-out` learns from 50 000 training images and judges on the
other 10 000. Privacy's noise has no seed: numbers repeat up to its randomness.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import torch

import privot.central
from privot.aggregated import Encoder, SumRelease
from privot.aggregated import fit as fit_sums
from privot.demo.datasets import load_images
from privot.local import fit
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.models import Model
from privot.privacy.ledger import RepeatedRecords
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.columns.array import tensor_array, tensor_values
from studies.common.image_judge import linear_accuracy
from studies.common.rows import gather
from studies.images.candidates import SCHEMA
from studies.promise.places import DELTA, WHERE

_SAMPLES, _HELD_OUT = 20_000, 10_000


def measure(
    people: pa.Table,
    test: tuple[np.ndarray, np.ndarray],
    epsilon: float,
    wheres: list[str],
    seed: int,
    samples: int = _SAMPLES,
) -> Iterator[dict[str, Any]]:
    """A row for each place of trust: the accuracy of a linear classifier that draws have taught.

    Arguments:
        people: Images and labels, as `images.candidates` declares them.
        test: Images (n, 28, 28) of 0 to 255 and their labels (n,).
        epsilon: ε of the promise.
        wheres: Places of trust.
        seed: Seed of fits and draws.
        samples: Number of draws.
    """
    for where in wheres:
        started = process_time()
        model, made = learned(where, epsilon, people, seed)
        seconds = process_time() - started
        drawn = model.sample(samples, seed=seed)
        images, labels = (tensor_values(drawn["image"]), drawn["label"].to_pylist())
        accuracy = linear_accuracy(images, np.array(labels).astype(int), *test)
        row = {"where": where, "epsilon": epsilon, "people": people.num_rows, "seed": seed}
        result = {"accuracy": round(accuracy, 4), "cpu_seconds": round(seconds, 1)}
        yield row | result | made | {"guarantee": str(model.guarantee)}


def learned(
    where: str, epsilon: float, people: pa.Table, seed: int
) -> tuple[Model, dict[str, Any]]:
    """A model of images that this place of trust allows, and facts of how it was made."""
    promise: dict[str, Any] = {"epsilon": epsilon, "where": where}
    if where != "local":
        promise |= {"delta": DELTA, "people": people.num_rows}
    bare = Schema.from_toml(SCHEMA)
    schema = Schema.from_dict(bare.to_dict() | {"promise": promise})
    if where == "central":
        settings = privot.central.SumSettings(seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepeatedRecords)  # public records, as often as wanted
            return privot.central.fit(people, schema, method=settings), {}
    if where == "aggregated":
        encoder = Encoder.calibrate(schema)
        words = sum(chunk.sum(axis=0) for chunk in encoder.contributions(people))
        sums = np.asarray(words).view(np.int64)
        for _ in range(2):
            sums = sums + sample_rounded_gaussian(encoder.length, encoder.stddev)
        facts = {"counts": encoder.length, "leader_bytes": encoder.share_length("leader")}
        return fit_sums(SumRelease(encoder, {"simulated": people.num_rows}, sums)), facts
    randomizer = Randomizer.calibrate(schema)
    model = fit(randomizer.privatize(people), seed=seed)
    epsilon0 = {} if where == "local" else {"epsilon0": round(randomizer.report_law.epsilon0, 4)}
    return model, epsilon0


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("dataset", choices=["mnist", "fashion_mnist"])
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("--where", nargs="+", choices=WHERE, default=list(WHERE))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--held-out", action="store_true", help="judge by training images")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """One seed after another."""
    torch.set_num_threads(1)
    gather(_measured(chosen), chosen.output)


def _measured(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    data = load_images(chosen.dataset, chosen.data)
    x, y, test = data.x_train, data.y_train, (data.x_test, data.y_test)
    if chosen.held_out:
        x, y, test = x[:-_HELD_OUT], y[:-_HELD_OUT], (x[-_HELD_OUT:], y[-_HELD_OUT:])
    people = pa.table({"image": tensor_array(x), "label": [str(label) for label in y]})
    for seed in chosen.seeds:
        for row in measure(people, test, chosen.epsilon, chosen.where, seed):
            yield {"work": chosen.dataset, "held_out": chosen.held_out} | row
