"""A small campaign, and any number of its reports."""

import zlib

import numpy as np

from privot import Randomizer, Schema
from privot.collector.arrivals import Campaign
from privot.device import Device, Report

SCHEMA = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [0, 80]
bins = 8
[columns.sex]
kind = "categorical"
categories = ["F", "M"]
[columns.region]
kind = "categorical"
categories = ["a", "b", "c", "d", "e"]
""")
RANDOMIZER = Randomizer.calibrate(SCHEMA, 4.0)
TEXT = RANDOMIZER.to_json() + "\n"
CAMPAIGN = Campaign(TEXT.encode())
DEVICE = Device.from_json(TEXT)
BATCH = {"content-type": "application/vnd.privot.batch"}
_PERSON = {"age": 31, "sex": "F", "region": "c"}


def made(count, seed=None):
    """Reports of devices; many share a payload, none an id."""
    drawn = [DEVICE.report(_PERSON) for _ in range(min(count, 50))]
    rng = np.random.default_rng(seed)
    ids = rng.bytes(16 * count)
    return [
        Report(each.fingerprint, ids[16 * i : 16 * i + 16], each.time, each.payload).to_bytes()
        for i, each in ((i, drawn[i % len(drawn)]) for i in range(count))
    ]


def changed(report, rng=None):
    """Another report of the same id."""
    read, others = (
        Report.from_bytes(report),
        (DEVICE.report(_PERSON).payload for _ in range(10_000)),
    )
    payload = next(each for each in others if each != read.payload)
    return Report(read.fingerprint, read.id, read.time, payload).to_bytes()


def later(report):
    """The same, an hour later."""
    read = Report.from_bytes(report)
    return Report(read.fingerprint, read.id, read.time + 1, read.payload).to_bytes()


def resealed(data):
    """The same with a checksum that is right."""
    return data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "big")


def rows(reports):
    """Records, as the only argument of `append`."""
    return (np.frombuffer(b"".join(reports), np.uint8).reshape(len(reports), -1),)


def ids_of(reports):
    return {report[33:49] for report in reports}
