"""Records whose reports still tell who they are: noise so small that each is seen to come out once."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from privot import Randomizer, Release, Schema
from privot.mechanisms import Laplace
from privot.randomizer.privatize import privatize_records
from privot.randomizer.reports.csv_reports import read_text
from privot.randomizer.reports.rows import REPORT_ID, ReportTable, draw_ids
from privot.tables.record_files import open_records

MOST = 1_000_000
SCHEMA = Schema.from_dict({"columns": {"person": {"kind": "numeric", "bounds": [0, MOST]}}})
# Noise of scale 0.001 in the column's own units: P(it moves a number by ½) < 1e-200.
RANDOMIZER = Randomizer(SCHEMA, {"person": Laplace(2.0**-29, grid=2.0**-36)})


def people(first, stop):
    return pa.table({"person": np.arange(first, stop, dtype=np.float64)})


def with_ids(reports):
    return reports.append_column(REPORT_ID, draw_ids(len(reports)))


def write_people(path, num, row_group_size=1000):
    pq.write_table(people(0, num), path, row_group_size=row_group_size)


def privatize_file(raw, output, **options):
    """Their run from a file of records to an output."""
    return privatize_records(RANDOMIZER, open_records(raw, SCHEMA), output, **options)


def who_reported(path):
    """Everybody's number, in the order of the release, from a file or a folder of shards."""
    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    table = ds.dataset([str(file) for file in files]).to_table()
    return np.rint(table["person"].to_numpy()).astype(int)


def each_once(path, num):
    return np.array_equal(np.sort(who_reported(path)), np.arange(num))


def read_back(source, randomizer):
    """The release that a CSV of reports is; every line of it can be read."""
    lines = []
    release = Release(ReportTable.of(*read_text(source, randomizer, lines.append)), randomizer)
    assert not lines
    return release
