"""A state folder that lost a part, or has no place, is told of: it never forgets in silence."""

import errno
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from privot import integral
from privot.core.errors import PrivotError
from privot.integral import PointSpace
from privot.integral.model import DrawPlan
from privot.integral.references import UniformBox
from privot.privacy.ledger import Ledger, charge, fingerprint

ROWS = np.random.default_rng(0).random((60, 1))


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_lost_key_is_not_replaced(state):
    """By another key no account would be found again: a second run would pass for a first."""
    charge(fingerprint([ROWS]), Ledger(DrawPlan("a", 1, 1.0, 0.0, "person")))
    key = (state / "key").read_bytes()
    (state / "key").unlink()
    with pytest.raises(PrivotError, match=r"key is gone.* restore it"):
        fingerprint([ROWS])
    (state / "key").write_bytes(key)
    (state / "key").chmod(0o600)
    with pytest.warns(UserWarning, match="used before"):
        charge(fingerprint([ROWS]), Ledger(DrawPlan("b", 1, 1.0, 0.0, "person")))


@pytest.mark.parametrize("part", ["", "ledgers", "accounts"])
@pytest.mark.parametrize("rights", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_refused(state, tmp_path, part, rights):
    """They could take away the witness of a ledger, or a run from an account."""
    fingerprint([ROWS])
    (state / part).chmod(rights)
    with pytest.raises(PrivotError, match=r"may be written to by others.*`chmod 700 "):
        Ledger(DrawPlan("a", 3, 1.0, 0.0, "person"), tmp_path / "ledger").spend()
    assert not (tmp_path / "ledger").exists()
    (state / part).chmod(0o755)
    Ledger(DrawPlan("a", 3, 1.0, 0.0, "person"), tmp_path / "ledger").spend()


@pytest.mark.parametrize("rights", [0o640, 0o604, 0o602])
def test_a_key_that_others_may_read_is_refused(state, rights):
    """With it they could ask whether a set of records is the one that was used."""
    digest = fingerprint([ROWS])
    (state / "key").chmod(rights)
    with pytest.raises(
        PrivotError, match=r"key may be read or written by others.*`chmod 600 .*key`"
    ):
        fingerprint([ROWS])
    (state / "key").chmod(0o600)
    assert fingerprint([ROWS]) == digest


def test_an_account_without_a_home_is_asked_for_a_folder(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PRIVOT_STATE_DIR")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(PrivotError, match="set PRIVOT_STATE_DIR"):
        fingerprint([ROWS])


def test_a_file_system_without_locks_is_refused(monkeypatch, tmp_path):
    def no_locks(handle, what):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("privot.core.files.fcntl.flock", no_locks)
    with pytest.raises(PrivotError, match=r"cannot be locked \(No locks available\)"):
        Ledger(DrawPlan("a", 3, 1.0, 0.0, "person"), tmp_path / "ledger").spend()
    assert not (tmp_path / "ledger").exists()


def test_a_stop_while_a_model_is_saved_leaves_nothing(monkeypatch, tmp_path):
    """Between folder and ledger, Ctrl-C would leave a secret density that nothing counts."""
    model = integral.fit(ROWS, PointSpace(UniformBox([0], [1]), "person"), epsilon=1.0, draws=2)
    with monkeypatch.context() as patch:
        patch.setattr(
            "privot.integral.model.charge", lambda *_: os.kill(os.getpid(), signal.SIGINT)
        )
        with pytest.raises(KeyboardInterrupt):
            model.save(tmp_path / "secret")
    assert not (tmp_path / "secret").exists()
    model.save(tmp_path / "secret")
    assert len(model.sample(2)) == 2
