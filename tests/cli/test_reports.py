"""`privot privatize` on pipes and folders, and what is left of it after `kill -9`."""

import json
import os
import random
import time
from threading import Thread

import numpy as np
import pyarrow.csv as csv
import pytest

from commands import privot
from forked_commands import start
from numbered_people import RANDOMIZER, each_once, people, write_people
from privot import Release

NUM = 30_000


@pytest.fixture
def folder(tmp_path):
    RANDOMIZER.save(tmp_path / "randomizer.json")
    return tmp_path


def piped(folder, data):
    """What `privot privatize` writes to a pipe, and says, of records that it reads from one."""
    os.mkfifo(folder / "pipe")
    Thread(target=(folder / "pipe").write_bytes, args=(data,)).start()
    running = start(
        folder, "privatize", *["-", "-o", "-", "-r", "randomizer.json"], stdin=folder / "pipe"
    )
    out = running.stdout.read()
    running.wait()
    (folder / "pipe").unlink()
    return out, running.said()


def test_a_pipe_in_and_a_pipe_out(folder):
    csv.write_csv(people(0, 500), folder / "people.csv")
    out, err = piped(folder, (folder / "people.csv").read_bytes())
    assert "500 reports" in err
    (folder / "reports.csv").write_bytes(out)
    done = privot(folder, "collect", "reports.csv", "-r", "randomizer.json")
    assert done.returncode == 0, done.stderr
    assert each_once(folder / "release.parquet", 500)
    out, err = piped(folder, b"person\n1\nx\n")
    assert out == b""
    assert "row 2 of standard input: column 'person' has text, not a number" in err


def test_an_output_that_exists_is_refused(folder):
    write_people(folder / "people.parquet", 100)
    first = privot(folder, "privatize", "people.parquet", "-r", "randomizer.json", "-o", "release")
    assert first.returncode == 0, first.stderr
    for more in ([], ["--resume"]):
        again = privot(
            folder, "privatize", "people.parquet", "-r", "randomizer.json", "-o", "release", *more
        )
        assert again.returncode == 2
        assert "budget twice" in again.stderr
    assert each_once(folder / "release", 100)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("people.parquet -o release.npz", "would be npz"),
        ("people.parquet -o release.txt", "unknown format"),
        ("people.parquet -o release --shard-rows 200001", "no multiple"),
    ],
)
def test_refusals_leave_nothing(folder, arguments, words):
    write_people(folder / "people.parquet", 100)
    done = privot(folder, "privatize", *arguments.split(), "-r", "randomizer.json")
    assert done.returncode == 2
    assert words in done.stderr
    assert sorted(os.listdir(folder)) == ["people.parquet", "randomizer.json"]


def killed_at_random(folder, output, chance, resume):
    """Kill a run after as many new parts as chance has it; how many parts are there then."""
    unfinished = folder / f"{output}.unfinished"
    before = len(list(unfinished.glob("part-*.arrow")))
    wanted = before + chance.randrange(12)
    more = ["--resume"] * resume
    options = ("-r", "randomizer.json", "-o", output, "--shard-rows", "1024", *more)
    running = start(folder, "privatize", "people.parquet", *options)
    while running.poll() is None:
        if len(list(unfinished.glob("part-*.arrow"))) >= wanted and unfinished.exists():
            time.sleep(chance.random() * 0.02)
            break
        time.sleep(0.001)
    running.kill()
    return len(list(unfinished.glob("part-*.arrow")))


@pytest.mark.parametrize("output", ["release", "release.parquet"])
def test_kill_9_at_random_moments_loses_and_doubles_nobody(folder, output):
    write_people(folder / "people.parquet", NUM, row_group_size=1500)
    chance = random.Random(output)
    parts = 0
    for kill in range(3):
        left = killed_at_random(folder, output, chance, resume=kill > 0)
        if (folder / output).exists():
            break
        assert left >= parts  # what was whole stays
        parts = left
    else:
        done = privot(
            folder,
            *("privatize", "people.parquet", "-o", output, "--shard-rows", "1024", "--resume"),
            *("-r", "randomizer.json"),
        )
        assert done.returncode == 0, done.stderr
        if parts:
            before = min(1024 * parts, NUM)  # the last part is smaller
            assert f"({before:,} of them by the run before)" in done.stdout
    assert each_once(folder / output, NUM)
    assert len(Release.load(folder / output)) == NUM
    left = {path.name for path in folder.iterdir()} - {"people.parquet", "randomizer.json", output}
    # Whoever is killed while the parts become one file leaves its draft, of noised records alone.
    drafts = {name for name in left if name.startswith(".") and name.endswith(".draft")}
    assert len(drafts) <= 3
    assert left - drafts <= {f"{output}.unfinished"}


def test_the_manifest_of_a_release_says_nothing_of_the_raw_files(folder):
    write_people(folder / "people.parquet", 100)
    privot(folder, "privatize", "people.parquet", "-r", "randomizer.json", "-o", "release")
    manifest = json.loads((folder / "release" / "manifest.json").read_text())
    assert set(manifest) == {"format", "kind", "rows", "shards"}
    assert manifest["rows"] == sum(shard["rows"] for shard in manifest["shards"]) == 100
    assert np.array_equal(
        sorted(path.name for path in (folder / "release").iterdir()),
        ["manifest.json", "shard-000000.parquet"],
    )
