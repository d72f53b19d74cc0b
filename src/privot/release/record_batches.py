"""Raw records in batches: of files, folders, partitioned data sets and pipes larger than memory.

Rows are numbered in the order of the source (files sorted by name, rows as they stand), and cut into
batches of a fixed size: batch i holds rows i·size to (i+1)·size − 1, whatever the files' own pieces
are. So a batch means the same records whenever the same source is read, and a run that was killed
can go on with those that it lacks.

A folder holds `.parquet` or `.csv`/`.csv.gz` files, all of one kind, at any depth; folders called
`key=value` add the column `key`. Names that begin with a dot or an underscore are passed over.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.fs

from privot.errors import PrivotError
from privot.release.tables import csv_types, read_table, table_suffix
from privot.schema import ArrayColumn, Schema

BATCH_ROWS = 2**17
_BLOCK_BYTES = 2**20
_NOT_DATA = (".", "_")

# Rows, and the number of the first of them.
Piece = tuple[int, pa.Table]


class RecordBatches(ABC):
    """Raw records of one source, read batch by batch, as often as asked (a pipe: once).

    Arguments:
        source: What error messages call it.
        kind: What it ought to be.
    """

    def __init__(self, source: str, kind: str) -> None:
        self.source, self.kind = source, kind

    @property
    def num_rows(self) -> int | None:
        """Number of records, if that is known before reading them."""
        return None

    @property
    def num_bytes(self) -> int | None:
        """Size of the source, if it is files."""
        return None

    def share_read(self) -> float | None:
        """Which share of the source was read so far, if that is known."""
        return None

    def identity(self) -> dict[str, Any] | None:
        """What tells that the source is unchanged: names, sizes, times; None of a pipe."""
        return None

    @abstractmethod
    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        """Rows in order; those of which `needed(first, end)` is false may be left out."""

    def batches(
        self, size: int = BATCH_ROWS, done: Callable[[int], bool] = lambda number: False
    ) -> Iterator[tuple[int, pa.Table]]:
        """Number and rows of every batch of `size` rows that is not `done`; the last may be short.

        Raises:
            PrivotError: if the source cannot be read to its end.
        """

        def needed(first: int, end: int) -> bool:
            return any(not done(number) for number in range(first // size, -(-end // size)))

        held: list[pa.Table] = []
        number = 0
        try:
            for first, piece in self._pieces(needed):
                start = 0
                while start < piece.num_rows:
                    if (here := (first + start) // size) != number:
                        held, number = [], here
                    stop = min(piece.num_rows, (number + 1) * size - first)
                    if not done(number):
                        held.append(piece.slice(start, stop - start))
                        if first + stop == (number + 1) * size:
                            yield number, pa.concat_tables(held)
                            held = []
                    start = stop
        except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error) as error:
            if isinstance(error, PrivotError):
                raise
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise PrivotError(
                f"{self.source} cannot be read as {self.kind} ({reason}): check that it is whole"
            ) from None
        if held:
            yield number, pa.concat_tables(held)


def open_records(path: str | Path, schema: Schema | None = None) -> RecordBatches:
    """The records of a file (csv, csv.gz, parquet, npz), a folder of them, or `-`: CSV on a pipe.

    Raises:
        PrivotError: if there is nothing, or of another kind.
    """
    if str(path) == "-":
        return _Csv("standard input", lambda: sys.stdin.buffer, schema)
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and _is_data(file, path))
        if not files:
            raise PrivotError(f"{path} holds no files: give a folder of parquet or csv files")
        if schema is not None and any(isinstance(c, ArrayColumn) for c in schema.columns.values()):
            return TableBatches(read_table(path, schema), str(path))
        kinds = sorted({table_suffix(file).removesuffix(".gz") for file in files})
        if len(kinds) > 1 or kinds[0] == ".npz":
            raise PrivotError(f"{path} holds {', '.join(kinds)} files: give parquet or csv only")
        return _DataSet(path, files, kinds[0].removeprefix("."), schema)
    suffix = table_suffix(path)
    if not path.is_file():
        raise PrivotError(f"{path} is not there: check the path")
    if path.stat().st_size == 0:
        raise PrivotError(f"{path} is empty: give a file with a header and at least one record")
    if suffix == ".parquet":
        return _DataSet(path, [path], "parquet", schema)
    if suffix == ".npz":
        return TableBatches(read_table(path, schema), str(path), _stamps([path]))
    return _CsvFile(path, schema)


class TableBatches(RecordBatches):
    """A table in memory, or several tables or record batches that somebody hands over in order."""

    def __init__(
        self,
        tables: pa.Table | Iterable[pa.Table | pa.RecordBatch],
        source: str = "the table",
        identity: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(source, "a table")
        self._tables, self._identity = tables, identity

    @property
    def num_rows(self) -> int | None:
        """See `RecordBatches`."""
        return self._tables.num_rows if isinstance(self._tables, pa.Table) else None

    def identity(self) -> dict[str, Any] | None:
        """See `RecordBatches`."""
        return self._identity

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        first = 0
        for each in [self._tables] if isinstance(self._tables, pa.Table) else self._tables:
            piece = pa.table(each)
            yield first, piece
            first += piece.num_rows


class _DataSet(RecordBatches):
    """Files that Arrow opens as one data set."""

    def __init__(self, path: Path, files: list[Path], kind: str, schema: Schema | None) -> None:
        super().__init__(str(path), kind)
        self._path, self._files = path, files
        form = kind if kind == "parquet" else ds.CsvFileFormat(convert_options=csv_types(schema))
        try:
            self._dataset = ds.dataset(
                [str(file) for file in files],
                format=form,
                filesystem=pyarrow.fs.LocalFileSystem(),
                partitioning=ds.partitioning(flavor="hive"),
                partition_base_dir=str(path if path.is_dir() else path.parent),
            )
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise PrivotError(
                f"{path} cannot be read as {kind} ({reason}): check that it is whole"
            ) from None
        if b"privot.randomizer" in (self._dataset.schema.metadata or {}):
            raise PrivotError(f"{path} is a release, its records are noised: give raw records")
        # A row group of Parquet knows how many rows it has; a CSV is one piece that has to be read.
        self._fragments = [
            part
            for fragment in self._dataset.get_fragments()
            for part in (fragment.split_by_row_group() if kind == "parquet" else [fragment])
        ]
        self._counted = kind == "parquet"

    @property
    def num_rows(self) -> int | None:
        """See `RecordBatches`."""
        return int(self._dataset.count_rows()) if self._counted else None

    @property
    def num_bytes(self) -> int | None:
        """See `RecordBatches`."""
        return sum(file.stat().st_size for file in self._files)

    def identity(self) -> dict[str, Any] | None:
        """See `RecordBatches`."""
        return _stamps(self._files)

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        first = 0
        for fragment in self._fragments:
            if self._counted and not needed(first, first + fragment.row_groups[0].num_rows):
                first += fragment.row_groups[0].num_rows
                continue
            for batch in fragment.to_batches(
                schema=self._dataset.schema,
                batch_size=BATCH_ROWS,
                batch_readahead=1,
                use_threads=False,
            ):
                yield first, pa.table(batch).replace_schema_metadata(None)
                first += batch.num_rows


class _Csv(RecordBatches):
    """CSV read as a stream of bytes."""

    def __init__(self, source: str, opened: Callable[[], BinaryIO], schema: Schema | None) -> None:
        super().__init__(source, "csv")
        self._open, self._schema = opened, schema

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        first = 0
        options = csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
        types = csv_types(self._schema)
        file = self._open()
        try:
            with csv.open_csv(file, options, convert_options=types) as reader:
                for batch in reader:
                    yield first, pa.table(batch)
                    first += batch.num_rows
        finally:
            self._close()

    def _close(self) -> None:
        """Nothing: whoever made the stream closes it."""


class _CsvFile(_Csv):
    """A CSV file, which knows how much of it was read."""

    def __init__(self, path: Path, schema: Schema | None) -> None:
        super().__init__(str(path), self._opened, schema)
        self._path = path
        self._raw: BinaryIO | None = None

    def _opened(self) -> BinaryIO:
        self._raw = open(self._path, "rb")  # noqa: SIM115 (closed with the last row)
        zipped = self._path.suffix == ".gz"
        return cast(BinaryIO, gzip.GzipFile(fileobj=self._raw)) if zipped else self._raw

    def share_read(self) -> float | None:
        """See `RecordBatches`."""
        if self._raw is None:
            return None
        return 1.0 if self._raw.closed else self._raw.tell() / self._path.stat().st_size

    def _close(self) -> None:
        if self._raw is not None:
            self._raw.close()

    @property
    def num_bytes(self) -> int | None:
        """See `RecordBatches`."""
        return self._path.stat().st_size

    def identity(self) -> dict[str, Any] | None:
        """See `RecordBatches`."""
        return _stamps([self._path])


def _is_data(file: Path, folder: Path) -> bool:
    return not any(part.startswith(_NOT_DATA) for part in file.relative_to(folder).parts)


def _stamps(files: list[Path]) -> dict[str, Any]:
    """Name, size and time of every file."""
    return {str(f): [s.st_size, s.st_mtime_ns] for f in files for s in (f.stat(),)}
