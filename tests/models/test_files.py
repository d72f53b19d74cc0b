"""

A run's state is read by the run that wrote it, and by no other.
"""

import json
import os

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.models import Checkpoint, ModelKind, kind_of

KIND = ModelKind("sort", 2, "privot sort")


def test_a_description_survives(tmp_path):
    KIND.seal(tmp_path, {"guarantee": "ε = 1", "kind of noise": [1.5]})
    fields = KIND.read(tmp_path)
    assert fields["guarantee"] == "ε = 1"
    assert fields["kind of noise"] == [1.5]
    assert kind_of(tmp_path) == "sort"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (ModelKind("kin", 2, "privot kin"), "has kind 'sort', this reads kind 'kin': .*privot kin"),
        (
            ModelKind("sort", 1, "privot sort"),
            "has format 2, this version of privot reads format 1: read it",
        ),
    ],
)
def test_other_folders_are_refused(tmp_path, other, message):
    KIND.seal(tmp_path, {})
    with pytest.raises(PrivotError, match=message):
        other.read(tmp_path)


@pytest.mark.parametrize("text", [None, "{", "[1]", "\xff"])
def test_damage_is_told(tmp_path, text):
    if text is not None:
        (tmp_path / "model.json").write_text(text, encoding="latin-1")
    with pytest.raises(PrivotError, match="cannot be read .*give the folder that `privot sort`"):
        KIND.read(tmp_path)
    assert kind_of(tmp_path) is None


@pytest.fixture
def sealed(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(range(256)))
    KIND.seal(tmp_path, {"share": 0.1, "limits": [1, None]})
    return tmp_path


@pytest.mark.parametrize("name", ["weights", "model.json"])
def test_every_byte_counts(sealed, name):
    whole = (sealed / name).read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (sealed / name).write_bytes(damaged)
        with pytest.raises(PrivotError, match=r"was changed|cannot be read|kind|format"):
            KIND.read(sealed)
    (sealed / name).write_bytes(whole)
    assert KIND.read(sealed)["limits"] == [1, None]


def test_a_description_laid_out_anew_is_refused(sealed):
    """What it says is the same, its bytes are not: nobody need wonder which of them mattered."""
    description = sealed / "model.json"
    description.write_text(json.dumps(json.loads(description.read_text())))
    with pytest.raises(PrivotError, match=r"damaged \(model.json was changed\): copy it again"):
        KIND.read(sealed)


def test_a_missing_file_is_told(sealed):
    (sealed / "weights").unlink()
    with pytest.raises(PrivotError, match=r"weights cannot be read: No such file"):
        KIND.read(sealed)


IDENTITY = {"seed": 0, "settings": {"hidden": (8, 4), "epsilon": 1.0}}


def test_a_state_survives_and_is_its_owners_alone(tmp_path):
    state = {"step": np.array(7), "weights": np.random.default_rng(0).normal(size=(3, 2)).T}
    Checkpoint(tmp_path / "run", IDENTITY, False).save(state)
    assert os.stat(tmp_path / "run").st_mode & 0o077 == 0
    again = Checkpoint(tmp_path / "run", IDENTITY, True).load()
    assert again.keys() == state.keys()
    assert all(np.array_equal(again[name], state[name]) for name in state)


def test_a_run_that_starts_has_no_state(tmp_path):
    assert Checkpoint(None, IDENTITY, True).load() is None
    assert Checkpoint(tmp_path / "run", IDENTITY, True).load() is None
    Checkpoint(tmp_path / "run", IDENTITY, False).save({"step": np.array(7)})
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
    Checkpoint(tmp_path / "run", IDENTITY, False).save({"step": np.array(7)})
    with pytest.raises(PrivotError, match=message):
        Checkpoint(tmp_path / "run", IDENTITY, True).of(other).load()


@pytest.mark.parametrize("content", [b"", b"half a checkpoint", bytes(64)])
def test_what_cannot_be_read_is_told(tmp_path, content):
    (tmp_path / "run").write_bytes(content)
    with pytest.raises(PrivotError, match=r"cannot be read .*restore it, or remove it"):
        Checkpoint(tmp_path / "run", IDENTITY, True).load()
