r"""Vectors: a stream of words, a record, and what a device must make of them.

Words of a vector are those that it lists, then SplitMix64's from its seed: with all arithmetic modulo
$2^{64}$, the state grows by 9e3779b97f4a7c15, and the word is z of

    z = state;  z = (z ^ z >> 30) * bf58476d1ce4e5b9
    z = (z ^ z >> 27) * 94d049bb133111eb;  z ^= z >> 31

(It makes tests repeatable, and is no generator for noise.) Listed words are often those at which a draw
changes its mind: 0, all ones, each threshold of the program and its neighbors, limits of rejections.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any

from conformance.campaigns import CAMPAIGNS, Campaign
from conformance.records import grids_of, values_of, wrong_records
from privot.core.errors import PrivotError
from privot.device import Device
from privot.wire.draws import WORDS, NextWord, Response, joint_draws, split_draws

FOLDER = Path(__file__).parent / "vectors"
PER_CAMPAIGN, WRITTEN_OUT, MOST_OUTSIDE = 380, 20, 60
NOW = 1_785_000_000  # seconds since 1970


def words(listed: list[str], seed: int) -> NextWord:
    """The words of a vector."""
    return chain((int(word, 16) for word in listed), split_mix(seed)).__next__


def split_mix(state: int) -> Iterator[int]:
    """SplitMix64."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) % WORDS
        z = state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORDS
        z = (z ^ z >> 27) * 0x94D049BB133111EB % WORDS
        yield z ^ z >> 31


def expected(device: Device, vector: dict[str, Any]) -> str:
    """The report of a vector, in hexadecimal, by the Python device."""
    word = words(vector["words"], vector["seed"])
    return device.report(vector["record"], word=word, now=vector["now"]).to_bytes().hex()


def digest(report: str) -> str:
    """The first 16 digits of SHA-256 of a report's bytes: what most vectors hold."""
    return hashlib.sha256(bytes.fromhex(report)).hexdigest()[:16]


def is_met(device: Device, vector: dict[str, Any]) -> bool:
    """Whether a device makes of a vector what it says."""
    report = expected(device, vector)
    return report == vector["report"] if "report" in vector else digest(report) == vector["digest"]


def is_refused(device: Device, record: dict[str, Any]) -> bool:
    """Whether a device refuses a record before it draws anything."""
    try:
        device.report(record, word=iter(()).__next__)
    except (PrivotError, StopIteration) as error:
        return isinstance(error, PrivotError)
    return False


def write() -> None:
    """Write all files of the suite."""
    for campaign in CAMPAIGNS:
        text = "\n".join(_lines(campaign))
        (FOLDER / f"{campaign.name}.json").write_text(text + "\n", encoding="utf-8")


def _lines(campaign: Campaign) -> Iterator[str]:
    randomizer = campaign.randomizer()
    device = Device.from_json(randomizer.to_json())
    rng = random.Random(campaign.name)
    takes = device.program["columns"]
    grids = grids_of(device.program)
    edges = sorted(_thresholds(device.program))
    vectors: list[str] = []
    refused: list[dict[str, Any]] = []
    for index in count():
        if len(vectors) == PER_CAMPAIGN:
            break
        record = {}
        for name, take in takes.items():
            record |= values_of(take, grids[name], rng)
        listed = [_word(edges, rng) for _ in range(rng.choice((0, 0, 1, 3, 8)))]
        vector = {
            "words": listed,
            "seed": index,
            "now": NOW + rng.randrange(10**7),
            "record": record,
        }
        try:
            report = expected(device, vector)
        except PrivotError:  # a value is out of bounds
            refused.append(record)
            continue
        possible = record
        vector |= {"report": report} if index < WRITTEN_OUT else {"digest": digest(report)}
        vectors.append(json.dumps(vector))
    refused = [*refused[:MOST_OUTSIDE], *wrong_records([*takes.values()], possible)]
    yield '{"randomizer": ' + json.dumps(randomizer.to_json()) + ","
    yield '"vectors": ['
    yield ",\n".join(vectors)
    yield '], "refused": ['
    yield ",\n".join(dict.fromkeys(map(json.dumps, refused)))
    yield "]}"


def _word(edges: list[int], rng: random.Random) -> str:
    word = (
        rng.choice(edges) + rng.choice((-1, 0, 0, 1)) if rng.random() < 0.6 else rng.getrandbits(64)
    )
    return f"{word % WORDS:016x}"


def _thresholds(program: Any) -> set[int]:
    """Return 0, two limits of rejections, and the words at which any draw of a program changes."""
    draws = [draw for _, draw in split_draws(program)]
    draws += joint_draws(program).values() if program["joint"] else []
    found = {0, WORDS - WORDS % 3, WORDS - WORDS % 1000}
    for draw in draws:
        numbers = [getattr(draw, name) for name in draw.in_hexadecimal]
        found |= {number for number in numbers if isinstance(number, int)}
        if isinstance(draw, Response):
            found.add(draw.slot * (draw.values - 1))
    return found
