"""One unusable file stops no collection: its defect is reported, and all other reports count."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import privot
from privot import Randomizer, Release, Schema
from privot.collector.collecting import collect_files
from privot.core.errors import PrivotError
from privot.tables.files import METADATA_KEY
from randomizer.strange_reports import HOME

ID = "1" * 32


@pytest.fixture(scope="module")
def release():
    randomizer = Randomizer.calibrate(Schema.from_toml(HOME), 2.0)
    return randomizer.privatize({"x": [0.0] * 20, "y": [0.0] * 20})


@pytest.fixture
def inbox(tmp_path, release):
    (tmp_path / "inbox").mkdir()
    release.save(tmp_path / "inbox" / "honest.parquet")
    release.randomizer.save(tmp_path / "randomizer.json")
    return tmp_path / "inbox"


def collected(inbox, release):
    """What was said of the one stranger's file, after all honest reports were counted."""
    done = collect_files([inbox], inbox.parent / "all.parquet", release.randomizer)
    assert (done.num_reports, done.copies, done.quarantined) == (20, 0, 1)
    assert Release.load(inbox.parent / "all.parquet").table.equals(release.table)
    return done.first


@pytest.mark.parametrize(
    "text",
    [f"x,y,report_id,x\n.5,.5,{ID},.5\n", f"x,y,report_id,report_id\n.5,.5,{ID},{ID}\n"],
    ids=["a column", "the id"],
)
def test_a_csv_with_a_column_twice(inbox, release, text):
    (inbox / "twice.csv").write_text(text)
    assert "has columns" in collected(inbox, release)


def test_a_parquet_with_a_column_twice(inbox, release):
    table = release.table
    fields = [*table.schema, table.schema.field(0)]
    carried = {METADATA_KEY: release.randomizer.to_json().encode()}
    columns = [*table.columns, table.column(0)]
    twice = pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=carried))
    pq.write_table(twice, inbox / "twice.parquet")
    assert "its columns are not what is reported" in collected(inbox, release)


def test_names_that_lead_to_no_file(inbox, release):
    os.symlink("nowhere", inbox / "gone.csv")
    assert "it is no file" in collected(inbox, release)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_that_nobody_writes_is_not_waited_for(inbox):
    os.mkfifo(inbox / "wait.csv")
    os.mkfifo(inbox / "a.parquet")
    command = ["collect", "inbox", "-r", "randomizer.json", "-o", "all.parquet"]
    done = privot(inbox.parent, *command)  # for ever, as pytest's own limit would tell
    assert done.returncode == 0, done.stderr
    assert "2 reports cannot be counted" in done.stderr
    assert "a.parquet: it is no file" in done.stderr


def test_a_name_that_is_no_text(inbox, release):
    (inbox / os.fsdecode(b"\xff.csv")).write_text("x\n")
    assert collected(inbox, release).startswith(f"{inbox}/\\udcff.csv: ")


def test_metadata_as_deep_as_a_stranger_likes(inbox, release):
    deep = release.table.replace_schema_metadata({METADATA_KEY: b"[" * 200_000})
    pq.write_table(deep, inbox / "0.parquet")
    with pytest.raises(PrivotError, match="not readable"):
        collect_files([inbox], inbox.parent / "all.parquet")
    assert "another randomizer" in collected(inbox, release)
