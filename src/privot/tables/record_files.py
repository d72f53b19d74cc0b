"""Reading of raw records in numbered batches, from files, folders and pipes larger than memory.

`open_records` opens, `sample_rows` samples and `check_records` validates a source of records, which is a
`privot.tables.files.RecordBatches`.

**Sources.** Parquet is read by `pyarrow.dataset`, CSV by `pyarrow.csv`. A folder contains `.parquet` or
`.csv`/`.csv.gz` files, all of one kind, at any depth; folders called `key=value` add the column `key`.
Names that begin with a dot or an underscore are ignored.

**Validation by a schema** finds all problems of the records before the first report, for the holder of
the records. **Its result is not private**: counts, rows and examples are exact functions of raw records.
Only validation shows raw values.

References:
    Vitter, *Random sampling with a reservoir* (1985); Li, *Reservoir-sampling algorithms of time
    complexity O(n(1 + log(N/n)))* (1994), for the keys of `sample_rows`.
"""

import hashlib
import io
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from privot.core.errors import MOST_ROWS, PrivotError, require_count, require_seed
from privot.schema.columns.raw_values import Problem, RecordError
from privot.schema.schema import Schema, require_different
from privot.tables import csv_records
from privot.tables.files import (
    BATCH_ROWS,
    METADATA_KEY,
    Piece,
    RecordBatches,
    TableBatches,
    read_table,
    reading_parquet,
    require_file,
    table_suffix,
)

_PIECE_VALUES = 2**23  # largest number of values of Parquet that are read at once, approximately
_IGNORED_PREFIXES = (".", "_")
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # value of a missing key in a folder's name


def open_records(
    path: str | Path,
    schema: Schema | None = None,
    form: csv_records.RecordForm = csv_records.COMMA_SEPARATED,
) -> RecordBatches:
    """Open the records of a file (csv, csv.gz, parquet, npz), a folder, or standard input (`-`, CSV).

    Arguments:
        path: The file or folder, or `-`.
        schema: Schema of the records, by whose types CSV and arrays are read.
        form: Separator of CSV, and the columns that are left out.

    Raises:
        PrivotError: for a missing file, an unknown format, or a folder of several formats.
    """
    form = form.of(schema)
    if str(path) == "-":
        return CsvPipe(form)
    path = Path(path)
    if path.is_dir():
        return _open_folder(path, schema, form)
    suffix = table_suffix(path)
    require_file(path)
    if suffix == ".parquet":
        return ParquetFiles(path, [path], form)
    if suffix == ".npz":
        return TableBatches(read_table(path, schema, form), str(path), [path])
    return CsvFiles(path, [path], form)


def read_header(
    path: Path, form: csv_records.RecordForm = csv_records.COMMA_SEPARATED
) -> dict[str, pa.DataType | None]:
    """Return the names of a file's columns, and the types that Parquet states; read no row.

    Raises:
        PrivotError: for files that are neither CSV nor Parquet, and for a name that appears twice.
    """
    require_file(path)
    names, types = [], []
    if table_suffix(path) == ".parquet":
        with reading_parquet(path):
            names, types = (schema := pq.read_schema(path)).names, schema.types
    elif table_suffix(path) != ".npz":
        names = csv_records.read_names(path, form)
    require_different(names, str(path))
    if not names:
        raise PrivotError(f"{path} has no header: give csv, csv.gz or parquet, or declare columns")
    return dict(zip(names, types or [None] * len(names), strict=True))


