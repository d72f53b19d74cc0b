"""A run's state is read by the run that wrote it, and by no other."""

import os

import pytest
import torch

from privot.errors import PrivotError
from privot.models import Checkpoint

IDENTITY = {"seed": 0, "settings": {"hidden": (8, 4), "epsilon": 1.0}}


def test_a_state_survives_and_is_its_owners_alone(tmp_path):
    state = {"step": torch.tensor(7), "weights": torch.randn(3, 2).T}
    Checkpoint(tmp_path / "run", IDENTITY, False).save(state)
    assert os.stat(tmp_path / "run").st_mode & 0o077 == 0
    again = Checkpoint(tmp_path / "run", IDENTITY, True).load()
    assert again.keys() == state.keys()
    assert all(torch.equal(again[name], state[name]) for name in state)


def test_a_run_that_starts_has_no_state(tmp_path):
    assert Checkpoint(None, IDENTITY, True).load() is None
    assert Checkpoint(tmp_path / "run", IDENTITY, True).load() is None
    Checkpoint(tmp_path / "run", IDENTITY, False).save({"step": torch.tensor(7)})
    assert Checkpoint(tmp_path / "run", IDENTITY, False).load() is None
    Checkpoint(None, IDENTITY, False).save({})
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"seed": 1}, "made with seed 0, this run has 1: resume with the same arguments"),
        (
            {"settings": {"hidden": [8, 4], "epsilon": 2.0}},
            "settings.epsilon 1.0, this run has 2.0",
        ),
        ({"ledger": "a"}, "made with ledger None, this run has 'a'"),
    ],
)
def test_another_run_is_refused_by_what_differs(tmp_path, other, message):
    Checkpoint(tmp_path / "run", IDENTITY, False).save({"step": torch.tensor(7)})
    with pytest.raises(PrivotError, match=message):
        Checkpoint(tmp_path / "run", IDENTITY, True).of(other).load()


@pytest.mark.parametrize("content", [b"", b"half a checkpoint", bytes(64)])
def test_what_cannot_be_read_is_told(tmp_path, content):
    (tmp_path / "run").write_bytes(content)
    with pytest.raises(PrivotError, match=r"cannot be read .*restore it, or remove it"):
        Checkpoint(tmp_path / "run", IDENTITY, True).load()
