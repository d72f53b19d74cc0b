"""Collection of reports from releases and files: each counted once, impossible ones put in quarantine.

`collect_files` takes Parquet and CSV files, of one report or of any number, opened one after the other
and read a piece at a time. Each report is followed by its origin, so
that a refused one can be shown to its sender.

**Ids.** A report that is sent again, or copied, has the id and the content of the first, and counts
once, however often and in however many files it occurs. **The same id with other content is another
report, and counts too**: one of them is forged, and nothing shows which. Any other rule would let
whoever knows an id, from the report's transmission or from a release, replace that report (where the
first counts) or remove it (where neither does). So they add one forged report, as anybody can under an
id of their own, and that is all. A collector counts alike (`privot.collector.store`).

**Memory.** Reports of files are put in buckets by their ids, as they are read
(`privot.randomizer.publishing`); equal ids are in one bucket, and a bucket fits in memory, unless
senders choose ids to the contrary. Buckets are beside the output, in a hidden folder `.<name>.….draft`
that its owner alone may read. A kill leaves it there, to be removed by hand: its process may be at
work.

**Quarantine** is a CSV of everything received and not counted: source, row (counted from 1) and
reason, and the report as it was received. A whole file that cannot be used is one line, without a row.
The file is for the curator, who can contact its senders; it contains reports, and nothing private. In
names of files and messages about them, which senders choose, control characters are escaped.

**Influence.** A possible report moves the log-likelihood ratio of any two records by at most ε, of
Gaussian noise by its reach (`privot.mechanisms.additive_noise`): one among n.
"""

from __future__ import annotations

import glob
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privot.core.errors import PrivotError, printable
from privot.core.files import beside, cannot_write, replacing_file
from privot.randomizer.publishing import as_text, gather, read_text, write_scattered
from privot.randomizer.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import (
    METADATA_KEY,
    PIECE,
    REPORT_ID,
    id_words,
    is_release,
    one_array,
    shard_files,
    write_reports,
)
from privot.randomizer.reports.shuffled import shuffled_promise
from privot.tables.files import damage_of

SOURCE, ROW = "source", "row"
ORIGIN = {SOURCE: pa.int32(), ROW: pa.int64()}
_KINDS = (".parquet", ".csv", ".csv.gz")
_FILES_AT_ONCE, _SMALL_BYTES = 4096, 2**20


def report_files(sources: Iterable[Path]) -> list[Path]:
    """Return files, those in folders at any depth, and those of patterns with `*`; each once."""
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
    """Return the randomizer of the first release among files."""
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
    """Return the default path of the quarantine of an output."""
    return output.with_name(output.name + ".quarantine.csv")


class Quarantine:
    """Quarantine of a collection: a CSV, written line by line.

    Arguments:
        path: Path of the CSV, created with the first line.
        types: Types of the columns of a report.
        sources: Names of the sources, by the numbers that rows give.
    """

    def __init__(self, path: Path, types: dict[str, pa.DataType], sources: Sequence[str]) -> None:
        self._path, self._types = path, types
        self._sources = [printable(source) for source in sources]
        self.count = 0
        self.first = ""

    def add(self, reports: pa.Table, reasons: pa.Array | pa.ChunkedArray) -> None:
        """Add reports with their origins, and the reason of each."""
        if not len(reports):
            return
        named = pa.array(
            [self._sources[k] for k in reports.column(SOURCE).to_pylist()], pa.string()
        )
        columns = {SOURCE: named, ROW: reports.column(ROW), "reason": reasons}
        self._write(pa.table(columns | dict(as_text(reports.select(list(self._types))))))

    def add_file(self, source: int, reason: str, row: int | None = None) -> None:
        """Add a file, or a row of one, that cannot be read."""
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
    files: list[Path], randomizer: Randomizer, aside: Callable[..., None], *, named: bool
) -> Iterator[pa.Table]:
    """Yield the reports of files with their origins, in pieces of about `PIECE` rows or 4096 files.

    Arguments:
        files: Parquet and CSV files.
        randomizer: Randomizer of the reports.
        aside: Called with a file's number, and why it or one of its lines (a number) cannot be read.
        named: Whether the curator named the randomizer; otherwise files of others are refused.
    """
    text, types = randomizer.to_json().encode(), randomizer.types
    held: list[pa.Table] = []
    rows = 0
    for number, file in enumerate(files):
        unread, first = partial(aside, number), 1
        try:
            for piece in _reports_of(file, randomizer, text, unread, named):
                fields = list(zip(piece.schema.names, piece.schema.types, strict=True))
                if dict(fields) != types or len(fields) != len(types):
                    unread("its columns are not what is reported")
                    break
                count = len(piece)
                origin = [np.full(count, number, np.int32), np.arange(first, first + count)]
                columns = [piece.column(name) for name in types]
                held.append(pa.table([*columns, *origin], [*types, *ORIGIN]))
                first, rows = first + count, rows + count
                if rows >= PIECE or len(held) >= _FILES_AT_ONCE:
                    yield pa.concat_tables(held).combine_chunks()
                    held, rows = [], 0
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            if isinstance(error, _OthersReportsError):
                raise
            ours = isinstance(error, PrivotError)
            unread(f"the file cannot be read ({error if ours else damage_of(error)})")
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _reports_of(
    file: Path, randomizer: Randomizer, text: bytes, aside: Callable[[str], None], named: bool
) -> Iterator[pa.Table]:
    """Yield the rows of a file; call `aside` for a file, or a line of text, that cannot be read."""
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
    """A file of another randomizer, where none was named."""


