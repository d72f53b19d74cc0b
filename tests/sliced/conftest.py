import pytest

from privot.sliced.settings import ReleaseSettings
from sliced.halves import uncalibrated


@pytest.fixture
def little_noise(monkeypatch):
    """Skip the seconds of a calibration."""
    monkeypatch.setattr(ReleaseSettings, "plan", uncalibrated)
