"""Reports as CSV, for pipes: what a release's table says, and nothing of its randomizer.

Numbers are written so that reading them gives the same bits, an id as 32 hexadecimal digits. A list (the
cells of a joint report, the codes of a set, an image) is one field of numbers with spaces between;
`none` is the empty list. A field is empty where the column was not reported. The text does not say what
was done to the records: whoever reads it has to bring the randomizer.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from privot.errors import PrivotError
from privot.release.encoding import report_names, report_types
from privot.release.joint import CELLS, COMBINATION
from privot.release.randomizer import Randomizer, Release
from privot.release.report_ids import ID_TYPE, REPORT_ID, from_hex, one_array, to_hex
from privot.release.report_table import ReportTable

_EMPTY = "none"


def write_text(target: Path | IO[bytes], pieces: Iterable[pa.Table], zipped: bool = False) -> int:
    """Write reports as CSV; returns the rows."""
    if not isinstance(target, Path):
        rows = _write(target, pieces)
        target.flush()
        return rows
    if zipped:
        with gzip.open(target, "wb") as file:
            return _write(cast(IO[bytes], file), pieces)
    with open(target, "wb") as file:
        return _write(file, pieces)


def read_text_reports(source: Path | IO[bytes], randomizer: Randomizer) -> Release:
    """The release that a CSV of reports is, given the randomizer that made them; unchecked.

    Raises:
        PrivotError: if columns or values are not what the randomizer writes.
    """
    types = _types(randomizer)
    read_as_text = {n for n, kind in types.items() if _is_list(kind) or kind == ID_TYPE}
    texts = {n: pa.string() if n in read_as_text else kind for n, kind in types.items()}
    options = csv.ConvertOptions(
        column_types=texts, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    try:
        # Nothing reported of the only column is an empty line.
        lines = csv.ParseOptions(ignore_empty_lines=False)
        table = csv.read_csv(source, parse_options=lines, convert_options=options)
        if set(table.column_names) != set(types):
            raise PrivotError(
                f"{source} has columns {table.column_names}, the randomizer writes {list(types)}: "
                "give the randomizer that made these reports"
            )
        columns = {name: _from_text(table.column(name), kind) for name, kind in types.items()}
    except (pa.ArrowException, OSError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise PrivotError(
            f"{source} cannot be read as reports ({reason}): write it again"
        ) from None
    return Release(ReportTable.of(pa.table(columns)), randomizer)


def _write(file: IO[bytes], pieces: Iterable[pa.Table]) -> int:
    rows = 0
    for piece in _as_text(pieces):
        csv.write_csv(piece, file, csv.WriteOptions(include_header=rows == 0))
        rows += piece.num_rows
    if not rows:
        raise PrivotError("there are no rows: give at least one record")
    return rows


def _as_text(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    for piece in pieces:
        yield pa.table({n: _to_text(one_array(piece.column(n))) for n in piece.column_names})


def _to_text(column: pa.Array) -> pa.Array:
    if column.type == ID_TYPE:
        return to_hex(column)
    return _joined(column) if _is_list(column.type) else column


def _from_text(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    column = one_array(texts)
    if kind == ID_TYPE:
        return from_hex(column)
    return _as_list(column, kind) if _is_list(kind) else column


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
    absent = np.concatenate([np.asarray(lists.is_null()), [False]])
    return pa.ListArray.from_arrays(pa.array(ends, mask=absent), values).cast(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)


def _types(randomizer: Randomizer) -> dict[str, pa.DataType]:
    """Names and types of the columns of a randomizer's reports."""
    types = (
        {} if randomizer.joint is None else {COMBINATION: pa.int32(), CELLS: pa.list_(pa.int32())}
    )
    for name, mechanism in randomizer.mechanisms.items():
        names = report_names(randomizer.schema, name, mechanism)
        types |= dict(zip(names, report_types(randomizer.schema, name, mechanism), strict=True))
    return types | {REPORT_ID: ID_TYPE}