def _is_text(file: Path) -> bool:
    return file.name.endswith((".csv", ".csv.gz"))


def _opened(file: Path) -> pq.ParquetFile:
    # A small file is opened four times as fast from memory.
    small = file.stat().st_size < _SMALL_BYTES
    return pq.ParquetFile(pa.BufferReader(file.read_bytes()) if small else file)


def randomizer_of(file: pq.ParquetFile) -> bytes | None:
    """Return the JSON of the randomizer in a file's metadata."""
    return (file.schema_arrow.metadata or {}).get(METADATA_KEY)


_BUCKET_BYTES = 2**25


@dataclass(frozen=True)
class Collection:
    """Counts of reports, copies, and quarantined reports of a collection.

    Arguments:
        randomizer: Randomizer of the reports.
        num_reports: Number of distinct reports.
        copies: Number of further copies.
        quarantined: Number of impossible reports, and of files that cannot be read.
        quarantine: Their file, if there are any.
        first: Source, row and reason of the first.

    Examples:
        >>> from privot import Schema
        >>> schema = Schema.from_dict({"columns": {"age": {"kind": "numeric", "bounds": [0, 100]}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=1.0)
        >>> Collection(randomizer, 900, copies=3, quarantined=0, quarantine=None, first="").copies
        3
    """

    randomizer: Randomizer
    num_reports: int
    copies: int
    quarantined: int
    quarantine: Path | None
    first: str


