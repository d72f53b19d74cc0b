"""Tables of reports in memory, in a Parquet file, or in a folder of shards: ids, order, validation.

Only one piece of a file is in memory at a time. A file is read again in every pass, so it must not be
moved or changed while the table is used. Its metadata contains the randomizer of the reports. A folder
has Parquet shards, and a public manifest that lists them with their numbers of rows, which are equal
except for the last (`privot.randomizer.publishing`).

**Report ids** are 128 random bits. The device draws the id with the report and stores both. If it sends
its report again, it sends the same bytes, and `collect` counts them once.

**Order.** The rows of a release are sorted by id. Raw files and folders (such as `country=FR`) are often
sorted, so the order of the records would reveal something about them. As ids are independent and
uniform, their order is a uniform permutation that is independent of the records. In sorted rows, one
pass finds repeated ids. Uniform ids fill buckets evenly, so large files are sorted bucket by bucket.

**Validation.** Reports come from untrusted devices. A row that no device makes, or makes with
probability below 2^−64 for every record (`Mechanism.possible`), is refused with the first reason found.
Other rows may still be forged, within the limits of the mechanism.

**Privacy review.** Adjacency: any two records. An id is drawn from a cryptographic stream, independently
of the record, so report and id together have the guarantee of the report. Anyone who saw a report in
transit recognizes it in the release by its id, but also by its content. (Amplification by shuffling
assumes that nobody saw it.) Two of n ids agree by chance with probability below $n^2/2^{129}$.
Validation of reports is post-processing.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from privot.mechanisms.samplers import random_words
from privot.tables.files import METADATA_KEY, damage_of
from privot.waves.panel import WAVE_KEY

REPORT_ID = "report_id"  # name of a release's column, which no column of a schema may have
ID_BYTES = 16
ID_TYPE = pa.binary(ID_BYTES)
_MAX_INDEXED = 2**20  # most words that are sorted together with their index
MOST_IDS = 2**16  # most ids in a sample
_MAX_KEY = 2**62  # largest number of possible keys, so that keys are 64-bit integers
# Up to this many possible keys per row, or in total, marking keys is faster than sorting them.
_KEYS_PER_ROW, _MIN_KEYS = 4, 2**16
PIECE = 2**17  # rows that are read at once
# Training reads row groups in random order, so many small groups mix better than few large ones.
_ROW_GROUP, _ROW_GROUP_BYTES = 2**14, 2**22
COUNTS_KEY = b"privot.counts"  # in a shard's metadata: SHA-256 of the counts file beside it
COUNTS_SUFFIX = ".counts"
# In a file's metadata: SHA-256 of its ids, in order; of a shard, those of the shards before it, too.
BATCH_KEY = b"privot.batch"
MANIFEST = "manifest.json"
_FORMAT = 1  # version of the manifest
Result = TypeVar("Result")  # what a caller reads from a piece of a table


def draw_ids(count: int) -> pa.Array:
    """Draw `count` random ids."""
    words = random_words(2 * count)
    return pa.FixedSizeBinaryArray.from_buffers(ID_TYPE, count, [None, pa.py_buffer(words)])


def id_words(ids: pa.Array) -> NDArray[np.uint64]:
    """Return ids as pairs of 64-bit words (n, 2), which are ordered as the ids are; null is zero."""
    ids = ids.fill_null(bytes(ID_BYTES))
    words = np.frombuffer(ids.buffers()[1], ">u8", 2 * len(ids), offset=ids.offset * ID_BYTES)
    return words.reshape(-1, 2).astype(np.uint64)


def id_bytes(ids: pa.Array) -> bytes:
    """Return the bytes of ids one after another; null is zero."""
    return id_words(ids).astype(">u8").tobytes()


def sorted_by_id(reports: pa.Table) -> pa.Table:
    """Sort reports by id, which puts them in a uniformly random order."""
    reports = reports.combine_chunks()
    return reports.take(pa.array(order_of(id_words(one_array(reports.column(REPORT_ID))))))


def order_of(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the permutation (n,) that sorts pairs of words (n, 2).

    Up to 2^20 pairs, the index replaces the last bits of the first word, since sorting numbers takes a
    third of the time of an argsort. If first words are then equal or out of order, pairs are sorted.
    """
    if len(words) <= _MAX_INDEXED:
        last = np.uint64(_MAX_INDEXED - 1)
        keys = words[:, 0] & ~last | np.arange(len(words), dtype=np.uint64)
        order = (np.sort(keys) & last).astype(np.int64)
    else:
        order = np.argsort(words[:, 0])
    first = words[order, 0]
    if not (first[1:] > first[:-1]).all():
        order = np.lexsort((words[:, 1], words[:, 0]))
    return order


