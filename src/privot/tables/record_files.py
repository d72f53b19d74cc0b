"""Raw records in files: which kinds there are, and how each is read piece by piece.

A folder holds `.parquet` or `.csv`/`.csv.gz` files, all of one kind, at any depth; folders called
`key=value` add the column `key`. Names that begin with a dot or an underscore are passed over.
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from privot.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.raw_values import RecordError
from privot.tables.batches import BATCH_ROWS, Piece, RecordBatches, TableBatches
from privot.tables.csv_records import (
    COMMA_SEPARATED,
    RecordForm,
    line_of,
    open_csv_file,
    read_csv_pieces,
)
from privot.tables.files import read_table, table_suffix
from privot.tables.parquet import reading_parquet

_NOT_DATA = (".", "_")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def open_records(
    path: str | Path, schema: Schema | None = None, form: RecordForm = COMMA_SEPARATED
) -> RecordBatches:
    """The records of a file (csv, csv.gz, parquet, npz), a folder of them, or `-`: CSV on a pipe."""
    columns = None if schema is None else schema.table_columns
    if schema is not None:
        form = replace(form, unread=schema.unread_columns)
    if str(path) == "-":
        return CsvPipe(columns, form)
    path = Path(path)
    if path.is_dir():
        return _open_folder(path, schema, form)
    suffix = table_suffix(path)
    if not path.is_file():
        raise PrivotError(f"{path} is not there: check the path")
    if path.stat().st_size == 0:
        raise PrivotError(f"{path} is empty: give a file with a header and at least one record")
    if suffix == ".parquet":
        return ParquetFiles(path, [path], columns, form)
    if suffix == ".npz":
        return TableBatches(read_table(path, schema, form), str(path), [path])
    return CsvFiles(path, [path], columns, form)


def _open_folder(path: Path, schema: Schema | None, form: RecordForm) -> RecordBatches:
    files = sorted(file for file in path.rglob("*") if file.is_file() and _is_data(file, path))
    if not files:
        raise PrivotError(f"{path} holds no files: give a folder of parquet or csv files")
    if schema is not None and schema.images:
        return TableBatches(read_table(path, schema, form), str(path))
    kinds = sorted({table_suffix(file).removesuffix(".gz") for file in files})
    if len(kinds) > 1 or kinds[0] == ".npz":
        raise PrivotError(f"{path} holds {', '.join(kinds)} files: give parquet or csv only")
    made = ParquetFiles if kinds[0] == ".parquet" else CsvFiles
    return made(path, files, None if schema is None else schema.table_columns, form)


class ParquetFiles(RecordBatches):
    """Parquet files that Arrow opens as one data set."""

    def __init__(
        self, path: Path, files: list[Path], columns: Sequence[str] | None, form: RecordForm
    ) -> None:
        super().__init__(str(path), "parquet", files)
        self._columns, self._form = columns, form
        with reading_parquet(path):
            self._dataset = ds.dataset(
                [str(file) for file in files],
                format="parquet",
                filesystem=pyarrow.fs.LocalFileSystem(),
                partitioning=ds.partitioning(flavor="hive"),
                partition_base_dir=str(path if path.is_dir() else path.parent),
            )
        if b"privot.randomizer" in (self._dataset.schema.metadata or {}):
            raise PrivotError(f"{path} is a release, its records are noised: give raw records")
        self._groups = [
            group
            for fragment in self._dataset.get_fragments()
            for group in fragment.split_by_row_group()
        ]

    @property
    def num_rows(self) -> int:
        """See `RecordBatches`."""
        return sum(group.row_groups[0].num_rows for group in self._groups)

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        first = 0
        for group in self._groups:
            if not needed(first, first + group.row_groups[0].num_rows):
                first += group.row_groups[0].num_rows
                continue
            batches = group.to_batches(
                schema=self._dataset.schema,
                batch_size=BATCH_ROWS,
                batch_readahead=1,
                use_threads=False,
            )
            while True:
                with reading_parquet(self.source):
                    batch = next(batches, None)
                if batch is None:
                    break
                table = pa.table(batch).replace_schema_metadata(None)
                yield first, self._form.select(table, self._columns, self.source)
                first += batch.num_rows


class _HashedInput(io.RawIOBase):
    """Standard input, which knows what has come through it."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = sys.stdin.buffer.read(len(buffer))
        buffer[: len(data)] = data
        self.hash.update(data)
        return len(data)


class CsvPipe(RecordBatches):
    """CSV on standard input."""

    def __init__(self, columns: Sequence[str] | None, form: RecordForm) -> None:
        super().__init__("standard input", "csv")
        self._columns, self._form = columns, form
        self._stream = _HashedInput()

    def content(self) -> str | None:
        """See `RecordBatches`."""
        return self._stream.hash.hexdigest()

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        first = 0
        stream = cast(BinaryIO, self._stream)
        for piece in read_csv_pieces(stream, self.source, self._columns, self._form):
            yield first, piece
            first += piece.num_rows


class CsvFiles(RecordBatches):
    """CSV files, one after the other, which know how much of them was read."""

    def __init__(
        self, path: Path, files: list[Path], columns: Sequence[str] | None, form: RecordForm
    ) -> None:
        super().__init__(str(path), "csv", files)
        self._path, self._columns, self._form = path, columns, form
        self._bytes_read = 0
        self._first_rows: list[int] = []

    def share_read(self) -> float | None:
        """See `RecordBatches`."""
        return self._bytes_read / (self.num_bytes or 1) if self._first_rows else None

    def place(self, row: int) -> str:
        """See `RecordBatches`."""
        number = max(n for n, first in enumerate(self._first_rows) if first <= row)
        file = self.files[number]
        return f"{file}, line {line_of(file, row - self._first_rows[number]):,}"

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        first, before = 0, 0
        self._first_rows, columns = [], None
        for path in self.files:
            self._first_rows.append(first)
            for piece in self._read(path, first, before):
                piece = _with_partitions(piece, path, self._path)
                columns = columns or piece.column_names
                if sorted(piece.column_names) != sorted(columns):
                    raise PrivotError(
                        f"{path} has other columns than {self.files[0]}: give files of one table"
                    )
                yield first, piece.select(columns) if piece.column_names != columns else piece
                first += piece.num_rows
            before += path.stat().st_size
            self._bytes_read = before

    def _read(self, path: Path, first: int, before: int) -> Iterator[pa.Table]:
        with open(path, "rb") as packed:
            file = open_csv_file(path, packed)
            try:
                for piece in read_csv_pieces(file, str(path), self._columns, self._form):
                    self._bytes_read = before + packed.tell()
                    yield piece
            except RecordError as error:
                raise error.after(first) from None


def _with_partitions(piece: pa.Table, file: Path, base: Path) -> pa.Table:
    """A column for every `key=value` among the folders between `base` and the file."""
    if file == base:
        return piece
    for part in file.relative_to(base).parts[:-1]:
        key, equals, value = part.partition("=")
        if equals:
            text = None if value == _NO_VALUE else unquote(value)
            piece = piece.append_column(key, pa.array([text] * piece.num_rows, pa.string()))
    return piece


def _is_data(file: Path, folder: Path) -> bool:
    return not any(part.startswith(_NOT_DATA) for part in file.relative_to(folder).parts)
