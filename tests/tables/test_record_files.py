"""Batches are the same records whatever files they come from, and from wherever one goes on."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from numbered_people import SCHEMA, people
from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.tables import record_files
from privot.tables.files import TableBatches, read_table
from privot.tables.record_files import open_records


def numbers(batches):
    return {number: table["person"].cast("double").to_pylist() for number, table in batches}


def as_parquet(folder):
    pq.write_table(people(0, 100), folder / "p.parquet", row_group_size=7)
    return folder / "p.parquet"


def as_csv(folder):
    csv.write_csv(people(0, 100), folder / "p.csv")
    return folder / "p.csv"


def as_zipped_csv(folder):
    with gzip.open(folder / "p.csv.gz", "wb") as file:
        csv.write_csv(people(0, 100), file)
    return folder / "p.csv.gz"


def as_npz(folder):
    np.savez(folder / "p.npz", person=np.arange(100.0))
    return folder / "p.npz"


def as_folder(folder):
    (folder / "parts" / "deep").mkdir(parents=True)
    pq.write_table(people(0, 33), folder / "parts" / "a.parquet", row_group_size=10)
    pq.write_table(people(33, 100), folder / "parts" / "deep" / "b.parquet")
    (folder / "parts" / "_SUCCESS").write_text("")
    return folder / "parts"


def as_csv_folder(folder):
    (folder / "parts").mkdir()
    csv.write_csv(people(0, 33), folder / "parts" / "a.csv")
    csv.write_csv(people(33, 100), folder / "parts" / "b.csv")
    return folder / "parts"


KINDS = [as_parquet, as_csv, as_zipped_csv, as_npz, as_folder, as_csv_folder]


@pytest.mark.parametrize("write", KINDS)
def test_batches_hold_the_rows_of_their_number(write, tmp_path):
    records = open_records(write(tmp_path), SCHEMA)
    batches = numbers(records.batches(30))
    assert batches == {i: list(range(30 * i, min(100, 30 * i + 30))) for i in range(4)}
    # Again, without those that an earlier run did: the same numbers mean the same rows.
    rest = numbers(records.batches(30, lambda number: number in (0, 2)))
    assert rest == {1: batches[1], 3: batches[3]}
    assert records.identity() == open_records(records.source, SCHEMA).identity()


def test_row_groups_of_done_batches_are_not_read(tmp_path):
    path = as_parquet(tmp_path)
    records = open_records(path, SCHEMA)
    damaged = bytearray(path.read_bytes())
    damaged[4:200] = bytes(196)  # the first row groups
    path.write_bytes(bytes(damaged))
    assert list(numbers(records.batches(50, lambda number: number == 0))) == [1]
    with pytest.raises(PrivotError, match="cannot be read"):
        numbers(records.batches(50))


@pytest.mark.parametrize("last", ["02", "IT"])
def test_partitions_are_columns_of_text(tmp_path, last):
    """One folder changes no type, and so no other record: 01 is no number, whatever is beside it."""
    for country in ("01", last):
        (tmp_path / f"country={country}").mkdir()
        pq.write_table(people(0, 5), tmp_path / f"country={country}" / "x.parquet")
    ((_, table),) = open_records(tmp_path).batches(100)
    assert table["country"].to_pylist() == ["01"] * 5 + [last] * 5


def test_a_row_group_is_read_in_parts_as_a_data_set_has_it(tmp_path, monkeypatch):
    """Of lists, with a column that one file lacks, a narrower type, and a country that is missing."""
    monkeypatch.setattr(record_files, "_PIECE_VALUES", 100)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(range(240), pa.uint8()), 4)
    whole = pa.table({"image": lists, "age": range(60), "town": [None, "a", "b"] * 20})
    narrow = whole.drop_columns("town").set_column(1, "age", whole["age"].cast(pa.int8()))
    for country, table in (("FR", whole), ("__HIVE_DEFAULT_PARTITION__", narrow)):
        (tmp_path / f"country={country}").mkdir()
        pq.write_table(table, tmp_path / f"country={country}" / "x.parquet", row_group_size=50)
    expected = ds.dataset(
        sorted(map(str, tmp_path.rglob("*.parquet"))),
        schema=whole.schema.append(pa.field("country", pa.string())),
        partitioning="hive",
        partition_base_dir=str(tmp_path),
    ).to_table()
    pieces = [piece for _, piece in open_records(tmp_path)._pieces(lambda first, end: True)]
    assert max(len(piece) for piece in pieces) < 25
    assert (
        pa.concat_tables(pieces).select(expected.column_names).to_pylist() == expected.to_pylist()
    )


def test_tables_that_somebody_hands_over_are_a_source(tmp_path):
    handed = (batch for batch in people(0, 100).to_batches(max_chunksize=9))
    records = TableBatches(handed)
    assert sum(len(rows) for rows in numbers(records.batches(30)).values()) == 100
    assert records.num_rows is None


def test_how_far_a_csv_is_read_is_known(tmp_path):
    csv.write_csv(people(0, 600_000), tmp_path / "p.csv")
    records = open_records(tmp_path / "p.csv", SCHEMA)
    shares = [records.share_read() for _ in records.batches(100_000)]
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] == 1.0


def refusals(folder):
    (folder / "empty").mkdir()
    (folder / "mixed").mkdir()
    as_csv(folder / "mixed")
    as_parquet(folder / "mixed")
    (folder / "none.csv").write_text("")
    (folder / "half.csv.gz").write_bytes(as_zipped_csv(folder).read_bytes()[:60])
    (folder / "half.parquet").write_bytes(as_parquet(folder).read_bytes()[:200])
    (folder / "p.txt").write_text("person\n1\n")
    return {
        "empty": "holds no data files",
        "mixed": r"holds \.csv, \.parquet files",
        "none.csv": "is empty",
        "half.csv.gz": "cannot be read",
        "half.parquet": "cannot be read as parquet",
        "p.txt": "has an unknown format",
        "nowhere.csv": "is not there",
    }


def test_refusals(tmp_path):
    for name, words in refusals(tmp_path).items():
        with pytest.raises(PrivotError, match=words):
            numbers(open_records(tmp_path / name, SCHEMA).batches(10))


def test_a_release_is_no_raw_data(tmp_path):
    from numbered_people import RANDOMIZER

    RANDOMIZER.privatize(people(0, 5)).save(tmp_path / "release.parquet")
    with pytest.raises(PrivotError, match="is a release"):
        open_records(tmp_path / "release.parquet")


def test_a_table_of_two_types_is_one_type(tmp_path):
    """The first file decides; integers of the second are read as its numbers."""
    pq.write_table(people(0, 5), tmp_path / "a.parquet")
    pq.write_table(pa.table({"person": pa.array([5, 6], pa.int32())}), tmp_path / "b.parquet")
    ((_, table),) = open_records(tmp_path).batches(100)
    assert table["person"].to_pylist() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_nothing_is_read_of_identifiers_and_of_what_rules_define(tmp_path, suffix):
    schema = Schema.from_toml("""
    rules = ["twice = 2 * x"]
    [columns.id]
    kind = "identifier"
    pattern = "x"
    [columns.x]
    kind = "numeric"
    bounds = [0, 9]
    [columns.twice]
    kind = "numeric"
    bounds = [0, 18]
    """)
    path = tmp_path / f"p{suffix}"
    text = 'id,x,twice\n1,3,a\nM\xfcller,4,\n"two\nlines",5,7\n'.encode("latin-1")
    if suffix == ".parquet":
        pq.write_table(pa.table({"id": [b"1", None], "x": [3, 4], "twice": ["a", None]}), path)
    else:
        path.write_bytes(gzip.compress(text) if suffix == ".csv.gz" else text)
    for table in (read_table(path, schema), *(b for _, b in open_records(path, schema).batches())):
        assert table.column_names == ["x"]
        assert table.column("x").cast("double").to_pylist()[:2] == [3, 4]
