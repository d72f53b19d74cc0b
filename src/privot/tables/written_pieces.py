"""Tables that come piece by piece into one file, of which only a piece need be in memory."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from privot.files import replacing_file
from privot.tables.files import table_suffix

# Of the formats that are written piece by piece; others need the whole table.
STREAMED = (".csv", ".csv.gz", ".parquet")


def write_pieces(pieces: Iterable[pa.Table], path: Path) -> int:
    """Write Parquet or CSV by the file's suffix; an existing file survives any failure, or a kill.

    Returns:
        How many rows there were.
    """
    suffix = table_suffix(path)
    with replacing_file(path) as draft:
        if suffix == ".parquet":
            return _write_parquet(pieces, draft)
        if suffix == ".csv.gz":
            with gzip.open(draft, "wb") as file:
                return _write_csv(pieces, cast(IO[bytes], file))
        with open(draft, "wb") as file:
            return _write_csv(pieces, file)


def _write_parquet(pieces: Iterable[pa.Table], path: Path) -> int:
    rows = 0
    writer: pq.ParquetWriter | None = None
    try:
        for piece in pieces:
            writer = writer or pq.ParquetWriter(path, piece.schema)
            writer.write_table(piece)
            rows += piece.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def _write_csv(pieces: Iterable[pa.Table], file: IO[bytes]) -> int:
    rows = 0
    for number, piece in enumerate(pieces):
        csv.write_csv(piece, file, csv.WriteOptions(include_header=number == 0))
        rows += piece.num_rows
    return rows
