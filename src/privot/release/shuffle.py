r"""A uniformly random order for reports that do not fit in memory.

Files are often sorted, and folders `country=FR` always are: reports in the order of their records would
tell, by their place alone, what the noise is there to hide. So the order of a release is a random
permutation, drawn from the operating system's entropy and kept nowhere.

**Why it is uniform.** Each report gets an independent uniform word W of 64 bits. Its bucket is
$⌊W B/2^{64}⌋$, uniform up to $B/2^{64}$; buckets are laid one after the other, and within a bucket
reports are put in an order that is uniform and independent of all else. Given the sizes of the buckets,
which are multinomial whatever the records are, every assignment of reports to places is equally
likely. A part is sorted by W, so that its share of each bucket is one run; a bucket is gathered from
all parts, and only one has to fit in memory. (Words collide with probability below $2^{-25}$ in a
part of a million; ties keep their order.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.mechanisms import random_words


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
    words = random_words(rows.num_rows)
    order = np.argsort(words)
    edges = [bucket * 2**64 // buckets for bucket in range(1, buckets)]
    ends = np.searchsorted(words[order], np.array(edges, np.uint64))
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
    """The reports of all parts in buckets `first` to `stop` − 1, in random order."""
    held = []
    for part in parts:
        with pa.memory_map(str(part)) as source:
            file = pa.ipc.open_file(source)
            held += [file.get_batch(bucket) for bucket in range(first, stop)]
    rows = pa.Table.from_batches(held)
    order = np.argsort(random_words(rows.num_rows))
    return rows.combine_chunks().take(pa.array(order))
