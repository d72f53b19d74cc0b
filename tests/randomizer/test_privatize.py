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
from numbered_people import privatize_file as stream
from privot import Randomizer, Release, Schema
from privot.core.errors import PrivotError
from privot.randomizer import privatize as streaming
from privot.randomizer.privatize import batch_rows, privatize_records
from privot.randomizer.publishing import unfinished
from privot.tables.files import TableBatches
from privot.tables.record_files import open_records

NUM = 10_000


@pytest.mark.parametrize("name", ["release.parquet", "release"])
def test_everybody_reports_once_in_an_order_that_tells_nothing(raw, tmp_path, name):
    done = stream(raw, tmp_path / name, part_rows=1024)
    assert (done.num_rows, done.resumed_rows, done.outside) == (NUM, 0, {"person": 0})
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
@pytest.mark.parametrize(("wrong", "words"), [(np.nan, "has no value"), (2e6, "is out of bounds")])
def test_a_refusal_far_down_leaves_nothing(tmp_path, name, wrong, words):
    values = np.arange(NUM, dtype=float)
    values[9_000] = wrong
    pq.write_table(pa.table({"person": values}), tmp_path / "raw.parquet")
    column = SCHEMA.columns["person"].model_copy(update={"out_of_bounds": "refuse"})
    refusing = Randomizer(Schema(columns={"person": column}), RANDOMIZER.mechanisms)
    records = open_records(tmp_path / "raw.parquet", SCHEMA)
    message = f"row 9,001 of .*raw.parquet: column .person. {words}"
    with pytest.raises(PrivotError, match=message):
        privatize_records(refusing, records, tmp_path / name, part_rows=1024)
    assert os.listdir(tmp_path) == ["raw.parquet"]


def test_a_source_without_rows_is_refused(tmp_path):
    write_people(tmp_path / "raw.parquet", 0)
    with pytest.raises(PrivotError, match="has no rows"):
        stream(tmp_path / "raw.parquet", tmp_path / "release")
    assert os.listdir(tmp_path) == ["raw.parquet"]


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


def test_a_pipe_gets_all_or_nothing():
    pipe = io.BytesIO()
    with pytest.raises(PrivotError, match="no value"):
        records = [people(0, 3000), pa.table({"person": [1.0, None]})]
        privatize_records(RANDOMIZER, TableBatches(records), pipe, part_rows=512)
    assert pipe.getvalue() == b""
    privatize_records(RANDOMIZER, TableBatches(people(0, 3000)), pipe, part_rows=512)
    with pytest.raises(PrivotError, match="records from memory are not recognized again"):
        privatize_records(RANDOMIZER, TableBatches(people(0, 3000)), pipe, leftover="resume")
    pipe.seek(0)
    back = read_back(pipe, RANDOMIZER)
    assert np.array_equal(np.sort(np.rint(back.table["person"].to_numpy())), np.arange(3000))


def test_wide_reports_are_noised_few_at_a_time():
    assert batch_rows(RANDOMIZER) == 2**17
    names = [f"v{i}" for i in range(784)]
    wide = Schema.from_dict({"columns": {"v": {"kind": "vector", "columns": names, "radius": 1.0}}})
    assert batch_rows(Randomizer.calibrate(wide, 1.0, report="split")) == 1024
