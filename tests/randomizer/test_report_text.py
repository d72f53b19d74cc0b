"""Reports as text are the same reports."""

import io

import numpy as np
import pyarrow as pa
import pytest

from numbered_people import (
    SCHEMA,
    read_back,
    with_ids,
)
from privot import Randomizer, Schema
from privot.collector import collect
from privot.core.errors import PrivotError
from privot.randomizer.reports.csv_reports import write_text

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
@pytest.mark.parametrize(
    "options",
    [{}, {"report": "joint", "mechanism": "laplace"}, {"report": "split", "report_columns": 2}],
)
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
    other = Randomizer.calibrate(SCHEMA, 1.0, report="split")
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


def test_an_image_without_numbers_is_one_impossible_report(tmp_path):
    column = {"kind": "array", "shape": [2, 2], "bounds": [0, 1]}
    schema = Schema.from_dict({"columns": {"image": column}})
    randomizer = Randomizer.calibrate(schema, 3.0, mechanism="laplace")
    path = tmp_path / "release.csv"
    write_text(path, [randomizer.privatize({"image": np.zeros((3, 2, 2))}).table])
    header, first, *others = path.read_text().splitlines()
    assert header == '"image","report_id"'
    first = '"none",' + first.rpartition(",")[2]
    path.write_text("\n".join([header, first, *others]) + "\n")
    found = collect(path, randomizer)
    assert (len(found.release), found.quarantined.num_rows) == (2, 1)
