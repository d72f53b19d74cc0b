"""Streaming reader of CSV files: text in UTF-8 whose first line names the columns.

Declared columns are read as text, which `privot.schema.columns.raw_values` parses; the types of other
columns are inferred by `pyarrow.csv`. Errors name the line of a defect, never its content, since people
who must not see the records may read the errors.
"""

import csv as csv_lines
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from privot.core.errors import PrivotError
from privot.schema.columns.raw_values import Problem, RecordError
from privot.schema.schema import Schema, require_different

_NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
_SEPARATORS = (",", ";", "\t", "|")
_BLOCK_BYTES = 2**20
_OTHER_FORMATS = {  # problems of files that are no CSV, by the first bytes of the file
    b"\xff\xfe": "is UTF-16, not UTF-8: save it as CSV in UTF-8",
    b"\xfe\xff": "is UTF-16, not UTF-8: save it as CSV in UTF-8",
    b"PK\x03\x04": "is a zip or Excel file, not CSV: save the table as CSV in UTF-8",
    b"\xd0\xcf\x11\xe0": "is an Excel file, not CSV: save the table as CSV in UTF-8",
    b"\x1f\x8b": "is compressed by gzip: name it .csv.gz",
    b"PAR1": "is Parquet, not CSV: name it .parquet",
}


@dataclass(frozen=True)
class RecordForm:
    """Format of records in a file: the separator of a CSV file, and which columns are read.

    Arguments:
        separator: One character, or `"tab"`, `"comma"` or `"semicolon"`.
        ignore: Names of table columns to leave out; they must exist, and not be in the schema.
        unread: Names of table columns that the schema excludes from reading, if they exist.
        declared: Names of the table columns that the schema declares; None without a schema.

    Examples:
        >>> RecordForm("tab").separator
        '\\t'
    """

    separator: str = ","
    ignore: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    declared: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        separator = _NAMED_SEPARATORS.get(self.separator, self.separator)
        if len(separator) != 1 or separator.isalnum() or separator in "\"'\r\n.-+":
            raise PrivotError(
                f"separator {self.separator!r} cannot separate fields: give one character, such "
                "as ';', or tab"
            )
        object.__setattr__(self, "separator", separator)

    def of(self, schema: Schema | None) -> Self:
        """Return the same format for records of a schema."""
        if schema is None:
            return self
        # A column without a name numbers the rows, as pandas and R write them.
        unread = (*schema.unread_columns, "")
        return replace(self, unread=unread, declared=schema.table_columns)

    def select(self, table: pa.Table, source: str) -> pa.Table:
        """Return the table without the columns that are left out.

        Raises:
            PrivotError: if a column to ignore is declared, or is missing.
        """
        for name in self.ignore:
            if name in (self.declared or ()):
                raise PrivotError(
                    f"ignore {name!r}: the schema declares it, and reports are of all its columns: "
                    "remove it from the schema instead"
                )
            if name not in table.column_names:
                raise PrivotError(
                    f"ignore {name!r}: {source} has no such column: correct it, or leave it out"
                )
        left_out = [name for name in table.column_names if name in {*self.ignore, *self.unread}]
        return table.drop_columns(left_out) if left_out else table


COMMA_SEPARATED = RecordForm()


def read_csv_pieces(file: BinaryIO, source: str, form: RecordForm) -> Iterator[pa.Table]:
    """Yield the rows of an open CSV file, decompressed, in tables of about a megabyte.

    Declared columns are read as text. Errors name the file by `source`. The file is not closed.

    Raises:
        RecordError: for text that is not UTF-8, and for fields that contain a line break.
        PrivotError: for a file that is no CSV, or has no column of the schema.
    """
    stream = io.BufferedReader(cast(io.RawIOBase, file), 2**16)
    ragged: list[csv.InvalidRow] = []

    def remember(row: csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    first = 0  # number of the first row of a piece
    try:
        _require_csv(stream.peek(4), source)
        with csv.open_csv(
            stream,
            csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            csv.ParseOptions(delimiter=form.separator, invalid_row_handler=remember),
            csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(form.unread, pa.binary())
                | dict.fromkeys((*(form.declared or ()), *form.ignore), pa.string()),
                strings_can_be_null=False,
            ),
        ) as reader:
            _require_columns(reader.schema.names, form, source)
            for batch in reader:
                piece = pa.table(batch)
                _require_text(piece, first)
                yield form.select(piece, source)
                first += piece.num_rows
    except UnicodeDecodeError:
        raise PrivotError(f"{source} has a first line that is not UTF-8: save it as such") from None
    except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error) as error:
        if isinstance(error, PrivotError):
            raise
        if ragged:
            raise _ragged_error(ragged[0], form) from None
        raise PrivotError(f"{source} cannot be read as csv: {_reason(error)}") from None
    finally:
        stream.detach()  # leaves the file open


