"""Releases of waves: each report in the wave of its hour, and once."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from privot import PrivotError, Randomizer, Schema
from privot.collector import collect
from privot.collector.waves import require_whole_hours, sealed_waves, wave_metadata, waves_of_hours
from privot.device import Device
from privot.randomizer import Release
from privot.randomizer.reports.rows import shard_name, write_manifest, write_reports
from privot.waves import Panel

SCHEMA = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
RANDOMIZER = Randomizer.calibrate(SCHEMA, epsilon=2.0)
DEVICE = Device.from_json(RANDOMIZER.to_json())
PANEL = Panel("bits", window=3, start=7200, length=3600 * 24, seed="public", waves=6)


def report(seconds):
    return DEVICE.report({"bit": True}, now=seconds).to_bytes()


def test_waves_that_begin_within_an_hour_are_refused():
    for panel in (Panel("a", 1, 60, 3600, "s"), Panel("a", 1, 0, 60, "s")):
        with pytest.raises(PrivotError, match="within an hour"):
            require_whole_hours(panel)


def test_waves_of_many_hours_are_those_of_each():
    hours = np.arange(-3, 24 * 7)
    expected = []
    for hour in hours.tolist():
        try:
            expected.append(PANEL.wave_at(hour * 3600))
        except PrivotError:
            expected.append(-1)
    assert waves_of_hours(PANEL, hours).tolist() == expected
    assert waves_of_hours(replace(PANEL, waves=None), np.array([10**6])).tolist() == [41666]


def shards(folder, *carried):
    """A release of one report a shard, each with metadata of its own."""
    folder.mkdir()
    table = collect(report(7200), RANDOMIZER).release.table
    for number, more in enumerate(carried):
        write_reports(folder / shard_name(number), [table], RANDOMIZER.to_json(), more)
    write_manifest(folder, [1] * len(carried))
    return folder


def test_a_release_says_of_what_wave_each_shard_is(tmp_path):
    mine = partial(wave_metadata, PANEL)
    folder = shards(tmp_path / "waves", mine(3), mine(1), mine(3))
    found = sealed_waves(folder)
    assert found.panel == PANEL
    names = {wave: [path.name for path in paths] for wave, paths in found.shards.items()}
    assert names == {1: [shard_name(1)], 3: [shard_name(0), shard_name(2)]}
    assert len(Release.open(folder)) == 3
    assert sealed_waves(shards(tmp_path / "plain", None, None)) is None
    assert sealed_waves(folder / shard_name(0)) is None
    other = wave_metadata(replace(PANEL, name="other"), 1)
    for number, strange in enumerate((None, other)):
        with pytest.raises(PrivotError, match="several panels, or of none"):
            sealed_waves(shards(tmp_path / f"{number}", mine(1), strange))
    with pytest.raises(PrivotError, match="cannot be read: copy it again"):
        sealed_waves(shards(tmp_path / "bad", {b"privot.wave": b"[]"}))
