"""From parts to what others may have: one file, a folder of shards, or a stream of CSV.

Everything here is done to reports: post-processing, which may be repeated at no cost. What is published
appears at once, when all of it is there; where it goes to a pipe, the reports wait on a disk before.
How many shards or row groups there are, and of which sizes, follows from the number of reports and the
rows of a part: buckets, whose number is that of the raw file's bytes, are cut anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Protocol, TypeVar

import pyarrow as pa

from privot.errors import PrivotError
from privot.files import replacing_file, replacing_folder
from privot.release.collecting.report_text import write_text
from privot.release.reports.rows import write_reports
from privot.release.reports.shards import shard_name, write_manifest
from privot.release.streaming.parts import Parts
from privot.release.streaming.shuffle import bucket_rows, gather
from privot.tables.files import table_suffix

Item = TypeVar("Item")
Result = TypeVar("Result")


class Progress(Protocol):
    """Told now and then how far a run is."""

    def __call__(self, doing: str, rows: int, expected: int | None) -> None:
        """`rows` reports are noised (or put in order), of `expected` if that can be told."""


def refuse_unknown_output(output: Path) -> None:
    """Refuse, before anything is read, a path that could not be written."""
    if output.suffix and table_suffix(output) == ".npz":
        raise PrivotError(f"{output} would be npz: give parquet, csv, csv.gz, or a folder")


def publish(
    parts: Parts,
    output: Path | IO[bytes],
    randomizer: str,
    progress: Progress | None = None,
    workers: int = 1,
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
    files = parts.whole()
    rows = bucket_rows(files, parts.buckets)
    runs = _runs(rows, parts.part_rows)
    total, written = sum(rows), 0

    def reordered() -> Iterator[pa.Table]:
        nonlocal written
        for table in in_order(lambda run: gather(files, *run), runs, workers):
            yield table
            written += table.num_rows
            if progress is not None:
                progress("shuffle", written, total)

    shuffled = _cut(reordered(), parts.part_rows)
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
