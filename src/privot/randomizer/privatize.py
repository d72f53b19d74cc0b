"""Streaming privatization: from files larger than memory to a file, a pipe, or shards.

Records are read batch by batch, noised on threads, stored in parts, put in random order and published
at once (`privot.randomizer.publishing`). A batch is one call of `Randomizer.privatize`, so one person's
guarantee does not depend on how the records were cut.

**Pipes.** A pipe that breaks is sent the same reports again, never new ones: its reader has what came
through before, and to noise the same records afresh would give some people a second report, and spend
their budget twice. So the parts of a pipe's reports are stored in the **state folder** of the account
that holds the raw records (`privot.core.state`) until all of them are through: written, and, as far as
the system reports, read. They are found again by a keyed hash of the records' bytes and of the
randomizer, whatever the file is called or whether it comes on a pipe. While they are there, a fresh
run is refused, to a pipe or to a file, and `--resume` sends the same reports, in the same order.

**Privacy review.** Adjacency, Δ and who sees what are those of `privot.randomizer.randomizer`. New
here are four things. *The order*: a release has as many rows as there are records, in a random order.
*When a record is refused*: each batch is encoded, and refused if need be, before anything is drawn
from it, but earlier batches were noised by then. Nothing of that noise is published, and it is deleted
on the spot: a refusal shows readers of the output nothing but that there is none. *What a killed run
leaves*: parts that belong to whoever holds the raw records until `--resume` publishes them. *What an
unfinished pipe leaves*: reports that are sent again are the same (post-processing), but parts in the
order of the records stay, under a name that is a hash of raw records. Messages contain the name:
without the account's key nobody can try records until one fits it. Parts and key belong to whoever
holds the records; the folder is readable by its owner only, and is deleted when the pipe has been sent
whole. Whether a reader that took everything lost it afterwards cannot be known: what it lost is lost,
and to noise again is a second budget.

Each thread draws from its own stream of the operating system's entropy. The counts of values outside
their bounds are exact functions of raw records: they are returned to whoever holds these, and written
nowhere.
"""

from __future__ import annotations

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
from typing import IO, Any

import pyarrow as pa

from privot.core.errors import PrivotError
from privot.core.files import cannot_write
from privot.core.state import flush_folder, secret_key, state_folder
from privot.randomizer.publishing import (
    CORES,
    Left,
    Parts,
    Progress,
    discard,
    left_behind,
    map_ahead,
    publish,
    refuse_unknown_output,
    unfinished,
    write_scattered,
)
from privot.randomizer.randomizer import Randomizer
from privot.schema.columns.raw_values import RecordError
from privot.tables.record_files import BATCH_ROWS, RecordBatches

try:
    import fcntl
    import termios
except ImportError:  # not POSIX: the system does not report what was read
    fcntl = termios = None  # type: ignore[assignment]

_POLL_SECONDS = 0.01
# The path of the parts identifies the records.
IDENTITY = {"known by": "the place"}


class UnsentReportsError(PrivotError):
    """Error of a pipe that may have read some reports; all of them are stored."""


def place_of_pipe(records: RecordBatches, randomizer: Randomizer, left: Left) -> Path:
    """Return the path of a pipe's parts; a temporary one if the records have yet to be read."""
    if records.identity() is None:
        if left != "refuse" and records.content() is None:
            raise PrivotError(
                f"{left}: records that come from memory are not recognized again: use a file"
            )
        return _folder() / f"reading-{secrets.token_hex(8)}"
    place = _place(records, randomizer)
    if left == "resume" and not unfinished(place).exists():
        raise _nothing_stored()
    return place


def recognized(
    fresh: Parts, records: RecordBatches, randomizer: Randomizer, left: Left
) -> tuple[Parts, bool]:
    """Return the parts of records that had to be read to be identified, and whether they are old.

    Parts that an earlier run stored replace those just made, whose noise nobody has seen.
    """
    if records.content() is None:
        return fresh, False
    stored = replace(fresh, folder=_stored(records, randomizer, left), deleted_drafts=0)
    if stored.folder.exists():
        if left == "refuse":
            raise left_behind(stored.folder)
        fresh.remove()
        return stored, True
    if left == "resume":
        raise _nothing_stored()
    os.rename(fresh.folder, stored.folder)
    return stored, False


def require_sent(records: RecordBatches, randomizer: Randomizer, left: Left) -> None:
    """Refuse records for a file while a pipe's reports of them are stored; "discard" deletes these."""
    folder = state_folder() / "pipes"
    if not folder.is_dir() or not any(folder.iterdir()) or records.content() is None:
        return
    if (folder := _stored(records, randomizer, left)).exists():
        raise PrivotError(
            f"reports of these records are stored in {folder}, of which a pipe's reader may have some: "
            "send the same again with -o - --resume; to noise afresh, --discard them, but whoever's "
            "report was read has then spent the budget twice"
        )


