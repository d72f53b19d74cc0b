"""Parts of a stopped run: written once, resumed by the same run only."""

import os

import pytest

from numbered_people import (
    RANDOMIZER,
    SCHEMA,
    each_once,
    people,
    with_ids,
    write_people,
)
from numbered_people import privatize_file as stream
from privot import Randomizer
from privot.core.errors import PrivotError
from privot.randomizer import publishing as parts_module
from privot.randomizer.privatize import privatize_records
from privot.randomizer.publishing import Parts, unfinished, write_buckets
from privot.tables.record_files import open_records

NUM = 10_000


class Killed(BaseException):
    """What no code catches."""


@pytest.mark.parametrize("name", ["release.parquet", "release"])
def test_a_killed_run_goes_on_and_nobody_is_noised_twice(raw, tmp_path, name, monkeypatch):
    output, noised = tmp_path / name, []
    whole = RANDOMIZER.reports_in_order

    def noting(self, table):
        noised.extend(table["person"].to_numpy().astype(int))
        return whole(table)

    def kill(doing, rows, expected):
        if rows >= 4 * 1024:
            raise Killed

    monkeypatch.setattr(Randomizer, "reports_in_order", noting)
    with pytest.raises(Killed):
        stream(raw, output, part_rows=1024, progress=kill)
    monkeypatch.undo()
    done_before = Parts.begin(
        output, 1024, 10, RANDOMIZER.to_json(), _identity(raw), "resume"
    ).completed()
    assert done_before
    assert not output.exists()
    (unfinished(output) / ".part-000009.arrow.0a0a.draft").write_bytes(b"half a part")
    with pytest.raises(PrivotError, match="left from a run that was stopped.*--resume"):
        stream(raw, output, part_rows=1024)
    noised.clear()
    monkeypatch.setattr(Randomizer, "reports_in_order", noting)
    logged = []
    done = stream(raw, output, part_rows=1024, leftover="resume", log=logged.append)
    assert done.resumed_rows == 1024 * len(done_before)
    assert each_once(output, NUM)
    assert not set(noised) & {p for k in done_before for p in range(1024 * k, 1024 * (k + 1))}
    assert len(noised) == NUM - done.resumed_rows
    assert "1 unfinished parts were deleted" in logged[0]
    assert "budget is spent twice" in logged[0]
    with pytest.raises(PrivotError, match="would spend their budget twice"):
        stream(raw, output, part_rows=1024)


def _identity(raw):
    return open_records(raw, SCHEMA).identity()


def test_a_run_killed_before_its_last_rename_needs_no_noise(raw, tmp_path, monkeypatch):
    def kill(doing, rows, expected):
        if doing == "shuffle":
            raise Killed

    with pytest.raises(Killed):
        stream(raw, tmp_path / "release", part_rows=1024, progress=kill)
    done = stream(raw, tmp_path / "release", part_rows=1024, leftover="resume")
    assert done.resumed_rows == done.num_rows == NUM
    assert each_once(tmp_path / "release", NUM)


@pytest.mark.parametrize(
    ("change", "words"),
    [("records", "other records"), ("randomizer", "another randomizer"), ("rows", "shard-rows")],
)
def test_only_the_same_run_is_resumed(raw, tmp_path, change, words):
    def kill(doing, rows, expected):
        raise Killed

    with pytest.raises(Killed):
        stream(raw, tmp_path / "release", part_rows=1024, progress=kill)
    if change == "records":
        write_people(raw, NUM + 1)
    randomizer = RANDOMIZER
    if change == "randomizer":
        randomizer = Randomizer.calibrate(SCHEMA, 5.0, report="split")
    with pytest.raises(PrivotError, match=words):
        privatize_records(
            randomizer,
            open_records(raw, SCHEMA),
            tmp_path / "release",
            part_rows=2048 if change == "rows" else 1024,
            leftover="resume",
        )


def test_parts_without_their_manifest_are_not_taken_for_these_records(raw, tmp_path):
    """A removal that was killed may leave parts of other people."""
    stranger = Parts.begin(tmp_path / "release", 1024, 10, "{}", {}, "refuse")
    assert stranger.folder.stat().st_mode & 0o077 == 0  # the order of the records: nobody else's
    stranger.store(0, lambda draft: write_buckets(draft, [with_ids(people(0, 1024))], 10))
    (stranger.folder / "unfinished.json").unlink()
    with pytest.raises(PrivotError, match="is damaged"):
        stream(raw, tmp_path / "release", part_rows=1024, leftover="resume")
    assert not (tmp_path / "release").exists()


def test_two_runs_at_once_publish_a_part_once(tmp_path):
    parts = Parts.begin(tmp_path / "release", 8, 1, "{}", {}, "refuse")
    parts.store(0, lambda draft: draft.write_bytes(b"first"))
    with pytest.raises(PrivotError, match="by another run at the same time"):
        parts.store(0, lambda draft: draft.write_bytes(b"second"))
    assert parts.path(0).read_bytes() == b"first"
    assert not list(parts.folder.glob(".*"))


def test_where_there_are_no_links_a_part_is_not_replaced_either(tmp_path, monkeypatch):
    def no_links(source, target):
        raise OSError(parts_module.errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_links)
    parts = Parts.begin(tmp_path / "release", 8, 1, "{}", {}, "refuse")
    parts.store(0, lambda draft: draft.write_bytes(b"first"))
    with pytest.raises(PrivotError, match="by another run"):
        parts.store(0, lambda draft: draft.write_bytes(b"second"))
    assert parts.path(0).read_bytes() == b"first"
