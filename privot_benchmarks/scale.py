"""How fast, and in how much memory: privatize, count, fit from disk, fit by two processes; and on paper.

    python privot_benchmarks/scale.py privatize --rows 10e6   # Parquet to Parquet, 10 columns
    python privot_benchmarks/scale.py count --reports 1e9   # places, and a table: counts, then a model
    python privot_benchmarks/scale.py fit --reports 50e6   # steps a second and memory, disk and memory
    python privot_benchmarks/scale.py parallel   # one process on one core, two on two
    python privot_benchmarks/scale.py project results.json …  # 1 B people, 20 columns, by measured rates

Each prints JSON, with the machine's load before it; `project` reads such files. What is measured runs
in a process of its own, so that its peak memory is its own. Files go to --folder, and stay there.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS, BATCH, EPSILON = 10, 2**16, 4.0
SHARD, BLOCKS = 2**20, 16  # reports of a shard; shards of reports that differ


def numbers(columns):
    """A schema of numbers from 0 to 100."""
    from privot import Schema

    column = {"kind": "numeric", "bounds": [0, 100]}
    return Schema.from_dict({"columns": {f"c{i}": column for i in range(columns)}})


def write_people(path, rows, columns):
    """Normal numbers, a million at a time."""
    if path.exists():
        return
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"c{i}", pa.float64()) for i in range(columns)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 10**6):
            count = min(10**6, rows - start)
            part = {f"c{i}": rng.normal(40, 10, count) for i in range(columns)}
            writer.write_table(pa.table(part, schema=schema), row_group_size=2**17)


def measured(command, **environment):
    """Wall and CPU seconds of a process, its peak memory and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=os.environ | environment
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu_seconds": cpu}, done.stdout


# The most memory of the process itself: `ru_maxrss` would include what started it.
PEAK = """
from pathlib import Path
from privot.cli import main
try:
    main()
finally:
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
"""


def sampler_seconds(randomizer, rows):
    """What `Randomizer.privatize` alone takes for as many rows in memory, on one thread: CPU seconds."""
    rng = np.random.default_rng(0)
    table = pa.table({f"c{i}": rng.normal(40, 10, 2**20) for i in range(COLUMNS)})
    batches = [table.slice(k, BATCH) for k in range(0, 2**20, BATCH)]
    times = []
    for _ in range(3):
        start = time.thread_time()
        for batch in batches:
            randomizer.privatize(batch)
        times.append(time.thread_time() - start)
    return min(times) * rows / 2**20


def privatize(options):
    """Numbers split by Laplace noise, and the default joint report, of 2 of 10 columns."""
    from privot import Randomizer

    rows, folder = int(options.rows), options.folder
    raw = folder / f"people-{rows}-{COLUMNS}.parquet"
    write_people(raw, rows, COLUMNS)
    result = {}
    for report in ("split", "joint"):
        mechanism = "laplace" if report == "split" else None
        randomizer = Randomizer.calibrate(
            numbers(COLUMNS), EPSILON, report=report, mechanism=mechanism
        )
        randomizer.save(folder / "randomizer.json")
        output = folder / f"release-{report}"
        shutil.rmtree(output, ignore_errors=True)
        command = ["-c", PEAK, "privatize", str(raw), "-r", str(folder / "randomizer.json")]
        taken, printed = measured([*command, "-o", str(output)])
        own = sampler_seconds(randomizer, rows)
        size = sum(file.stat().st_size for file in output.iterdir())
        result[report] = taken | {
            "rows": rows,
            "peak_mb": float(printed.split()[-1]),
            "sampler_cpu_seconds_one_thread": own,
            "seconds_over_sampler": taken["seconds"] / own,
            "output_mb": size / 1e6,
        }
    return result


