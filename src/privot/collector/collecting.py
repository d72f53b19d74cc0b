"""Collection of reports into one release: each report counts once, impossible ones go into quarantine.

`collect_files` reads Parquet and CSV files, with any number of reports each, in pieces, and writes a
file. The origin of each report (file and row) stays beside it while it is checked, so that the sender of
a refused one can be found. `collect` does the same in memory, also with releases and with reports in
binary form. `without_impossible` opens a release for a fit, without its impossible reports.

**Ids.** A report that is sent again, or copied, has the same id and content, and counts once. **The same
id with other content is another report, and counts too**: one of them is forged, and nothing shows
which. If only the first counted, whoever knows an id (from the transmission, or from a release) could
replace that report; if neither counted, they could remove it. Under this rule they only add a forged
report, as anybody can with a new id. A collector applies the same rule (`privot.collector.store`).

**Memory.** Reports are distributed to buckets by their ids as they are read
(`privot.randomizer.publishing`). Equal ids are in one bucket, and a bucket fits in memory, unless
senders choose ids that prevent it. Buckets are in a hidden folder `.<name>.….draft` beside the output,
which only its owner may read. If the process is killed, the folder remains, and can be removed by hand.

**Quarantine.** A CSV file lists everything that was received and not counted: source, row (from 1),
reason, and the report as received. A file that cannot be read at all is one line without a row. The list
is for the curator, who can contact the senders; it contains reports, no raw values. Control characters
in file names and error messages, which senders choose, are escaped.

**Influence.** A possible report changes the log-likelihood ratio of any two records by at most ε (for
Gaussian noise see `privot.mechanisms.additive_noise`), as one summand among n.
"""

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
from privot.core.files import cannot_write, draft_path, replacing_file
from privot.randomizer.publishing import read_buckets, write_buckets
from privot.randomizer.randomizer import Randomizer, Release
from privot.randomizer.reports.counts import Counts, count, is_counted, is_counts
from privot.randomizer.reports.csv_reports import as_text, read_text
from privot.randomizer.reports.payloads import Payloads
from privot.randomizer.reports.rows import (
    PIECE,
    REPORT_ID,
    ImpossibleReportError,
    ReportTable,
    id_words,
    is_release,
    one_array,
    shard_files,
    sorted_by_id,
    waves_in,
    waves_metadata,
    write_reports,
)
from privot.tables.files import METADATA_KEY, damage_of
from privot.wire.report import MAGIC, Report, WireError, read_batch

SOURCE, ROW = "source", "row"
ORIGIN = {SOURCE: pa.int32(), ROW: pa.int64()}
_KINDS = (".parquet", ".csv", ".csv.gz")
_MAX_PIECES = 4096  # pieces of small files that are joined
_SMALL_BYTES = 2**20  # a file up to this size is faster to read at once
_BUCKET_BYTES = 2**25  # approximate size of a bucket, which is read into memory


def _report_files(sources: Iterable[Path]) -> list[Path]:
    """Return the distinct report files of paths, folders (at any depth) and patterns with `*`."""
    files: dict[Path, None] = {}
    for source in sources:
        if source.is_dir() and is_release(source):
            matches = shard_files(source)
        elif source.is_dir():
            matches = sorted(_reports_below(source), key=str)
        elif source.exists():
            matches = [source]
        else:
            matches = [Path(name) for name in sorted(glob.glob(str(source), recursive=True))]
        if not matches:
            raise PrivotError(f"release {source} is not there, or has no reports: check it")
        files |= dict.fromkeys(matches)
    return list(files)


def _reports_below(folder: Path) -> Iterator[Path]:
    """Yield the report files of a folder at any depth, without hidden files and quarantines."""
    for path in folder.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if path.name.endswith(_KINDS) and not hidden and not path.name.endswith(".quarantine.csv"):
            yield path


