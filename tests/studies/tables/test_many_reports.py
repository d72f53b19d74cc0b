"""The release that is measured holds the people asked for, and its fit is described."""

import sys

import pytest

from privot.randomizer import Release
from studies.tables import many_reports


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_small_release_is_written_in_parts_and_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(many_reports, "_AT_ONCE", 1500)
    path = tmp_path / "release.parquet"
    many_reports.write_release(path, 4000, epsilon=4.0)
    assert len(Release.load(path)) == 4000
    row = many_reports.measure_fit(path)
    assert row["reports"] == 4000
    assert row["distinct"] <= 4000
    assert row["imported"] <= row["megabytes"]
