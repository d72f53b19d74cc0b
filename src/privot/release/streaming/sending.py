r"""Reports on a pipe: a pipe that breaks is sent the same reports again, never new ones.

Whoever reads a pipe has what came through it before it broke. To noise the same records afresh would
give some people a second report, and spend their budget twice. So the parts of a pipe's reports
(`privot.release.streaming.parts`) are kept in the **state folder** of the account that holds the raw
records (`privot.disk.state`) until all of them are through: written, and, as far as the system tells,
read. They are found again by a keyed hash of the records' bytes and of the randomizer, whatever the file
is called or whether it comes on a pipe. While they are there, a fresh run is refused, to a pipe or to a
file, and `--resume` sends the same reports, in the same order.

**Privacy review.** Adjacency, Δ, and what leaves are those of `privot.release.streaming.privatize`: the
reports, once or again, are the same, and sending them again is post-processing. New is what stays:
parts in the order of the records, under a name that is a hash of raw records. Messages say the name:
without the account's key nobody can try records until one fits it. Both belong to whoever holds these;
the folder is readable by its owner only, and is deleted when the pipe has been sent whole.
What cannot be known is whether a reader that took everything lost it afterwards: what it lost is lost,
and to noise again is a second budget.
"""

from __future__ import annotations

import os
import secrets
import select
import stat
import struct
import time
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import IO

from privot.disk.state import flush_folder, secret_key, state_folder
from privot.errors import PrivotError
from privot.files import cannot_write
from privot.release.randomizer import Randomizer
from privot.release.streaming.parts import Left, Parts, discard, left_behind, unfinished
from privot.release.streaming.publishing import Progress, publish
from privot.tables.batches import RecordBatches

try:
    import fcntl
    import termios
except ImportError:  # not POSIX: nothing tells what was read
    fcntl = termios = None  # type: ignore[assignment]

_POLL_SECONDS = 0.01
# The name of the parts' place says which records they are of.
IDENTITY = {"known by": "the place"}


class UnsentReportsError(PrivotError):
    """Some reports may have been read, and the others are kept."""


def place_of_pipe(records: RecordBatches, randomizer: Randomizer, left: Left) -> Path:
    """What a pipe's parts are called after; for now, if the records have yet to be read."""
    if records.identity() is None:
        if left != "refuse" and records.content() is None:
            raise PrivotError(
                f"{left}: records that come from memory are not known again: use a file"
            )
        return _folder() / f"reading-{secrets.token_hex(8)}"
    place = _place(records, randomizer)
    if left == "resume" and not unfinished(place).exists():
        raise _nothing_kept()
    return place


def recognized(
    fresh: Parts, records: RecordBatches, randomizer: Randomizer, left: Left
) -> tuple[Parts, bool]:
    """What to send of records that had to be read to be known, and whether it was kept from before.

    Parts that are kept take the place of those just made, whose noise nobody was given.
    """
    if records.content() is None:
        return fresh, False
    kept = replace(fresh, folder=_kept(records, randomizer, left), deleted_drafts=0)
    if kept.folder.exists():
        if left == "refuse":
            raise left_behind(kept.folder)
        fresh.remove()
        return kept, True
    if left == "resume":
        raise _nothing_kept()
    os.rename(fresh.folder, kept.folder)
    return kept, False


def require_sent(records: RecordBatches, randomizer: Randomizer, left: Left) -> None:
    """Refuse records for a file while a pipe's reports of them are kept; delete these if told to."""
    folder = state_folder() / "pipes"
    if not folder.is_dir() or not any(folder.iterdir()) or records.content() is None:
        return
    if (kept := _kept(records, randomizer, left)).exists():
        raise PrivotError(
            f"reports of these records are kept in {kept}, of which a pipe's reader may have some: send "
            "the same again with -o - --resume; to noise afresh, --discard them, but whoever's report "
            "was read has then spent the budget twice"
        )


def _kept(records: RecordBatches, randomizer: Randomizer, left: Left) -> Path:
    """Where parts of these records are kept, unless they are to be discarded."""
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


def _nothing_kept() -> PrivotError:
    return PrivotError(
        "--resume: no reports of these records are kept, they went through; if nobody has them, leave "
        "--resume out"
    )


def send(parts: Parts, pipe: IO[bytes], randomizer: str, progress: Progress | None) -> int:
    """Write all parts' reports as CSV, and wait for their reader; returns the rows.

    Before the first, the parts' names are on the disk as their content is: what a loss of power takes
    away was not sent.

    Raises:
        UnsentReportsError: if they do not all go through; the parts are kept.
    """
    for folder in (parts.folder, *list(parts.folder.parents)[:2]):
        flush_folder(folder)
    try:
        rows = publish(parts, pipe, randomizer, progress)
        _wait_until_read(pipe)
    except OSError as error:
        raise UnsentReportsError(
            f"the reports did not all go through ({error.strerror or 'the pipe was closed'}), some may "
            f"have been read: all are kept in {parts.folder}; send the same again with --resume"
        ) from error
    return rows


def _wait_until_read(stream: IO[bytes]) -> None:
    """Return when a pipe's reader has taken all; a BrokenPipeError tells that it never will."""
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
