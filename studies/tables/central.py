"""Adult from a curator who sees every record, beside local reports at the same ε: another trust model.

    python -m venv central; central/bin/pip install dpmm==0.1.9
    python -m studies tables.central --python central/bin/python --data FOLDER -o central.json

40 000 people, the ten columns of `tables.adult`; total variation (TV) from these people's own shares,
means over columns and pairs. dpmm's AIM, MST and PrivBayes (`studies.rivals.central`) see the people's
codes, promise ε with δ = 10^-6, and are judged by 40 000 synthetic records, as are MargNet
(`studies.rivals.margnet`) and `privot.central.fit`; `privot.fit` sees reports alone, promises ε with
δ = 0 to each person before anything is sent, and is judged likewise. dpmm needs Python below 3.12 and
an environment of its own; without it its methods are left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import privot.central
from privot.evaluation.estimates import sampler_of
from privot.local import fit
from privot.randomizer import Randomizer
from privot.schema import Schema
from studies.common.rows import gather
from studies.rivals.central import MODELS, central, installed
from studies.rivals.margnet import margnet
from studies.tables.adult import PEOPLE, Drawn, marginal_errors, read_adult

_DELTA = 1e-6
_MARGNET = "MargNet"
_USUAL = ["MST", "PrivBayes", _MARGNET, "AIM, 100 steps"]  # AIM by its own settings takes hours


def compare(
    data: str, epsilon: float, python: Path | None, methods: list[str]
) -> Iterator[dict[str, Any]]:
    """Rows of one ε: ours, and those of a curator's methods."""
    schema, table = read_adult(data)
    people = table.slice(0, PEOPLE)
    codes = codes_in(schema, people)
    sizes = [column.alphabet.size for column in schema.coded.values()]

    def row(trust: str, name: str, drawn: np.ndarray, started: float) -> dict[str, Any]:
        one, two = marginal_errors(Drawn(drawn), codes, sizes)
        return {"epsilon": epsilon, "who sees records": trust, "estimator": name,
                "one_way": round(one, 4), "two_way": round(two, 4),
                "seconds": round(time.perf_counter() - started, 1)}  # fmt: skip

    started = time.perf_counter()
    model = fit(Randomizer.calibrate(schema, epsilon).privatize(people), seed=0)
    drawn = sampler_of(model).classes.sample(PEOPLE, np.random.default_rng(0))
    yield row("nobody", "latent classes (privot.fit)", drawn, started)
    started = time.perf_counter()
    anew = np.random.default_rng(0).integers(PEOPLE, size=PEOPLE)
    yield row("all", "their own records, drawn anew", codes[anew], started)
    started = time.perf_counter()
    held = privot.central.fit(people, schema, epsilon=epsilon, delta=_DELTA)
    drawn = codes_in(schema, held.sample(PEOPLE, seed=0))
    yield row("a curator", "mixture (privot.central.fit)", drawn, started)
    for method in methods:
        started = time.perf_counter()
        if method == _MARGNET:
            yield row("a curator", method, margnet(codes, sizes, epsilon, _DELTA), started)
        elif python is not None:
            made = central(python, method, codes, sizes, epsilon, _DELTA)
            yield row("a curator", f"dpmm {method}", made, started)


def codes_in(schema: Schema, table: pa.Table) -> np.ndarray:
    """Codes (n, columns) of records."""
    return np.stack([c.encode_codes(n, table) for n, c in schema.coded.items()], axis=1)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--python", type=Path, help="interpreter of an environment with dpmm")
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA", "."))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[8.0, 4.0, 2.0])
    parser.add_argument("--methods", nargs="+", choices=[*MODELS, _MARGNET], default=_USUAL)
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every ε."""
    python = chosen.python
    if python is None or not installed(python):
        print(f"{python}: no interpreter with dpmm: its methods are left out", file=sys.stderr)
        python = None
    rows = (
        row
        for epsilon in chosen.epsilons
        for row in compare(chosen.data, epsilon, python, chosen.methods)
    )
    gather(rows, chosen.output)
