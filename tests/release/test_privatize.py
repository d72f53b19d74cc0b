"""Streams of records: everybody reports once, in random order, or nothing is written."""

import io
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from numbered_people import (
    RANDOMIZER,
    SCHEMA,
    each_once,
    people,
    read_back,
    who_reported,
    write_people,
)
from privot import Randomizer, Release, Schema
from privot.errors import PrivotError
from privot.release.collecting.report_text import write_text
from privot.release.reports.ids import REPORT_ID, draw_ids
from privot.release.streaming import parts as parts_module
from privot.release.streaming import privatize as streaming
from privot.release.streaming.parts import Parts, unfinished
from privot.release.streaming.privatize import batch_rows, privatize_records
from privot.release.streaming.publishing import bucket_rows, gather, write_scattered
from privot.tables.batches import TableBatches
from privot.tables.record_files import open_records

NUM = 10_000


@pytest.fixture
def raw(tmp_path):
    write_people(tmp_path / "raw.parquet", NUM)
    return tmp_path / "raw.parquet"


def with_ids(rows):
    return rows.append_column(REPORT_ID, draw_ids(len(rows)))


def stream(raw, output, **options):
    return privatize_records(RANDOMIZER, open_records(raw, SCHEMA), output, **options)


@pytest.mark.parametrize("name", ["release.parquet", "release"])
def test_everybody_reports_once_in_an_order_that_tells_nothing(raw, tmp_path, name):
    done = stream(raw, tmp_path / name, part_rows=1024)
    assert (done.num_rows, done.kept_rows, done.outside) == (NUM, 0, {"person": 0})
    assert each_once(tmp_path / name, NUM)
    order = who_reported(tmp_path / name)
    # Of uniform orders, a correlation of 0.06 is six standard deviations; so is a neighbor's.
    assert abs(np.corrcoef(order, np.arange(NUM))[0, 1]) < 0.06
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.06
    release = Release.load(tmp_path / name)
    assert len(release) == NUM
    assert release.guarantee == RANDOMIZER.guarantee
    assert not unfinished(tmp_path / name).exists()


def test_shards_are_a_data_set_with_a_manifest(raw, tmp_path):
    stream(raw, tmp_path / "release", part_rows=2048)
    shards = sorted(path.name for path in (tmp_path / "release").iterdir())
    assert shards == ["manifest.json", *(f"shard-{k:06d}.parquet" for k in range(5))]
    (tmp_path / "release" / "shard-000003.parquet").unlink()
    with pytest.raises(PrivotError, match="lacks .*shard-000003"):
        Release.load(tmp_path / "release")
    with pytest.raises(PrivotError, match=r"no readable manifest\.json"):
        Release.load(tmp_path)


def test_shards_of_two_randomizers_are_refused(raw, tmp_path):
    stream(raw, tmp_path / "release", part_rows=2048)
    other = Randomizer.calibrate(SCHEMA, 5.0, report="split").privatize(people(0, 2000))
    other.save(tmp_path / "release" / "shard-000003.parquet")
    with pytest.raises(PrivotError, match="or several"):
        Release.load(tmp_path / "release")


def test_numbers_beyond_their_bounds_are_counted_over_all_batches():
    handed = [pa.table({"person": [-1.0, 5.0]}), pa.table({"person": [2e6, 7.0]})] * 500
    done = privatize_records(RANDOMIZER, TableBatches(handed), io.BytesIO(), part_rows=512)
    assert (done.num_rows, done.outside) == (2000, {"person": 1000})


@pytest.mark.parametrize("name", ["release.parquet", "release", "release.csv"])
def test_a_refusal_far_down_leaves_nothing(tmp_path, name):
    values = np.arange(NUM, dtype=float)
    values[9_000] = np.nan
    pq.write_table(pa.table({"person": values}), tmp_path / "raw.parquet")
    with pytest.raises(
        PrivotError, match="row 9,001 of .*raw.parquet: column .person. has no value"
    ):
        stream(tmp_path / "raw.parquet", tmp_path / name, part_rows=1024)
    assert os.listdir(tmp_path) == ["raw.parquet"]


def test_a_source_without_rows_is_refused(tmp_path):
    write_people(tmp_path / "raw.parquet", 0)
    with pytest.raises(PrivotError, match="has no rows"):
        stream(tmp_path / "raw.parquet", tmp_path / "release")
    assert os.listdir(tmp_path) == ["raw.parquet"]


