"""Tables in files of CSV, Parquet or NumPy and in folders of images, read whole or in batches.

A table is always a `pyarrow.Table`; narwhals converts pandas and polars frames. Arrow's errors about
Parquet files are replaced, because they have several lines and may show bytes of the file.

**Batches.** Rows are numbered in the order of the source (files sorted by name), and divided into
batches of a fixed size: batch i contains rows i·size to (i+1)·size − 1, independently of the files. So a
batch has the same records whenever the same source is read, and a killed run can be resumed.
"""

import datetime as dt
import gzip
import hashlib
import importlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from privot.schema import Schema
from privot.schema.columns.array import is_tensor, tensor_array, tensor_values
from privot.schema.columns.raw_values import RecordError, read_numbers, refuse
from privot.tables.csv_records import COMMA_SEPARATED, RecordForm, place_in_csv, read_csv
from privot.tables.image_folders import read_image_folder, write_image_folder

BATCH_ROWS = 2**17
METADATA_KEY = b"privot.randomizer"  # in a Parquet file of reports: JSON of the randomizer
Piece = tuple[int, pa.Table]  # (number of its first row, rows)
Result = TypeVar("Result")  # type of the result of a function of a batch
# Families of types. A value belongs to the first that fits, because `bool` is a subclass of `int`, and
# `datetime` of `date`.
_FAMILIES: tuple[Any, ...] = (
    (bool, np.bool_),
    (int, float, np.integer, np.floating, Decimal),
    str,
    dt.datetime,
    dt.date,
)
# Formats that are written piece by piece; npz needs the whole table.
STREAMED = (".csv", ".csv.gz", ".parquet")
SUFFIXES = (*STREAMED, ".npz")
# Words in Arrow's messages about a damaged footer, the end of a Parquet file.
_FOOTER_WORDS = ("magic bytes", "footer", "file size", "thrift", "metadata")


def damage_of(error: Exception) -> str:
    """Return a short reason why a Parquet file cannot be read, given the error of reading it.

    Examples:
        >>> damage_of(OSError("Corrupt snappy compressed data."))
        'some of its bytes are damaged'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    message = str(error).lower()
    if any(words in message for words in _FOOTER_WORDS):
        return "it is no Parquet, or its end is missing"
    return "some of its bytes are damaged"


@contextmanager
def reading_parquet(source: object) -> Iterator[None]:
    """Replace errors of Arrow by a PrivotError of one line with the file's name and the remedy."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise PrivotError(
            f"{source} cannot be read as parquet ({damage_of(error)}): copy or write it again"
        ) from None


def as_table(data: Any) -> pa.Table:
    """Convert a pandas or polars frame, a pyarrow table, or a dict of columns to a pyarrow table.

    Raises:
        PrivotError: for other data, columns of several types, or columns of different lengths.

    Examples:
        >>> as_table({"age": [30, 40], "sex": ["F", "M"]}).shape
        (2, 2)
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, dict):
        return _from_arrays(data, "the dict")
    # Imported on use: it takes a tenth of a second, and commands that read files do not need it.
    narwhals = importlib.import_module("narwhals.stable.v1")
    try:
        frame = narwhals.from_native(data, eager_only=True)
    except TypeError:
        raise PrivotError(
            f"a {type(data).__name__} is not a table: "
            "give a pandas, polars or pyarrow table, or a dict of columns"
        ) from None
    objects = {
        name: _one_type(name, frame.get_column(name).to_numpy(), "the table")
        for name, kind in frame.schema.items()
        if kind == narwhals.Object
    }
    try:
        table: pa.Table = frame.drop(*objects).to_arrow()
    except (pa.ArrowException, TypeError, ValueError):  # not shown: its message contains a value
        raise PrivotError(
            "the table has a column of several types, or of one unknown: give one type a column"
        ) from None
    # Selected by name, because `to_arrow` adds the row labels of pandas as columns.
    columns = {
        name: objects[name] if name in objects else table.column(name) for name in frame.columns
    }
    return pa.table(columns)


def read_table(
    path: str | Path, schema: Schema | None = None, form: RecordForm = COMMA_SEPARATED
) -> pa.Table:
    r"""Read a table file, or a folder of images in random order.

    A folder needs a schema. For a CSV, the types of a schema replace inferred ones, and `form` has the
    separator and the columns that are left out.

    Raises:
        PrivotError: if the file is missing, empty, truncated, or of another kind.
        RecordError: for text in a CSV where the schema has a number.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "people.csv"
        ...     _ = path.write_text("age\n30\n40\n")
        ...     read_table(path).num_rows
        2
    """
    path, form = Path(path), form.of(schema)
    if path.is_dir():
        return form.select(read_image_folder(path, schema), str(path))
    suffix = table_suffix(path)
    require_file(path)
    if suffix == ".parquet":
        with reading_parquet(path):
            return form.select(pq.read_table(path), str(path))
    if suffix == ".npz":
        return form.select(_from_arrays(read_arrays(path), str(path), schema), str(path))
    table = read_csv(path, form)
    return table if schema is None else _typed(table, schema, path)


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Read the arrays of an npz file, or those with one of the given names, by name.

    Raises:
        PrivotError: if the file is missing or damaged, or contains pickled objects.
    """
    require_file(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays if names is None or name in names}
    except Exception as error:  # damaged bytes raise errors of zipfile, zlib, tokenize and others
        reason = getattr(error, "strerror", None) or "it is damaged, or has pickled objects"
        raise PrivotError(
            f"{path} cannot be read as npz ({reason}): copy or write it again"
        ) from None


