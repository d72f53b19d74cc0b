"""A pipe that breaks, or a run that is killed, gives nobody a second report.

What breaks or is killed are processes of their own: one begins as users begin it, the others are forks.
"""

import os
import subprocess
import sys

import numpy as np
import pyarrow.csv as csv
import pytest

from commands import privot
from forked_commands import start as start_fork
from numbered_people import RANDOMIZER, people
from privot.randomizer import privatize

NUM = 20_000


@pytest.fixture
def folder(tmp_path):
    RANDOMIZER.save(tmp_path / "randomizer.json")
    csv.write_csv(people(0, NUM), tmp_path / "people.csv")
    return tmp_path


def start(folder, source="people.csv", account="state", **options):
    arguments = ["privatize", source, "-r", "randomizer.json", "-o", "-"]
    return start_fork(folder, *arguments, PRIVOT_STATE_DIR=folder / account, **options)


def half_read(stdout, lines=2001):
    """What a reader that goes away halfway has read."""
    got = [stdout.readline() for _ in range(lines)]
    stdout.close()
    return got


def broken(process):
    got = half_read(process.stdout)
    return got, process.wait(), process.said()


def whole(folder, *arguments, source="people.csv", sent=None, output="-"):
    """What a reader that stays gets, and how a run ended, in this process."""
    done = privot(
        folder, "privatize", source, "-r", "randomizer.json", "-o", output, *arguments,
        stdin=(folder / sent).read_text() if sent else "", PRIVOT_STATE_DIR=folder / "state",
    )  # fmt: skip
    return done.stdout.encode().splitlines(keepends=True), done.returncode, done.stderr


def who(lines):
    return {round(float(line.split(b",")[0])): line for line in lines[1:]}


def stored(folder, account="state"):
    return os.listdir(folder / account / "pipes")


def test_a_pipe_that_breaks_is_sent_the_same_reports_again(folder):
    command = ["privatize", "people.csv", "-r", "randomizer.json", "-o", "-"]
    with subprocess.Popen(
        [sys.executable, "-m", "privot", *command],
        cwd=folder,
        env=os.environ | {"PRIVOT_STATE_DIR": str(folder / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        got = half_read(process.stdout)
        err, code = process.stderr.read().decode(), process.wait()
    assert (len(got), code) == (2001, 2)
    assert "the reports did not all go through" in err
    assert "Exception" not in err
    (left,) = stored(folder)
    for held in (folder / "state", folder / "state" / "pipes"):
        assert held.stat().st_mode & 0o077 == 0
    # A plain run again is refused, and gives the reader nothing.
    out, code, err = whole(folder)
    assert (out, code) == ([], 2)
    assert "continue it with --resume" in err
    assert "budget is spent twice" in err
    # Whatever the file is called now.
    os.rename(folder / "people.csv", folder / "moved.csv")
    out, code, err = whole(folder, "--resume", source="moved.csv")
    assert code == 0, err
    assert out[:2001] == got
    assert set(who(out)) == set(range(NUM))
    assert stored(folder) == []
    assert left not in err
    out, code, err = whole(folder, "--resume", source="moved.csv")
    assert (out, code) == ([], 2)
    assert "they went through" in err


@pytest.mark.parametrize("source", ["people.csv", "-"])
def test_nor_is_a_file_written_of_records_whose_reports_a_pipe_has_kept(folder, source):
    broken(start(folder))

    def privatize(*more):
        return whole(folder, *more, source=source, sent="people.csv", output="out.parquet")

    for more in ([], ["--resume"]):
        _, code, err = privatize(*more)
        assert code == 2
        assert "send the same again with -o - --resume" in err or source == "-"
        assert sorted(os.listdir(folder)) == ["people.csv", "randomizer.json", "state"]
    _, code, err = privatize("--discard")
    assert code == 0, err
    assert stored(folder) == []


def test_what_a_message_names_is_no_hash_that_others_can_try_records_on(folder):
    """A device's one record could be guessed from a log: the folder's name was its plain hash."""
    names = set()
    for account in ("state", "other"):
        broken(start(folder, account=account))
        names.update(stored(folder, account))
    assert len(names) == 2


def test_reports_few_enough_for_the_pipe_to_hold_are_not_taken_for_read(folder):
    """They were all written, without an error, and nobody has read them."""
    csv.write_csv(people(0, 500), folder / "people.csv")
    process = start(folder)
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.wait() == 2
    assert len(stored(folder)) == 1
    out, code, _ = whole(folder, "--resume")
    assert (len(out), code) == (501, 0)


def test_records_that_come_on_a_pipe_are_known_again_by_their_bytes(folder):
    got, code, _ = broken(start(folder, source="-", stdin="people.csv"))
    assert code == 2
    (left,) = stored(folder)
    out, code, err = whole(folder, source="-", sent="people.csv")
    assert (out, code) == ([], 2)
    assert "--resume" in err
    csv.write_csv(people(5, NUM), folder / "others.csv")
    out, code, err = whole(folder, source="-", sent="others.csv")  # other people: their own run
    assert (len(out), code) == (NUM - 5 + 1, 0)
    assert stored(folder) == [left]
    out, code, err = whole(folder, "--resume", source="-", sent="people.csv")
    assert (code, out[:2001]) == (0, got), err
    assert stored(folder) == []


def test_a_kill_while_sending_keeps_the_reports(folder):
    process = start(folder)
    got = [process.stdout.readline() for _ in range(100)]
    process.kill()
    process.stdout.close()
    out, code, _ = whole(folder)
    assert (out, code) == ([], 2)
    out, code, _ = whole(folder, "--resume")
    assert (code, out[:100]) == (0, got)


def test_what_is_kept_is_discarded_by_explicit_choice_only(folder):
    got, _, _ = broken(start(folder))
    out, code, err = whole(folder, "--resume", "--discard")
    assert (code, "give one" in err) == (2, True)
    out, code, err = whole(folder, "--discard")
    assert code == 0
    first, second = who(got), who(out)
    assert set(second) == set(range(NUM))
    assert np.mean([first[k] == second[k] for k in first]) < 0.01  # a second report, as was said
    assert stored(folder) == []


def test_a_state_folder_that_cannot_be_written_is_told_first(folder):
    (folder / "state").write_text("a file")
    out, code, err = whole(folder)
    assert (out, code) == ([], 2)
    assert "cannot be written" in err
    assert "Traceback" not in err


def test_names_of_parts_are_on_the_disk_before_anything_is_sent(folder, monkeypatch):
    """Were they in memory alone, a loss of power halfway would have the records noised again."""
    flushed, before, flush, publish = [], [], os.fsync, privatize.publish

    def flushing(handle):
        flushed.append(os.fstat(handle).st_ino)
        flush(handle)

    def publishing(parts, *rest):
        pipes = parts.folder.parent
        before.extend(f.stat().st_ino in flushed for f in (parts.folder, pipes, pipes.parent))
        return publish(parts, *rest)

    monkeypatch.setattr(os, "fsync", flushing)
    monkeypatch.setattr(privatize, "publish", publishing)
    assert whole(folder)[1] == 0
    assert before == [True] * 3