def _stored(records: RecordBatches, randomizer: Randomizer, left: Left) -> Path:
    """Return the folder of these records' parts, and discard it if `left` says so."""
    folder = unfinished(_place(records, randomizer))
    if left == "discard":
        discard(folder)
    return folder


def _place(records: RecordBatches, randomizer: Randomizer) -> Path:
    text = f"{records.content()} {randomizer.to_json()}".encode()
    return _folder() / blake2b(text, key=secret_key(), digest_size=16).hexdigest()


def _folder() -> Path:
    _ = secret_key()  # names are made with it: there is no folder without
    folder = state_folder() / "pipes"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
    except OSError as error:
        raise cannot_write(folder, error) from None
    return folder


def _nothing_stored() -> PrivotError:
    return PrivotError(
        "--resume: no reports of these records are stored, they went through; if nobody has them, leave "
        "--resume out"
    )


def send(parts: Parts, pipe: IO[bytes], randomizer: str, progress: Progress | None) -> int:
    """Write all parts' reports as CSV, and wait for their reader; returns the number of rows.

    The names of the parts are flushed to the disk first, as their content was: whatever a loss of power
    takes away was not sent.

    Raises:
        UnsentReportsError: if they do not all go through; the parts stay.
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
    """Return when a pipe's reader has taken all; raise BrokenPipeError when it never will."""
    try:
        handle = stream.fileno()
        piped = stat.S_ISFIFO(os.fstat(handle).st_mode)
    except (OSError, AttributeError, ValueError):
        return
    if fcntl is None or not piped:
        return
    alone = select.poll()
    alone.register(handle, 0)
    while True:
        left = struct.unpack("i", fcntl.ioctl(handle, termios.FIONREAD, b"\0\0\0\0"))[0]
        if not left:
            return
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in alone.poll(0)):
            raise BrokenPipeError
        time.sleep(_POLL_SECONDS)


_BATCH_VALUES = 2**20
_PART_BATCHES = 8
# For a source of unknown length: bytes a bucket of a file, buckets of a pipe.
_BUCKET_BYTES = 2**25
_PIPE_BUCKETS = 64

# Noises the records of missing parts; returns how many, and by column how many were out of bounds.
MakeParts = Callable[
    [Randomizer, RecordBatches, Parts, Progress | None], tuple[int, dict[str, int]]
]


class RefusedRecordsError(PrivotError):
    """Error of records that cannot be used: nothing of the whole run is published."""


@dataclass(frozen=True)
class Privatized:
    """Counts of a finished run.

    Arguments:
        num_rows: Number of reports in the output.
        resumed_rows: Number of these that an earlier run, which was killed, had made.
        outside: Number of raw values of this run outside their bounds, by column: **not private**.
    """

    num_rows: int
    resumed_rows: int
    outside: dict[str, int]


def privatize_records(
    randomizer: Randomizer,
    records: RecordBatches,
    output: Path | IO[bytes],
    *,
    left: Left = "refuse",
    part_rows: int | None = None,
    progress: Progress | None = None,
    log: Callable[[str], None] = lambda words: None,
    make: MakeParts | None = None,
) -> Privatized:
    """Noise every record once, and publish the reports in random order.

    Arguments:
        randomizer: Randomizer of every record.
        records: Source of the records (`open_records`).
        output: A path that ends in parquet, csv or csv.gz; a folder, for a release in shards; or a
            stream of bytes, for CSV.
        left: Treatment of what a killed run, or a broken pipe, has left: "refuse" to start again,
            "resume" it, or "discard" it (whoever got some of its reports gets others now).
        part_rows: Records a part, and about as many reports a shard.
        progress: Callback after every batch.
        log: Callback for messages about a resumed run.
        make: Function that noises the records: on all cores of this machine by default.

    Raises:
        PrivotError: for records that the schema does not allow (nothing is left); for an output, or
            parts of another run, that exist; if a disk is full or a pipe breaks (parts stay).
    """
    identity = records.identity()
    known = identity is not None  # a pipe's records are identified once they are read
    if isinstance(output, Path):
        refuse_unknown_output(output)
        require_sent(records, randomizer, left)
        place = output
    else:
        place, identity = place_of_pipe(records, randomizer, left), IDENTITY
    parts = _begin(randomizer, records, place, identity, left, part_rows, log)
    try:
        fresh, outside = (make or make_parts)(randomizer, records, parts, progress)
        if not parts.done():
            raise RefusedRecordsError(f"{records.source} has no rows: give at least one record")
        if not known and isinstance(output, Path):
            require_sent(records, randomizer, left)
        elif not known:
            parts, again = recognized(parts, records, randomizer, left)
            fresh = 0 if again else fresh
    except BaseException as error:
        if isinstance(error, RefusedRecordsError) or not known:
            parts.remove()
        raise
    text = randomizer.to_json()
    if isinstance(output, Path):
        rows = publish(parts, output, text, progress)
    else:
        rows = send(parts, output, text, progress)
    parts.remove()
    return Privatized(rows, rows - fresh, outside)