def collect_files(
    sources: Iterable[Path],
    output: Path,
    randomizer: Randomizer | None = None,
    *,
    quarantine: Path | None = None,
    strict: bool = False,
) -> Collection:
    """Write the reports of files, folders and patterns to one Parquet file, in random order.

    Arguments:
        sources: Parquet and CSV files, folders of them at any depth, or patterns with `*`.
        output: The release; an existing one survives any failure.
        randomizer: Randomizer of the reports; that of the first file by default. CSV needs it.
        quarantine: File for the other reports; `<output>.quarantine.csv` by default.
        strict: Refuse instead.

    Raises:
        PrivotError: if nothing can be counted, or `strict` and something cannot; if a file is of another
            randomizer, and none was given.
    """
    sources = list(sources)
    files = report_files(sources)
    made_by = randomizer or their_randomizer(files)
    _require_one_batch(sources, files, made_by)
    aside = quarantine or quarantine_of(output)
    work = beside(output)
    try:
        work.mkdir(mode=0o700)
        found = Quarantine(work / "aside.csv", made_by.types, [str(f) for f in files])
        buckets = 1 + sum(f.stat().st_size for f in files if f.is_file()) // _BUCKET_BYTES
        reports = received(files, made_by, found.add_file, named=randomizer is not None)
        parts = list(_scattered(reports, made_by, found, work, buckets))
        rows = copies = 0

        def counted() -> Iterator[pa.Table]:
            """Yield distinct reports, by increasing id, without their origins."""
            nonlocal copies
            for bucket in range(buckets):
                distinct, more = count_once(gather(parts, bucket, bucket + 1))
                copies += more
                if len(distinct):
                    yield distinct.drop_columns(list(ORIGIN))

        with replacing_file(output) as draft:
            if parts:
                rows = write_reports(draft, counted(), made_by.to_json())
            if not rows:
                raise nothing_left(found.first)
            if strict and found.count:
                raise refused_strictly(found.count, found.first)
            if found.count:
                with replacing_file(aside) as lines:
                    shutil.copyfile(work / "aside.csv", lines)
        where = aside if found.count else None
        return Collection(made_by, rows, copies, found.count, where, found.first)
    except OSError as error:
        raise cannot_write(output, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _require_one_batch(sources: list[Path], files: list[Path], made_by: Randomizer) -> None:
    """Refuse to put several shuffled batches into one, whose ε would be of a batch that never was."""
    whole = len(sources) == 1 and (len(files) == 1 or is_release(sources[0]))
    if shuffled_promise(made_by.schema) is not None and not whole:
        raise PrivotError(
            f"{len(files):,} files of shuffled reports are not one batch, and ε is of a batch: collect "
            "each by itself"
        )


def _scattered(
    pieces: Iterable[pa.Table], made_by: Randomizer, found: Quarantine, work: Path, buckets: int
) -> Iterator[Path]:
    """Write possible reports to buckets by id, and add the others to the quarantine."""
    for number, reports in enumerate(pieces):
        against = made_by.reasons(reports)
        found.add(reports.filter(pc.is_valid(against)), against.drop_null())
        if len(possible := reports.filter(pc.is_null(against))):
            path = work / f"part-{number:06d}.arrow"
            write_scattered(path, [possible], buckets)
            yield path


@contextmanager
def checked(
    path: Path, quarantine: Path, strict: bool
) -> Iterator[tuple[Release, Collection | None]]:
    """Provide a release to learn from: the file itself, or its countable reports and their counts."""
    release = Release.open(path)
    if release.first_fault() is None:
        yield release, None
        return
    with TemporaryDirectory(prefix="privot-") as folder:
        counted = Path(folder) / "release.parquet"
        found = collect_files([path], counted, quarantine=quarantine, strict=strict)
        yield Release.open(counted), found


def count_once(reports: pa.Table) -> tuple[pa.Table, int]:
    """Return distinct reports of a table in the order of ids, and the number of further copies."""
    words = id_words(one_array(reports.column(REPORT_ID)))
    same = (words[1:] == words[:-1]).all(axis=1)
    if not same.any():
        return reports, 0
    # Only reports with equal ids are compared by content.
    several = np.flatnonzero(np.append(same, False) | np.append(False, same))
    first = np.ones(len(words), bool)
    first[several] = _firsts(reports.take(pa.array(several)))
    return reports.filter(pa.array(first)), int((~first).sum())


def _firsts(reports: pa.Table) -> NDArray[np.bool_]:
    """Mark the first report of each id and content (n,)."""
    texts = [text.cast(pa.string()) for name, text in as_text(reports) if name not in ORIGIN]
    joined = pc.binary_join_element_wise(
        *texts, "\x1f", null_handling="replace", null_replacement="\0"
    )
    _, first = np.unique(np.asarray(joined.dictionary_encode().indices), return_index=True)
    firsts = np.zeros(len(reports), bool)
    firsts[first] = True
    return firsts


def nothing_left(first: str) -> PrivotError:
    """Return the refusal of a collection without a countable report, with the first reason."""
    return PrivotError(f"no report can be counted ({first}): give what `privot privatize` wrote")


def refused_strictly(count: int, first: str) -> PrivotError:
    """Return the refusal of a strict collection with reports that cannot be counted."""
    return PrivotError(
        f"{count:,} reports cannot be counted, the first is {first}; without --strict they "
        "are put in quarantine, and the others collected"
    )
