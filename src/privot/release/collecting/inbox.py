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
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from privot.errors import PrivotError, printable
from privot.release.collecting.report_text import as_text, read_text
from privot.release.randomizer import Randomizer
from privot.release.reports.rows import METADATA_KEY, PIECE, is_release, shard_files
from privot.tables.parquet import damage_of

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


def received(
    files: list[Path], randomizer: Randomizer, quarantine: Quarantine, *, named: bool
) -> Iterator[pa.Table]:
    """The reports of files with their origins, about `PIECE` at a time, or of some thousand files.

    Arguments:
        files: Parquet and CSV.
        randomizer: Whose reports they are.
        quarantine: For what is no report: files that cannot be read, or are of others.
        named: Whether the curator has said whose reports they are; otherwise, others' are refused.
    """
    text, types = randomizer.to_json().encode(), randomizer.types
    held: list[pa.Table] = []
    rows = 0
    for number, file in enumerate(files):
        aside, first = partial(quarantine.add_file, number), 1
        try:
            for piece in _reports_of(file, randomizer, text, aside, named):
                columns = list(zip(piece.schema.names, piece.schema.types, strict=True))
                if dict(columns) != types or len(columns) != len(types):
                    aside("its columns are not what is reported")
                    break
                count = len(piece)
                origin = [np.full(count, number, np.int32), np.arange(first, first + count)]
                told = [piece.column(name) for name in types]
                held.append(pa.table([*told, *origin], [*types, *ORIGIN]))
                first, rows = first + count, rows + count
                if rows >= PIECE or len(held) >= _FILES_AT_ONCE:
                    yield pa.concat_tables(held).combine_chunks()
                    held, rows = [], 0
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            if isinstance(error, _OthersReportsError):
                raise
            ours = isinstance(error, PrivotError)
            aside(f"the file cannot be read ({error if ours else damage_of(error)})")
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _reports_of(
    file: Path, randomizer: Randomizer, text: bytes, aside: Callable[[str], None], named: bool
) -> Iterator[pa.Table]:
    """The rows of a file; a whole file that is of no use, and lines of text that are none, go aside."""
    if not file.is_file():  # nobody may ever write to a pipe
        aside("it is no file")
    elif _is_text(file):
        if not named:
            raise _OthersReportsError(
                f"release {file} is a table of reports without their randomizer: give it by "
                "-r randomizer.json"
            )
        yield from read_text(file, randomizer, aside)
    else:
        with _opened(file) as parquet:
            if randomizer_of(parquet) == text:
                for batch in parquet.iter_batches(PIECE, use_threads=False):
                    yield pa.table(batch)
            elif named:
                aside("it was made by another randomizer, or carries none")
            else:
                raise _OthersReportsError(
                    f"release {file} was made by another randomizer than the first: collect reports of "
                    "one, and fit others apart; or say by -r which to collect"
                )


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