def require_file(path: Path) -> None:
    """Raise PrivotError if a file is missing or empty."""
    if not path.is_file():
        raise PrivotError(f"{path} is not there: check the path")
    if path.stat().st_size == 0:
        raise PrivotError(f"{path} is empty: give a file with a header and at least one record")


def write_table(table: pa.Table, path: str | Path, schema: Schema | None = None) -> None:
    """Write a table in the format of the file's suffix; an existing file survives any failure.

    A path without a suffix is a folder, for a table with one column of images and its schema.

    Raises:
        PrivotError: for a format that is unknown, or cannot hold the table.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_table(pa.table({"age": [30, 40]}), Path(folder) / "people.parquet")
        ...     read_table(Path(folder) / "people.parquet").column_names
        ['age']
    """
    path = Path(path)
    if schema is not None:
        require_format(path, schema)
        if _is_image_folder(path, schema):
            write_image_folder(table, path, schema)
            return
    if table_suffix(path) != ".npz":
        write_pieces([table], path)
        return
    arrays = {name: _plain_array(table.column(name)) for name in table.column_names}
    with replacing_file(path) as draft, open(draft, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def write_pieces(pieces: Iterable[pa.Table], path: Path) -> int:
    """Write Parquet or CSV piece by piece, and return the number of rows.

    An existing file survives any failure.
    """
    with replacing_file(path) as draft:
        if table_suffix(path) != ".parquet":
            return write_csv(pieces, draft, zipped=path.suffix == ".gz")
        rows = 0
        pieces = iter(pieces)
        first = next(pieces)
        with pq.ParquetWriter(draft, first.schema) as writer:
            for piece in chain([first], pieces):
                writer.write_table(piece)
                rows += piece.num_rows
        return rows


def write_csv(pieces: Iterable[pa.Table], target: Path | IO[bytes], *, zipped: bool = False) -> int:
    """Write pieces of one table as CSV to a stream or a file, perhaps `zipped`; return the row count."""
    if isinstance(target, Path):
        with gzip.open(target, "wb") if zipped else open(target, "wb") as file:
            return write_csv(pieces, cast(IO[bytes], file))
    rows = 0
    for number, piece in enumerate(pieces):
        csv.write_csv(piece, target, csv.WriteOptions(include_header=number == 0))
        rows += piece.num_rows
    return rows


def require_format(path: Path, schema: Schema) -> None:
    """Raise PrivotError if a path has an unknown format, or one that cannot contain the images."""
    if _is_image_folder(path, schema):
        return
    if table_suffix(path).startswith(".csv") and schema.images:
        raise PrivotError(
            f"{path} cannot hold images: give npz or parquet, or a folder (a name without suffix)"
        )


def _is_image_folder(path: Path, schema: Schema) -> bool:
    """Return True if a table of the schema is written to this path as a folder of images."""
    return bool(schema.images) and (path.is_dir() or not path.suffix)


def table_suffix(path: Path) -> str:
    """Return the suffix that determines a table file's format; raise PrivotError if it is unknown."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.endswith(suffix):
            return suffix
    raise PrivotError(f"{path} has an unknown format: use one of {', '.join(SUFFIXES)}")


def _typed(table: pa.Table, schema: Schema, path: Path) -> pa.Table:
    """Return the table of a CSV with the schema's numeric columns, which are text, as numbers."""
    for name, column in schema.columns.items():
        declared = column.table_columns(name) if column.holds_numbers else ()
        for part in [part for part in declared if part in table.column_names]:
            numbers, problems = read_numbers(table.column(part), part)
            try:
                refuse(problems)
            except RecordError as error:
                raise error.at(place_in_csv(path, error.row)) from None
            index = table.column_names.index(part)
            table = table.set_column(index, part, pa.array(numbers, from_pandas=True))
    return table


def _from_arrays(arrays: dict[str, Any], source: str, schema: Schema | None = None) -> pa.Table:
    """Build a table from arrays by name: values (n,), vectors (n, d), or images (n, …)."""
    columns: dict[str, Any] = {}
    for name, given in arrays.items():
        values = np.asarray(given)
        if values.ndim == 1 and not hasattr(given, "dtype"):
            # NumPy's type depends on all values: it is text for numbers beside a text.
            is_time = values.dtype.kind == "M"
            values = values.astype("M8[us]") if is_time else np.asarray(given, object)
        declared = schema.columns.get(name) if schema is not None else None
        parts = declared.table_columns(name) if declared is not None else (name,)
        if values.ndim == 2 and values.shape[1] == len(parts):
            columns |= {part: values[:, j] for j, part in enumerate(parts)}
        elif values.ndim == 1:
            columns[name] = values
        elif values.ndim in (3, 4) and values.dtype.kind in "iuf":
            columns[name] = tensor_array(values)
        else:
            raise PrivotError(
                f"array {name!r} of {source} has shape {values.shape}: give one value a row, "
                f"images (n, height, width[, channels]), or a vector column of the schema with its "
                f"{len(parts)} coordinates"
            )
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise PrivotError(f"columns of {source} differ in length {lengths}: give one row a record")
    return pa.table({name: _one_type(name, values, source) for name, values in columns.items()})


def _one_type(name: str, values: Any, source: str) -> pa.Array:
    """Return a column as an Arrow array; raise PrivotError if its values have several types.

    The value of one record must not change how other records are read: this would change them as well.
    """
    if isinstance(values, pa.Array):
        return values
    try:
        if values.dtype == object and len(_families(values)) > 1:
            raise ValueError
        column = pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):  # their messages show a value
        raise PrivotError(
            f"column {name!r} of {source} mixes types, or holds integers beyond 64 bits: give "
            "one type a column, and such numbers as floats"
        ) from None
    # The number of places of a decimal column depends on all values.
    is_real = pa.types.is_decimal(column.type) or pa.types.is_floating(column.type)
    return column.cast(pa.float64()) if is_real else column