def _open_folder(path: Path, schema: Schema | None, form: csv_records.RecordForm) -> RecordBatches:
    """Open the records of a folder of Parquet or CSV files, or of images."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and _is_data(file, path))
    if not files:
        raise PrivotError(f"{path} holds no data files: give a folder of parquet or csv files")
    if schema is not None and schema.images and {file.suffix for file in files} != {".parquet"}:
        return TableBatches(read_table(path, schema, form), str(path))
    kinds = sorted({table_suffix(file).removesuffix(".gz") for file in files})
    if len(kinds) > 1 or kinds[0] == ".npz":
        raise PrivotError(f"{path} holds {', '.join(kinds)} files: give parquet or csv only")
    return (ParquetFiles if kinds[0] == ".parquet" else CsvFiles)(path, files, form)


def _is_data(file: Path, folder: Path) -> bool:
    """Return whether no name on the path from the folder to the file has an ignored prefix."""
    return not any(part.startswith(_IGNORED_PREFIXES) for part in file.relative_to(folder).parts)


class ParquetFiles(RecordBatches):
    """Records of Parquet files, as one Arrow data set."""

    def __init__(self, path: Path, files: list[Path], form: csv_records.RecordForm) -> None:
        super().__init__(str(path), "parquet", files)
        self._form = form
        base = path if path.is_dir() else path.parent
        folders = {
            part for file in files for part in file.relative_to(base).parts[:-1] if "=" in part
        }
        keys = dict.fromkeys(sorted(part.partition("=")[0] for part in folders), pa.string())
        with reading_parquet(path):
            self._dataset = ds.dataset(
                [str(file) for file in files],
                format="parquet",
                filesystem=pyarrow.fs.LocalFileSystem(),
                # Texts, as types that are inferred from all names change how "01" is read.
                partitioning=ds.partitioning(pa.schema(keys), flavor="hive"),
                partition_base_dir=str(base),
            )
        if METADATA_KEY in (self._dataset.schema.metadata or {}):
            raise PrivotError(f"{path} is a release, its records are noised: give raw records")
        fragments = self._dataset.get_fragments()
        self._groups = [group for part in fragments for group in part.split_by_row_group()]

    @property
    def num_rows(self) -> int:
        return sum(group.row_groups[0].num_rows for group in self._groups)

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        end = 0
        for group in self._groups:
            first, end = end, end + group.row_groups[0].num_rows
            if not needed(first, end):
                continue
            tables = self._tables(group)
            while True:
                with reading_parquet(self.source):
                    table = next(tables, None)
                if table is None:
                    break
                yield first, self._form.select(table, self.source)
                first += table.num_rows

    def _tables(self, group: ds.ParquetFileFragment) -> Iterator[pa.Table]:
        """Yield a row group in parts, with the columns of the data set."""
        # Not by a scan of the data set, which would read the whole row group.
        file = pq.ParquetFile(group.path, pre_buffer=False, buffer_size=2**20)
        keys = ds.get_partition_keys(group.partition_expression)
        (number,) = (part.id for part in group.row_groups)
        metadata = file.metadata.row_group(number)
        values = sum(metadata.column(i).num_values for i in range(metadata.num_columns))
        wanted = self._dataset.schema
        rows = min(_PIECE_VALUES * metadata.num_rows // max(values, 1) + 1, BATCH_ROWS)
        for batch in file.iter_batches(rows, [number], use_threads=False):
            read = dict(zip(batch.schema.names, batch.columns, strict=True))
            read |= {name: pa.repeat(value, len(batch)) for name, value in keys.items()}
            columns = {}
            for name, kind in zip(wanted.names, wanted.types, strict=True):
                column = read[name] if name in read else pa.nulls(len(batch), kind)
                columns[name] = column if column.type == kind else column.cast(kind)
            yield pa.table(columns)


class _HashedInput(io.RawIOBase):
    """Standard input with a hash of the bytes read."""

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
    """Records of CSV on standard input."""

    def __init__(self, form: csv_records.RecordForm) -> None:
        super().__init__("standard input", "csv")
        self._form, self._stream = form, _HashedInput()

    def content(self) -> str | None:
        return self._stream.hash.hexdigest()

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        first = 0
        stream = cast(BinaryIO, self._stream)
        for piece in csv_records.read_csv_pieces(stream, self.source, self._form):
            yield first, piece
            first += piece.num_rows


class CsvFiles(RecordBatches):
    """Records of CSV files, read in order."""

    def __init__(self, path: Path, files: list[Path], form: csv_records.RecordForm) -> None:
        super().__init__(str(path), "csv", files)
        self._path, self._form = path, form
        self._bytes_read = 0
        self._first_rows: list[int] = []  # number of the first row of each file reached so far

    def share_read(self) -> float | None:
        return self._bytes_read / (self.num_bytes or 1) if self._first_rows else None

    def place(self, row: int) -> str:
        index = bisect_right(self._first_rows, row) - 1
        return csv_records.place_in_csv(self.files[index], row - self._first_rows[index])

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
        """Yield a file's tables, given the numbers of rows and bytes in the files before it."""
        with open(path, "rb") as packed:
            file = csv_records.open_csv_file(path, packed)
            try:
                for piece in csv_records.read_csv_pieces(file, str(path), self._form):
                    self._bytes_read = before + packed.tell()
                    yield piece
            except RecordError as error:
                raise error.after(first) from None


