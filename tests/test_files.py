"""Files survive full disks and kills in the middle of a save."""

import os
import signal
import subprocess
import sys

import pytest

from privot.errors import PrivotError
from privot.files import recover_folder, replacing_file, replacing_folder


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
from privot.files import replacing_folder
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
