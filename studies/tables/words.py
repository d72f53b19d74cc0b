"""Words that nobody listed: how many of the frequent ones a pilot finds, and how many false ones.

    python -m studies tables.words -o words.json

People answer one word by their frequencies in a public list: first names of the census of the United
States (of both sexes; PyPI `names`), or places of Great Britain by population (those of the demo).
`unlisted` is a search without any list; `listed` tries both lists, some 10 000 words, and finds others
as well. A row has the number of words that at least 0.5 % of the people sent, those found among them,
all found, and the false: words that nobody sent. Privacy's noise has no seed, so numbers repeat up to
its randomness.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv

from privot.core.errors import PrivotError
from privot.demo import datasets
from privot.local.words import find_words
from privot.randomizer import Randomizer, count
from privot.schema import Schema
from studies.common.rows import gather

SCHEMA = 'columns.word = { kind = "word", out_of_bounds = "clip" }'
_FREQUENT = 0.005
_SETTINGS = ((200_000, 4.0), (50_000, 4.0), (200_000, 2.0), (200_000, 1.0))


def first_names() -> dict[str, float]:
    """Frequencies of the census's first names."""
    found = importlib.util.find_spec("names")
    if found is None or found.origin is None:
        raise PrivotError("package 'names' is missing: pip install names")
    shares: dict[str, float] = {}
    for sex in ("male", "female"):
        text = Path(found.origin).with_name(f"dist.{sex}.first").read_text()
        for name, share, *_ in map(str.split, text.splitlines()):
            shares[name.lower()] = shares.get(name.lower(), 0.0) + float(share)
    return shares


def places() -> dict[str, float]:
    """Populations of places whose names a word column can have."""
    column = Schema.from_toml('columns.word.kind = "word"').words["word"]
    table = pyarrow.csv.read_csv(Path(datasets.__file__).with_name("places.csv"))
    shares: dict[str, float] = {}
    for row in table.to_pylist():
        name = row["name"].lower()
        if column.symbols(name) is not None:
            shares[name] = shares.get(name, 0.0) + row["population"]
    return shares


def rows(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Each setting, list and seed."""
    lists = {"names": first_names(), "places": places()}
    public = sorted({word for shares in lists.values() for word in shares})
    for number, (people, epsilon) in enumerate(_SETTINGS):
        randomizer = Randomizer.calibrate(Schema.from_toml(SCHEMA), epsilon)
        for kind, shares in lists.items():
            for seed in chosen.seeds if number == 0 else chosen.seeds[:1]:
                rng = np.random.default_rng(seed)
                weights = np.array([*shares.values()])
                drawn = rng.choice(
                    len(shares), round(people * chosen.scale), p=weights / weights.sum()
                )
                sent = np.array([*shares])[drawn]
                words, times = np.unique(sent, return_counts=True)
                frequent = {*words[times >= _FREQUENT * len(sent)].tolist()}
                counts = count(randomizer.privatize({"word": sent}))
                row: dict[str, Any] = {
                    "list": kind,
                    "people": len(sent),
                    "epsilon": epsilon,
                    "seed": seed,
                }
                row["frequent"] = len(frequent)
                for search, tried in (("unlisted", []), ("listed", public)):
                    started = time.process_time()
                    found = {word.word for word in find_words(counts, "word", tried)}
                    row |= {
                        search: len(frequent & found),
                        f"{search}_all": len(found),
                        f"{search}_false": len(found - {*words.tolist()}),
                        f"{search}_seconds": round(time.process_time() - started, 1),
                    }
                yield row


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the people, for trials")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """All of it."""
    gather(rows(chosen), chosen.output)