class Killed(BaseException):
    """What no code catches."""


@pytest.mark.parametrize("name", ["release.parquet", "release"])
def test_a_killed_run_goes_on_and_nobody_is_noised_twice(raw, tmp_path, name, monkeypatch):
    output, noised = tmp_path / name, []
    whole = RANDOMIZER.privatize

    def noting(self, table, **options):
        noised.extend(table["person"].to_numpy().astype(int))
        return whole(table, **options)

    def kill(doing, rows, expected):
        if rows >= 4 * 1024:
            raise Killed

    monkeypatch.setattr(Randomizer, "privatize", noting)
    with pytest.raises(Killed):
        stream(raw, output, part_rows=1024, progress=kill)
    monkeypatch.undo()
    kept = Parts.begin(output, 1024, 10, RANDOMIZER.to_json(), _identity(raw), "resume").done()
    assert kept
    assert not output.exists()
    (unfinished(output) / ".part-000009.arrow.0a0a.draft").write_bytes(b"half a part")
    with pytest.raises(PrivotError, match="left from a run that was stopped.*--resume"):
        stream(raw, output, part_rows=1024)
    noised.clear()
    monkeypatch.setattr(Randomizer, "privatize", noting)
    told = []
    done = stream(raw, output, part_rows=1024, left="resume", told=told.append)
    assert done.kept_rows == 1024 * len(kept)
    assert each_once(output, NUM)
    assert not set(noised) & {p for k in kept for p in range(1024 * k, 1024 * (k + 1))}
    assert len(noised) == NUM - done.kept_rows
    assert "1 unfinished parts were deleted" in told[0]
    assert "budget is spent twice" in told[0]
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
    done = stream(raw, tmp_path / "release", part_rows=1024, left="resume")
    assert done.kept_rows == done.num_rows == NUM
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
            left="resume",
        )


def test_parts_without_their_manifest_are_not_taken_for_these_records(raw, tmp_path):
    """A removal that was killed may leave parts of other people."""
    stranger = Parts.begin(tmp_path / "release", 1024, 10, "{}", {}, "refuse")
    assert stranger.folder.stat().st_mode & 0o077 == 0  # the order of the records: nobody else's
    stranger.publish(0, lambda draft: write_scattered(draft, [with_ids(people(0, 1024))], 10))
    (stranger.folder / "unfinished.json").unlink()
    with pytest.raises(PrivotError, match="is damaged"):
        stream(raw, tmp_path / "release", part_rows=1024, left="resume")
    assert not (tmp_path / "release").exists()


def test_an_output_that_appears_meanwhile_is_not_replaced(raw, tmp_path):
    output = tmp_path / "release.parquet"

    def other_run(doing, rows, expected):
        output.write_bytes(b"reports of the same people")

    with pytest.raises(PrivotError, match="by another run meanwhile"):
        stream(raw, output, part_rows=1024, progress=other_run)
    assert output.read_bytes() == b"reports of the same people"


@pytest.mark.parametrize("name", ["release", "release.parquet"])
def test_sizes_tell_nothing_of_the_bytes_of_raw_records(tmp_path, name, monkeypatch):
    monkeypatch.setattr(streaming, "_BUCKET_BYTES", 2**14)
    seen = []
    for form in ("{}", "{}.000000000000"):
        raw, output = tmp_path / "raw.csv", tmp_path / f"{len(form)}" / name
        output.parent.mkdir()
        raw.write_text("person\n" + "\n".join(form.format(i) for i in range(5000)) + "\n")
        stream(raw, output, part_rows=512)
        files = sorted(output.glob("*.parquet")) if output.is_dir() else [output]
        metadata = [pq.read_metadata(file) for file in files]
        seen.append([[m.row_group(g).num_rows for g in range(m.num_row_groups)] for m in metadata])
    assert seen[0] == seen[1]
    assert sum(sum(groups) for groups in seen[0]) == 5000


def test_two_runs_at_once_publish_a_part_once(tmp_path):
    parts = Parts.begin(tmp_path / "release", 8, 1, "{}", {}, "refuse")
    parts.publish(0, lambda draft: draft.write_bytes(b"first"))
    with pytest.raises(PrivotError, match="by another run at the same time"):
        parts.publish(0, lambda draft: draft.write_bytes(b"second"))
    assert parts.path(0).read_bytes() == b"first"
    assert not list(parts.folder.glob(".*"))