def _randomizer_of_files(files: Iterable[Path]) -> Randomizer:
    """Return the randomizer in the metadata of the first Parquet file that has one."""
    for file in files:
        try:
            may_be_parquet = file.is_file() and not _is_csv(file)
            text = _randomizer_text(_open_parquet(file)) if may_be_parquet else None
        except (pa.ArrowException, OSError):
            continue
        if text is not None:
            return Randomizer.from_json(text)
    raise PrivotError(
        "no file carries a randomizer, so the noise is unknown: give it by -r randomizer.json"
    )


def quarantine_of(output: Path) -> Path:
    """Return the default path of the quarantine file of an output."""
    return output.with_name(output.name + ".quarantine.csv")


class Quarantine:
    """CSV file of the reports that are not counted, written as they are found.

    Arguments:
        path: Path of the CSV, created with the first line; `count` is the number of lines, and `first`
            the source, row and reason of the first one.
        types: Types of the columns of a report.
        sources: Names of the sources, by number.
    """

    def __init__(self, path: Path, types: dict[str, pa.DataType], sources: Sequence[str]) -> None:
        self.path, self._types = path, types
        self._sources = [printable(source) for source in sources]
        self.count = 0
        self.first = ""

    def add(self, reports: pa.Table, reasons: pa.Array | pa.ChunkedArray) -> None:
        """Add reports with their origins and the reasons for their refusal."""
        if not len(reports):
            return
        sources = [self._sources[number] for number in reports.column(SOURCE).to_pylist()]
        columns = {SOURCE: pa.array(sources, pa.string()), ROW: reports.column(ROW)}
        columns |= {"reason": reasons, **dict(as_text(reports.select(list(self._types))))}
        self._write(pa.table(columns))

    def add_unreadable(self, source: int, reason: str) -> None:
        """Add a file, or a line of a file, that cannot be read."""
        fields = {
            SOURCE: [self._sources[source]],
            ROW: pa.nulls(1, pa.int64()),
            "reason": [printable(reason)],
        }
        empty_report = {name: pa.nulls(1, pa.string()) for name in self._types}
        self._write(pa.table(fields | empty_report))

    def _write(self, lines: pa.Table) -> None:
        with open(self.path, "ab") as file:
            csv.write_csv(lines, file, csv.WriteOptions(include_header=self.count == 0))
        first = lines.slice(0, 1).to_pylist()[0]
        row = "" if first[ROW] is None else f", report {first[ROW]:,}"
        self.first = self.first or f"{first[SOURCE]}{row}: {first['reason']}"
        self.count += lines.num_rows