def make_parts(
    randomizer: Randomizer,
    records: RecordBatches,
    parts: Parts,
    progress: Progress | None = None,
    workers: int | None = None,
    only: Callable[[int], bool] = lambda part: True,
) -> tuple[int, dict[str, int]]:
    """Noise, on threads, the records of all missing parts that `only` allows.

    Returns:
        The number of records, and the counts of values outside their bounds (not private).

    Raises:
        RefusedRecordsError: for records that the schema does not allow, or cannot be read.
        PrivotError: if the disk is full, or another run writes the same parts.
    """
    done = parts.done()
    size = min(batch_rows(randomizer), parts.part_rows)
    per_part = parts.part_rows // size
    fresh, resumed, outside = 0, len(done) * parts.part_rows, Counter[str]()

    def noise(batch: tuple[int, pa.Table]) -> tuple[int, pa.Table, dict[str, int]]:
        number, rows = batch
        try:
            reports = randomizer.reports_in_order(rows)  # parts are put in random order
        except RecordError as error:
            raise error.after(number * size) from None
        return number, reports, randomizer.count_outside(rows)

    def noised() -> Generator[tuple[int, pa.Table], None, None]:
        """Yield reports as they are made; refused records raise another error than a full disk."""
        nonlocal fresh
        wanted = records.batches(size, lambda n: n // per_part in done or not only(n // per_part))
        try:
            for number, reports, moved in map_ahead(noise, wanted, workers or CORES):
                fresh += reports.num_rows
                outside.update(moved)
                yield number // per_part, reports
                if progress is not None:
                    progress("noise", resumed + fresh, _expected(records, resumed + fresh))
        except RecordError as error:
            raise RefusedRecordsError(str(error.at(records.place(error.row)))) from None
        except PrivotError as error:
            raise RefusedRecordsError(str(error)) from None

    with closing(noised()) as batches:
        for part, group in groupby(batches, lambda batch: batch[0]):
            pieces = (reports for _, reports in group)
            parts.publish(part, partial(write_scattered, pieces=pieces, buckets=parts.buckets))
    return fresh, dict(outside)


def _begin(
    randomizer: Randomizer,
    records: RecordBatches,
    place: Path,
    identity: dict[str, Any] | None,
    left: Left,
    part_rows: int | None,
    log: Callable[[str], None],
) -> Parts:
    """Start or continue the parts of these records' reports; see `Parts.begin`."""
    size = batch_rows(randomizer)
    rows = _PART_BATCHES * size if part_rows is None else part_rows
    if rows < 1 or rows % min(size, rows):
        raise PrivotError(f"--shard-rows {rows} is no multiple of {size}: give one, or fewer rows")
    if records.num_rows is not None:
        buckets = -(-records.num_rows // rows)
    else:
        num_bytes = records.num_bytes
        buckets = _PIPE_BUCKETS if num_bytes is None else 1 + num_bytes // _BUCKET_BYTES
    parts = Parts.begin(place, rows, max(1, buckets), randomizer.to_json(), identity, left)
    if parts.deleted_drafts:
        log(
            f"{parts.deleted_drafts} unfinished parts were deleted: their records are noised afresh, as "
            "nobody received the first noise. If somebody copied them, their budget is spent twice"
        )
    return parts


def batch_rows(randomizer: Randomizer) -> int:
    """Return the number of records to noise at once: a power of two, less where a report is wide."""
    reported = 0
    for name in randomizer.mechanisms:
        domain = randomizer.schema.columns[name].domain
        reported += 1 if domain is None else domain.dimension
    if randomizer.candidates is not None:
        reported += randomizer.candidates.coordinates.column.domain.dimension
    if randomizer.joint is not None:
        reported += int(randomizer.joint.widths.max())
    most = max(1, _BATCH_VALUES // max(reported, len(randomizer.schema.table_columns)))
    return int(min(BATCH_ROWS, 2 ** (most.bit_length() - 1)))


def _expected(records: RecordBatches, rows: int) -> int | None:
    """Return the number of records, estimated from the share read where it is unknown."""
    if records.num_rows is not None:
        return records.num_rows
    share = records.share_read()
    return round(rows / share) if share else None
