"""Vectors of shares: a record, an id and a seed, and what a device must send to each of two servers.

The Python side is `privot.aggregated.Encoder` as it is, but for its source of random bytes, which gives
the id and the seed of each vector in turn; with proofs the seed is all that a report draws. Records are
taken from a table, as in a simulation, so a client that meets the vectors takes values as tables do.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from conformance.campaigns import (
    AGE,
    BOX,
    CENTS,
    DATE,
    DISK,
    ENDS,
    NULL,
    NUMBER,
    PET,
    SEX,
    STEPS,
    WORK,
    YES,
    listed,
    vector,
)
from conformance.records import grids_of, multiple, values_of, wrong_records
from privot.aggregated import Encoder
from privot.core.errors import PrivotError
from privot.schema import Schema

FOLDER = Path(__file__).parent / "shares"
PER_ENCODER, PER_PROVER, MOST_OUTSIDE = 60, 12, 20
_PROMISE = '[promise]\nepsilon = 2\nwhere = "aggregated"\ndelta = 1e-6\npeople = {}\n'
# By name of a file: columns, and the least number of people, by which cells of places become finer.
# Shares of `proofs_` have proofs.
SUITES: dict[str, tuple[dict[str, str], int]] = {
    "proofs_few": ({"yes": YES, "sex": SEX, "sure": YES}, 10_000),
    "proofs_numbers": ({"age": AGE, "n": NUMBER + NULL, "paid": CENTS + NULL}, 10_000),
    "proofs_cells": ({"home": DISK + "bins = 10\n", "sex": SEX, "7": YES, "2": YES}, 10_000),
    "proofs_line": ({"p": vector(1, "bounds = [[0.1, 6]]")}, 5_000),
    "proofs_map": ({"home": BOX + NULL}, 5_000),
    "pairs_two": ({"yes": YES, "sex": SEX}, 10_000),
    "pairs_texts": ({"pet": PET, "work": WORK, "sure": YES + NULL}, 10_000),
    "pairs_numbers": ({"age": AGE, "n": NUMBER + NULL, "paid": CENTS + NULL}, 10_000),
    "pairs_steps": ({"day": STEPS, "ends": ENDS, "seen": DATE + NULL}, 10_000),
    "pairs_cells": ({"home": DISK + "bins = 10\n", "sex": SEX, "7": YES, "2": YES}, 10_000),
    "pairs_wide": ({"c": listed(150), "yes": YES}, 100_000),
    "levels_line": ({"p": vector(1, "bounds = [[0.1, 6]]")}, 5_000),
    "levels_map": ({"home": BOX}, 5_000),
    "levels_fine": ({"home": BOX + NULL}, 200_000),
    "levels_space": ({"p": vector(3, "bounds = [[0, 1], [0, 2], [-4, 4]]")}, 20_000),
}


def encoder_of(name: str) -> Encoder:
    """The encoder of a file of this name, whose campaign is named after it."""
    columns, people = SUITES[name]
    text = "\n".join(f"[columns.{column}]\n{fields}" for column, fields in columns.items())
    schema = Schema.from_toml(f"{text}\n{_PROMISE.format(people)}")
    stddev, proofs = Encoder.calibrate(schema).stddev, name.startswith("proofs_")
    return Encoder(schema, stddev, proofs, f"conformance {name}")


def digests(encoder: Encoder, vectors: list[dict[str, Any]]) -> list[dict[str, str]]:
    """SHA-256 of the shares of each vector, for the leader and for the helper."""
    drawn = (bytes.fromhex(each[name]) for each in vectors for name in ("id", "seed"))
    table = pa.Table.from_pylist([each["record"] for each in vectors])
    with patch("privot.aggregated.shares.secrets.token_bytes", lambda count: next(drawn)):
        shares = [*encoder.encode_table(table)]
    found = ([hashlib.sha256(share).hexdigest() for share in pair] for pair in shares)
    return [{"leader": leader, "helper": helper} for leader, helper in found]


def check(path: Path) -> tuple[int, int]:
    """How many vectors of a file the Python encoder meets, and of how many."""
    suite = json.loads(path.read_text(encoding="utf-8"))
    encoder, vectors = Encoder.from_json(suite["encoder"]), suite["vectors"]
    found = zip(digests(encoder, vectors), vectors, strict=True)
    return sum(shares.items() <= each.items() for shares, each in found), len(vectors)


def write() -> None:
    """Write all files of shares."""
    for name in SUITES:
        (FOLDER / f"{name}.json").write_text("\n".join(_lines(name)) + "\n", encoding="utf-8")


def _lines(name: str) -> Iterator[str]:
    encoder, rng = encoder_of(name), random.Random(name)
    program = json.loads(encoder.to_json())["device"]
    takes = program["columns"]
    grids = grids_of(program | {"joint": None, "split": None})
    if "levels" in program:
        level = program["levels"]
        grids = {level["column"]: partial(multiple, 2 ** level["halvings"][-1], 0)}
    count, seed = (PER_PROVER, encoder.prio3.rand_size) if encoder.proofs else (PER_ENCODER, 32)
    vectors, refused = [], []
    while len(vectors) < count:
        record: dict[str, Any] = {}
        for column, take in takes.items():
            record |= values_of(take, grids[column], rng)
        drawn = {"id": rng.randbytes(16).hex(), "seed": rng.randbytes(seed).hex()}
        try:
            encoder.schema.check_table(pa.Table.from_pylist([record]), "refuse")
        except PrivotError:  # a value is out of bounds
            refused.append(record)
            continue
        vectors.append({"record": record} | drawn)
    yield '{"encoder": ' + json.dumps(encoder.to_json()) + ',\n"vectors": ['
    found = zip(vectors, digests(encoder, vectors), strict=True)
    yield ",\n".join(json.dumps(vector | shares) for vector, shares in found)
    yield '], "refused": ['
    refused = [*refused[:MOST_OUTSIDE], *wrong_records([*takes.values()], vectors[-1]["record"])]
    yield ",\n".join(dict.fromkeys(map(json.dumps, refused)))
    yield "]}"
