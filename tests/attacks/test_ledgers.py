"""A budget is not overspent by accident, in any of the ways of `privot_benchmarks/ledgers.py`."""

import json
import shutil

import numpy as np
import pytest

from central.declared_images import image_schema
from commands import privot
from privot.central import fit
from privot.core.errors import PrivotError
from privot_benchmarks import ledgers

SLOW = [name for name in ledgers.ATTACKS if "kill" in name]
ARGUMENTS = (ledgers.TABLE, ledgers.SCHEMA)
STEPS = 35
SETTINGS = ledgers.Settings(steps=STEPS, **ledgers.QUICK)


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch):
    """Where the account is; fits have fewer steps, and models fewer draws, than in the benchmark."""
    monkeypatch.setattr(ledgers, "STEPS", STEPS)
    monkeypatch.setattr(ledgers, "DRAWS", 40)
    folder = tmp_path / "state"
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(folder))
    return folder


@pytest.mark.parametrize("name", ledgers.ATTACKS)
def test_no_more_is_made_than_was_declared(name, tmp_path):
    made, declared = ledgers.ATTACKS[name](tmp_path, 3)
    assert 0 < made <= declared


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_hundred_kills(name, tmp_path):
    made, declared = ledgers.ATTACKS[name](tmp_path, ledgers.KILLS)
    assert 0 < made <= declared


def stopped(folder):
    run = ledgers.Run(folder)
    assert not run.fit(stop=15)
    return {
        "epsilon": 1.0,
        "method": SETTINGS,
        "checkpoint": folder / "run",
        "resume": True,
    }


def test_a_copied_checkpoint_is_resumed_once(tmp_path):
    (tmp_path / "one").mkdir()
    go_on = stopped(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    fit(*ARGUMENTS, **go_on)
    with pytest.raises(PrivotError, match=r"rolled back or copied: 35 are known .* knows of 15"):
        fit(*ARGUMENTS, **go_on | {"checkpoint": tmp_path / "two" / "run"})


def test_a_ledger_behind_its_checkpoint_is_refused(tmp_path, state_folder):
    """Even if the state folder was rolled back with it: the checkpoint knows what it was told."""
    ledgers.Run(tmp_path).fit(stop=10)
    shutil.copytree(state_folder, tmp_path / "old state")
    shutil.copy(tmp_path / "run.ledger", tmp_path / "old")
    ledgers.Run(tmp_path).fit(stop=25, resume=True)
    shutil.rmtree(state_folder)
    shutil.copytree(tmp_path / "old state", state_folder)
    shutil.copy(tmp_path / "old", tmp_path / "run.ledger")
    with pytest.raises(
        PrivotError, match=r"behind its checkpoint, which was learned from 25 releases"
    ):
        fit(*ARGUMENTS, epsilon=1.0, method=SETTINGS, checkpoint=tmp_path / "run", resume=True)


def test_another_runs_ledger_does_not_fit_the_checkpoint(tmp_path):
    go_on = stopped(tmp_path)
    (tmp_path / "other").mkdir()
    ledgers.Run(tmp_path / "other").fit(stop=20)
    shutil.copy(tmp_path / "other" / "run.ledger", tmp_path / "run.ledger")
    with pytest.raises(PrivotError, match="was made with ledger"):
        fit(*ARGUMENTS, **go_on)


def test_a_finished_fit_is_not_resumed_by_the_command(tmp_path):
    image_schema((6, 6)).save(tmp_path / "schema.json")
    np.savez(tmp_path / "data.npz", image=np.random.default_rng(0).random((60, 6, 6)))
    line = "central fit data.npz --schema schema.json --low-pass 3 --epsilon 50 --delta 1e-3"
    line = f"{line} --method slices --steps 20 --batch-size 20 -o model".split()
    done = privot(tmp_path, *line)
    assert done.returncode == 0, done.stderr
    before = {file.name: file.read_bytes() for file in (tmp_path / "model").iterdir()}
    again = privot(tmp_path, *line, "--resume", "--force")
    assert again.returncode == 2
    assert "this run is finished, use its model" in again.stderr
    assert {file.name: file.read_bytes() for file in (tmp_path / "model").iterdir()} == before
    (tmp_path / "model.checkpoint.ledger").unlink()
    refit = privot(tmp_path, *line, "--force")
    assert refit.returncode == 0, refit.stderr
    told = "these records were used before"
    assert told in refit.stderr
    assert "together ε = 100" in refit.stderr
    fields = json.loads((tmp_path / "model" / "model.json").read_text())
    assert fields["guarantee"]["epsilon"] <= 50
    assert told not in refit.stdout
