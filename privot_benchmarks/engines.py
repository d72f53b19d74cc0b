"""How fast engines privatize and count, over what one process of ours does alone, in one session.

    python privot_benchmarks/engines.py --rows 4e6   # the engines that are installed
    python privot_benchmarks/engines.py --rows 1e6 --engines duckdb spark

Records have five columns of a table, in four Parquet files; a joint report at ε = 4. Three jobs: records
to a release, a release to counts, records to counts without a release. An engine runs each once on few
records before, so that its start is not in the times, and then `--repeats` times in turns with the
others; the least counts. Prints JSON: rows a second, and their ratio to ours. Spark and Ray run two
tasks at a time; Beam's direct runner, one.
"""

import argparse
import importlib.util
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from privot import Randomizer, Schema
from privot.randomizer import EngineRun, count, count_batches, merge_counts
from privot.randomizer.privatize import privatize_records
from privot.tables.record_files import open_records

FILES, BATCH, CORES = 4, 2**17, os.cpu_count()
JOBS = ("to a release", "release to counts", "records to counts")
SCHEMA = Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "numeric", "bounds": [0, 100], "bins": 20},
            "income": {"kind": "numeric", "bounds": [0, 100], "bins": 16},
            "sex": {"kind": "categorical", "categories": ["F", "M"]},
            "region": {"kind": "categorical", "categories": list("abcdefgh")},
            "ill": {"kind": "boolean"},
        }
    }
)
RANDOMIZER = Randomizer.calibrate(SCHEMA, 4.0, report="joint")


def write_people(folder, rows):
    """Made-up records, a quarter in each file; returns their number."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(FILES):
        n = rows // FILES
        columns = {
            "age": rng.normal(40, 15, n),
            "income": rng.gamma(3, 12, n),
            "sex": pa.array(["F", "M"]).take(pa.array(rng.integers(0, 2, n))),
            "region": pa.array(list("abcdefgh")).take(pa.array(rng.integers(0, 8, n))),
            "ill": rng.random(n) < 0.1,
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=BATCH)
    return FILES * (rows // FILES)


# Each engine is two functions: what `run.privatize` returns of the records in a folder, and what
# `count_batches` returns of the reports in one.


def alone(run, folder):
    return run.privatize(ds.dataset(folder).to_batches(batch_size=BATCH), workers=CORES)


def alone_counts(folder):
    return count(folder).to_bytes()


def duckdb_batches(folder):
    import duckdb

    return duckdb.sql(f"select * from '{folder}/*.parquet'").to_arrow_reader(BATCH)


def polars_batches(folder):
    import polars as pl

    frames = pl.scan_parquet(folder / "*.parquet").collect_batches(chunk_size=BATCH)
    return (frame.to_arrow() for frame in frames)


def spark_table(folder):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return (
        builder.config("spark.log.level", "OFF").getOrCreate().read.parquet(f"{folder}/*.parquet")
    )


def beam_rows(folder, function):
    import apache_beam as beam

    found = []
    with beam.Pipeline() as pipeline:
        tables = pipeline | beam.io.ReadFromParquetBatched(f"{folder}/*.parquet")
        rows = tables | beam.FlatMap(lambda table: function([table]))
        lists = rows | beam.CombineGlobally(beam.combiners.ToListCombineFn())
        place = tempfile.mkdtemp()
        lists | beam.Map(lambda rows: pq.write_table(pa.Table.from_batches(rows), f"{place}/rows"))
    found = pq.read_table(f"{place}/rows")
    shutil.rmtree(place)
    return found


def ray_rows(folder, function):
    import ray

    table = ray.data.read_parquet(str(folder), file_extensions=["parquet"])
    done = table.map_batches(
        lambda table: pa.Table.from_batches(function([table])),
        batch_format="pyarrow",
        batch_size=8 * BATCH,
    )
    return list(done.iter_batches(batch_format="pyarrow"))


COUNT = partial(count_batches, randomizer=RANDOMIZER)


def spark_counts(folder):
    """Reports are structs, as Spark's `mapInArrow` refuses names with a dot."""
    structs = spark_table(folder).selectExpr("struct(*) as report")
    return structs.mapInArrow(
        lambda batches: COUNT(pa.RecordBatch.from_struct_array(b.column(0)) for b in batches),
        "counts binary",
    ).toArrow()


ENGINES = {
    "duckdb": (
        lambda run, folder: run.privatize(duckdb_batches(folder), workers=CORES),
        lambda folder: COUNT(duckdb_batches(folder)),
    ),
    "polars": (
        lambda run, folder: run.privatize(polars_batches(folder), workers=CORES),
        lambda folder: COUNT(polars_batches(folder)),
    ),
    "pyspark": (
        lambda run, folder: (
            spark_table(folder).mapInArrow(run.privatize, "receipt string").toArrow()
        ),
        spark_counts,
    ),
    "apache_beam": (
        lambda run, folder: beam_rows(folder, run.privatize),
        lambda folder: beam_rows(folder, COUNT),
    ),
    "ray": (
        lambda run, folder: ray_rows(folder, run.privatize),
        lambda folder: ray_rows(folder, COUNT),
    ),
}


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def measure(name, people, rows, folder):
    """Seconds of the three jobs; the counts of the second are compared with ours."""
    release, counts = folder / "release", folder / "people.counts"
    privatize, count_reports = ENGINES.get(name, (alone, None))

    def to_release():
        if name == "ours":
            privatize_records(RANDOMIZER, open_records(people, SCHEMA), release)
            return
        run = EngineRun.begin(RANDOMIZER, release, num_rows=rows)
        run.publish(privatize(run, people))

    def to_counts():
        run = EngineRun.begin(RANDOMIZER, counts, num_rows=rows)
        run.publish(privatize(run, people))

    found = []
    if name == "ours":
        second = lambda: found.append(count(release))  # noqa: E731
    else:
        second = lambda: found.append(merge_counts(count_reports(release)))  # noqa: E731
    taken = [seconds(to_release), seconds(second), seconds(to_counts)]
    assert found[0].to_bytes() == count(release).to_bytes(), name
    print(name, rows, *(round(each, 2) for each in taken), file=sys.stderr)
    shutil.rmtree(release)
    counts.unlink()
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=float, default=4e6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engines", nargs="*", default=[*ENGINES])
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    installed = [name for name in options.engines if importlib.util.find_spec(name)]
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        few = write_people(folder / "few", 4000)
        rows = write_people(folder / "people", int(options.rows))
        for name in installed:
            measure(name, folder / "few", few, folder)
        names, load = ["ours", *installed], os.getloadavg()[0]
        turns = [
            {name: measure(name, folder / "people", rows, folder) for name in names}
            for _ in range(options.repeats)
        ]
    best = {name: np.min([turn[name] for turn in turns], axis=0) for name in names}
    result = {
        "rows": rows,
        "cores": CORES,
        "load": load,
        "missing": [*set(options.engines) - {*installed}],
    }
    for name in names:
        result[name] = {
            job: {"rows_per_second": round(rows / own), "over_ours": round(ours / own, 2)}
            for job, own, ours in zip(JOBS, best[name], best["ours"], strict=True)
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
