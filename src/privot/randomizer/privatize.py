"""Streaming privatization from files larger than memory to a file, a pipe, or a folder of shards.

Records are read in batches, privatized by threads, stored in parts, sorted into random order, and
published at once (`privot.randomizer.publishing`). A person's guarantee does not depend on batches.

**Pipes.** If a pipe breaks, its reader may have received some reports, and new reports of the same
records would spend these people's budgets twice. So the same reports are sent again: the parts are
stored in the **state folder** of the account that has the raw records (`privot.core.files`) until all
reports were written and, as far as the system can tell, read. The parts are found again by a keyed hash
of the randomizer and of the records' bytes, whatever the file's name. As long as they are stored, a new
run with the same records is refused, and `--resume` sends the same reports in the same order.

**Privacy review.** Adjacency, Δ and recipients are as in `privot.randomizer.randomizer`. In addition:
*Order*: a release has as many rows as there are records, in random order. *Refused records*: every batch
is validated before its reports are drawn. If one is refused, the reports of earlier batches are deleted
and not published, so readers of the output learn only that there is none. *Killed runs* leave
parts with the owner of the raw records until `--resume` publishes them. *Broken pipes* leave parts in
the order of the records, under a name that is a keyed hash of the raw records and appears in messages;
without the account's key, nobody can test which records have this hash. Parts and key are readable by
the owner of the records only, and the parts are deleted when all reports were sent. Reports that a
reader loses after that are lost: new ones would spend a second budget. *Counts* of values outside their
bounds are exact functions of raw records; they are returned to the caller and not written anywhere.
Every thread has its own random stream from the operating system.
"""

import os
import secrets
import select
import stat
import struct
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from privot.core.errors import PrivotError
from privot.core.files import cannot_write, flush_folder, secret_key, state_folder
from privot.randomizer.publishing import (
    CORES,
    Leftover,
    Parts,
    Progress,
    discard,
    left_behind_error,
    map_ahead,
    publish,
    refuse_unknown_output,
    unfinished,
    write_buckets,
)
from privot.randomizer.randomizer import Randomizer
from privot.schema.columns.raw_values import RecordError
from privot.tables.files import BATCH_ROWS, RecordBatches

try:
    import fcntl
    import termios
except ImportError:  # without POSIX, the system does not report whether a pipe was read
    fcntl = termios = None  # type: ignore[assignment]

_BATCH_VALUES = 2**20  # most numbers in the reports of a batch
_PART_BATCHES = 8  # batches in a part
# If the number of records is unknown: bytes of a file per bucket, and number of buckets for a pipe.
_BUCKET_BYTES, _PIPE_BUCKETS = 2**25, 64


class NewReports(NamedTuple):
    """Number of new reports, and number of values outside bounds by column (**not private**)."""

    num_rows: int
    outside: dict[str, int]


class RefusedRecordsError(PrivotError):
    """Error for records that cannot be used, after which no report of the run is published."""


@dataclass(frozen=True)
class Privatized:
    """Counts of a finished run."""

    num_rows: int  # number of reports in the output
    resumed_rows: int  # number of these that an earlier, killed run had made
    outside: dict[str, int]  # values of this run outside their bounds, by column (**not private**)


def privatize_records(
    randomizer: Randomizer,
    records: RecordBatches,
    output: Path | IO[bytes],
    *,
    leftover: Leftover = "refuse",
    part_rows: int | None = None,
    progress: Progress | None = None,
    log: Callable[[str], None] = lambda words: None,
) -> Privatized:
    """Privatize every record once, and publish the reports in random order.

    Arguments:
        randomizer: Randomizer of every record.
        records: Source of the records (`open_records`).
        output: Path of a file (parquet, csv or csv.gz) or of a folder of shards; or a stream, for CSV.
        leftover: Treatment of the parts of a killed run or a broken pipe: "refuse" to run, "resume" the
            run, or "discard" the parts and draw new reports.
        part_rows: Number of records in a part, and approximately of reports in a shard.
        progress: Callback after every batch.
        log: Callback for messages about a resumed run.

    Raises:
        PrivotError: for records that the schema does not allow (no parts are left); if the output, or
            parts of another run, exist; if a disk is full or a pipe breaks (parts stay).
    """
    identity = records.identity()
    identified = identity is not None  # records from a pipe are identified after they were read
    if isinstance(output, Path):
        refuse_unknown_output(output)
        require_none_unsent(records, randomizer, leftover)
        path = output
    else:
        path, identity = path_for_pipe(records, randomizer, leftover), PIPE_IDENTITY
    size = (records.num_rows, records.num_bytes)
    parts = begin_parts(randomizer, path, size, identity, leftover, part_rows, log)
    try:
        num_new, outside = make_parts(randomizer, records, parts, progress)
        if not parts.completed():
            raise RefusedRecordsError(f"{records.source} has no rows: give at least one record")
        if not identified and isinstance(output, Path):
            require_none_unsent(records, randomizer, leftover)
        elif not identified:
            parts, resumed = adopt_stored(parts, records, randomizer, leftover)
            num_new = 0 if resumed else num_new
    except BaseException as error:
        # Parts stay only if a resumed run can recognize their records, and publish them.
        if isinstance(error, RefusedRecordsError) or not identified:
            discard(parts.folder)
        raise
    text = randomizer.to_json()
    if isinstance(output, Path):
        num_rows = publish(parts, output, text, progress)
    else:
        num_rows = send(parts, output, text, progress)
    discard(parts.folder)
    return Privatized(num_rows, num_rows - num_new, outside)