FIT = """
import json, resource, sys, time
import torch
torch.set_num_threads(1)
from privot import FitSettings, Release, fit
from privot.local.networks import steps
from privot.core.processes import is_first
path, steps, size, loss, hidden = sys.argv[1:6]
start = time.perf_counter()
release = Release.load(path)
loaded = time.perf_counter() - start
times = []
def tick(step, steps, loss):
    times.append((time.perf_counter(), time.process_time()))
settings = FitSettings(steps=int(steps), batch_size=int(size), loss=loss, estimator="generator",
                       hidden=(int(hidden), int(hidden)))
fit(release, settings, progress=tick)
if is_first():
    half = len(times) // 4
    wall, cpu = ((times[-1][k] - times[half][k]) / (len(times) - 1 - half) for k in (0, 1))
    print(json.dumps({"reports": len(release), "load_seconds": loaded, "step_ms": 1e3 * wall,
        "step_cpu_ms": 1e3 * cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def write_release(path, reports, columns):
    """A release made up: uniform people, privatized in shards."""
    from privot import Randomizer
    from privot.randomizer.privatize import privatize_records
    from privot.tables.files import TableBatches

    if path.exists():
        return
    rng = np.random.default_rng(0)
    batch = pa.table({f"c{i}": rng.normal(40, 10, 10**6) for i in range(columns)})
    tables = (batch.slice(0, min(10**6, reports - k)) for k in range(0, reports, 10**6))
    randomizer = Randomizer.calibrate(numbers(columns), EPSILON, mechanism="laplace")
    privatize_records(randomizer, TableBatches(tables), path)


def fit(options):
    """The same fit of few reports in memory and of many on disk."""
    result = {}
    for name, reports in (("memory", 50_000), ("disk", int(options.reports))):
        path = options.folder / f"reports-{reports}"
        write_release(path, reports, 2)
        command = ["-c", FIT, str(path), str(options.steps), "500", "plain", "256"]
        taken, printed = measured(command, OMP_NUM_THREADS="1")
        result[name] = taken | json.loads(printed.splitlines()[-1])
    result["step_ratio"] = result["disk"]["step_ms"] / result["memory"]["step_ms"]
    result["step_cpu_ratio"] = result["disk"]["step_cpu_ms"] / result["memory"]["step_cpu_ms"]
    return result


def write_wide(path, dimension):
    from privot import Randomizer, Schema

    if path.exists():
        return
    names = [f"v{i}" for i in range(dimension)]
    vector = {"kind": "vector", "columns": names, "bounds": [[-1, 1]] * dimension}
    schema = Schema.from_dict({"columns": {"v": vector}})
    rng = np.random.default_rng(0)
    records = {name: rng.uniform(-1, 1, 4000) for name in names}
    Randomizer.calibrate(schema, 1000.0, report="split").privatize(records).save(path)


def parallel(options):
    """Steps a second of one process on one core, and of two on two, with the same global batch."""
    path = options.folder / f"wide-{options.dimension}.parquet"
    write_wide(path, options.dimension)
    fit_arguments = [
        str(path),
        str(options.steps),
        str(options.batch_size),
        "self_corrected",
        "512",
    ]
    script = options.folder / "fit.py"
    script.write_text(FIT)
    cores = sorted(os.sched_getaffinity(0))[:2]
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = {"batch_size": options.batch_size, "dimension": options.dimension}
    for name, command, used in (
        ("one", [str(script), *fit_arguments], cores[:1]),
        ("two", [*run, str(script), *fit_arguments], cores),
    ):
        os.sched_setaffinity(0, used)
        taken, printed = measured(command, OMP_NUM_THREADS="1")
        told = [line for line in printed.splitlines() if line.startswith("{")]
        result[name] = taken | json.loads(told[-1])
    result["speedup"] = result["one"]["step_ms"] / result["two"]["step_ms"]
    return result


def write_shards(path, made_by, people, reports):
    """A release on the disk: a block of real reports over and over, with ids of their own, in order.

    A shard has the ids of its range, so that they increase over the release as a sorted one's do.
    """
    from privot.randomizer.reports.rows import (
        ID_TYPE,
        REPORT_ID,
        shard_name,
        write_manifest,
        write_reports,
    )

    if path.exists():
        return
    path.mkdir(parents=True)
    rng = np.random.default_rng(0)
    total, rows, text = -(-reports // SHARD), [], made_by.to_json()
    blocks = [made_by.privatize(people(rng, SHARD)).table for _ in range(min(BLOCKS, total))]
    for number, start in enumerate(range(0, reports, SHARD)):
        table = blocks[number % len(blocks)].slice(0, min(SHARD, reports - start))
        words = rng.integers(0, 2**64, (len(table), 2), np.uint64)
        words[:, 0] = np.sort(words[:, 0] // np.uint64(total)) + np.uint64(
            number * (2**64 // total)
        )
        ids = pa.FixedSizeBinaryArray.from_buffers(
            ID_TYPE, len(table), [None, pa.py_buffer(words.astype(">u8"))]
        )
        table = table.set_column(table.schema.get_field_index(REPORT_ID), REPORT_ID, ids)
        rows.append(write_reports(path / shard_name(number), [table], text))
    write_manifest(path, rows)


def counted(options):
    """Reports on the disk to counts, and counts to a model: of places, and of ten columns in pairs.

    What a report costs does not depend on their number, so that CPU seconds of a billion are those of
    these reports times the ratio; a fit of places has as many cells for a thousand as for a billion.
    A fit of a table grows with its distinct reports, whose number is bounded by that of sets of cells.
    """
    from privot import Counts, Randomizer, Schema

    place = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]}
    kinds = {
        "places": (
            Schema.from_dict({"columns": {"home": place}}),
            lambda rng, count: {name: rng.beta(2, 5, count) for name in "xy"},
            10**9,
        ),
        "table": (
            numbers(COLUMNS),
            lambda rng, count: {f"c{i}": rng.normal(40, 10, count) for i in range(COLUMNS)},
            10**8,
        ),
    }
    result = {}
    for kind in options.results or kinds:
        schema, people, goal = kinds[kind]
        made_by = Randomizer.calibrate(schema, options.epsilon)
        of_kind = {}
        for reports in sorted({10**6, int(options.reports)}):
            folder = options.folder / f"{kind}-{options.epsilon:g}-{reports}"
            write_shards(folder / "release", made_by, people, reports)
            words = f"collect {folder}/release --count --force -o {folder}/counts"
            taken, printed = measured(["-c", PEAK, *words.split()])
            words = f"fit {folder}/counts -o {folder}/model --no-check --force"
            fitted, fit_printed = measured(["-c", PEAK, *words.split()], OMP_NUM_THREADS="1")
            counts = Counts.load(folder / "counts")
            distinct = sum(len(group.people) for group in counts.groups.values())
            own = {
                "count": taken | {"peak_mb": float(printed.split()[-1])},
                "fit": fitted | {"peak_mb": float(fit_printed.split()[-1])},
                "distinct": distinct,
                "counts_mb": (folder / "counts").stat().st_size / 1e6,
                "release_mb": sum(f.stat().st_size for f in (folder / "release").iterdir()) / 1e6,
            }
            of_kind[f"{reports:,}"] = own
        small, large = of_kind["1,000,000"], of_kind[f"{int(options.reports):,}"]
        extra = large["count"]["cpu_seconds"] - small["count"]["cpu_seconds"]
        per_report = extra / max(
            int(options.reports) - 10**6, 1
        )  # without the start of the process
        of_kind["nanoseconds_a_report"] = 1e9 * per_report
        of_kind[f"cpu_minutes_of_{goal:,}"] = (
            small["count"]["cpu_seconds"] + per_report * (goal - 10**6)
        ) / 60
        of_kind["fit_of_large_over_small"] = (
            large["fit"]["cpu_seconds"] / small["fit"]["cpu_seconds"]
        )
        result[kind] = of_kind
    return result


# Assumed prices, US dollars: one virtual core an hour, and a GB stored for a month.
CORE_HOUR, GB_MONTH = 0.05, 0.023
PEOPLE, PEOPLE_COLUMNS, WORKERS = 10**9, 20, 64


def project(options):
    """A Markdown table of hours and dollars, each rate from a file that was measured."""
    found = {}
    for path in options.results:
        found |= json.loads(Path(path).read_text())["result"]
    lines = [
        "| | core hours | hours on 64 cores | dollars | what saturates first |",
        "|---|---|---|---|---|",
    ]
    for report, words in (("split", "each number noised"), ("joint", "2 columns jointly")):
        if report not in found:
            continue
        run = found[report]
        # A split report grows with the columns; a joint one is of 2 columns, however many there are.
        factor = PEOPLE / run["rows"] * (PEOPLE_COLUMNS / COLUMNS if report == "split" else 1)
        hours = run["cpu_seconds"] * factor / 3600
        size = run["output_mb"] * factor / 1e3
        reading = PEOPLE * PEOPLE_COLUMNS * 8 / 1e9
        disk = (
            3 * size + reading
        ) / 3600  # read raw; write parts, read them, write shards, at 1 GB/s
        first = "cores" if hours / WORKERS > disk else "a disk of 1 GB/s"
        cost = hours * CORE_HOUR + size * GB_MONTH
        lines.append(
            f"| privatize, {words} ({size:,.0f} GB) | {hours:.2f} | {max(hours / WORKERS, disk):.2f} "
            f"| {cost:.2f} | {first} |"
        )
    if "disk" in found:
        run = found["disk"]
        reading = run["load_seconds"] * PEOPLE / run["reports"] / 3600
        steps = 12_000 * run["step_ms"] / 3.6e6
        lines.append(
            f"| check {PEOPLE:,} reports once | {reading:.2f} | {reading:.2f} (one process) "
            f"| {reading * CORE_HOUR:.2f} | one core: decoding |"
        )
        lines.append(
            f"| fit, 12 000 steps of 500 reports, 2 columns | {steps:.2f} | {steps:.2f} (one process) "
            f"| {steps * CORE_HOUR:.2f} | one core: the step, whatever the number of reports |"
        )
    print("\n".join(lines))
    print(
        f"\nAssumed: {CORE_HOUR} dollars a core hour, {GB_MONTH} a GB month, {WORKERS} cores, "
        "one disk or network of 1 GB/s."
    )


def main():
    """Run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["privatize", "count", "fit", "parallel", "project"])
    parser.add_argument("results", nargs="*")
    parser.add_argument("--rows", type=float, default=10e6)
    parser.add_argument("--reports", type=float, default=50e6)
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--dimension", type=int, default=784)
    parser.add_argument("--folder", type=Path, default=Path("scale"))
    options = parser.parse_args()
    if options.what == "project":
        project(options)
        return
    options.folder.mkdir(exist_ok=True)
    load = os.getloadavg()[0]
    actions = {"privatize": privatize, "count": counted, "fit": fit, "parallel": parallel}
    result = actions[options.what](options)
    machine = {
        "cores": os.cpu_count(), "python": platform.python_version(), "load_before": load,
        "load_after": os.getloadavg()[0],
    }  # fmt: skip
    print(json.dumps({"what": options.what, "result": result, "machine": machine}, indent=2))


if __name__ == "__main__":
    main()
