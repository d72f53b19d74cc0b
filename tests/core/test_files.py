"""Files survive full disks and kills in the middle of a save."""

import os
import signal
import subprocess
import sys

import pytest

from privot.core.errors import PrivotError
from privot.core.files import recover_folder, replacing_file, replacing_folder


def entries(folder):
    return sorted(p.name for p in folder.iterdir())


def test_replacing_file_writes_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing_file(path) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert entries(tmp_path) == ["x.txt"]
    with replacing_file(path) as draft:
        draft.write_text("new")
    assert path.read_text() == "new"


def test_a_full_disk_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")
    with pytest.raises(PrivotError, match="No space left on device.*nothing was changed"):
        with replacing_file(path) as draft:
            draft.write_text("new")
            with open("/dev/full", "w") as full:
                full.write("x" * 100)
                full.flush()
    assert path.read_text() == "old"
    assert entries(tmp_path) == ["x.txt"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(PrivotError, match="cannot be written"):
        with replacing_file(tmp_path / "nowhere" / "x.txt") as draft:
            draft.write_text("new")


def test_replacing_folder_keeps_the_old_one_on_failure(tmp_path):
    path = tmp_path / "model"
    with replacing_folder(path) as folder:
        (folder / "a").write_text("old")
    with pytest.raises(RuntimeError), replacing_folder(path) as folder:
        (folder / "a").write_text("half")
        raise RuntimeError
    assert (path / "a").read_text() == "old"
    with replacing_folder(path) as folder:
        (folder / "b").write_text("new")
    assert entries(path) == ["b"]
    assert entries(tmp_path) == ["model"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills are a matter of POSIX here")
def test_a_kill_between_the_two_renames_is_recovered(tmp_path):
    """Killed after the old folder was set aside, the next reader brings it back."""
    code = f"""
import os, signal, pathlib
from privot.core.files import replacing_folder
path = pathlib.Path({str(tmp_path / "model")!r})
with replacing_folder(path) as folder:
    (folder / "a").write_text("old")
rename = os.rename
def kill_after_first(source, target):
    rename(source, target)
    os.kill(os.getpid(), signal.SIGKILL)
os.rename = kill_after_first
with replacing_folder(path) as folder:
    (folder / "a").write_text("new")
"""
    done = subprocess.run([sys.executable, "-c", code])
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    recover_folder(tmp_path / "model")
    assert (tmp_path / "model" / "a").read_text() == "old"


@pytest.fixture
def usual_rights():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_rights")
@pytest.mark.parametrize(("secret", "rights"), [(True, 0o600), (False, 0o644)])
def test_rights_of_a_file_are_decided_by_who_writes_it(tmp_path, secret, rights):
    path = tmp_path / "x.txt"
    path.touch(0o666)
    with replacing_file(path, secret=secret) as draft:
        assert draft.stat().st_mode & 0o777 == rights  # before a byte is in it
        draft.unlink()
        os.close(os.open(draft, os.O_CREAT, 0o400 if secret else 0o600))
    assert path.stat().st_mode & 0o777 == rights


@pytest.mark.usefixtures("usual_rights")
@pytest.mark.parametrize(("secret", "rights"), [(True, (0o700, 0o600)), (False, (0o755, 0o644))])
def test_rights_of_a_folder(tmp_path, secret, rights):
    path = tmp_path / "model"
    with replacing_folder(path, secret=secret) as folder:
        (folder / "a").write_text("a")
    assert tuple(entry.stat().st_mode & 0o777 for entry in (path, path / "a")) == rights


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "x.txt"
    link.symlink_to(tmp_path / "there" / "real.txt")
    with replacing_file(link) as draft:
        draft.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "there" / "real.txt").read_text() == "new"


def test_a_copy_that_a_person_keeps_is_not_removed(tmp_path):
    path, kept = tmp_path / "model", tmp_path / "model.previous"
    for folder in (path, kept):
        folder.mkdir()
        (folder / "a").write_text(folder.name)
    with replacing_folder(path) as folder:
        (folder / "a").write_text("new")
    assert (kept / "a").read_text() == "model.previous"
    assert (path / "a").read_text() == "new"


def test_an_old_folder_comes_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    path, rename = tmp_path / "model", os.rename
    path.mkdir()
    (path / "a").write_text("old")

    def no_room(source, target):
        if ".draft" in str(source):
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", no_room)
    with pytest.raises(PrivotError, match="nothing was changed"), replacing_folder(path) as folder:
        (folder / "a").write_text("new")
    assert entries(tmp_path) == ["model"]
    assert (path / "a").read_text() == "old"