def make_parts(
    randomizer: Randomizer,
    records: RecordBatches,
    parts: Parts,
    progress: Progress | None = None,
    workers: int = CORES,
    first: int = 0,
    write: Callable[..., int] | None = None,
) -> NewReports:
    """Privatize the records of all missing parts by `workers` threads.

    `first` is the number of the first part. `write(path, pieces)` writes the tables of a part's reports,
    and returns their number of rows.

    Raises:
        RefusedRecordsError: for records that cannot be read, or that the schema does not allow.
        PrivotError: if the disk is full, or another run writes the same parts.
    """
    completed = parts.completed()
    size = min(batch_rows(randomizer), parts.part_rows)
    batches_per_part = parts.part_rows // size
    num_new, num_done, outside = 0, len(completed) * parts.part_rows, Counter[str]()

    def part_of(batch: int) -> int:
        return first + batch // batches_per_part

    def privatize_batch(batch: tuple[int, pa.Table]) -> tuple[int, pa.Table, dict[str, int]]:
        number, rows = batch
        try:
            reports = randomizer.reports_in_order(rows)  # parts are put in random order later
        except RecordError as error:
            raise error.after(number * size) from None
        return number, reports, randomizer.count_outside(rows)

    def privatized() -> Generator[tuple[int, pa.Table], None, None]:
        """Yield the reports of each batch, with the number of their part."""
        nonlocal num_new
        batches = records.batches(size, lambda batch: part_of(batch) in completed)
        try:
            for number, reports, counts in map_ahead(privatize_batch, batches, workers):
                num_new += reports.num_rows
                outside.update(counts)
                yield part_of(number), reports
                if progress is not None:
                    rows = num_done + num_new
                    progress("noise", rows, _expected_rows(records, rows))
        except RecordError as error:
            raise RefusedRecordsError(str(error.at(records.place(error.row)))) from None
        except PrivotError as error:
            raise RefusedRecordsError(str(error)) from None

    write = write or partial(write_buckets, buckets=parts.buckets)
    with closing(privatized()) as reports_by_part:
        for part, group in groupby(reports_by_part, lambda pair: pair[0]):
            parts.store(part, partial(write, pieces=(reports for _, reports in group)))
    return NewReports(num_new, dict(outside))


