import pytest

from central.halves import uncalibrated
from privot.central import SliceSettings


@pytest.fixture
def little_noise(monkeypatch):
    """Skip the seconds of a calibration."""
    monkeypatch.setattr(SliceSettings, "plan", uncalibrated)
