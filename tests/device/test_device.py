"""The device: trusts no altered randomizer, meets the conformance suite, reads what it is told to."""

import datetime as dt
import json

import pytest

from conformance.vectors import FOLDER, is_met, is_refused
from privot import Randomizer, Schema
from privot.core.errors import PrivotError
from privot.device import Device
from privot.randomizer.integrity import seal, unseal

AGE = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
TEXT = Randomizer.calibrate(AGE, 1.0).to_json()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_the_device_meets_every_vector(path):
    suite = json.loads(path.read_text(encoding="utf-8"))
    device = Device.from_json(suite["randomizer"])
    assert all(is_met(device, vector) for vector in suite["vectors"])
    assert all(is_refused(device, record) for record in suite["refused"])


def test_the_suite_is_as_long_as_it_says():
    assert sum(len(json.loads(p.read_text())["vectors"]) for p in FOLDER.glob("*.json")) >= 10_000


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace('"steps":1024', '"steps":512', 1),
        TEXT.replace('"radius"', '"radios"'),
        TEXT[:-3],
        "{}",
        "",
    ],
)
def test_an_altered_randomizer_is_refused(text):
    with pytest.raises(PrivotError, match="altered"):
        Device.from_json(text)


def test_a_randomizer_without_a_program_is_refused():
    text = Randomizer.calibrate(AGE, 1.0, 1e-6, mechanism="gaussian").to_json()
    with pytest.raises(PrivotError, match="no program"):
        Device.from_json(text)


def test_a_program_that_draws_less_noise_is_refused_by_the_library():
    fields = unseal(TEXT)
    draw = fields["device"]["split"]["reports"][0]["draw"]
    draw["anywhere"] = f"{int(draw['anywhere'], 16) // 2:x}"
    with pytest.raises(PrivotError, match="program"):
        Randomizer.from_json(seal(**fields))


def test_time_is_rounded_down_to_the_hour():
    device = Device.from_json(TEXT)
    hours = [device.report({"age": 5}, now=now).time for now in (7199.9, 7200.0, -5.0)]
    assert hours == [1, 2, 0]


def test_nothing_is_read_of_what_samples_make_up_or_compute():
    schema = Schema.from_toml("""
    rules = ["half = age / 2"]
    [columns.id]
    kind = "identifier"
    pattern = "x"
    [columns.age]
    kind = "numeric"
    bounds = [0, 100]
    [columns.half]
    kind = "numeric"
    bounds = [0, 50]
    """)
    device = Device.from_json(Randomizer.calibrate(schema, 1.0).to_json())
    with_more = {"age": 3, "id": object(), "half": float("inf")}
    same = [device.report(r, word=iter(range(99)).__next__, now=0) for r in ({"age": 3}, with_more)]
    assert same[0] == same[1]
    with pytest.raises(PrivotError, match=r"columns \['name'\] are not in the schema"):
        device.report({"age": 3, "name": "x"})


def test_dates_of_python_are_those_of_their_text():
    """A device takes what `datetime` holds, and refuses a time zone, which it would have to convert."""
    schema = Schema.from_toml(
        '[columns.came]\nkind = "datetime"\nbounds = ["2024-01-01", "2024-12-31"]'
    )
    device = Device.from_json(Randomizer.calibrate(schema, epsilon=2.0).to_json())
    for day in (dt.date(2024, 3, 1), dt.datetime(2024, 3, 1, 23, 59)):
        device.report({"came": day})
    with pytest.raises(PrivotError, match="holds no date"):
        device.report({"came": dt.datetime(2024, 3, 1, tzinfo=dt.UTC)})
    with pytest.raises(PrivotError, match="out of bounds|outside"):
        device.report({"came": dt.date(2025, 3, 1)})