def _families(values: Any) -> set[Any]:
    """Return the families (`_FAMILIES`) of the types of all values that are not missing."""
    kinds = {type(x) for x in values if not (x is None or (isinstance(x, float) and x != x))}
    kinds = {kind for kind in kinds if kind.__name__ not in ("NAType", "NaTType")}  # of pandas
    return {next((f for f in _FAMILIES if issubclass(kind, f)), kind) for kind in kinds}


def _plain_array(values: pa.ChunkedArray) -> np.ndarray:
    """Convert a column to an array that `.npz` stores without pickles."""
    plain = tensor_values(values) if is_tensor(values.type) else np.asarray(values.to_numpy())
    # NumPy would pickle an object array of strings, and pickles are never read here.
    return plain.astype(str) if plain.dtype == object else plain


class RecordBatches(ABC):
    """Raw records of one source, read batch by batch, any number of times (a pipe only once).

    Arguments:
        source: Name of the source in error messages.
        kind: Name of the expected format in error messages.
        files: Files of the source; empty for a pipe or a table in memory.
    """

    def __init__(self, source: str, kind: str, files: Sequence[Path] = ()) -> None:
        self.source, self.kind, self.files = source, kind, list(files)
        self._opened = self.identity()

    @property
    def num_rows(self) -> int | None:
        """Number of records, or None if it is not known before they are read."""
        return None

    @property
    def num_bytes(self) -> int | None:
        """Size of the source's files, or None without files."""
        return sum(file.stat().st_size for file in self.files) or None

    def share_read(self) -> float | None:
        """Return the share of the source, from 0 to 1, that was read so far; None if it is not known."""
        return None

    def identity(self) -> dict[str, Any] | None:
        """Return size and time of change of each file by name, to detect changes; None without files."""
        stats = {str(file): file.stat() for file in self.files}
        return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()} or None

    def content(self) -> str | None:
        """Return a hash of the source's bytes (**not private**); None for a table in memory.

        It covers all files in order, or the part of a pipe that was read.
        """
        digest = hashlib.sha256()
        for file in self.files:
            with open(file, "rb") as opened:
                while chunk := opened.read(2**20):
                    digest.update(chunk)
        return digest.hexdigest() if self.files else None

    def place(self, row: int) -> str:
        """Return the location, for error messages, of a row counted from 0."""
        return f"row {row + 1:,} of {self.source}"

    @abstractmethod
    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        """Yield pieces in order; rows first … end−1 may be skipped unless `needed(first, end)`."""

    def batches(
        self, size: int = BATCH_ROWS, done: Callable[[int], bool] = lambda number: False
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield (number, rows) of each batch of `size` rows, or fewer at the end, that is not `done`.

        Raises:
            PrivotError: if the source cannot be read; a RecordError if it is one record.
        """

        def needed(first: int, end: int) -> bool:
            return any(not done(number) for number in range(first // size, -(-end // size)))

        slices: list[pa.Table] = []  # the rows of batch `number` so far
        number = 0
        try:
            for first, piece in self._pieces(needed):
                start = 0
                while start < piece.num_rows:
                    if (first + start) // size != number:
                        slices, number = [], (first + start) // size
                    stop = min(piece.num_rows, (number + 1) * size - first)
                    if not done(number):
                        slices.append(piece.slice(start, stop - start))
                        if first + stop == (number + 1) * size:
                            yield number, pa.concat_tables(slices, promote_options="permissive")
                            slices = []
                    start = stop
        except RecordError as error:
            raise error.at(self.place(error.row)) from None
        except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error) as error:
            if isinstance(error, PrivotError):
                raise
            # Arrow's message may contain a value.
            raise PrivotError(
                f"{self.source} cannot be read as {self.kind}: check that it is whole, and that all "
                "its parts have columns of the same types"
            ) from None
        if slices:
            yield number, pa.concat_tables(slices, promote_options="permissive")

    def mapped(self, function: Callable[[pa.Table], Result], size: int) -> Iterator[Result]:
        """Yield the result of a function for each batch of `size` rows.

        Raises:
            RecordError: if the function raises one; its row is that of the source.
            PrivotError: if a file changed since it was opened.
        """
        for number, table in self.batches(size):
            try:
                result = function(table)
            except RecordError as error:
                raise error.after(number * size) from None
            yield result
        if self.identity() != self._opened:
            raise PrivotError(
                f"{self.source} changed while it was read: give files that nobody writes, and begin anew"
            )


class TableBatches(RecordBatches):
    """Records of a table in memory, or of an iterable of tables or record batches."""

    def __init__(
        self,
        tables: pa.Table | Iterable[pa.Table | pa.RecordBatch],
        source: str = "the table",
        files: Sequence[Path] = (),
    ) -> None:
        super().__init__(source, "a table", files)
        self._tables = tables

    @property
    def num_rows(self) -> int | None:
        return self._tables.num_rows if isinstance(self._tables, pa.Table) else None

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        first = 0
        tables = [self._tables] if isinstance(self._tables, pa.Table) else self._tables
        for table in tables:
            piece = pa.table(table)
            yield first, piece
            first += piece.num_rows
