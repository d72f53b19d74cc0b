"""Witnesses of ledgers go to a folder of the test, never to the account's."""

import pytest


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch):
    folder = tmp_path / "state"
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(folder))
    return folder