def begin_parts(
    randomizer: Randomizer,
    path: Path,
    source_size: tuple[int | None, int | None],
    identity: dict[str, Any] | None,
    leftover: Leftover,
    part_rows: int | None,
    log: Callable[[str], None],
) -> Parts:
    """Start the parts of the reports, or continue those of a killed run, as `Parts.begin` does.

    `source_size` is the number of records, and of bytes, of the source; None if unknown.
    """
    num_rows, num_bytes = source_size
    size = batch_rows(randomizer)
    if part_rows is None:
        part_rows = _PART_BATCHES * size
    if part_rows < 1 or part_rows % min(size, part_rows):
        raise PrivotError(f"--shard-rows {part_rows} is no multiple of {size}: give one, or fewer")
    if num_rows is not None:
        buckets = -(-num_rows // part_rows)
    else:
        buckets = _PIPE_BUCKETS if num_bytes is None else 1 + num_bytes // _BUCKET_BYTES
    parts = Parts.begin(path, part_rows, max(1, buckets), randomizer.to_json(), identity, leftover)
    if parts.deleted_drafts:
        log(
            f"{parts.deleted_drafts} unfinished parts were deleted: their records are noised afresh, as "
            "nobody received the first noise. If somebody copied them, their budget is spent twice"
        )
    return parts


def batch_rows(randomizer: Randomizer) -> int:
    """Return the number of records in a batch: a power of two, smaller for wide reports."""
    width = 0  # numbers in a report
    for name in randomizer.mechanisms:
        domain = randomizer.schema.columns[name].domain
        width += 1 if domain is None else domain.dimension
    if randomizer.candidates is not None:
        width += randomizer.candidates.coordinates.column.domain.dimension
    if randomizer.joint is not None:
        width += int(randomizer.joint.widths.max())
    most = max(1, _BATCH_VALUES // max(width, len(randomizer.schema.table_columns)))
    return int(min(BATCH_ROWS, 2 ** (most.bit_length() - 1)))


def _expected_rows(records: RecordBatches, rows: int) -> int | None:
    """Return the number of records, or an estimate from the number of `rows` read; None if unknown."""
    if records.num_rows is not None:
        return records.num_rows
    share = records.share_read()
    return round(rows / share) if share else None


_POLL_SECONDS = 0.01
# Identity of all parts for pipes: their path is a hash of the records, which identifies the source.
PIPE_IDENTITY = {"known by": "the place"}


class UnsentReportsError(PrivotError):
    """Error for a broken pipe, whose reader may have some of the reports; all of them are stored."""


def path_for_pipe(records: RecordBatches, randomizer: Randomizer, leftover: Leftover) -> Path:
    """Return the path beside which the parts for a pipe are stored, since a pipe has no path.

    The path is temporary if the records must be read before they can be identified.
    """
    if records.identity() is None:
        if leftover != "refuse" and records.content() is None:
            raise PrivotError(
                f"{leftover}: records from memory are not recognized again: use a file"
            )
        return _pipes_folder() / f"reading-{secrets.token_hex(8)}"
    path = _hashed_path(records, randomizer)
    if leftover == "resume" and not unfinished(path).exists():
        raise _nothing_stored_error()
    return path


def adopt_stored(
    fresh: Parts, records: RecordBatches, randomizer: Randomizer, leftover: Leftover
) -> tuple[Parts, bool]:
    """Store the parts of records that were identified by reading, unless an earlier run has stored some.

    Returns the stored parts, and whether they are of the earlier run. In that case, the `fresh` parts,
    whose reports nobody has seen, are deleted.
    """
    if records.content() is None:
        return fresh, False
    folder = unfinished(_hashed_path(records, randomizer))
    stored = replace(fresh, folder=folder, deleted_drafts=0)
    if leftover == "discard":
        discard(folder)
    if folder.exists():
        if leftover == "refuse":
            raise left_behind_error(folder)
        discard(fresh.folder)
        return stored, True
    if leftover == "resume":
        raise _nothing_stored_error()
    os.rename(fresh.folder, folder)
    return stored, False


def require_none_unsent(records: RecordBatches, randomizer: Randomizer, leftover: Leftover) -> None:
    """Raise PrivotError if reports of these records for a pipe are stored; "discard" deletes them."""
    pipes = state_folder() / "pipes"
    if not pipes.is_dir() or not any(pipes.iterdir()) or records.content() is None:
        return
    folder = unfinished(_hashed_path(records, randomizer))
    if leftover == "discard":
        discard(folder)
    if folder.exists():
        raise PrivotError(
            f"reports of these records are stored in {folder}, and the reader of a pipe may have some: "
            "send the same again with -o - --resume; to noise afresh, --discard them, but people whose "
            "report was read then spend their budget twice"
        )


def _hashed_path(records: RecordBatches, randomizer: Randomizer) -> Path:
    """Return the path of the parts for a pipe: a keyed hash of the records and the randomizer."""
    text = f"{records.content()} {randomizer.to_json()}".encode()
    return _pipes_folder() / blake2b(text, key=secret_key(), digest_size=16).hexdigest()


def _pipes_folder() -> Path:
    """Return the folder for the parts of pipes, and create it if needed."""
    _ = secret_key()  # raises an error if the key is lost, before anything is created
    folder = state_folder() / "pipes"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
    except OSError as error:
        raise cannot_write(folder, error) from None
    return folder


def _nothing_stored_error() -> PrivotError:
    return PrivotError(
        "--resume: no reports of these records are stored, they went through; if nobody has them, leave "
        "--resume out"
    )


def send(parts: Parts, pipe: IO[bytes], randomizer: str, progress: Progress | None) -> int:
    """Write the reports of all parts as CSV, wait until they are read, and return their number.

    The directory entries of the parts are flushed first, so that a power failure loses no sent report.

    Raises:
        UnsentReportsError: if the pipe breaks; the parts stay.
    """
    for folder in (parts.folder, *list(parts.folder.parents)[:2]):
        flush_folder(folder)
    try:
        rows = publish(parts, pipe, randomizer, progress)
        _wait_until_read(pipe)
    except OSError as error:
        raise UnsentReportsError(
            f"the reports did not all go through ({error.strerror or 'the pipe was closed'}), some may "
            f"have been read: all are stored in {parts.folder}; send the same again with --resume"
        ) from error
    return rows


def _wait_until_read(stream: IO[bytes]) -> None:
    """Wait until a pipe's reader has read everything; raise BrokenPipeError if the reader is gone."""
    try:
        handle = stream.fileno()
        piped = stat.S_ISFIFO(os.fstat(handle).st_mode)
    except (OSError, AttributeError, ValueError):
        return
    if fcntl is None or not piped:
        return
    poll = select.poll()
    poll.register(handle, 0)
    while True:
        unread = struct.unpack("i", fcntl.ioctl(handle, termios.FIONREAD, b"\0\0\0\0"))[0]
        if not unread:
            return
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
            raise BrokenPipeError
        time.sleep(_POLL_SECONDS)
