"""Raw records in batches: of files, folders, partitioned data sets and pipes larger than memory.

Rows are numbered in the order of the source (files sorted by name, rows as they stand), and cut into
batches of a fixed size: batch i holds rows i·size to (i+1)·size − 1, whatever the files' own pieces
are. So a batch means the same records whenever the same source is read, and a run that was killed
can go on with those that it lacks.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from privot.errors import PrivotError
from privot.schema.columns.problems import RecordError
from privot.tables.source_identity import content_of

BATCH_ROWS = 2**17

Piece = tuple[int, pa.Table]  # the number of the first row, and rows


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

    def place(self, row: int) -> str:
        """Where a person finds a row, counted from 0."""
        return f"row {row + 1:,} of {self.source}"

    def content(self) -> str | None:
        """A hash of the source's bytes; of a pipe, of those read so far; None if there are none."""
        return None if (files := self.identity()) is None else content_of(files)

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
                            yield number, pa.concat_tables(held, promote_options="permissive")
                            held = []
                    start = stop
        except RecordError as error:
            raise error.at(self.place(error.row)) from None
        except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error) as error:
            if isinstance(error, PrivotError):
                raise
            # Not Arrow's words: they may show a value.
            raise PrivotError(
                f"{self.source} cannot be read as {self.kind}: check that it is whole, and that all "
                "its parts have columns of the same types"
            ) from None
        if held:
            yield number, pa.concat_tables(held, promote_options="permissive")


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
