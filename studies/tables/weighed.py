"""Two phases on the census: what it is worth that the others are asked the pairs that depend more often.

    python -m studies tables.weighed ten --epsilon 4 --releases 10 --data FOLDER -o weighed.json

A fifth of the 40 000 people of `tables.adult` report first, in the forms that calibration chooses; the
others either in the same, or in forms weighed by the pilot model's pairs
(`privot.randomizer.weight_pairs`, `privot.local.pair_weights`). Both releases are fitted together.
Errors are total variation from the 40 000 people's own shares. Each release draws anew who is first;
privacy's noise has no seed, so numbers repeat up to its randomness.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privot.local import LocalModel, fit, pair_weights
from privot.local.classes.mixture import LatentClassSampler
from privot.randomizer import Randomizer, weight_pairs
from studies.common.rows import gather
from studies.tables.adult import PEOPLE, marginal_errors, read_adult


def both_ways(plain: Randomizer, people: pa.Table, seed: int) -> Iterator[tuple[str, LocalModel]]:
    """Models of one pilot and the others asked by default, and by its model's pairs."""
    order = np.random.default_rng(seed).permutation(people.num_rows)
    first, others = np.split(order, [people.num_rows // 5])
    pilot = plain.privatize(people.take(first))
    weighed = weight_pairs(plain, pair_weights(fit(pilot, seed=seed)))
    for name, randomizer in (("default", plain), ("weighed", weighed)):
        yield name, fit([pilot, randomizer.privatize(people.take(others))], seed=seed)


def rows(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every release, twice."""
    schema, table = read_adult(chosen.data, chosen.columns)
    people = table.slice(0, PEOPLE)
    codes = np.stack([c.encode_codes(n, people) for n, c in schema.coded.items()], axis=1)
    plain = Randomizer.calibrate(schema, chosen.epsilon)
    sizes = [c.alphabet.size for c in plain.schema.coded.values()]
    for seed in range(chosen.releases):
        for name, model in both_ways(plain, people, seed):
            assert isinstance(model.sampler, LatentClassSampler)
            one, two = marginal_errors(model.sampler.classes, codes, sizes)
            told = {"columns": chosen.columns, "epsilon": chosen.epsilon, "seed": seed}
            yield told | {"forms": name, "one_way": round(one, 4), "two_way": round(two, 4)}


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("columns", choices=("ten", "all"))
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA", "."))
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """All of it."""
    gather(rows(chosen), chosen.output)
