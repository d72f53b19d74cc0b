"""Raw records in batches: of files, folders, partitioned data sets and pipes larger than memory.

Rows are numbered in the order of the source (files sorted by name, rows as they stand), and cut into
batches of a fixed size: batch i holds rows i·size to (i+1)·size − 1, whatever the files' own pieces are.
So a batch means the same records whenever the same source is read, and a run that was killed can go on
with those that it lacks.

**Held against a schema**, everything that is wrong with them is told at once, for whoever holds the raw
records, before the first report. **What that tells is not private**: counts, rows and examples are exact
functions of raw records. It is the one place that shows a value.

References:
    Vitter, *Random sampling with a reservoir* (1985); Li, *Reservoir-sampling algorithms of time
    complexity O(n(1 + log(N/n)))* (1994), for the keys of `sample_rows`.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privot.errors import MOST_ROWS, PrivotError, require_count, require_seed
from privot.schema import Schema
from privot.schema.columns.raw_values import Problem, RecordError

BATCH_ROWS = 2**17

Piece = tuple[int, pa.Table]  # the number of the first row, and rows


class RecordBatches(ABC):
    """Raw records of one source, read batch by batch, as often as asked (a pipe: once).

    Arguments:
        source: What error messages call it.
        kind: What it ought to be.
        files: That it is read from; none of a pipe, or of memory.
    """

    def __init__(self, source: str, kind: str, files: Sequence[Path] = ()) -> None:
        self.source, self.kind, self.files = source, kind, list(files)

    @property
    def num_rows(self) -> int | None:
        """Number of records, if that is known before reading them."""
        return None

    @property
    def num_bytes(self) -> int | None:
        """Size of the source, if it is files."""
        return sum(file.stat().st_size for file in self.files) or None

    def share_read(self) -> float | None:
        """Which share of the source was read so far, if that is known."""
        return None

    def identity(self) -> dict[str, Any] | None:
        """What tells that the files are unchanged: names, sizes, times; None without files."""
        stats = {str(file): file.stat() for file in self.files}
        return {name: [s.st_size, s.st_mtime_ns] for name, s in stats.items()} or None

    def content(self) -> str | None:
        """A hash of the source's bytes, wherever they are now: as raw as the records themselves.

        Of files, one after the other; of a pipe, of what was read so far; None if there are none.
        """
        whole = hashlib.sha256()
        for file in self.files:
            with open(file, "rb") as opened:
                while chunk := opened.read(2**20):
                    whole.update(chunk)
        return whole.hexdigest() if self.files else None

    def place(self, row: int) -> str:
        """Where a person finds a row, counted from 0."""
        return f"row {row + 1:,} of {self.source}"

    @abstractmethod
    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        """Rows in order; those of which `needed(first, end)` is false may be left out."""

    def batches(
        self, size: int = BATCH_ROWS, done: Callable[[int], bool] = lambda number: False
    ) -> Iterator[tuple[int, pa.Table]]:
        """Number and rows of every batch of `size` rows that is not `done`; the last may be short."""

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
        files: Sequence[Path] = (),
    ) -> None:
        super().__init__(source, "a table", files)
        self._tables = tables

    @property
    def num_rows(self) -> int | None:
        """See `RecordBatches`."""
        return self._tables.num_rows if isinstance(self._tables, pa.Table) else None

    def _pieces(self, needed: Callable[[int, int], bool]) -> Iterator[Piece]:
        first = 0
        for each in [self._tables] if isinstance(self._tables, pa.Table) else self._tables:
            piece = pa.table(each)
            yield first, piece
            first += piece.num_rows


def sample_rows(records: RecordBatches, most: int, seed: int) -> tuple[pa.Table, int]:
    """At most `most` rows, uniformly without replacement, in their order; and how many there are.

    In one pass over a source that need not fit in memory: every row gets an independent uniform key, and
    the rows of the smallest keys are kept, so each set of rows is equally likely.
    """
    most = require_count("most", most, MOST_ROWS)
    rng = np.random.default_rng(require_seed(seed))
    held: pa.Table | None = None
    keys = np.zeros(0)
    total, threshold = 0, np.inf
    for _, batch in records.batches():
        drawn = rng.random(batch.num_rows)
        total += batch.num_rows
        near = drawn < threshold
        rows = batch if near.all() else batch.filter(pa.array(near))
        held = rows if held is None else pa.concat_tables([held, rows])
        keys = np.concatenate([keys, drawn[near]])
        if len(keys) > most:
            threshold = np.partition(keys, most)[most]
            kept = keys < threshold
            held, keys = held.filter(pa.array(kept)), keys[kept]
    if held is None:
        raise PrivotError(f"{records.source} has no rows: give at least one record")
    return held.combine_chunks(), total


_MOST_PLACES, _MOST_LETTERS = 3, 40


@dataclass
class Finding:
    """One kind of problem of one table column (**not private**).

    Arguments:
        column: Its name.
        what: The kind of problem.
        remedy: What to do about it.
        count: In how many rows.
        places: Where the first of them are.
        example: The first value.
    """

    column: str
    what: str
    remedy: str
    count: int = 0
    places: list[str] = field(default_factory=list)
    example: str = ""

    def add(self, problem: Problem, table: pa.Table, first: int, records: RecordBatches) -> None:
        """Count what a piece of the records adds, which begins with row `first`."""
        rows = np.flatnonzero(problem.rows).tolist()
        self.count += len(rows)
        self.example = self.example or _shown(table.column(self.column)[rows[0]])
        for row in rows[: _MOST_PLACES - len(self.places)]:
            self.places.append(records.place(first + row))


@dataclass(frozen=True)
class RecordCheck:
    """What was found (**not private**).

    Arguments:
        num_rows: Number of records.
        findings: All that would be refused.
        outside: By column, how many values lie outside their bounds, and would be moved to them.
    """

    num_rows: int
    findings: tuple[Finding, ...]
    outside: dict[str, int]


def check_records(records: RecordBatches, schema: Schema) -> RecordCheck:
    """Everything that the schema does not allow in the records."""
    findings: dict[tuple[str, str], Finding] = {}
    outside: Counter[str] = Counter()
    num_rows = 0
    for _, table in records.batches():
        schema.check_table(table)
        for name, column in schema.columns.items():
            problems = column.read(name, table)[1]
            for problem in problems:
                new = Finding(problem.column, problem.what, problem.remedy)
                finding = findings.setdefault((problem.column, problem.what), new)
                finding.add(problem, table, num_rows, records)
            if name in schema.points and not problems:
                outside[name] += schema.points[name].count_outside(name, table)
        num_rows += table.num_rows
    if not num_rows:
        raise PrivotError(f"{records.source} has no rows: give at least one record")
    return RecordCheck(num_rows, tuple(findings.values()), +outside)


def _shown(value: pa.Scalar) -> str:
    """A value on one line, its end left out if it is long."""
    text = repr(value.as_py())
    return text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "…"
