"""Outputs of all commands: kept if they exist, never an input, refused before anything is computed."""

import hashlib
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from commands import privot

SCHEMA = """
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
"""
METADATA = """{
  "METADATA_SPEC_VERSION": "V1",
  "tables": {"t": {"columns": {"age": {"sdtype": "numerical"}}}}
}"""


@dataclass(frozen=True)
class Command:
    """A command without its `-o`.

    Arguments:
        line: What is typed.
        output: A name for its output; without a suffix, a folder.
        reads: What it reads; the names of these files are tried as outputs.
        budget: Whether an output stands for budget that was spent, and is replaced by nothing.
    """

    line: str
    output: str
    reads: tuple[str, ...] = ()
    budget: bool = False


SLICED = "--epsilon 50 --delta 1e-3 --steps 20 --batch-size 30"
COMMANDS = {
    "schema new --from": Command("schema new --from metadata.json", "new.toml", ("metadata.json",)),
    "calibrate": Command("calibrate schema.toml --epsilon 4", "new.json", ("schema.toml",)),
    "privatize": Command(
        "privatize people.csv -r randomizer.json",
        "new.parquet",
        ("people.csv", "randomizer.json"),
        budget=True,
    ),
    "privatize to shards": Command(
        "privatize people -r randomizer.json", "new", ("people", "randomizer.json"), budget=True
    ),
    "collect": Command("collect release.parquet", "new.parquet", ("release.parquet",)),
    "collect of text": Command(
        "collect reports.csv -r randomizer.json", "new.parquet", ("reports.csv", "randomizer.json")
    ),
    "fit": Command("fit release.parquet", "new", ("release.parquet",)),
    "sample": Command("sample model -n 9", "new.csv", ("model",)),
    "sample of slices": Command("sample slices -n 9", "new.csv", ("slices",)),
    "evaluate": Command(
        "evaluate model --against people.csv -n 50", "new.html", ("model", "people.csv")
    ),
    "central fit": Command(
        f"central fit people.csv --method slices --schema schema.toml {SLICED}",
        "new",
        ("people.csv", "schema.toml"),
    ),
    "central adapt": Command(
        "central adapt data.npz target.npz --unit person --epsilon 500 --delta 1e-3 --training-steps 4",
        "new",
        ("data.npz", "target.npz"),
    ),
    "integral fit": Command(
        "integral fit people.csv --schema schema.toml --epsilon 1 --draws 50 --estimator trees",
        "new",
        ("people.csv", "schema.toml"),
        budget=True,
    ),
    "integral sample": Command("integral sample secret -n 1", "new.csv", ("secret",)),
    "demo": Command("demo --people 40 --steps 3", "new"),
}
EVERY = pytest.mark.parametrize("name", COMMANDS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with all that the commands read."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    rows = [f"{h:.2f},{c}" for h, c in zip(rng.uniform(0, 10, 80), rng.choice(["red", "blue"], 80))]
    (folder / "people.csv").write_text("height,color\n" + "\n".join(rows) + "\n")
    (folder / "people").mkdir()
    shutil.copy(folder / "people.csv", folder / "people")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "metadata.json").write_text(METADATA)
    x, y = (255 * rng.random((80, 3))).astype(np.uint8), np.arange(80) % 2
    np.savez(folder / "data.npz", x=x, y=y)
    np.savez(folder / "target.npz", x=x)
    for line in (
        "calibrate schema.toml --epsilon 4",
        "privatize people.csv -r randomizer.json",
        "privatize people.csv -r randomizer.json -o reports.csv",
        "fit release.parquet -o model",
        COMMANDS["central fit"].line + " -o slices",
        COMMANDS["integral fit"].line + " -o secret",
    ):
        done = typed(folder, line)
        assert done.returncode == 0, (line, done.stderr)
    return folder


def typed(folder, line):
    return privot(folder, *shlex.split(line), PRIVOT_STATE_DIR=folder / "state")


def state(folder):
    """Names and contents of all files but the states of ledgers, and all folders."""
    return {
        str(path.relative_to(folder)): path.is_file() and hashlib.sha256(path.read_bytes()).digest()
        for path in sorted(folder.rglob("*"))
        if "state" not in path.relative_to(folder).parts
    }