class _FileReader:
    """Reader of files of reports, all of one randomizer.

    Arguments:
        randomizer: Randomizer of the reports.
        refuse: Callback for a file, or a line of a file, that cannot be read: it gets the file's number
            and the reason.
        is_named: Whether the curator named the randomizer. If so, files of other randomizers are
            refused; otherwise they raise an error.
    """

    def __init__(
        self, randomizer: Randomizer, refuse: Callable[[int, str], None], is_named: bool
    ) -> None:
        self._randomizer, self._refuse, self._is_named = randomizer, refuse, is_named
        self._text, self._types = randomizer.to_json().encode(), randomizer.types
        self.waves = frozenset[str]()  # of the files read so far

    def read(self, files: Sequence[Path]) -> Iterator[pa.Table]:
        """Yield the reports of files with their origins, in pieces of about `PIECE` rows."""
        waiting: list[pa.Table] = []
        rows = 0
        for number, file in enumerate(files):
            for piece in self._with_origins(number, file):
                waiting.append(piece)
                rows += len(piece)
                if rows >= PIECE or len(waiting) >= _MAX_PIECES:
                    yield pa.concat_tables(waiting).combine_chunks()
                    waiting, rows = [], 0
        if waiting:
            yield pa.concat_tables(waiting).combine_chunks()

    def _with_origins(self, number: int, file: Path) -> Iterator[pa.Table]:
        """Yield the reports of a file with their origins, up to the first piece that cannot be read."""
        types, refuse = self._types, partial(self._refuse, number)
        end = 1  # rows are counted from 1
        try:
            for piece in self._rows(file, refuse):
                fields = dict(zip(piece.schema.names, piece.schema.types, strict=True))
                if fields != types or len(piece.schema) != len(types):
                    refuse("its columns are not what is reported")
                    return
                start, end = end, end + len(piece)
                origin = [np.full(len(piece), number, np.int32), np.arange(start, end)]
                columns = [piece.column(name) for name in types]
                yield pa.table([*columns, *origin], [*types, *ORIGIN])
        except _OtherRandomizerError:
            raise
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            reason = error if isinstance(error, PrivotError) else damage_of(error)
            refuse(f"the file cannot be read ({reason})")

    def _rows(self, file: Path, refuse: Callable[[str], None]) -> Iterator[pa.Table]:
        """Yield the rows of a file in pieces; call `refuse` for the file, or for an unreadable line."""
        if not file.is_file():  # reading a pipe could wait for ever
            refuse("it is no file")
        elif _is_csv(file):
            if not self._is_named:
                raise _OtherRandomizerError(
                    f"release {file} is a table of reports without their randomizer: give it by "
                    "-r randomizer.json"
                )
            yield from read_text(file, self._randomizer, refuse)
        else:
            with _open_parquet(file) as parquet:
                if _randomizer_text(parquet) == self._text:
                    self.waves |= waves_in(parquet.schema_arrow.metadata)
                    for batch in parquet.iter_batches(PIECE, use_threads=False):
                        yield pa.table(batch)
                elif self._is_named:
                    refuse("it was made by another randomizer, or carries none")
                else:
                    raise _OtherRandomizerError(
                        f"release {file} was made by another randomizer than the first: collect reports "
                        "of one, and fit others apart; or say by -r which to collect"
                    )


class _OtherRandomizerError(PrivotError):
    """Refusal of a file of another randomizer, where the curator named none."""


def _is_csv(file: Path) -> bool:
    return file.name.endswith((".csv", ".csv.gz"))


def _open_parquet(file: Path) -> pq.ParquetFile:
    # Reading a small file into memory first is four times as fast.
    small = file.stat().st_size < _SMALL_BYTES
    return pq.ParquetFile(pa.BufferReader(file.read_bytes()) if small else file)


def _randomizer_text(file: pq.ParquetFile) -> bytes | None:
    """Return the JSON of the randomizer in a file's metadata; None if there is none."""
    return (file.schema_arrow.metadata or {}).get(METADATA_KEY)