def _with_partitions(piece: pa.Table, file: Path, base: Path) -> pa.Table:
    """Return the table with a column for every folder `key=value` between `base` and the file."""
    if file == base:
        return piece
    for part in file.relative_to(base).parts[:-1]:
        key, equals, value = part.partition("=")
        if equals:
            text = None if value == _NULL_PARTITION else unquote(value)
            piece = piece.append_column(key, pa.array([text] * piece.num_rows, pa.string()))
    return piece


def sample_rows(records: RecordBatches, most: int, seed: int) -> tuple[pa.Table, int]:
    """Draw at most `most` rows uniformly without replacement; return (rows in order, total rows).

    It takes one pass over a source that need not fit in memory: every row gets an independent uniform
    key, and the rows with the smallest keys are the sample, so each set of rows is equally likely.

    Raises:
        PrivotError: if there are no rows, or a record cannot be read.
    """
    most = require_count("most", most, MOST_ROWS)
    rng = np.random.default_rng(require_seed(seed))
    sample: pa.Table | None = None
    keys = np.zeros(0)
    total, threshold = 0, np.inf
    for _, batch in records.batches():
        batch_keys = rng.random(batch.num_rows)
        total += batch.num_rows
        small = batch_keys < threshold
        rows = batch if small.all() else batch.filter(pa.array(small))
        sample = rows if sample is None else pa.concat_tables([sample, rows])
        keys = np.concatenate([keys, batch_keys[small]])
        if len(keys) > most:
            threshold = np.partition(keys, most)[most]
            small = keys < threshold
            sample, keys = sample.filter(pa.array(small)), keys[small]
    if sample is None:
        raise PrivotError(f"{records.source} has no rows: give at least one record")
    return sample.combine_chunks(), total


_MAX_PLACES, _MAX_LETTERS = 3, 40  # number of places, and length of the example, of a finding


@dataclass
class RecordFinding:
    """One kind of problem in one table column (**not private**).

    Arguments:
        column: Name of the table column.
        fault: The problem as a predicate, such as `"has no value"`.
        remedy: What to do about it.
        count: Number of rows that have the problem.
        places: Locations of the first of these rows.
        example: Value in the first of these rows.
    """

    column: str
    fault: str
    remedy: str
    count: int = 0
    places: list[str] = field(default_factory=list)
    example: str = ""

    def add(self, problem: Problem, table: pa.Table, first: int, records: RecordBatches) -> None:
        """Add the problem's rows in a table of the records whose first row has number `first`."""
        rows = np.flatnonzero(problem.rows).tolist()
        self.count += len(rows)
        self.example = self.example or _as_one_line(table.column(self.column)[rows[0]])
        for row in rows[: _MAX_PLACES - len(self.places)]:
            self.places.append(records.place(first + row))


@dataclass(frozen=True)
class RecordCheck:
    """Result of the validation of records by a schema (**not private**).

    Arguments:
        num_rows: Number of records.
        findings: All problems because of which records would be refused.
        outside: Number of values outside their bounds, which would be clipped, by column.
    """

    num_rows: int
    findings: tuple[RecordFinding, ...]
    outside: dict[str, int]


def check_records(records: RecordBatches, schema: Schema) -> RecordCheck:
    """Find all values that the schema does not allow; raise PrivotError for other columns or no rows."""
    findings: dict[tuple[str, str], RecordFinding] = {}
    outside: Counter[str] = Counter()
    num_rows = 0
    for _, table in records.batches():
        schema.check_columns(table)
        for name, column in schema.columns.items():
            _, problems = column.read(name, table)
            point = None if problems else schema.points.get(name)
            problems = point.refused(name, table, "clip") if point else problems
            for problem in problems:
                new = RecordFinding(problem.column, problem.fault, problem.remedy)
                finding = findings.setdefault((problem.column, problem.fault), new)
                finding.add(problem, table, num_rows, records)
            if point and not problems:
                outside[name] += point.count_outside(name, table)
        num_rows += table.num_rows
    if not num_rows:
        raise PrivotError(f"{records.source} has no rows: give at least one record")
    return RecordCheck(num_rows, tuple(findings.values()), +outside)


def _as_one_line(value: pa.Scalar) -> str:
    """Return a value as one line, truncated if it is long."""
    text = repr(value.as_py())
    return text if len(text) <= _MAX_LETTERS else text[:_MAX_LETTERS] + "…"
