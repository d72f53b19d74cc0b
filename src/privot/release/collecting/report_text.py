"""Reports as CSV, for pipes: what a release's table says, and nothing of its randomizer.

Numbers are written so that reading them gives the same bits, an id as 32 hexadecimal digits. A list (the
cells of a joint report, the codes of a set, an image) is one field of numbers with spaces between;
`none` is the empty list. A field is empty where the column was not reported. The text does not say what
was done to the records: whoever reads it has to bring the randomizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from privot.errors import PrivotError
from privot.release.randomizer import Randomizer
from privot.release.reports.ids import ID_TYPE, from_hex, one_array, to_hex
from privot.tables.files import write_csv

_EMPTY = "none"
_BLOCK_BYTES = 2**24


def write_text(target: Path | IO[bytes], pieces: Iterable[pa.Table], zipped: bool = False) -> int:
    """Write reports as CSV; returns the rows."""
    rows = write_csv((pa.table(dict(as_text(piece))) for piece in pieces), target, zipped=zipped)
    if not rows:
        raise PrivotError("there are no rows: give at least one record")
    if not isinstance(target, Path):
        target.flush()
    return rows


def read_text(
    source: Path | IO[bytes], randomizer: Randomizer, told: Callable[[str], None]
) -> Iterator[pa.Table]:
    """Reports of a CSV piece by piece, unchecked; a value that cannot be read is null.

    Arguments:
        source: The CSV.
        randomizer: That made them.
        told: Told of lines that have more or fewer fields, which are passed over.
    """

    def passed_over(line: csv.InvalidRow) -> str:
        told(f"a line of {line.actual_columns} fields instead of {line.expected_columns}")
        return "skip"

    types = randomizer.types
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(types, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # Nothing reported of the only column is an empty line.
    lines = csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=passed_over)
    blocks = csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
    with csv.open_csv(source, blocks, lines, options) as reader:
        if sorted(reader.schema.names) != sorted(types):
            raise PrivotError(
                f"{source} has columns {reader.schema.names}, the randomizer writes {list(types)}: "
                "give the randomizer that made these reports"
            )
        for batch in reader:
            yield pa.table({n: _from_text(batch.column(n), kind) for n, kind in types.items()})


def as_text(reports: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Columns as they are written: ids and lists as text."""
    for name in reports.column_names:
        yield name, _to_text(one_array(reports.column(name)))


def _to_text(column: pa.Array) -> pa.Array:
    if column.type == ID_TYPE:
        return to_hex(column)
    return _joined(column) if _is_list(column.type) else column


def _from_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == ID_TYPE:
        return from_hex(texts)
    try:
        return _as_list(texts, kind) if _is_list(kind) else texts.cast(kind)
    except pa.ArrowInvalid:
        # Some stranger's text is none: only what is, is read.
        texts = pc.if_else(pc.match_substring_regex(texts, _pattern(kind)), texts, None)
        return _as_list(texts, kind) if _is_list(kind) else texts.cast(kind)


def _joined(lists: pa.Array) -> pa.Array:
    lists = lists.cast(pa.list_(lists.type.value_type)).cast(pa.list_(pa.string()))
    texts = pc.binary_join(lists, " ")
    return pc.if_else(pc.equal(texts, ""), _EMPTY, texts)


def _as_list(column: pa.Array, kind: pa.DataType) -> pa.Array:
    # No text splits into an empty list: split one number, and leave it out again.
    empty = np.asarray(pc.fill_null(pc.equal(column, _EMPTY), False))
    numbers = pa.list_(kind.value_type)
    lists = pc.split_pattern(pc.if_else(empty, "0", column), " ").cast(numbers)
    width = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    values = lists.flatten().filter(pa.array(np.repeat(~empty, width)))
    ends = np.concatenate([[0], np.cumsum(np.where(empty, 0, width))]).astype(np.int32)
    absent = np.asarray(lists.is_null())
    if pa.types.is_fixed_size_list(kind):
        return _of_length(kind, values, width, absent)
    ends = pa.array(ends, mask=np.concatenate([absent, [False]]))
    return pa.ListArray.from_arrays(ends, values)


def _of_length(
    kind: pa.DataType, values: pa.Array, width: np.ndarray, absent: np.ndarray
) -> pa.Array:
    """Lists that have the length they must have; others, as those that are absent, are null."""
    right = ~absent & (width == kind.list_size)
    held = np.zeros((len(width), kind.list_size), kind.value_type.to_pandas_dtype())
    held[right] = (
        values.filter(pa.array(np.repeat(right, width))).to_numpy().reshape(-1, held.shape[1])
    )
    return pa.FixedSizeListArray.from_arrays(
        pa.array(held.ravel()), type=kind, mask=pa.array(~right)
    )


def _pattern(kind: pa.DataType) -> str:
    if _is_list(kind):
        number = _pattern(kind.value_type).strip("^$")
        return f"^({_EMPTY}|{number}( {number})*)$"
    if pa.types.is_boolean(kind):
        return "^(true|false)$"
    if pa.types.is_floating(kind):
        return r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
    if pa.types.is_unsigned_integer(kind):
        return f"^({_at_most(2**kind.bit_width - 1)})$"
    return r"^-?\d{1,9}$"


def _at_most(largest: int) -> str:
    """A pattern of the integers up to `largest`, in decimals."""
    digits = str(largest)
    ways = [rf"\d{{1,{len(digits) - 1}}}", digits]
    for place, digit in enumerate(digits):
        first = int(place == 0)
        if int(digit) > first:
            below = f"[{first}-{int(digit) - 1}]"
            ways.append(rf"{digits[:place]}{below}\d{{{len(digits) - place - 1}}}")
    return "|".join(ways)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)
