"""Rows in memory and in files are the same rows, piece by piece."""

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from privot.collector import collect
from privot.core.errors import PrivotError
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import (
    ReportTable,
    is_release,
    shard_files,
    shard_name,
    write_manifest,
)
from privot.schema import Schema

SCHEMA = Schema.from_dict(
    {"columns": {name: {"kind": "categorical", "categories": list("abcd")} for name in "xyz"}}
)


def numbers(start, stop):
    return pa.table({"n": pa.array(range(start, stop), pa.int32())})


@pytest.fixture
def release():
    rows = {name: list("abcd") * 250 for name in "xyz"}
    return Randomizer.calibrate(SCHEMA, 1.0).privatize(rows)


def test_pieces_keep_all_rows_in_order_whatever_they_are_made_of(tmp_path):
    pq.write_table(
        numbers(0, 40).replace_schema_metadata({b"privot.randomizer": b"{}"}),
        tmp_path / "first.parquet",
        row_group_size=7,
    )
    file, text = ReportTable.open(tmp_path / "first.parquet")
    ones = [ReportTable.of(numbers(i, i + 1)) for i in range(40, 60)]
    parts = [file, *ones, ReportTable.of(numbers(60, 100))]
    rows = ReportTable(ds.dataset([part.dataset for part in parts]))
    pieces = list(rows.pieces(size=15))
    assert text == "{}"
    assert len(rows) == 100
    assert all(piece.schema.metadata is None for piece in pieces)
    assert [n for piece in pieces for n in piece["n"].to_pylist()] == list(range(100))
    # No piece but the last is short, however many single rows it was collected from.
    assert [piece.num_rows >= 15 for piece in pieces[:-1]] == [True] * (len(pieces) - 1)
    assert max(piece.num_rows for piece in pieces) < 30


def test_a_loaded_release_reads_its_file_and_can_be_saved_over_it(release, tmp_path):
    path = tmp_path / "release.parquet"
    release.save(path)
    again = Release.load(path)
    again.save(path)
    assert Release.load(path).table.equals(release.table)
    both = collect([Release.load(path), release])  # the same reports count once
    assert both.release.table.equals(release.table)
    assert (both.copies, len(both.quarantined)) == (1000, 0)


def test_a_piece_is_a_release(release):
    (piece,) = release.pieces()
    assert piece.guarantee == release.guarantee
    assert piece.joint_answers.cells.tolist() == release.joint_answers.cells.tolist()


def test_a_file_that_is_gone_or_damaged_inside_is_refused_in_words(release, tmp_path):
    path = tmp_path / "release.parquet"
    release.save(path)
    opened = Release.load(path)
    path.unlink()
    with pytest.raises(PrivotError, match="cannot be read"):
        next(opened.pieces())
    release.save(path)
    whole = bytearray(path.read_bytes())
    whole[10:200] = bytes(190)  # a page of the first column; the footer is whole
    path.write_bytes(bytes(whole))
    with pytest.raises(PrivotError, match="cannot be read|altered"):
        Release.load(path)


def test_a_folder_lists_its_shards_or_is_no_release(tmp_path):
    assert not is_release(tmp_path)
    with pytest.raises(PrivotError, match=r"no readable manifest\.json"):
        shard_files(tmp_path)
    for number in (0, 1):
        (tmp_path / shard_name(number)).touch()
    write_manifest(tmp_path, [7, 3])
    assert is_release(tmp_path)
    assert shard_files(tmp_path) == [tmp_path / shard_name(0), tmp_path / shard_name(1)]
    (tmp_path / shard_name(1)).unlink()
    with pytest.raises(PrivotError, match="lacks .*shard-000001.*copy it again"):
        shard_files(tmp_path)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(PrivotError, match="has format 2, not 1: update privot"):
        shard_files(tmp_path)
