"""A curator's fit of many records: seconds, memory, and how far its pairs of columns are from the truth.

    python privot_benchmarks/central_size.py table --rows 10e6     # 15 dependent columns
    python privot_benchmarks/central_size.py images --rows 1e6     # 28 × 28 images of ten shapes
    python privot_benchmarks/central_size.py table --rows 10e6 --files 8   # a folder of Parquet files

Records are made from a seed, a part at a time, and written as Parquet to --folder, where they stay.
`privot central fit` reads them in a process of its own, so that its peak memory is its own. Of a table,
numbers are then put into ten bins each, and for every pair of columns the total variation between rows
of the model and the truth is computed, beside that between as many rows of the truth and the truth
(`floor`), which is what counting few rows costs. Of images, the distance of each label's mean is.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scale import PEAK, measured

PART = 2**18  # rows made at once
GROUPS = 12  # of people, by which columns depend on each other
CATEGORIES = (2, 3, 4, 5, 6, 8, 10)  # of the columns of categories
COMPARED, TRUTH = 400_000, 4_000_000  # rows of the model, and of the truth


def schema_of(kind):
    """A schema of 15 columns: 7 of categories, 2 truths, 3 numbers with bins, 3 without; or images."""
    if kind == "images":
        columns = {"image": {"kind": "array", "shape": [28, 28], "bounds": [0, 255]}}
        return {"columns": columns | {"label": _categories(10)}}
    columns = {f"category{i}": _categories(count) for i, count in enumerate(CATEGORIES)}
    columns |= {f"truth{i}": {"kind": "boolean"} for i in range(2)}
    number = {"kind": "numeric", "bounds": [0, 100]}
    columns |= {f"binned{i}": number | {"bins": 10} for i in range(3)}
    columns |= {"age": {"kind": "numeric", "bounds": [0, 100], "integer": True}, "wage": number}
    return {"columns": columns | {"weight": number | {"nullable": True}}}


def _categories(count):
    return {"kind": "categorical", "categories": [f"c{i}" for i in range(count)]}


def part_of_table(count, rng):
    """Rows of a mixture of groups; within a group some columns still depend on others."""
    public = np.random.default_rng(7)  # of the law, the same for every part
    group = rng.choice(GROUPS, count, p=public.dirichlet(np.full(GROUPS, 3.0)))
    columns = {}
    for i, size in enumerate(CATEGORIES):
        ends = public.dirichlet(np.full(size, 0.7), GROUPS).cumsum(axis=1)
        codes = (rng.random(count)[:, None] > ends[group, :-1]).sum(axis=1)
        names = pa.array([f"c{code}" for code in range(size)])
        columns[f"category{i}"] = pa.DictionaryArray.from_arrays(codes.astype(np.int32), names)
    for i in range(2):
        columns[f"truth{i}"] = rng.random(count) < public.random(GROUPS)[group]
    for i in range(3):
        columns[f"binned{i}"] = rng.normal(public.uniform(20, 80, GROUPS)[group], 12).clip(0, 100)
    age = rng.normal(public.uniform(25, 70, GROUPS)[group], 9).clip(0, 100)
    columns["age"] = np.rint(age).astype(np.int64)
    wage = (rng.gamma(2.0, 6.0, count) + age / 3 + 10 * columns["truth0"]).clip(0, 100)
    missing = rng.random(count) < 0.05 + 0.1 * (group % 2)
    columns |= {
        "wage": wage,
        "weight": pa.array(rng.normal(wage / 2 + 30, 8).clip(0, 100), mask=missing),
    }
    return pa.table(columns)


def part_of_images(count, rng):
    """Ten shapes, moved and of random brightness."""
    label = rng.integers(0, 10, count)
    grid = np.arange(28, dtype=np.float32)
    center = rng.normal(14, 1.5, (2, count, 1)).astype(np.float32)
    width = 1.5 + 0.5 * (label % 5)[:, None]
    rows, across = np.exp(-(((grid - center) / width) ** 2) / 2)
    bars = np.cos(label[:, None] * grid / 5) ** 2
    shape = rows[:, :, None] * (across * bars)[:, None]
    bright = rng.uniform(120, 255, (count, 1, 1)).astype(np.float32)
    pixels = (bright * shape + rng.uniform(0, 30, (count, 28, 28))).clip(0, 255).astype(np.uint8)
    images = pa.FixedSizeListArray.from_arrays(pa.array(pixels.reshape(-1)), 784)
    return pa.table({"image": images, "label": pa.array([f"c{i}" for i in label])})


def parts_of(kind, rows, seed):
    """Yield parts of so many records."""
    make, part = (part_of_table, PART) if kind == "table" else (part_of_images, PART // 16)
    for number, start in enumerate(range(0, rows, part)):
        yield make(min(part, rows - start), np.random.default_rng([seed, number]))


def write(kind, rows, files, path):
    """Write a file, or a folder of files of about as many parts each."""
    draft = path.with_name(path.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    writers = {}
    for number, table in enumerate(parts_of(kind, rows, 0)):
        file = draft / f"part-{number % files}.parquet"
        if file not in writers:
            writers[file] = pq.ParquetWriter(file, table.schema)
        writers[file].write_table(table)
    for writer in writers.values():
        writer.close()
    if files > 1:
        draft.rename(path)
    else:
        next(iter(writers)).rename(path)
        draft.rmdir()


def error_of_table(model):
    """Total variations of all pairs of columns: of the model's rows, and of as many of the truth's."""
    sampled = _codes(model.sample(COMPARED, seed=0).select(list(schema_of("table")["columns"])))
    truth, floor = (
        np.concatenate([_codes(part) for part in parts_of("table", rows, seed)])
        for rows, seed in ((TRUTH, 1), (COMPARED, 2))
    )
    found = {}
    for name, rows in (("model", sampled), ("floor", floor)):
        apart = [
            _variation(rows[:, pair], truth[:, pair])
            for pair in map(list, combinations(range(15), 2))
        ]
        found[name] = {"mean": float(np.mean(apart)), "largest": float(np.max(apart))}
    return found


def _codes(table):
    """Codes (n, columns) below 16: of numbers ten bins, and one for missing ones."""
    codes = []
    for column in table.columns:
        column = column.combine_chunks()
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            codes.append(
                np.where(np.isnan(numbers), 10, np.clip(np.nan_to_num(numbers) // 10, 0, 9))
            )
        elif pa.types.is_boolean(column.type):
            codes.append(column.to_numpy(zero_copy_only=False))
        else:
            texts = column.cast(pa.string()).to_numpy(zero_copy_only=False).astype("U3")
            codes.append(np.char.replace(texts, "c", "").astype(np.int64))
    return np.stack(codes, axis=1).astype(np.int64)


def _variation(rows, truth):
    """Total variation between two sets of pairs of codes below 16."""
    shares = [np.bincount(pairs @ [16, 1], minlength=256) / len(pairs) for pairs in (rows, truth)]
    return abs(shares[0] - shares[1]).sum() / 2


def error_of_images(model):
    """Root mean square, over pixels from 0 to 255, of the difference of each label's mean image."""
    means = []
    for tables in ([model.sample(20_000, seed=0)], parts_of("images", 100_000, 1)):
        sums, counts = np.zeros((10, 784)), np.zeros(10)
        for table in tables:
            label = np.char.replace(np.array(table["label"].to_pylist()), "c", "").astype(int)
            column = table["image"].combine_chunks()
            column = column.storage if isinstance(column, pa.ExtensionArray) else column
            np.add.at(sums, label, column.flatten().to_numpy().reshape(-1, 784))
            counts += np.bincount(label, minlength=10)
        means.append(sums / counts[:, None])
    apart = np.sqrt(((means[0] - means[1]) ** 2).mean(axis=1))
    return {"mean": float(apart.mean()), "largest": float(apart.max())}


