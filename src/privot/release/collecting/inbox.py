"""Reports as many devices send them: files of Parquet or CSV, of one report or of any number.

Files are opened one after the other, and read a piece at a time. Each report is followed by where it
comes from, so that what is refused later can be shown to its sender.

**The quarantine** is what was received and is not counted: a CSV of its source, row (counted from 1) and
reason, and the report as it came. A whole file that cannot be used is one line, without a row. The file
is for the curator, who can ask its senders; it holds reports, and nothing private. Of what strangers
wrote, names of files and words about them have control characters escaped.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from privot.errors import PrivotError, printable
from privot.release.collecting.possible import release_types
from privot.release.collecting.report_text import as_text, read_text
from privot.release.randomizer import Randomizer
from privot.release.reports.rows import METADATA_KEY, PIECE
from privot.release.reports.shards import is_release, shard_files

SOURCE, ROW = "source", "row"
ORIGIN = {SOURCE: pa.int32(), ROW: pa.int64()}
_KINDS = (".parquet", ".csv", ".csv.gz")
_FILES_AT_ONCE, _SMALL_BYTES = 4096, 2**20


def report_files(sources: Iterable[Path]) -> list[Path]:
    """Files, those in folders at any depth, and those that a pattern with `*` names; each once."""
    files: dict[Path, None] = {}
    for source in sources:
        if source.is_dir():
            found = shard_files(source) if is_release(source) else sorted(_inside(source), key=str)
        elif source.exists():
            found = [source]
        else:
            found = [Path(name) for name in sorted(glob.glob(str(source), recursive=True))]
        if not found:
            raise PrivotError(
                f"release {source} is not there, or a folder without reports: check it"
            )
        files |= dict.fromkeys(found)
    return list(files)


def _inside(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if path.name.endswith(_KINDS) and not hidden and not path.name.endswith(".quarantine.csv"):
            yield path


def their_randomizer(files: Iterable[Path]) -> Randomizer:
    """The randomizer that the first release among them carries."""
    for file in files:
        try:
            held = file.is_file() and not _is_text(file)
            text = randomizer_of(_opened(file)) if held else None
        except (pa.ArrowException, OSError):
            continue
        if text is not None:
            return Randomizer.from_json(text)
    raise PrivotError(
        "no file carries a randomizer, so the noise is unknown: give it by -r randomizer.json"
    )


def quarantine_of(output: Path) -> Path:
    """Where what does not go to `output` is put, unless another place is said."""
    return output.with_name(output.name + ".quarantine.csv")


class Quarantine:
    """Lines of a CSV, written as they are found.

    Arguments:
        path: Where; there is no file before the first line.
        types: Of the columns of a report.
        sources: Names of the sources, which rows give by their numbers.
    """

    def __init__(self, path: Path, types: dict[str, pa.DataType], sources: Sequence[str]) -> None:
        self._path, self._types = path, types
        self._sources = [printable(source) for source in sources]
        self.count = 0
        self.first = ""

    def add(self, reports: pa.Table, reasons: pa.Array | pa.ChunkedArray) -> None:
        """Rows with their origins, and why each is here."""
        if not len(reports):
            return
        named = pa.array(
            [self._sources[k] for k in reports.column(SOURCE).to_pylist()], pa.string()
        )
        columns = {SOURCE: named, ROW: reports.column(ROW), "reason": reasons}
        self._write(pa.table(columns | dict(as_text(reports.select(list(self._types))))))

    def add_file(self, source: int, reason: str, row: int | None = None) -> None:
        """A source, or a line of one, that is no report at all."""
        fields = {
            SOURCE: [self._sources[source]],
            ROW: pa.array([row], pa.int64()),
            "reason": [printable(reason)],
        }
        nothing = {name: pa.nulls(1, pa.string()) for name in self._types}
        self._write(pa.table(fields | nothing))

    def _write(self, lines: pa.Table) -> None:
        with open(self._path, "ab") as file:
            csv.write_csv(lines, file, csv.WriteOptions(include_header=self.count == 0))
        first = lines.slice(0, 1).to_pylist()[0]
        row = "" if first[ROW] is None else f", report {first[ROW]:,}"
        self.first = self.first or f"{first[SOURCE]}{row}: {first['reason']}"
        self.count += lines.num_rows


class Inbox:
    """The reports of many files with their origins; what is no report goes to quarantine.

    Arguments:
        files: Parquet and CSV.
        randomizer: Whose reports they are.
        quarantine: For files that cannot be read, or are of others.
        named: Whether the curator has said whose reports they are; otherwise, others' are refused.
    """

    def __init__(
        self, files: list[Path], randomizer: Randomizer, quarantine: Quarantine, *, named: bool
    ) -> None:
        self._files, self._randomizer = files, randomizer
        self._quarantine, self._named = quarantine, named
        self._text, self._types = randomizer.to_json().encode(), release_types(randomizer)

    def pieces(self) -> Iterator[pa.Table]:
        """All reports, about `PIECE` at a time, or of some thousand files.

        Raises:
            PrivotError: for a file of another randomizer, if none was named.
        """
        held: list[pa.Table] = []
        rows = 0
        for number in range(len(self._files)):
            for piece in self._of_file(number):
                held.append(piece)
                rows += piece.num_rows
                if rows >= PIECE or len(held) >= _FILES_AT_ONCE:
                    yield pa.concat_tables(held).combine_chunks()
                    held, rows = [], 0
        if held:
            yield pa.concat_tables(held).combine_chunks()

    def _of_file(self, number: int) -> Iterator[pa.Table]:
        row = 1
        try:
            for piece in self._read(number, self._files[number]):
                columns = list(zip(piece.schema.names, piece.schema.types, strict=True))
                if dict(columns) != self._types or len(columns) != len(self._types):
                    self._quarantine.add_file(number, "its columns are not what is reported")
                    return
                rows = len(piece)
                origin = [np.full(rows, number, np.int32), np.arange(row, row + rows)]
                held = [piece.column(name) for name in self._types]
                yield pa.table([*held, *origin], [*self._types, *ORIGIN])
                row += rows
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            if isinstance(error, _OthersReportsError):
                raise
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            self._quarantine.add_file(number, f"the file cannot be read ({reason})")

    def _read(self, number: int, file: Path) -> Iterator[pa.Table]:
        if not file.is_file():  # nobody may ever write to a pipe
            self._quarantine.add_file(number, "it is no file")
            return
        if _is_text(file):
            if not self._named:
                raise _OthersReportsError(
                    f"release {file} is a table of reports without their randomizer: give it by "
                    "-r randomizer.json"
                )
            told = partial(self._quarantine.add_file, number)
            yield from read_text(file, self._randomizer, told)
            return
        with _opened(file) as parquet:
            if randomizer_of(parquet) != self._text:
                if not self._named:
                    raise _OthersReportsError(
                        f"release {file} was made by another randomizer than the first: collect reports "
                        "of one, and fit others apart; or say by -r which to collect"
                    )
                self._quarantine.add_file(
                    number, "it was made by another randomizer, or carries none"
                )
                return
            for batch in parquet.iter_batches(PIECE, use_threads=False):
                yield pa.table(batch)


class _OthersReportsError(PrivotError):
    """Nobody has said whose reports are collected."""


def _is_text(file: Path) -> bool:
    return file.name.endswith((".csv", ".csv.gz"))


def _opened(file: Path) -> pq.ParquetFile:
    # A small file is opened four times as fast from memory.
    small = file.stat().st_size < _SMALL_BYTES
    return pq.ParquetFile(pa.BufferReader(file.read_bytes()) if small else file)


def randomizer_of(file: pq.ParquetFile) -> bytes | None:
    """The JSON of the randomizer that a file carries."""
    return (file.schema_arrow.metadata or {}).get(METADATA_KEY)
