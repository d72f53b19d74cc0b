"""Tables in and out, by suffix."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.tables.files import as_table, read_arrays, read_table, write_table

SCHEMA = Schema.from_toml("""
[columns.home]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 1]]
[columns.code]
kind = "categorical"
categories = ["01", "02"]
""")
TABLE = pa.table({"x": [0.25, 0.5], "y": [0.5, 1.0], "code": ["01", "02"]})


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "npz"])
def test_round_trip(tmp_path, suffix):
    path = tmp_path / f"table.{suffix}"
    write_table(TABLE, path)
    assert read_table(path, SCHEMA).equals(TABLE)


def test_csv_types_come_from_the_schema_not_from_guesses(tmp_path):
    (tmp_path / "t.csv").write_text("x,y,code\n1,0,01\n")
    table = read_table(tmp_path / "t.csv", SCHEMA)
    assert table["code"].to_pylist() == ["01"]
    assert table["x"].type == pa.float64()


def test_npz_matrices_are_vector_columns(tmp_path):
    np.savez(tmp_path / "t.npz", home=np.array([[0.25, 0.5], [0.5, 1.0]]), code=["01", "02"])
    assert read_table(tmp_path / "t.npz", SCHEMA).equals(TABLE)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"x,y,code\na,b,c\n", "t.csv, line 2: column 'x' has text, not a number"),
        ("t.csv.gz", b"not gzip", "cannot be read as csv"),
        ("t.parquet", b"PAR1xxxx", "cannot be read as parquet"),
        ("t.npz", b"PK\x03\x04", "cannot be read as npz"),
        ("t.xlsx", b"x", "unknown format: use one of"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PrivotError) as caught:
        read_table(tmp_path / name, SCHEMA)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_pickled_files_are_refused(tmp_path):
    with pytest.raises(PrivotError, match="is not there"):
        read_table(tmp_path / "nowhere.csv")
    np.savez(tmp_path / "t.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(PrivotError, match="cannot be read as npz"):
        read_table(tmp_path / "t.npz")


def test_damaged_archives_are_refused_wherever_they_are_damaged(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", x=np.random.default_rng(0).integers(0, 9, 400))
    whole = (tmp_path / "t.npz").read_bytes()
    refused = 0
    for place in range(0, len(whole), 24):  # in headers, contents and the directory
        damaged = bytes(b ^ 255 for b in whole[place : place + 8])
        (tmp_path / "t.npz").write_bytes(whole[:place] + damaged + whole[place + 8 :])
        try:
            read_arrays(tmp_path / "t.npz")
        except PrivotError:
            refused += 1
    assert refused > 5  # damage to a date has no effect


NOON = dt.datetime(2024, 5, 31, 12)
CODE = {"kind": "categorical", "categories": ["0", "1", "true", "12345678901"], "other": "else"}
HOUR = {"kind": "datetime", "bounds": ["2024-05-31T00:00:00", "2024-06-01T00:00:00"]}
HOUR |= {"resolution": "hour", "nullable": True}


@pytest.mark.parametrize(
    "make", [dict, pd.DataFrame, lambda data: pd.DataFrame(data, dtype=object)]
)
@pytest.mark.parametrize(
    ("column", "others", "value"),
    [
        (CODE, [0.0, 1.0], "x"),
        (CODE, [True, True], "x"),
        (CODE, [True, True], 1),
        (CODE, [True, True], 1.5),
        (CODE, [1, 1], NOON),
        (CODE, [12345678901, 1], 2.5),
        (CODE, [Decimal(0), Decimal(1)], Decimal("2.5")),
        (HOUR, [NOON, NOON], NOON.date()),
        (HOUR, [NOON.date(), NOON.date()], NOON),
        (HOUR, [NOON, NOON], NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=9)))),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_one_value_changes_no_other_one_of_its_column(make, column, others, value, first):
    schema = Schema.from_dict({"columns": {"c": column}})

    def read(values):
        return schema.columns["c"].accept("c", as_table(make({"c": values}))).tolist()

    same = read([others[0], *others])
    try:
        changed = read([value, *others] if first else [*others, value])
    except PrivotError:  # is seen by whoever has the records, and by nobody else
        return
    assert (changed[1:] if first else changed[:-1]) == same[1:]