@dataclass(frozen=True)
class Collection:
    """Result of a collection: numbers of reports, of copies, and of quarantined reports.

    Arguments:
        randomizer: Randomizer of the reports.
        num_reports: Number of distinct reports.
        copies: Number of further copies of these reports.
        quarantined: Number of impossible reports, and of files that cannot be read.
        quarantine: File that lists the quarantined reports; None if there are none.
        first: Source, row and reason of the first quarantined report; empty if there is none.
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
        sources: Parquet and CSV files, folders with such files at any depth, or patterns with `*`.
        output: File of the release; an existing one survives any failure.
        randomizer: Randomizer of the reports; that of the first file by default. CSV files need it.
        quarantine: File for reports that cannot be counted; `<output>.quarantine.csv` by default.
        strict: Whether to raise if any report cannot be counted.

    Raises:
        PrivotError: if no report, or with `strict` not every report, can be counted; if randomizers
            differ or none is known; if several batches of shuffled reports are given; or if the output
            cannot be written.
    """
    sources, is_named = list(sources), randomizer is not None
    files = _report_files(sources)
    randomizer = randomizer or _randomizer_of_files(files)
    _require_one_batch(randomizer, sources, files)
    work = draft_path(output)
    try:
        work.mkdir(mode=0o700)
        refused = Quarantine(work / "refused.csv", randomizer.types, [str(f) for f in files])
        num_buckets = 1 + sum(f.stat().st_size for f in files if f.is_file()) // _BUCKET_BYTES
        reader = _FileReader(randomizer, refused.add_unreadable, is_named)
        parts = [*_write_parts(reader.read(files), randomizer, refused, work, num_buckets)]
        copies = 0

        def distinct_reports() -> Iterator[pa.Table]:
            """Yield distinct reports, by increasing id, without their origins; count the copies."""
            nonlocal copies
            for bucket in range(num_buckets):
                distinct, num_copies = _distinct(read_buckets(parts, bucket, bucket + 1))
                copies += num_copies
                if len(distinct):
                    yield distinct.drop_columns(list(ORIGIN))

        with replacing_file(output) as draft:
            pieces, more = distinct_reports(), waves_metadata(reader.waves)
            rows = write_reports(draft, pieces, randomizer.to_json(), more) if parts else 0
            if not rows:
                raise _none_countable(refused.first)
            if strict and refused.count:
                raise refused_strictly(refused.count, refused.first)
            listed = (quarantine or quarantine_of(output)) if refused.count else None
            if listed:
                with replacing_file(listed) as draft_of_list:
                    shutil.copyfile(refused.path, draft_of_list)
        return Collection(randomizer, rows, copies, refused.count, listed, refused.first)
    except OSError as error:
        raise cannot_write(output, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _require_one_batch(
    randomizer: Randomizer,
    sources: list[Path],
    files: list[Path],
    others: Sequence[Release | Report | bytes] = (),
) -> None:
    """Refuse to merge batches of shuffled reports, because their ε does not hold for a union.

    A folder that is a release is one batch, if it is the only source; otherwise each file counts as one.
    Single reports among `others`, releases and reports in binary form, are one batch together.
    """
    if randomizer.schema.shuffled_promise is None:
        return
    is_one_release = len(sources) == 1 and is_release(sources[0])
    singles = [isinstance(i, Report) or (isinstance(i, bytes) and i[:4] != MAGIC) for i in others]
    num_batches = (1 if is_one_release else len(files)) + len(others) - max(0, sum(singles) - 1)
    if num_batches > 1:
        raise PrivotError(
            f"{num_batches:,} sources of shuffled reports are not one batch, and ε is of a batch: "
            "collect each by itself"
        )
    tables = [other.rows for other in others if isinstance(other, Release)]
    if files and not _is_csv(files[0]):
        tables.append(ReportTable.open(sources[0] if is_one_release else files[0])[0])
    for table in tables:
        table.require_batch()


def _write_parts(
    pieces: Iterable[pa.Table],
    randomizer: Randomizer,
    refused: Quarantine,
    work: Path,
    num_buckets: int,
) -> Iterator[Path]:
    """Write the possible reports of each piece to a file, in buckets by id; quarantine the others."""
    for number, reports in enumerate(pieces):
        reasons = randomizer.reasons(reports)  # null for possible reports
        refused.add(reports.filter(pc.is_valid(reasons)), reasons.drop_null())
        if len(possible := reports.filter(pc.is_null(reasons))):
            path = work / f"part-{number:06d}.arrow"
            write_buckets(path, [possible], num_buckets)
            yield path


@contextmanager
def without_impossible(
    path: Path, quarantine: Path, strict: bool, one_by_one: bool = False
) -> Iterator[tuple[Release | Counts, Collection | None]]:
    """Provide a release or counts without impossible reports; and the collection that removed some.

    A release from which maps or tables are learned is provided as counts.

    Arguments:
        path: The release or counts.
        quarantine: File for impossible reports, as for `collect_files`.
        strict: Whether to raise if there are impossible reports.
        one_by_one: Whether single reports are needed, so that the release is not counted.

    Raises:
        PrivotError: as `collect_files`.
    """
    if is_counts(path):
        yield Counts.load(path), None
        return
    release = Release.open(path)
    counted = is_counted(release.randomizer) and not one_by_one
    try:
        possible = count(release) if counted else release
        if not counted:
            release.require_possible()
    except ImpossibleReportError:
        with TemporaryDirectory(prefix="privot-") as folder:
            cleaned = Path(folder) / "release.parquet"
            collection = collect_files([path], cleaned, quarantine=quarantine, strict=strict)
            copy = Release.open(cleaned)
            yield count(copy) if counted else copy, collection
        return
    yield possible, None


def _distinct(reports: pa.Table) -> tuple[pa.Table, int]:
    """Return the distinct reports of a table in the order of ids, and the number of further copies."""
    ids = id_words(one_array(reports.column(REPORT_ID)))
    same_as_next = (ids[1:] == ids[:-1]).all(axis=1)
    if not same_as_next.any():
        return reports, 0
    # Only reports with equal ids are compared by content.
    shared = np.flatnonzero(np.append(same_as_next, False) | np.append(False, same_as_next))
    is_first = np.ones(len(ids), bool)
    is_first[shared] = _is_first_of_equals(reports.take(pa.array(shared)))
    return reports.filter(pa.array(is_first)), int((~is_first).sum())


def _is_first_of_equals(reports: pa.Table) -> NDArray[np.bool_]:
    """Return a mask (n,) of the first report of each id and content."""
    texts = [text.cast(pa.string()) for name, text in as_text(reports) if name not in ORIGIN]
    # Texts are numbers, ids or "none": none contains the separator.
    contents = pc.binary_join_element_wise(
        *texts, "\x1f", null_handling="replace", null_replacement="\0"
    )
    _, first = np.unique(np.asarray(contents.dictionary_encode().indices), return_index=True)
    is_first = np.zeros(len(reports), bool)
    is_first[first] = True
    return is_first


def _none_countable(first: str) -> PrivotError:
    """Return the error of a collection without a countable report, given the first reason."""
    return PrivotError(f"no report can be counted ({first}): give what `privot privatize` wrote")


def refused_strictly(count: int, first: str) -> PrivotError:
    """Return the error of a strict collection with reports that cannot be counted."""
    return PrivotError(
        f"{count:,} reports cannot be counted, the first is {first}; without --strict they "
        "are put in quarantine, and the others collected"
    )


@dataclass(frozen=True)
class Collected:
    """Release of all countable reports, with a list of the others.

    Arguments:
        release: The release, in random order.
        quarantined: Table of the other reports, as text, with the reason for each.
        copies: Number of further copies of the counted reports.

    Examples:
        >>> from privot import Schema
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> release = Randomizer.calibrate(schema, epsilon=1.0).privatize({"bit": [True, False]})
        >>> collected = collect(release)
        >>> len(collected.release), collected.quarantined.num_rows, collected.copies
        (2, 0, 0)
    """

    release: Release
    quarantined: pa.Table
    copies: int


Source = Release | Report | bytes | str | Path


def collect(sources: Source | Iterable[Source], randomizer: Randomizer | None = None) -> Collected:
    """Put all reports of one randomizer into one release, in memory and in random order.

    Copies of a report count once; reports that the randomizer cannot have drawn are listed with the
    reason. Each person's guarantee is that of their own report: reports of different people do not
    compose. (A person who privatizes their record twice spends two budgets; this is not detected.)

    Arguments:
        sources: One or several of: releases; reports, or batches of reports, in binary form, as
            `privot.device` makes them; paths of Parquet and CSV files, of folders with such files at any
            depth, or patterns with `*`.
        randomizer: Randomizer of the reports; by default that of the first release or file. Reports in
            binary form, and CSV files, need it.

    Raises:
        PrivotError: if there are no sources, their randomizers differ, none is known, or no report can
            be counted.

    Examples:
        >>> from privot import Schema
        >>> from privot.device import Device
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=1.0)
        >>> release = randomizer.privatize({"bit": [True, False]})
        >>> len(collect(release).release), collect([release, release]).copies
        (2, 2)
        >>> report = Device.from_json(randomizer.to_json()).report({"bit": True})
        >>> len(collect([release, report], randomizer).release)
        3
    """
    items = [sources] if isinstance(sources, Source) else list(sources)
    releases = [item for item in items if isinstance(item, Release)]
    binary = [item for item in items if isinstance(item, bytes | Report)]
    paths = [Path(item) for item in items if isinstance(item, str | Path)]
    if len(releases) + len(binary) + len(paths) < len(items):
        raise PrivotError("sources are releases, reports as bytes, or paths: give nothing else")
    files, is_named = _report_files(paths), randomizer is not None or bool(releases)
    randomizer = _only_randomizer(randomizer, releases, files, bool(binary))
    _require_one_batch(randomizer, paths, files, [*releases, *binary])
    refused: list[str] = []

    def refuse(file: int, reason: str) -> None:
        refused.append(f"{printable(str(files[file]))}: {printable(reason)}")

    reader = _FileReader(randomizer, refuse, is_named)
    rows, unread = _read_binary(randomizer, binary)
    tables = [rows, *(release.table for release in releases), *reader.read(files)]
    refused += unread
    reports = pa.concat_tables([t.select([*randomizer.types]) for t in tables]).combine_chunks()
    reasons = randomizer.reasons(reports)  # null for possible reports
    distinct, copies = _distinct(sorted_by_id(reports.filter(pc.is_null(reasons))))
    quarantined = _quarantined(refused, reports.filter(pc.is_valid(reasons)), reasons.drop_null())
    if not len(distinct):
        first = quarantined["reason"][0].as_py() if len(quarantined) else "there is none"
        raise _none_countable(first)
    waves = reader.waves.union(*(release.waves for release in releases))
    release = Release(ReportTable.of(distinct, waves=waves), randomizer)
    return Collected(release, quarantined, copies)


def _only_randomizer(
    named: Randomizer | None, releases: list[Release], files: list[Path], has_binary: bool
) -> Randomizer:
    """Return the named randomizer, else the first release's or file's; check that releases agree."""
    if not (named or releases or files):
        raise PrivotError(
            "reports do not carry their randomizer: give it as `randomizer`"
            if has_binary
            else "sources are empty: give at least one release, report or file"
        )
    randomizer = named or (releases[0].randomizer if releases else _randomizer_of_files(files))
    for number, release in enumerate(releases, start=1):
        if release.randomizer.to_json() != randomizer.to_json():
            raise PrivotError(
                f"release {number} was made by another randomizer: collect reports of one randomizer, "
                "and fit others apart"
            )
    return randomizer


def _quarantined(unread: list[str], impossible: pa.Table, reasons: pa.Array) -> pa.Table:
    """Return a table of all quarantined reports with the reasons; unreadable ones have null columns."""
    columns = {name: column.cast(pa.string()) for name, column in as_text(impossible)}
    nulls = {name: pa.nulls(len(unread), pa.string()) for name in columns}
    unread_rows = pa.table({"reason": pa.array(unread, pa.string())} | nulls)
    return pa.concat_tables([unread_rows, pa.table({"reason": reasons} | columns)])


def _read_binary(
    randomizer: Randomizer, items: Sequence[bytes | Report]
) -> tuple[pa.Table, list[str]]:
    """Return the rows of readable reports and batches, and the reasons why others cannot be read."""
    if not items:  # the randomizer may have no program for devices
        return pa.table({n: pa.array([], kind) for n, kind in randomizer.types.items()}), []
    reports, refused = list[Report](), list[str]()
    for item in items:
        if isinstance(item, Report):
            reports.append(item)
            continue
        try:
            parts = read_batch(item) if item.startswith(MAGIC) else [item]
            reports += [Report.from_bytes(part) for part in parts]
        except WireError as error:
            refused.append(str(error))
    rows, reasons = Payloads(randomizer).read(reports)
    return rows, refused + [reason for reason in reasons if reason]
