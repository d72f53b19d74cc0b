"""One ledger: never more than declared, in memory or in a file, whatever happens to file and process."""

import copy
import errno
import json
import math
import os
import pickle
import threading
from pathlib import Path

import pytest

import privot.core.files
from privacy.conftest import Uses, spend_all
from privot.core.errors import PrivotError
from privot.core.files import flush_folder
from privot.privacy.ledger import BudgetExhausted, Ledger


def on_disk(path):
    return json.loads(path.read_text())["entries"][-1]["spent"]


@pytest.fixture(params=["memory", "file", "blocks"])
def ledger(request, tmp_path):
    path = None if request.param == "memory" else tmp_path / "run.ledger"
    return Ledger(Uses(10), path, ahead=3 * (request.param == "blocks"))


def test_the_use_after_the_last_is_refused(ledger):
    ledger.spend(7)
    with pytest.raises(BudgetExhausted, match="n 4 .* 3 of 10 releases: ask for at most 3"):
        ledger.spend(4)
    assert (ledger.spent, ledger.left) == (7, 3), "a refusal spends nothing"
    ledger.spend(3)
    with pytest.raises(BudgetExhausted, match="all 10 releases are spent"):
        ledger.spend()
    assert ledger.spent == 10


@pytest.mark.parametrize("uses", [0, -3, math.nan, math.inf, 0.5, 2.0, True, "3", None])
def test_what_is_no_number_of_uses_spends_nothing_and_opens_nothing(ledger, uses):
    """NaN is not more than what is left: once in the count, nothing ever was."""
    with pytest.raises(PrivotError, match=r"n .* cannot be: give a whole number"):
        ledger.spend(uses)
    assert ledger.spent == 0
    assert spend_all(ledger) == 10


def test_what_is_on_disk_is_never_less_than_what_was_spent(tmp_path):
    path = tmp_path / "run.ledger"
    ledger = Ledger(Uses(300), path, ahead=7)
    writes = set()
    for spent in range(1, 40):
        ledger.spend()
        assert on_disk(path) >= spent
        writes.add(on_disk(path))
    assert len(writes) == 5, "a write a block"
    assert Ledger(Uses(300), path, resume=True).spent == 40, "a kill loses the rest of the block"
    ledger.close()
    assert Ledger(Uses(300), path, resume=True).spent == 39


def test_files_and_folders_are_flushed(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (flushed.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))
    )
    Ledger(Uses(3), tmp_path / "run.ledger").spend()
    assert {str(tmp_path), str(tmp_path / "state" / "ledgers")} <= set(flushed)
    assert sum("run.ledger" in name for name in flushed) == 2


def test_two_objects_on_one_file_share_its_budget(tmp_path):
    first = Ledger(Uses(10), tmp_path / "run.ledger", ahead=1)
    first.spend()
    second = Ledger(Uses(10), tmp_path / "run.ledger", resume=True, ahead=1)
    assert 1 + spend_all(second) + spend_all(first) == 10
    second.close()
    assert first.left == 0


def test_only_one_of_two_fresh_runs_begins_a_file(tmp_path):
    first, second = (Ledger(Uses(10), tmp_path / "run.ledger") for _ in range(2))
    first.spend()
    with pytest.raises(PrivotError, match="begun by another run"):
        second.spend()
    with pytest.raises(PrivotError, match="has counted 1 releases already"):
        Ledger(Uses(10), tmp_path / "run.ledger")


def test_a_memory_ledger_begins_one_file(tmp_path):
    ledger = Ledger(Uses(10))
    ledger.spend(2)
    ledger.begin(tmp_path / "a")
    with pytest.raises(PrivotError, match="double the budget"):
        ledger.begin(tmp_path / "b")
    assert (ledger.left, on_disk(tmp_path / "a")) == (8, 2)
    assert spend_all(ledger) == 8


def of_witnesses_fails(function):
    """As the system's, but there is no room for what lies in the folder of witnesses."""

    def full(path, *rest, **more):
        if Path(path).parent.name == "ledgers":
            raise OSError(errno.ENOSPC, "No space left on device")
        return function(path, *rest, **more)

    return full


def test_a_failed_return_is_not_used_after_all(tmp_path, monkeypatch):
    """The file says that the rest of a block was given back, the witness could not be written."""
    path = tmp_path / "run.ledger"
    ledger = Ledger(Uses(10), path, ahead=3)
    ledger.spend()
    with monkeypatch.context() as patch:
        patch.setattr("privot.core.files.os.replace", of_witnesses_fails(os.replace))
        with pytest.raises(PrivotError, match="No space left"):
            ledger.close()
    assert on_disk(path) == 1
    assert 1 + spend_all(ledger) <= 10


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("step", ["create", "flush"])
def test_what_cannot_be_witnessed_is_not_counted(tmp_path, monkeypatch, begun, step):
    """A full state folder refuses uses: it does not take them."""
    path = tmp_path / "run.ledger"
    ledger = Ledger(Uses(10), path, ahead=2)
    if begun:
        ledger.spend(3)
    before = path.read_bytes() if begun else None
    with monkeypatch.context() as patch:
        function = getattr(privot.core.files, step)
        patch.setattr(f"privot.core.files.{step}", of_witnesses_fails(function))
        for _ in range(4):
            with pytest.raises(PrivotError, match="No space left on device"):
                ledger.spend(3)
    assert (path.read_bytes() if path.exists() else None) == before
    assert spend_all(ledger) == (7 if begun else 10)


def test_a_folder_that_cannot_be_flushed_is_one_line(tmp_path, monkeypatch):
    def unable(handle):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("privot.core.files.os.fsync", unable)
    with pytest.raises(PrivotError, match=r"cannot be flushed .*\(Invalid argument\).* local disk"):
        flush_folder(tmp_path)
    with pytest.raises(PrivotError, match=r"cannot be flushed .*\(No such file"):
        flush_folder(tmp_path / "gone")


def test_another_plan_or_another_ledger_is_refused(tmp_path):
    path = tmp_path / "run.ledger"
    ledger = Ledger(Uses(10), path)
    ledger.spend()
    with pytest.raises(PrivotError, match=r"counted 1 releases with stddev 1.0, this run has 2.0"):
        Ledger(Uses(10, stddev=2.0), path, resume=True)
    path.unlink()
    Ledger(Uses(10), path).spend()
    with pytest.raises(PrivotError, match="replaced by another run's"):
        ledger.spend()


def test_a_ledger_is_not_copied(ledger):
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivotError, match="double its budget"):
            duplicate(ledger)


def test_threads_share_a_budget(ledger):
    made, start = [], threading.Barrier(16)

    def work():
        start.wait()
        made.append(spend_all(ledger))

    threads = [threading.Thread(target=work) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sum(made) == 10


def test_a_state_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(PrivotError, match="set PRIVOT_STATE_DIR"):
        Ledger(Uses(10), tmp_path / "run.ledger").spend()
    assert not (tmp_path / "run.ledger").exists()


def test_a_system_without_locks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("privot.core.files.fcntl", None)
    with pytest.raises(PrivotError, match="no file locks"):
        Ledger(Uses(10), tmp_path / "run.ledger").spend()


def test_what_is_written_is_its_owners_alone(tmp_path, state_folder):
    Ledger(Uses(10), tmp_path / "run.ledger").spend()
    files = [tmp_path / "run.ledger", *(p for p in state_folder.rglob("*") if p.is_file())]
    assert len(files) == 3
    assert all(file.stat().st_mode & 0o077 == 0 for file in (*files, state_folder))
