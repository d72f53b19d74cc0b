r"""Report ids: 128 random bits that tell a report sent again from another person's report.

Every report carries an id, drawn on the device with the report and kept with it. Who sends a report
again sends the same bytes, and `collect` counts it once. Ids are also the **order** of a release: rows
by increasing id. Files are often sorted, and folders `country=FR` always are; reports in the order of
their records would tell, by their place alone, what the noise is there to hide. Ids are independent
and uniform, so their order is a uniform permutation that is independent of the records, and it tells a
reader nothing beyond the ids, which are there to be read. A release in the order of its ids is seen to
hold each of them once as it passes by, and a bucket of one prefix is a uniform share of any reports,
so that more than memory holds are put in order by gathering bucket after bucket
(`privot.release.streaming.publishing`).

**Privacy review.** Adjacency: any two records. An id is a draw of the cryptographic stream that knows
nothing of the record: it is fresh coins published beside the report, so the guarantee of the report
is that of the pair. What an id does is link: whoever saw a report on its way recognizes it in the
release, as they would by its content already. (Amplification by shuffling assumes that nobody did.)
Two ids agree by chance with probability below $n^2/2^{129}$, $10^{-22}$ for $10^8$ people.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.mechanisms import random_words

# A release's column, which no column of a schema may be called.
REPORT_ID = "report_id"
ID_BYTES = 16
ID_TYPE = pa.binary(ID_BYTES)
_FEW = 2**20


def draw_ids(count: int) -> pa.Array:
    """Fresh ids."""
    words = random_words(2 * count)
    return pa.FixedSizeBinaryArray.from_buffers(ID_TYPE, count, [None, pa.py_buffer(words)])


def id_words(ids: pa.Array) -> NDArray[np.uint64]:
    """Ids as pairs of words (n, 2), whose order is that of the bytes."""
    buffer = ids.buffers()[1]
    words = np.frombuffer(buffer, ">u8", 2 * len(ids), offset=ids.offset * ID_BYTES)
    return words.reshape(-1, 2).astype(np.uint64)


def in_order(reports: pa.Table) -> pa.Table:
    """The same reports by increasing id: in uniformly random order, for ids that are."""
    reports = reports.combine_chunks()
    return reports.take(pa.array(order_of(id_words(one_array(reports.column(REPORT_ID))))))


def order_of(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The permutation that sorts pairs of words.

    Places ride along in the last bits of the first words: to sort numbers takes a third of the time of
    sorting places by them. Where the bits that are left do not tell words apart, they are sorted again.
    """
    if len(words) <= _FEW:
        last = np.uint64(_FEW - 1)
        keys = words[:, 0] & ~last | np.arange(len(words), dtype=np.uint64)
        order = (np.sort(keys) & last).astype(np.int64)
    else:
        order = np.argsort(words[:, 0])
    first = words[order, 0]
    if not (first[1:] > first[:-1]).all():
        order = np.lexsort((words[:, 1], words[:, 0]))
    return order


def shared_ids(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
    """How many ids, as pairs of words, two sets of distinct ones share.

    >>> shared_ids(np.array([[1, 2], [3, 4]], "u8"), np.array([[3, 4], [1, 5]], "u8"))
    1
    """
    # First words agree by chance once in 2^64 pairs: what is left to compare is little.
    near = np.isin(first[:, 0], second[:, 0]), np.isin(second[:, 0], first[:, 0])
    found = ({*map(tuple, each[mask])} for each, mask in zip((first, second), near, strict=True))
    return len(set.intersection(*found))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column's values in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def to_hex(ids: pa.Array) -> pa.Array:
    """Ids as text, 32 digits each."""
    text = id_words(ids).astype(">u8").tobytes().hex().encode()
    ends = np.arange(0, 2 * ID_BYTES * (len(ids) + 1), 2 * ID_BYTES, dtype=np.int32)
    texts = pa.StringArray.from_buffers(len(ids), pa.py_buffer(ends), pa.py_buffer(text))
    return pc.if_else(ids.is_valid(), texts, None) if ids.null_count else texts


def from_hex(texts: pa.Array) -> pa.Array:
    """Ids of texts; null for what is not 32 hexadecimal digits."""
    valid = pc.fill_null(pc.match_substring_regex(texts, "^[0-9a-fA-F]{32}$"), False)
    digits = pc.if_else(valid, texts, "0" * 2 * ID_BYTES)
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], digits), "")[0].as_py()
    ids = pa.py_buffer(bytes.fromhex(joined or ""))
    return pc.if_else(
        valid, pa.FixedSizeBinaryArray.from_buffers(ID_TYPE, len(texts), [None, ids]), None
    )