def test_where_there_are_no_links_a_part_is_not_replaced_either(tmp_path, monkeypatch):
    def no_links(source, target):
        raise OSError(parts_module.errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_links)
    parts = Parts.begin(tmp_path / "release", 8, 1, "{}", {}, "refuse")
    parts.publish(0, lambda draft: draft.write_bytes(b"first"))
    with pytest.raises(PrivotError, match="by another run"):
        parts.publish(0, lambda draft: draft.write_bytes(b"second"))
    assert parts.path(0).read_bytes() == b"first"


def test_a_pipe_gets_all_or_nothing():
    pipe = io.BytesIO()
    with pytest.raises(PrivotError, match="no value"):
        records = [people(0, 3000), pa.table({"person": [1.0, None]})]
        privatize_records(RANDOMIZER, TableBatches(records), pipe, part_rows=512)
    assert pipe.getvalue() == b""
    privatize_records(RANDOMIZER, TableBatches(people(0, 3000)), pipe, part_rows=512)
    with pytest.raises(PrivotError, match="records that come from memory are not known again"):
        privatize_records(RANDOMIZER, TableBatches(people(0, 3000)), pipe, left="resume")
    pipe.seek(0)
    back = read_back(pipe, RANDOMIZER)
    assert np.array_equal(np.sort(np.rint(back.table["person"].to_numpy())), np.arange(3000))


MIXED = Schema.from_toml("""
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["", "green, or so", "none"]
nullable = true
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 1]]
""")


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
@pytest.mark.parametrize("options", [{}, {"report": "split", "report_columns": 2}])
def test_reports_are_the_same_through_text(tmp_path, suffix, options):
    rng = np.random.default_rng(0)
    table = {
        "height": rng.uniform(0, 10, 500),
        "color": rng.choice(["", "green, or so", "none", None], 500),
        "x": rng.random(500),
        "y": rng.random(500),
    }
    release = Randomizer.calibrate(MIXED, 2.0, **options).privatize(table)
    path = tmp_path / f"release.{suffix}"
    write_text(path, [release.table.slice(0, 100), release.table.slice(100)], suffix == "csv.gz")
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == (suffix == "csv.gz")
    back = read_back(path, release.randomizer)
    assert back.table.equals(release.table)
    other = Randomizer.calibrate(SCHEMA, 1.0)
    with pytest.raises(PrivotError, match="has columns"):
        read_back(path, other)


def test_empty_sets_are_not_the_same_as_nothing_reported():
    schema = Schema.from_dict(
        {"columns": {"c": {"kind": "categorical", "categories": [f"c{i}" for i in range(40)]}}}
    )
    randomizer = Randomizer.calibrate(schema, 3.0, report="split", mechanism="auto")
    reports = pa.array([[], [1, 2], None, [39]], pa.list_(pa.int32()))
    pipe = io.BytesIO()
    write_text(pipe, [with_ids(pa.table({"c": reports}))])
    pipe.seek(0)
    assert read_back(pipe, randomizer).table["c"].combine_chunks().equals(reports)


def test_a_bucket_is_a_uniform_share_of_every_part(tmp_path):
    paths = [tmp_path / f"{k}.arrow" for k in range(4)]
    for k, path in enumerate(paths):
        write_scattered(path, [with_ids(people(k * 5000, (k + 1) * 5000))], buckets=8)
    rows = bucket_rows(paths, 8)
    assert sum(rows) == 20_000
    # Binomial(20 000, 1/8): standard deviation 47.
    assert max(abs(n - 2500) for n in rows) < 7 * 47
    seen = np.concatenate([gather(paths, b, b + 1)["person"].to_numpy() for b in range(8)])
    assert np.array_equal(np.sort(seen), np.arange(20_000))
    first = gather(paths, 0, 1)["person"].to_numpy()
    share = np.bincount((first // 5000).astype(int), minlength=4)
    assert np.abs(share - 625).max() < 7 * 23.4


def test_wide_reports_are_noised_few_at_a_time():
    assert batch_rows(RANDOMIZER) == 2**17
    names = [f"v{i}" for i in range(784)]
    wide = Schema.from_dict({"columns": {"v": {"kind": "vector", "columns": names, "radius": 1.0}}})
    assert batch_rows(Randomizer.calibrate(wide, 1.0, report="split")) == 1024