def _require_csv(head: bytes, source: str) -> None:
    """Raise PrivotError if a file, given its first bytes, is empty or of another format."""
    for start, problem in _OTHER_FORMATS.items():
        if head.startswith(start):
            raise PrivotError(f"{source} {problem}")
    if b"\0" in head.partition(b"\n")[0]:
        raise PrivotError(f"{source} holds zero bytes: save it as CSV in UTF-8")
    if not head.removeprefix(b"\xef\xbb\xbf").strip():
        raise PrivotError(f"{source} is empty: give a file with a header and at least one record")


def _require_columns(names: list[str], form: RecordForm, source: str) -> None:
    """Raise PrivotError if the first line has no declared column, or a name twice."""
    if form.declared is None:
        return
    declared = set(form.declared)
    require_different(names, source)
    if declared & set(names):
        return
    for other in _SEPARATORS:
        if other != form.separator and declared & set(form.separator.join(names).split(other)):
            shown = "tab" if other == "\t" else f"'{other}'"
            raise PrivotError(
                f"{source} is not separated by {form.separator!r}, but by {other!r}: "
                f"give separator {shown}"
            )
    raise PrivotError(
        f"{source} has none of the columns {list(form.declared)} in its first line: put the "
        "columns' names there, as the schema has them"
    )


def read_csv(path: Path, form: RecordForm) -> pa.Table:
    """Return all rows of a CSV file; raise PrivotError if it has none, or as `read_csv_pieces`."""
    with open(path, "rb") as packed:
        file = open_csv_file(path, packed)
        try:
            pieces = list(read_csv_pieces(file, str(path), form))
        except RecordError as error:
            raise error.at(place_in_csv(path, error.row)) from None
    if not pieces:
        raise PrivotError(f"{path} has no rows: give at least one record")
    return pa.concat_tables(pieces, promote_options="permissive")


def read_names(path: Path, form: RecordForm) -> list[str]:
    """Return the names in the first line of a CSV file."""
    with open(path, "rb") as packed:
        line = open_csv_file(path, packed).readline(_BLOCK_BYTES)
    _require_csv(line, str(path))
    try:
        return next(csv_lines.reader([line.decode("utf-8-sig")], delimiter=form.separator))
    except UnicodeDecodeError:
        raise PrivotError(f"{path} has a first line that is not UTF-8: save it as such") from None


def open_csv_file(path: Path, packed: BinaryIO) -> BinaryIO:
    """Return the bytes of an open CSV file, decompressed according to its suffix."""
    return cast(BinaryIO, gzip.GzipFile(fileobj=packed)) if path.suffix == ".gz" else packed


def place_in_csv(path: Path, row: int) -> str:
    """Return the file and line of a row, given its index among the lines that are not blank."""
    with open(path, "rb") as packed:
        filled = -1  # number of lines that are not blank, except for the header
        for number, line in enumerate(open_csv_file(path, packed), start=1):
            filled += bool(line.strip(b"\r\n"))
            if filled == row + 1:
                return f"{path}, line {number:,}"
    # The file has fewer rows, perhaps because it was cut short meanwhile.
    return f"{path}, line {row + 2:,}"


def _require_text(piece: pa.Table, first: int) -> None:
    """Raise RecordError for text that is not UTF-8 or has a line break, in rows from `first` on."""
    for name, values in zip(piece.column_names, piece.columns, strict=True):
        if not pa.types.is_string(values.type):
            continue
        try:
            values.validate(full=True)
        except pa.ArrowException:
            texts = values.cast(pa.binary()).to_pylist()
            rows = np.array([not _is_utf8(text or b"") for text in texts])
            problem = Problem(name, "is not UTF-8", "save the file as UTF-8", rows)
            raise problem.error(first) from None
        rows = np.asarray(pc.match_substring(values, "\n").fill_null(False).to_numpy(), np.bool_)
        if rows.any():
            fault, remedy = "has a quote that closes on another line", "correct the quotes"
            raise Problem(name, fault, remedy, rows).error(first)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _ragged_error(row: csv.InvalidRow, form: RecordForm) -> RecordError:
    """Return the error for a row whose number of fields is not that of the first line."""
    return RecordError(
        row.number - 2,  # `number` counts from 1 and includes the header
        f"it has {row.actual_columns} fields, the first line {row.expected_columns}: correct it, or "
        f"quote fields that hold {form.separator!r}",
    )


def _reason(error: Exception) -> str:
    """Return the reason for Arrow's error, without the value that its message shows."""
    if isinstance(error, OSError | EOFError | zlib.error):
        return "it is cut short or damaged: make it again"
    if "conversion error" in str(error):
        return "a column that no schema declares changes its type: declare it, or ignore it"
    return "its quotes do not close, or its lines do not end: save it as CSV again"
