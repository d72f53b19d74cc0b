"""What devices sent becomes the release that the library would have made, or is put aside."""

import datetime as dt
import json
import random

import numpy as np
import pyarrow as pa
import pytest

from conformance.campaigns import CAMPAIGNS
from conformance.vectors import FOLDER, split_mix
from privot import Randomizer, Schema
from privot.audit.statistics import uniformity
from privot.collector.collecting import collect
from privot.core.errors import PrivotError
from privot.device import Device, Report
from privot.randomizer.reports.payloads import Payloads

PERSON = {"sex": "f", "age": 40, "work": None, "seen": "2022-02-28", "yes": True, "x": 3, "y": -9}


def campaign(name):
    return next(c for c in CAMPAIGNS if c.name == name).randomizer()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_report_of_a_device_is_one_that_the_randomizer_makes(path):
    suite = json.loads(path.read_text(encoding="utf-8"))
    randomizer, device = (kind.from_json(suite["randomizer"]) for kind in (Randomizer, Device))
    reports = [device.report(vector["record"]) for vector in suite["vectors"][:200]]
    rows, against = Payloads(randomizer).read(reports)
    assert against == [None] * 200
    assert rows.column("report_id").to_pylist() == [report.id for report in reports]


@pytest.mark.parametrize("name", ["clip_box", "window_quadrant", "laplace_ball", "bins_cents"])
def test_reports_of_devices_have_the_law_that_the_curator_fits(name):
    """The false-alarm rate is 1e-6; noise that is 10 % off has p-values of 1e-10."""
    randomizer = campaign(name)
    device = Device.from_json(randomizer.to_json())
    (column,), (split,) = randomizer.schema.columns, randomizer.splits.values()
    take = split.value_program()
    record = {part: 0.25 * k + 0.1 for k, part in enumerate(take["columns"])}
    count = 6_000
    release = collect([device.report(record) for _ in range(count)], randomizer).release
    truth = split.encode(pa.Table.from_pylist([record] * count))
    reports, _ = release.reports(column)
    rng = np.random.default_rng(0)
    low, high = split.mechanism.probability_cells(reports, truth, rng)
    assert uniformity((low + rng.random(low.shape) * (high - low)) % 1) > 1e-6
    moved = truth + 1 if truth.dtype.kind == "i" else -truth + 0.3
    low, high = split.mechanism.probability_cells(reports, moved, rng)
    assert uniformity((low + rng.random(low.shape) * (high - low)) % 1) < 1e-6


def test_joint_reports_hold_the_true_cell_as_often_as_planned():
    randomizer = campaign("joint_pairs")
    device = Device.from_json(randomizer.to_json())
    count = 4000  # false-alarm rate 1e-6
    release = collect([device.report(PERSON) for _ in range(count)], randomizer).release
    joint, answers = randomizer.joint, release.joint_answers
    seen = dt.date.fromisoformat(PERSON["seen"])
    people = pa.Table.from_pylist([PERSON | {"seen": seen}] * count)
    codes = randomizer.schema.encode_codings(joint.design.columns, people)
    low, high = joint.probability_cells(answers, codes, np.random.default_rng(1))
    uniform = (low + np.random.default_rng(2).random(low.shape) * (high - low)) % 1
    assert uniformity(uniform) > 1e-6


def strange(report, rng):
    """The same report with a byte of its payload changed, sealed again."""
    payload = bytearray(report.payload)
    payload[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
    return Report(report.fingerprint, report.id, report.time, bytes(payload))


@pytest.mark.parametrize("name", [c.name for c in CAMPAIGNS])
def test_no_two_payloads_say_the_same(name):
    """What is read of a changed payload, if it is not refused, is another report."""
    randomizer = campaign(name)
    device, payloads = Device.from_json(randomizer.to_json()), Payloads(randomizer)
    suite = json.loads((FOLDER / f"{name}.json").read_text())
    record, rng = suite["vectors"][0]["record"], random.Random(name)
    words = split_mix(5).__next__
    report = device.report(record, word=words)
    others = [strange(report, rng) for _ in range(200)]
    rows, against = payloads.read([report, *others])
    assert against[0] is None
    own, *read = rows.drop_columns("report_id").to_pylist()
    assert own not in read
    assert len(read) == sum(words is None for words in against) - 1


def test_each_is_counted_once_and_what_is_none_is_put_aside():
    randomizer = campaign("joint_pairs")
    device = Device.from_json(randomizer.to_json())
    reports = [device.report(PERSON) for _ in range(50)]
    lie = next(each.payload for each in reports if each.payload != reports[3].payload)
    liar = Report(reports[3].fingerprint, reports[3].id, reports[3].time, lie)
    other = Report(bytes(32), bytes(16), 0, reports[0].payload)
    sent = [r.to_bytes() for r in [*reports, reports[0], reports[1], liar, other]]
    found = collect([*sent, b"", sent[0][:-1] + bytes([sent[0][-1] ^ 1]), sent[0][:60]], randomizer)
    assert (len(found.release), found.copies, len(found.quarantined)) == (51, 2, 4)
    reasons = found.quarantined["reason"].to_pylist()
    assert sum("another randomizer" in reason for reason in reasons) == 1


def test_reports_of_no_device_cannot_be_read():
    schema = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
    randomizer = Randomizer.calibrate(schema, 1.0, 1e-6, mechanism="gaussian")
    with pytest.raises(PrivotError, match="no program"):
        collect([b"nothing"], randomizer)
    with pytest.raises(PrivotError, match="no report can be counted"):
        collect([b"nothing"], Randomizer.calibrate(schema, 1.0))
