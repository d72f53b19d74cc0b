"""Reports as CSV: the table of a release, for pipes and for readers without Parquet.

The file does not contain the randomizer, which the reader must supply. Numbers are written with enough
digits to restore all bits, ids as 32 hexadecimal digits. A list (the cells of a joint report, the codes
of a set, an image) is one field with numbers separated by spaces, or `none`. Empty fields are null.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from privot.core.errors import PrivotError
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.rows import ID_TYPE, from_hex, one_array, to_hex
from privot.tables.files import write_csv

_EMPTY = "none"  # text of an empty list
_BLOCK_BYTES = 2**24


def write_text(target: Path | IO[bytes], pieces: Iterable[pa.Table], zipped: bool = False) -> int:
    """Write reports as CSV, by gzip if `zipped`; return their number, or raise PrivotError for none."""
    rows = write_csv((pa.table(dict(as_text(piece))) for piece in pieces), target, zipped=zipped)
    if not rows:
        raise PrivotError("there are no rows: give at least one record")
    if not isinstance(target, Path):
        target.flush()
    return rows


def read_text(
    source: Path | IO[bytes], randomizer: Randomizer, log: Callable[[str], None]
) -> Iterator[pa.Table]:
    """Yield the reports of a CSV in pieces, without validation, with null for unreadable values.

    Arguments:
        source: Path or stream of the CSV.
        randomizer: Randomizer of the reports.
        log: Callback for lines with a wrong number of fields, which are skipped.

    Raises:
        PrivotError: if the columns are not those that the randomizer reports.
    """

    def skip_line(line: csv.InvalidRow) -> str:
        log(f"a line of {line.actual_columns} fields instead of {line.expected_columns}")
        return "skip"

    types = randomizer.types
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(types, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # A line is empty if the only column was not reported.
    lines = csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=skip_line)
    blocks = csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
    with csv.open_csv(source, blocks, lines, options) as reader:
        if sorted(reader.schema.names) != sorted(types):
            raise PrivotError(
                f"{source} has columns {reader.schema.names}, the randomizer writes {list(types)}: "
                "give the randomizer that made these reports"
            )
        for batch in reader:
            columns = {name: _from_text(batch.column(name), types[name]) for name in types}
            yield pa.table(columns)


def as_text(reports: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Yield the names and columns of a CSV, in which ids and lists are text."""
    for name in reports.column_names:
        column = one_array(reports.column(name))
        if column.type == ID_TYPE:
            column = to_hex(column)
        elif _is_list(column.type):
            column = _join_numbers(column)
        yield name, column


def _from_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert a column of text to its type; null for text that cannot be converted."""
    if kind == ID_TYPE:
        return from_hex(texts)
    try:
        return _as_list(texts, kind) if _is_list(kind) else texts.cast(kind)
    except pa.ArrowInvalid:
        if pa.types.is_unsigned_integer(kind):
            return _as_unsigned(texts, kind)
        # Some text is not a number: it becomes null, and the rest is converted.
        texts = pc.if_else(pc.match_substring_regex(texts, _pattern(kind)), texts, None)
        return _as_list(texts, kind) if _is_list(kind) else texts.cast(kind)


def _as_unsigned(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert text to integers ≥ 0 of a type; null for other text and larger numbers."""
    digits = pc.if_else(pc.match_substring_regex(texts, r"^\d{1,20}$"), texts, None)
    numbers = (None if text is None else int(text) for text in digits.to_pylist())
    fitting = [n if n is not None and n < 2**kind.bit_width else None for n in numbers]
    return pa.array(fitting, kind)


def _join_numbers(lists: pa.Array) -> pa.Array:
    """Convert lists of numbers to text."""
    lists = lists.cast(pa.list_(lists.type.value_type)).cast(pa.list_(pa.string()))
    texts = pc.binary_join(lists, " ")
    return pc.if_else(pc.equal(texts, ""), _EMPTY, texts)


def _as_list(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert text to lists of type `kind`."""
    # Splitting text cannot give an empty list: "none" is replaced by one number, which is removed later.
    empty = np.asarray(pc.fill_null(pc.equal(column, _EMPTY), False))
    lists = pc.split_pattern(pc.if_else(empty, "0", column), " ").cast(pa.list_(kind.value_type))
    split_width = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    values = lists.flatten().filter(pa.array(np.repeat(~empty, split_width)))
    width = np.where(empty, 0, split_width)
    absent = np.asarray(lists.is_null())
    if pa.types.is_fixed_size_list(kind):
        return _lists_of_fixed_size(kind, values, width, absent)
    offsets = np.concatenate([[0], np.cumsum(width)]).astype(np.int32)
    masked = pa.array(offsets, mask=np.append(absent, False))  # a null start makes a null list
    return pa.ListArray.from_arrays(masked, values)


def _lists_of_fixed_size(
    kind: pa.DataType, values: pa.Array, width: np.ndarray, absent: np.ndarray
) -> pa.Array:
    """Return lists of the length that `kind` requires; null for other lengths and where absent."""
    valid = ~absent & (width == kind.list_size)
    rows = np.zeros((len(width), kind.list_size), kind.value_type.to_pandas_dtype())
    numbers = values.filter(pa.array(np.repeat(valid, width))).to_numpy()
    rows[valid] = numbers.reshape(-1, kind.list_size)
    flat, invalid = pa.array(rows.ravel()), pa.array(~valid)
    return pa.FixedSizeListArray.from_arrays(flat, type=kind, mask=invalid)


def _pattern(kind: pa.DataType) -> str:
    """Return a regular expression for text that can be converted to a type."""
    if _is_list(kind):
        number = _pattern(kind.value_type).strip("^$")
        return f"^({_EMPTY}|{number}( {number})*)$"
    if pa.types.is_boolean(kind):
        return "^(true|false)$"
    if pa.types.is_floating(kind):
        return r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
    return r"^-?\d{1,9}$"  # signed numbers are codes, cells and sheets: int32, below 10⁹


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)
