"""A uniformly random order for reports that do not fit in memory: that of their ids.

Each report's id begins with an independent uniform word W of 64 bits (`privot.release.reports.ids`). Its
bucket is $⌊W B/2^{64}⌋$, uniform up to $B/2^{64}$; buckets are laid one after the other, and within a
bucket reports are sorted by id, so all are. A part is sorted too, so that its share of each bucket is
one run; a bucket is gathered from all parts, and only one has to fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.release.reports.ids import REPORT_ID, id_words, in_order, order_of


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
    words = id_words(rows.column(REPORT_ID))
    order = order_of(words)
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
    return in_order(pa.Table.from_batches(held))
