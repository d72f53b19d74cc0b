import pytest

from central.halves import uncalibrated
from privot.central.slice_fit import ReleaseSettings


@pytest.fixture
def little_noise(monkeypatch):
    """Skip the seconds of a calibration."""
    monkeypatch.setattr(ReleaseSettings, "plan", uncalibrated)
