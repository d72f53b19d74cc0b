"""Releases of waves: each report in the wave of its hour, and once."""

import pytest

from privot import PrivotError, Randomizer, Schema
from privot.device import Device
from privot.release import releases_by_wave
from privot.waves import Panel

SCHEMA = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
RANDOMIZER = Randomizer.calibrate(SCHEMA, epsilon=2.0)
DEVICE = Device.from_json(RANDOMIZER.to_json())
PANEL = Panel("bits", window=3, start=7200, length=3600 * 24, seed="public", waves=6)


def report(seconds):
    return DEVICE.report({"bit": True}, now=seconds).to_bytes()


def test_every_report_is_in_the_release_of_its_wave():
    people = [str(number) for number in range(40)]
    reports = [
        report(PANEL.start + wave * PANEL.length + 2000 * int(person))
        for person in people
        for wave in PANEL.waves_of(person)
    ]
    found = releases_by_wave(RANDOMIZER, PANEL, [*reports[::-1], reports[0]])
    expected = [sum(PANEL.is_due(person, wave) for person in people) for wave in range(6)]
    assert {wave: len(each.release) for wave, each in found.collected.items()} == dict(
        enumerate(expected)
    )
    assert [each.release.guarantee.epsilon for each in found.collected.values()] == [2.0] * 6
    assert sum(each.copies for each in found.collected.values()) == 1
    assert found.outside == 0


def test_what_is_of_no_wave_is_counted():
    last = PANEL.start + 6 * PANEL.length
    reports = [report(0), report(last - 1), report(last), report(PANEL.start), b"nonsense"]
    found = releases_by_wave(RANDOMIZER, PANEL, reports)
    assert sorted(found.collected) == [0, 5]
    assert found.outside == 3
    with pytest.raises(PrivotError, match="2 reports are of no wave"):
        releases_by_wave(RANDOMIZER, PANEL, [report(0), b""])


def test_waves_that_begin_within_an_hour_are_refused():
    for panel in (Panel("a", 1, 60, 3600, "s"), Panel("a", 1, 0, 60, "s")):
        with pytest.raises(PrivotError, match="within an hour"):
            releases_by_wave(RANDOMIZER, panel, [report(0)])
