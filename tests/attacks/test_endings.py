"""However a command ends (a full disk, a closed or full pipe, Ctrl-C): one line, and nothing is lost."""

import os
import resource
import stat
import subprocess
import sys

import numpy as np
import pytest

from commands import privot
from forked_commands import start

SCHEMA = '[columns.height]\nkind = "numeric"\nbounds = [0, 10]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("endings")
    heights = np.random.default_rng(0).uniform(0, 10, 3000)
    (folder / "people.csv").write_text("height\n" + "\n".join(f"{h:.3f}" for h in heights) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    for line in (
        "calibrate schema.toml --epsilon 4",
        "privatize people.csv -r randomizer.json",
        "fit release.parquet",
    ):
        assert privot(folder, *line.split()).returncode == 0
    return folder


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("line", "code"),
    [("schema check schema.toml", 1), ("account --help", 1), ("schema check nowhere.toml", 2)],
)
def test_standard_output_that_is_full(folder, line, code):
    running = start(folder, *line.split(), out="/dev/full")
    assert running.wait(60) == code
    assert running.said().startswith("privot: ")
    assert running.said().count("\n") == 1, running.said()


def test_reports_for_standard_output_that_is_full(folder, tmp_path):
    """In a process that begins as users begin it: how it buffers its output matters here."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "privot",
                *["privatize", "people.csv", "-r", "randomizer.json", "-o", "-"],
            ],
            cwd=folder,
            env=os.environ | {"PRIVOT_STATE_DIR": str(tmp_path)},  # where the reports are kept
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("privot: ")
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_reader_who_leaves_is_no_failure_to_talk_of(folder):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "privot", "schema", "check", "schema.toml"],
        cwd=folder,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("line", [
    "privatize people.csv -r randomizer.json -o new.parquet",
    "fit release.parquet -o model --force",
    "fit release.parquet -o new --estimator generator --steps 4",
    "sample model -n 3000 -o new.csv",
    "sample model -n 3000 -o new.npz",
    "evaluate model --against people.csv -n 500 -o new.html",
])  # fmt: skip
def test_a_full_disk_is_one_line_and_loses_nothing(folder, line):
    """No file may grow beyond a few hundred bytes: what is written breaks off, as on a full disk."""
    before, limits = contents(folder), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, limits[1]))
    try:
        done = privot(folder, *line.split())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.returncode in (1, 2)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("privot: ")
    assert "File too large" in last
    assert done.stdout == ""
    for left in folder.glob("new.parquet.unfinished/*"):
        left.unlink()
    assert contents(folder) == before


# Not numpy: it is first imported inside of torch, whose own code swallows the signal.
@pytest.mark.parametrize("module", ["privot.cli.console", "typer", "pyarrow"])
def test_ctrl_c_while_modules_are_imported(folder, module):
    """The moment is made certain: the signal comes when a module is looked for."""
    code = f"""
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["privot", "fit", "release.parquet", "-o", "never"]
from privot.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "privot: stopped; outputs that were there are as before\n"
    assert done.stdout == ""
    assert not (folder / "never").exists()


def test_resuming_with_another_release_is_refused(folder, tmp_path):
    """Also where the other release would be fitted in one go: the checkpoint is not thrown away."""
    checkpoint = tmp_path / "model.checkpoint"
    checkpoint.write_bytes(b"hours of work")
    done = privot(folder, "fit", "release.parquet", "-o", tmp_path / "model", "--resume")
    assert done.returncode == 2
    assert "is of a generator" in done.stderr
    assert checkpoint.read_bytes() == b"hours of work"


def test_a_demo_of_nobody_is_refused(folder):
    done = privot(folder, "demo", "--people", "-3", "-o", "new")
    assert done.returncode == 2
    assert "privot: people -3 cannot be" in done.stderr
    assert not (folder / "new").exists()


def test_what_is_shared_is_readable_and_what_is_secret_is_not(folder, tmp_path):
    def rights(path):
        return stat.S_IMODE(path.stat().st_mode)

    before = os.umask(0o022)
    try:
        for line in (
            f"calibrate schema.toml --epsilon 4 -o {tmp_path}/randomizer.json",
            f"privatize people.csv -r randomizer.json -o {tmp_path}/release.parquet",
            f"privatize people.csv -r randomizer.json -o {tmp_path}/shards",
            f"fit release.parquet -o {tmp_path}/model",
            f"sample model -n 10 -o {tmp_path}/synthetic.csv",
            f"sample model -n 10 -o {tmp_path}/synthetic.npz",
            f"evaluate model --against people.csv -n 50 -o {tmp_path}/report.html",
        ):
            assert privot(folder, *line.split()).returncode == 0, line
        done = privot(
            folder, *f"integral fit people.csv --schema schema.toml --epsilon 1 --draws 3 "
            f"--estimator trees -o {tmp_path}/secret".split(), PRIVOT_STATE_DIR=tmp_path / "state",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    finally:
        os.umask(before)
    for path in tmp_path.rglob("*"):
        secret = path.relative_to(tmp_path).parts[0] in ("secret", "state")
        usual = (0o700, 0o600) if secret else (0o755, 0o644)
        assert rights(path) == usual[path.is_file()] or path == tmp_path / "state", path