def main():
    """Make the records, fit them in a process, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["table", "images"])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, default=Path("central_size"))
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)  # in the child that writes
    options = parser.parse_args()
    rows, folder = int(options.rows), options.folder
    if options.write:
        write(options.kind, rows, options.files, options.write)
        return
    folder.mkdir(exist_ok=True)
    name = f"{options.kind}-{rows}"
    raw = folder / (f"{name}.parquet" if options.files == 1 else f"{name}-{options.files}")
    given = [options.kind, "--rows", str(rows), "--files", str(options.files)]
    if not raw.exists():  # in a process of its own: a child's peak includes its parent's memory
        measured([__file__, *given, "--write", str(raw)])
    schema = folder / f"{options.kind}.json"
    schema.write_text(json.dumps(schema_of(options.kind) | {"unit": "person"}))
    output, busy = folder / f"{name}-model", os.getloadavg()[0]
    for old in (output, Path(f"{output}.checkpoint.ledger")):
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    command = ["-c", PEAK, "central", "fit", str(raw), "--schema", str(schema)]
    command += ["--epsilon", str(options.epsilon), "-o", str(output)]
    taken, printed = measured(command, PRIVOT_STATE_DIR=str(folder / f"state-{time.time_ns()}"))
    result = taken | {"rows": rows, "peak_mb": float(printed.split()[-1])}
    from privot.models import load

    model = load(output)
    measure = error_of_table if options.kind == "table" else error_of_images
    result["error"] = measure(model)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load_before": busy}
    print(json.dumps({"what": options.kind, "result": result, "machine": machine}, indent=2))


if __name__ == "__main__":
    sys.exit(main())
