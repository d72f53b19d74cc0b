"""Each test has a state folder of its own: an account makes one leader and one helper of an encoder."""

import pytest


@pytest.fixture(autouse=True)
def _state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path_factory.mktemp("state")))