def refused(folder, line, words):
    """The command ends with one line that says so, and nothing is another than before."""
    before = state(folder)
    done = typed(folder, line)
    assert done.returncode == 2, (line, done.stdout, done.stderr)
    assert done.stderr.startswith("privot: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert re.search(words, done.stderr), done.stderr
    assert done.stdout == ""
    assert state(folder) == before


def occupy(path):
    """Something of a person's where an output is to go."""
    if path.suffix:
        path.write_text("precious")
    else:
        path.mkdir()
        (path / "model.json").write_text("precious")


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@EVERY
def test_an_output_that_exists_is_kept_unless_force_is_said(made, name):
    command = COMMANDS[name]
    output = made / command.output
    occupy(output)
    try:
        refused(made, f"{command.line} -o {command.output}", f"{command.output} exists")
        if command.budget:
            refused_option = typed(made, f"{command.line} -o {command.output} --force")
            assert "No such option" in refused_option.stderr
            return
        before = state(made)
        if name == "demo":
            refused(made, f"{command.line} -o new --force", "new holds model.json")
            (output / "model.json").rename(output / "report.html")
        done = typed(made, f"{command.line} -o {command.output} --force")
        assert done.returncode == 0, done.stderr
        after = state(made)
        changed = {path for path in before if before[path] != after.get(path)}
        assert changed <= {command.output, f"{command.output}/model.json", "secret/ledger.json"}
        assert all(b"precious" not in file.read_bytes() for file in _files(output))
    finally:
        for path in made.glob("new*"):
            remove(path)


def _files(path):
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


@EVERY
def test_an_input_is_never_an_output(made, name, tmp_path):
    """Not by its name, by a link to it, or as a folder in or around it, and --force changes nothing."""
    command = COMMANDS[name]
    suffix = Path(command.output).suffix
    force = "" if command.budget else " --force"
    for read in command.reads:
        link, hard = tmp_path / f"link{suffix}", tmp_path / f"hard{suffix}"
        link.symlink_to(made / read)
        ways = [f"./{read}", made / read, link]
        if (made / read).is_file():
            os.link(made / read, hard)
            ways.append(hard)
        else:
            ways.append(made / read / f"new{suffix}")
        if not suffix:
            ways.append(made)
        for way in ways:
            refused(made, f"{command.line} -o {way}{force}", "overlaps the input|unknown format")
        for path in (link, hard):
            path.unlink(missing_ok=True)


@EVERY
def test_the_place_of_an_output_is_looked_at_first(made, name, tmp_path):
    command = COMMANDS[name]
    (tmp_path / "file").touch()
    force = "" if command.budget else " --force"
    for parent in ("nowhere", tmp_path / "file"):
        refused(made, f"{command.line} -o {parent}/{command.output}{force}", "make it first")
    long = "x" * 300 + Path(command.output).suffix
    refused(made, f"{command.line} -o {long}{force}", "File name too long")
    refused(
        made, f"{command.line} -o .{force}", "" if Path(command.output).suffix else "has no name"
    )


@EVERY
def test_a_folder_that_may_not_be_written_to(made, name, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.geteuid() == 0:  # whom no rights stop
        locked = Path("/proc")
    force = "" if COMMANDS[name].budget else " --force"
    line = f"{COMMANDS[name].line} -o {locked}/{COMMANDS[name].output}{force}"
    refused(made, line, "cannot be written")


@EVERY
def test_a_file_takes_no_folders_place_and_no_folder_a_files(made, name, tmp_path):
    command = COMMANDS[name]
    other = tmp_path / command.output
    if other.suffix:
        other.mkdir()
    else:
        other.write_text("precious")
    words = "exists" if command.budget else "is a f"
    refused(made, f"{command.line} -o {other}{'' if command.budget else ' --force'}", words)
    assert other.is_dir() == bool(other.suffix)


@EVERY
def test_a_folder_of_other_things_is_kept(made, name, tmp_path):
    """`-o ~ --force` costs nobody their home."""
    command = COMMANDS[name]
    if Path(command.output).suffix or command.budget:
        return
    (tmp_path / "thesis.tex").write_text("precious")
    refused(made, f"{command.line} -o {tmp_path} --force", "holds thesis.tex")