class IdSample(NamedTuple):
    """Sample of ids: those whose first word is below a limit (`privot.randomizer.reports.counts`)."""

    limit: int = 2**64  # the limit, a power of two
    # Distinct ids as pairs of words (k, 2), sorted.
    words: NDArray[np.uint64] = np.zeros((0, 2), np.uint64)

    def joined(self, other: "IdSample") -> "IdSample":
        """Return the sample of the union of both sets of reports."""
        limit = min(self.limit, other.limit)
        union = distinct_ids(self.below(limit), other.below(limit))
        while len(union) > MOST_IDS:
            limit //= 2
            union = union[: np.searchsorted(union[:, 0], np.uint64(limit))]
        return IdSample(limit, union)

    def below(self, limit: int) -> NDArray[np.uint64]:
        """Return the sampled ids (k, 2) below a limit."""
        return self.words if limit == 2**64 else self.words[self.words[:, 0] < np.uint64(limit)]

    def shared(self, other: "IdSample") -> int:
        """Return the number of ids that are in both samples."""
        limit = min(self.limit, other.limit)
        first, second = self.below(limit), other.below(limit)
        return len(first) + len(second) - len(distinct_ids(first, second))


def distinct_ids(*parts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct ids (k, 2) of several arrays of pairs of words (n, 2), sorted."""
    words = np.concatenate(parts)
    words = words[order_of(words)]
    return words[np.append(True, (words[1:] != words[:-1]).any(axis=1))[: len(words)]]


def distinct_rows(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the indices (d,) of distinct rows of a table (n, w), and the rank (n,) of every row.

    `rows[indices]` are the distinct rows in lexicographic order. A row $(v_1, …, v_w)$ with
    $0 ≤ v_j < m_j$ has the key $(…(v_1 m_2 + v_2) m_3 + …) + v_w$, and keys are ordered as rows are. If
    few keys are possible, they are marked in linear time; otherwise they are sorted, which takes a
    twentieth of the time of comparing rows. If keys would not be below 2^62 (`_MAX_KEY`), that of the
    first columns is replaced by its rank; values that are not integers are replaced by their ranks.

    Examples:
        >>> rows = np.array([[2, 1], [0, 5], [2, 1], [-1, 9]])
        >>> indices, ranks = distinct_rows(rows)
        >>> rows[indices].tolist(), ranks.tolist()
        ([[-1, 9], [0, 5], [2, 1]], [2, 1, 2, 0])
    """
    keys, num_keys = np.zeros(len(rows), np.int64), 1
    if not len(rows):
        return keys, keys
    for column in rows.T:
        values, num_values = _from_zero(column)
        if num_keys * num_values > _MAX_KEY:
            keys, num_keys = _rank_keys(keys, num_keys)[1], len(rows)
        keys, num_keys = keys * num_values + values, num_keys * num_values
    return _rank_keys(keys, num_keys)


def _from_zero(column: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Map a column's values to integers 0 … m − 1 in the same order; return these and m."""
    if column.dtype.kind in "iub":
        low, high = int(column.min()), int(column.max())
        # Then m times the number of ranks, at most one per row, is at most `_MAX_KEY`.
        if max(-low, high) < _MAX_KEY // (2 * len(column)):
            return column.astype(np.int64) - low, high - low + 1
    distinct, ranks = np.unique(column, return_inverse=True)
    return ranks, len(distinct)


def _rank_keys(
    keys: NDArray[np.int64], num_keys: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an index of each distinct key, in order, and every key's rank, for keys < `num_keys`."""
    if num_keys > max(_KEYS_PER_ROW * len(keys), _MIN_KEYS):
        _, indices, ranks = np.unique(keys, return_index=True, return_inverse=True)
        return indices, ranks
    present = np.zeros(num_keys, np.bool_)
    present[keys] = True
    ranks = (np.cumsum(present) - 1)[keys]
    indices = np.zeros(np.count_nonzero(present), np.int64)
    indices[ranks] = np.arange(len(keys))
    return indices, ranks


def grouped(numbers: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each of the integers ≥ 0 in an array (n,), ascending, and the indices of its elements."""
    # Stable sorting is by radix, and so linear, if the numbers have at most 16 bits.
    numbers = numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order].astype(np.int64), prepend=-1))
    for start, indices in zip(starts, np.split(order, starts[1:]), strict=False):
        yield int(numbers[order[start]]), indices


def _increasing(words: NDArray[np.uint64]) -> bool:
    """Return True if ids, as pairs of words (n, 2), are strictly increasing."""
    low, high = words[:-1].T, words[1:].T
    return bool(((low[0] < high[0]) | ((low[0] == high[0]) & (low[1] < high[1]))).all())


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def to_hex(ids: pa.Array) -> pa.Array:
    """Convert ids to text of 32 hexadecimal digits."""
    text = id_bytes(ids).hex().encode()
    ends = np.arange(0, 2 * ID_BYTES * (len(ids) + 1), 2 * ID_BYTES, dtype=np.int32)
    texts = pa.StringArray.from_buffers(len(ids), pa.py_buffer(ends), pa.py_buffer(text))
    return pc.if_else(ids.is_valid(), texts, None) if ids.null_count else texts


def from_hex(texts: pa.Array) -> pa.Array:
    """Convert text to ids; null for text that is not 32 hexadecimal digits."""
    valid = pc.fill_null(pc.match_substring_regex(texts, "^[0-9a-fA-F]{32}$"), False)
    digits = pc.if_else(valid, texts, "0" * 2 * ID_BYTES)
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], digits), "")[0].as_py()
    buffers = [None, pa.py_buffer(bytes.fromhex(joined or ""))]
    ids = pa.FixedSizeBinaryArray.from_buffers(ID_TYPE, len(texts), buffers)
    return pc.if_else(valid, ids, None)


class ImpossibleReportError(PrivotError):
    """Error for a release with a report that no device sends, or with a repeated report."""


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Part of a file that is read at once."""

    fragment: ds.ParquetFileFragment
    num_rows: int


@dataclass(frozen=True, eq=False)
class ReportTable:
    """Table of reports, in memory or in files that are read in pieces.

    Arguments:
        dataset: Arrow dataset of tables in memory or of files.
        source: Name of the table in error messages.
        counts_hashes: Hash of the counts beside each file, or None, by the file's path; empty in memory.
        waves: Texts of the panels and waves that the files name (`privot.waves.panel.WAVE_KEY`).
    """

    dataset: ds.Dataset
    source: str = "the release"
    counts_hashes: Mapping[str, bytes | None] = field(default_factory=dict)
    waves: frozenset[str] = frozenset()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.in_memory:  # Arrow can pickle tables, and datasets of files only
            return partial(ReportTable.of, waves=self.waves), (pa.concat_tables(self.pieces()),)
        return ReportTable, (self.dataset, self.source, self.counts_hashes, self.waves)

    @classmethod
    def of(cls, *tables: pa.Table, waves: frozenset[str] = frozenset()) -> Self:
        """Wrap the concatenation of tables in memory, without copying them."""
        table = pa.concat_tables(tables)
        rows = cls(ds.dataset(table), waves=waves)
        vars(rows)["_count"] = table.num_rows  # a dataset would read all rows
        return rows

    @classmethod
    def open(cls, path: str | Path) -> tuple[Self, str]:
        """Open a file or a folder; return its rows, still unread, and its randomizer's unvalidated JSON.

        Raises:
            PrivotError: if a file is missing, damaged or without a randomizer, if the files of a folder
                have different randomizers, or a folder is incomplete.
        """
        path = Path(path)
        if not path.exists():
            raise PrivotError(f"release {path} is not there: check the path")
        files = shard_files(path) if path.is_dir() else [path]
        texts, counts, waves = set(), {}, set[str]()
        try:
            local = pyarrow.fs.LocalFileSystem()
            dataset = ds.dataset([*map(str, files)], format="parquet", filesystem=local)
            for fragment in dataset.get_fragments():
                metadata = fragment.physical_schema.metadata or {}
                texts.add(metadata.get(METADATA_KEY))
                counts[fragment.path] = metadata.get(COUNTS_KEY)
                waves |= waves_in(metadata)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable_error(path, error) from None
        text = texts.pop()
        if text is None or texts:
            raise PrivotError(
                f"{path} carries no randomizer, or several, so its noise and its guarantee are "
                "unknown: use what `privot privatize` wrote"
            )
        return cls(dataset, str(path), counts, frozenset(waves)), text.decode(errors="replace")

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return int(self.dataset.count_rows())  # milliseconds for a file

    def require_types(self, types: Mapping[str, pa.DataType]) -> None:
        """Raise PrivotError unless the columns have these types."""
        for name, kind in types.items():
            actual = self.dataset.schema.field(name).type
            if actual != kind:
                raise PrivotError(
                    f"{self.source}: column {name!r} has type {actual}, the randomizer reports {kind}: "
                    "the file was altered"
                )

    def pieces(self, size: int = PIECE) -> Iterator[pa.Table]:
        """Yield all rows in order, about `size` at a time."""
        batches: list[pa.RecordBatch] = []
        rows = 0
        try:
            # One thread reads one batch ahead; more would need more memory.
            for batch in self.dataset.to_batches(
                batch_size=size, batch_readahead=1, fragment_readahead=1, use_threads=False
            ):
                batches.append(batch)
                rows += batch.num_rows
                if rows >= size:
                    yield _joined(batches)
                    batches, rows = [], 0
        except (pa.ArrowException, OSError) as error:
            raise _unreadable_error(self.source, error) from None
        if rows:
            yield _joined(batches)

    def validated(
        self, read: Callable[[pa.Table], tuple[pa.Array, Result]], shuffled: bool = False
    ) -> Iterator[tuple[NDArray[np.uint64], Result]]:
        """Validate each piece; yield its ids as pairs of words (n, 2), and the result of `read`.

        Different reports with the same id are not copies (`privot.collector.collecting`). If ids are not
        strictly increasing, all of them are read into memory to find copies.

        Arguments:
            read: Function of a piece that returns why no device sends each row (or null), and a result.
            shuffled: Whether the reports must be sorted by id, as the reports of a shuffled batch are.

        Raises:
            ImpossibleReportError: for the first impossible or repeated report, with its row and reason.
            PrivotError: for reports that must be sorted and are not, such as two batches in one table.
        """
        last, num_read, increasing = np.zeros((0, 2), np.uint64), 0, True
        for piece in self.pieces():
            words = id_words(one_array(piece.column(REPORT_ID)))  # `read` finds reports without id
            reasons, result = read(piece)
            if reasons.null_count < len(piece):
                row = int(np.flatnonzero(np.asarray(reasons.is_valid()))[0])
                raise self._impossible_error(num_read + row, str(reasons[row]))
            increasing = increasing and _increasing(np.concatenate([last, words]))
            last, num_read = words[-1:], num_read + len(piece)
            yield words, result
        if shuffled:
            self.require_batch()
        if not increasing and (repeated := self._repeated()) is not None:
            raise self._impossible_error(repeated, "it is there twice")

    def require_batch(self) -> None:
        """Refuse reports that are not in the order of ids, or files with other ids than were written."""
        last, digest = np.zeros((0, 2), np.uint64), hashlib.sha256()
        for fragment in self.dataset.get_fragments():
            try:
                ids = one_array(fragment.to_table(columns=[REPORT_ID]).column(0))
            except (pa.ArrowException, OSError) as error:
                raise _unreadable_error(self.source, error) from None
            words, is_file = id_words(ids), isinstance(fragment, ds.ParquetFileFragment)
            digest.update(id_bytes(ids))
            found = digest.hexdigest().encode()
            written = fragment.metadata.metadata.get(BATCH_KEY) if is_file else found
            if found != written or not _increasing(np.concatenate([last, words])):
                raise PrivotError(
                    f"{self.source} is not one shuffled batch as it was released, and ε is of a batch: "
                    "give each release by itself, unchanged"
                )
            last = words[-1:]

    def _impossible_error(self, row: int, reason: str) -> ImpossibleReportError:
        return ImpossibleReportError(
            f"{self.source}, report {row + 1:,}: {reason}, so the file was altered: `privot collect` "
            "accepts possible reports, and quarantines the rest"
        )

    def _repeated(self) -> int | None:
        """Return the index of the first report with the id and content of an earlier one."""
        ids = (one_array(piece.column(REPORT_ID)) for piece in self.pieces())
        words = np.concatenate([*map(id_words, ids)])
        order = order_of(words)
        repeated = (words[order[1:]] == words[order[:-1]]).all(axis=1)
        shared = np.zeros(len(words), bool)  # whether another report has the same id
        shared[order] = np.append(repeated, False) | np.append(False, repeated)
        num_read, digests = 0, set()
        for piece in self.pieces():
            rows = np.flatnonzero(shared[num_read : num_read + len(piece)])
            reports = piece.take(pa.array(rows, pa.int64())).to_pylist()
            for row, report in zip(rows, reports, strict=True):
                digest = hashlib.blake2b(repr(report).encode(), digest_size=16).digest()
                if digest in digests:
                    return num_read + int(row)
                digests.add(digest)
            num_read += len(piece)
        return None

    @property
    def in_memory(self) -> bool:
        """True if some rows are tables in memory."""
        fragments = self.dataset.get_fragments()
        return not all(isinstance(fragment, ds.ParquetFileFragment) for fragment in fragments)

    def row_groups(self) -> list[RowGroup]:
        """List all row groups of the files in order, without reading them."""
        return [
            RowGroup(part, part.row_groups[0].num_rows)
            for fragment in self.dataset.get_fragments()
            for part in fragment.split_by_row_group()
        ]

    def read(self, group: RowGroup) -> pa.Table:
        """Read one row group."""
        try:
            table = group.fragment.to_table(schema=self.dataset.schema, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable_error(self.source, error) from None
        return table.replace_schema_metadata(None)

    def row_bytes(self) -> int:
        """Return the mean size of a row in memory, in bytes, over the first row group."""
        first = self.row_groups()[0]
        return int(self.read(first).nbytes // max(1, first.num_rows))

    def digest(self) -> str:
        """Return a SHA-256 of all rows in order, which does not depend on the division into files."""
        streams: dict[str, list[Any]] = {}
        for piece in self.pieces():
            for name in piece.column_names:
                parts = list(_byte_streams(piece.column(name).combine_chunks()))
                hashes = streams.setdefault(name, [hashlib.blake2b() for _ in parts])
                for stream, part in zip(hashes, parts, strict=True):
                    stream.update(part)
        total = hashlib.sha256()
        for name in sorted(streams):
            total.update(name.encode() + b"".join(stream.digest() for stream in streams[name]))
        return total.hexdigest()

    def save(self, path: str | Path, randomizer: str) -> None:
        """Write a file with the randomizer's JSON; if writing fails, an existing file stays."""
        with replacing_file(path) as draft:
            write_reports(draft, self.pieces(), randomizer, waves_metadata(self.waves))


def waves_in(metadata: Mapping[bytes, bytes] | None) -> frozenset[str]:
    """Return the texts of the waves that a file's metadata name, a line each."""
    return frozenset((metadata or {}).get(WAVE_KEY, b"").decode(errors="replace").splitlines())


def waves_metadata(waves: Iterable[str]) -> dict[bytes, bytes]:
    """Return the metadata that name these waves; empty if there are none."""
    return {WAVE_KEY: text.encode()} if (text := "\n".join(sorted(waves))) else {}


def write_reports(
    path: Path,
    pieces: Iterable[pa.Table],
    randomizer: str,
    metadata: Mapping[bytes, bytes] | None = None,
    digest: Any = None,
) -> int:
    """Write reports to Parquet, with the randomizer's JSON and other metadata; return their number.

    The SHA-256 `digest` of the ids in earlier shards of the batch is updated with those of the file. If
    there are no reports, a PrivotError is raised.
    """
    rows, digest = 0, digest or hashlib.sha256()
    pieces = iter(pieces)
    first = next(pieces, None)
    if first is None:
        raise PrivotError("there are no rows: give at least one record")
    schema = first.schema.with_metadata({METADATA_KEY: randomizer.encode(), **(metadata or {})})
    # Noisy numbers and ids rarely repeat, so a dictionary would be useless for them.
    repeating = [
        f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
        for field in schema
        if not pa.types.is_floating(field.type) and field.name != REPORT_ID
    ]
    group = max(1, min(_ROW_GROUP, _ROW_GROUP_BYTES * first.num_rows // max(1, first.nbytes)))
    with pq.ParquetWriter(path, schema, use_dictionary=repeating) as writer:
        for piece in chain([first], pieces):
            writer.write_table(piece.cast(schema), row_group_size=group)
            digest.update(id_bytes(one_array(piece.column(REPORT_ID))))
            rows += piece.num_rows
        writer.add_key_value_metadata({BATCH_KEY: digest.hexdigest()})
    return rows


def _byte_streams(column: pa.Array) -> Iterator[bytes | memoryview]:
    """Yield streams of bytes that determine a column; streams of successive pieces are concatenated."""
    yield np.asarray(column.is_valid()).tobytes()
    if pa.types.is_list(column.type):
        yield pc.fill_null(pc.list_value_length(column), 0).to_numpy().tobytes()
        yield from _byte_streams(column.flatten())
    elif pa.types.is_fixed_size_list(column.type):
        yield from _byte_streams(column.flatten())
    elif pa.types.is_fixed_size_binary(column.type):
        yield id_words(column).tobytes()
    elif pa.types.is_string(column.type):
        texts = column.fill_null("")
        yield pc.binary_length(texts).to_numpy().tobytes()
        one_list = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
        yield pc.binary_join(one_list, "")[0].as_py().encode()
    else:
        numbers = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        yield numbers.fill_null(0).to_numpy().tobytes()


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Concatenate batches, whose metadata may differ, into one table without metadata."""
    return pa.concat_tables([pa.table(batch).replace_schema_metadata(None) for batch in batches])


def _unreadable_error(source: object, error: Exception) -> PrivotError:
    if str(source).endswith((".csv", ".csv.gz")):
        return PrivotError(
            f"release {source} is a table of reports without their randomizer: "
            f"`privot collect {source} -r randomizer.json -o release.parquet` first"
        )
    return PrivotError(f"release {source} cannot be read ({damage_of(error)}): copy it again")


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"shard-{number:06d}.parquet"


def counts_name(shard: str) -> str:
    """Return the file name of the counts beside a shard."""
    return shard.removesuffix(".parquet") + COUNTS_SUFFIX


def write_manifest(folder: Path, rows: Sequence[int]) -> None:
    """Write the manifest of a folder of shards with these numbers of rows."""
    (folder / MANIFEST).write_text(manifest_text(rows), encoding="utf-8")


def manifest_text(rows: Sequence[int]) -> str:
    """Return the manifest of shards with these numbers of rows."""
    shards = [{"file": shard_name(number), "rows": count} for number, count in enumerate(rows)]
    fields = {"format": _FORMAT, "kind": "release", "rows": sum(rows), "shards": shards}
    return json.dumps(fields, indent=2) + "\n"


def is_release(folder: Path) -> bool:
    """Return True if a folder has a manifest of shards."""
    return (folder / MANIFEST).exists()


def shard_files(folder: Path) -> list[Path]:
    """List the shards of a folder in order; raise PrivotError if it is no release, or lacks a shard."""
    try:
        fields = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        version, names = fields["format"], [str(shard["file"]) for shard in fields["shards"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise PrivotError(
            f"release {folder} has no readable {MANIFEST}: give what `privot privatize` wrote"
        ) from None
    if version != _FORMAT:
        raise PrivotError(f"release {folder} has format {version}, not {_FORMAT}: update privot")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing or not names:
        raise PrivotError(f"release {folder} lacks {missing or 'all shards'}: copy it again")
    return [folder / name for name in names]
