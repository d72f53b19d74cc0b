"""From parts to what others may have: one file, a folder of shards, or a stream of CSV, in random order.

Everything here is done to reports: post-processing, which may be repeated at no cost. What is published
appears at once, when all of it is there; where it goes to a pipe, the reports wait on a disk before.
How many shards or row groups there are, and of which sizes, follows from the number of reports and the
rows of a part: buckets, whose number is that of the raw file's bytes, are cut anew.

**The order**, for reports that do not fit in memory, is that of their ids. Each begins with an
independent uniform word W of 64 bits (`privot.release.reports.ids`). Its bucket is $⌊W B/2^{64}⌋$,
uniform up to $B/2^{64}$; buckets are laid one after the other, and within a bucket reports are sorted by
id, so all are. A part is sorted too, so that its share of each bucket is one run; a bucket is gathered
from all parts, and only one has to fit in memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.files import replacing_file, replacing_folder
from privot.release.collecting.report_text import write_text
from privot.release.reports import ids
from privot.release.reports.rows import shard_name, write_manifest, write_reports
from privot.release.streaming.parts import Parts
from privot.tables.files import table_suffix

Item = TypeVar("Item")
Result = TypeVar("Result")
CORES = os.cpu_count() or 1
# Told now and then what is done ("noise", "shuffle"), to how many reports, and of how many if known.
Progress = Callable[[str, int, int | None], None]


def refuse_unknown_output(output: Path) -> None:
    """Refuse, before anything is read, a path that could not be written."""
    if output.suffix and table_suffix(output) == ".npz":
        raise PrivotError(f"{output} would be npz: give parquet, csv, csv.gz, or a folder")


def write_scattered(path: Path, pieces: Iterable[pa.Table], buckets: int) -> int:
    """Write a part as Arrow batches, one a bucket, from tables of one type; returns the rows."""
    held = list(pieces)
    if not held:
        raise PrivotError("there are no rows: give at least one record")
    rows, *beyond = pa.concat_tables(held).combine_chunks().to_batches()
    if beyond:  # text of more than 2 GiB
        raise PrivotError(
            f"a part of {rows.num_rows:,} rows and more is too long: give smaller parts"
        )
    words = ids.id_words(rows.column(ids.REPORT_ID))
    order = ids.order_of(words)
    edges = [bucket * 2**64 // buckets for bucket in range(1, buckets)]
    ends = np.searchsorted(words[order, 0], np.array(edges, np.uint64))
    starts = [0, *ends.tolist(), rows.num_rows]
    shuffled = rows.take(pa.array(order))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as file:
        for start, stop in pairwise(starts):
            file.write_batch(shuffled.slice(start, stop - start))
    return int(rows.num_rows)


def bucket_rows(parts: Sequence[Path], buckets: int) -> list[int]:
    """How many reports of some parts each bucket has."""
    rows = [0] * buckets
    for part in parts:
        with pa.memory_map(str(part)) as source:
            file = pa.ipc.open_file(source)
            for bucket in range(buckets):
                rows[bucket] += file.get_batch(bucket).num_rows
    return rows


def gather(parts: Sequence[Path], first: int, stop: int) -> pa.Table:
    """The reports of all parts in buckets `first` to `stop` − 1, by increasing id."""
    held = []
    for part in parts:
        with pa.memory_map(str(part)) as source:
            file = pa.ipc.open_file(source)
            held += [file.get_batch(bucket) for bucket in range(first, stop)]
    return ids.in_order(pa.Table.from_batches(held))


def publish(
    parts: Parts,
    output: Path | IO[bytes],
    randomizer: str,
    progress: Progress | None = None,
) -> int:
    """Write all parts' reports in random order, as the output's suffix says; returns the rows.

    Raises:
        PrivotError: if a part is missing, the disk is full, or another run has published meanwhile;
            the parts are kept.
    """
    if isinstance(output, Path) and output.exists():
        raise PrivotError(
            f"{output} was written by another run meanwhile: keep one of the two reports, and see that "
            f"nobody gets {parts.folder}"
        )
    shuffled = reordered(parts.whole(), parts.buckets, parts.part_rows, progress)
    if not isinstance(output, Path):
        return write_text(output, shuffled)
    if not output.suffix:
        with replacing_folder(output) as folder:
            sizes = [
                write_reports(folder / shard_name(number), [table], randomizer)
                for number, table in enumerate(shuffled)
            ]
            write_manifest(folder, sizes)
        return sum(sizes)
    with replacing_file(output) as draft:
        if table_suffix(output) == ".parquet":
            return write_reports(draft, shuffled, randomizer)
        return write_text(draft, shuffled, zipped=output.name.endswith(".gz"))


def reordered(
    parts: Sequence[Path], buckets: int, size: int, progress: Progress | None = None
) -> Iterator[pa.Table]:
    """All reports of some parts, by increasing id, in tables of `size` rows; the last may be short."""
    rows = bucket_rows(parts, buckets)
    runs = _runs(rows, size)

    def gathered() -> Iterator[pa.Table]:
        written = 0
        for table in in_order(lambda run: gather(parts, *run), runs, CORES):
            yield table
            written += table.num_rows
            if progress is not None:
                progress("shuffle", written, sum(rows))

    return _cut(gathered(), size)


def in_order(
    action: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Results in the order of the items, as many of which are worked at ahead as there are workers.

    Examples:
        >>> list(in_order(abs, [-1, 2, -3], workers=2))
        [1, 2, 3]
    """
    pool = ThreadPoolExecutor(workers)
    ahead: deque[Future[Result]] = deque()
    try:
        for item in items:
            ahead.append(pool.submit(action, item))
            if len(ahead) > workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _cut(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same rows in tables of `size`; the last may be short."""
    held: list[pa.Table] = []
    rows = 0
    for table in tables:
        start = 0
        while rows + table.num_rows - start >= size:
            held.append(table.slice(start, size - rows))
            start += size - rows
            yield pa.concat_tables(held)
            held, rows = [], 0
        held.append(table.slice(start))
        rows += table.num_rows - start
    if rows:
        yield pa.concat_tables(held)


def _runs(rows: list[int], least: int) -> list[tuple[int, int]]:
    """Runs of buckets that are not empty, small ones together up to `least` reports."""
    runs: list[tuple[int, int]] = []
    first, held = 0, 0
    for bucket, number in enumerate(rows):
        if held and held + number > least:
            runs.append((first, bucket))
            first, held = bucket, 0
        held += number
    if held:
        runs.append((first, len(rows)))
    return runs
