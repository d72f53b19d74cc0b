"""Publication of reports, which are stored in parts, sorted by random id, and written to a file or pipe.

All functions are post-processing of reports. A release becomes visible at once, when it is complete;
reports for a pipe are stored on the disk first. The sizes of shards and row groups depend only on the
number of reports and the size of a part. The number of buckets may depend on the size of the raw file,
but is not visible in a release.

**Parts.** Part k has the reports of records k·R to (k+1)·R − 1 of the source. All parts are written in
the folder `<output>.unfinished`, and `<output>` appears by one rename when all parts are complete. A
part is written as a draft, flushed to the disk, and linked to its final name, which fails if the name
exists. So

* a part with its final name is complete and never written again: a resumed run skips its records, and of
  two simultaneous runs only one can write a part;
* a draft was not published. A resumed run deletes it and draws new reports. **Anyone who copied a draft
  then has a second report of the same people**: the number of drafts is logged.

**Order.** Reports that do not fit in memory are sorted by id in B buckets. Ids begin with an independent
uniform 64-bit word W (`privot.randomizer.reports.rows`), and the bucket is $⌊W B/2^{64}⌋$. Every part is
sorted, so its reports of a bucket are contiguous. Each bucket in turn is collected from all parts,
sorted, and written; only one bucket must fit in memory.

**Privacy review.** Parts are in the order of the records, and their manifest has a hash of the names,
sizes and times of the raw files. So only the owner of the raw records can read the folder and its files,
and it is deleted when the output is complete.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa

from privot.core import files
from privot.core.errors import PrivotError
from privot.randomizer.reports.csv_reports import write_text
from privot.randomizer.reports.rows import (
    REPORT_ID,
    id_words,
    order_of,
    shard_name,
    sorted_by_id,
    write_manifest,
    write_reports,
)
from privot.tables.files import table_suffix

CORES = os.cpu_count() or 1
# Callback with the stage ("noise", "shuffle"), the number of reports done, and their total if known.
Progress = Callable[[str, int, int | None], None]
Leftover = Literal["refuse", "resume", "discard"]  # treatment of a stopped run's parts
Item = TypeVar("Item")
Result = TypeVar("Result")
_FORMAT = 1
_MANIFEST, _COMMITTED = "unfinished.json", "committed.json"
# Fields of the manifest that must agree when a run is resumed, and the meaning of a difference.
_MUST_AGREE = {
    "format": "another version of privot",
    "randomizer": "another randomizer",
    "source": "other records, or their files changed since",
    "part_rows": "another --shard-rows",
    "buckets": "another --shard-rows",
}
# Errors of file systems without links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP)


@dataclass(frozen=True)
class Parts:
    """Folder with the parts of a run, from which a killed run can be resumed."""

    folder: Path  # path of the folder
    part_rows: int  # number of records in a part
    buckets: int  # number of buckets of each part
    deleted_drafts: int = 0  # number of drafts of a killed run that were deleted

    @classmethod
    def begin(
        cls,
        output: Path,
        part_rows: int,
        buckets: int,
        randomizer: str,
        identity: dict[str, Any] | None,
        leftover: Leftover,
    ) -> Self:
        """Start a run, or continue a killed one.

        `randomizer` is its JSON; `identity`, if given, are JSON values that identify the source.

        Raises:
            PrivotError: if the output or parts exist, or parts belong to another run.
        """
        folder = unfinished(output)
        if leftover == "discard":
            discard(folder)
        _require_unfinished(output, folder, resume=leftover == "resume")
        made_with = {
            "format": _FORMAT,
            "part_rows": part_rows,
            "buckets": buckets,
            "randomizer": _hash(randomizer),
            "source": None if identity is None else _hash(json.dumps(identity, sort_keys=True)),
        }
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            drafts = list(folder.glob(".part-*.draft"))
            for trash in [*output.parent.glob(f".{output.name}.*.draft"), *drafts]:
                if trash.is_dir():
                    shutil.rmtree(trash)
                else:
                    trash.unlink(missing_ok=True)
            # Parts without a manifest, from an interrupted removal, are refused like a damaged one.
            if (folder / _MANIFEST).exists() or any(folder.glob("part-*.arrow")):
                _require_same_run(folder, made_with)
            else:
                files.write_file(
                    folder / _MANIFEST, json.dumps(made_with, indent=2) + "\n", secret=True
                )
        except OSError as error:
            raise files.cannot_write(output, error) from error
        return cls(folder, part_rows, buckets, len(drafts))

    def path(self, number: int) -> Path:
        """Return the path of a part."""
        return self.folder / f"part-{number:06d}.arrow"

    def completed(self) -> set[int]:
        """Return the numbers of the complete parts."""
        names = (re.fullmatch(r"part-(\d+)\.arrow", file.name) for file in self.folder.iterdir())
        return {int(name[1]) for name in names if name}

    def store(self, number: int, write: Callable[[Path], int]) -> int:
        """Write a draft of a part by `write`, and link it to its name; return the result of `write`."""
        path = self.path(number)
        try:
            return _store(path, write)
        except FileExistsError:
            raise PrivotError(
                f"{path} was written by another run at the same time, so these reports were thrown "
                "away: let one run write an output"
            ) from None

    def commit(self, receipts: Sequence[dict[str, Any]]) -> None:
        """Store the receipts of the parts that belong to the release, unless receipts are stored."""
        with suppress(FileExistsError):
            text = json.dumps(receipts)
            _store(self.folder / _COMMITTED, lambda draft: draft.write_text(text))

    def committed(self) -> list[dict[str, Any]] | None:
        """Return the stored receipts, or None, in which case all parts belong to the release."""
        path = self.folder / _COMMITTED
        return list(json.loads(path.read_text())) if path.exists() else None

    def paths(self) -> list[Path]:
        """Return the paths of the parts of the release; raise PrivotError if one is missing."""
        done, receipts = self.completed(), self.committed()
        spans = [(0, len(done))] if receipts is None else [receipt["parts"] for receipt in receipts]
        numbers = [number for first, count in spans for number in range(first, first + count)]
        if not numbers or not done.issuperset(numbers):
            raise PrivotError(f"{self.folder} lacks parts: run again with --resume")
        return [self.path(number) for number in numbers]


def _store(path: Path, write: Callable[[Path], int]) -> int:
    """Write and flush a draft, and link it to `path`; return the result of `write`.

    Raises:
        FileExistsError: if the path exists.
        PrivotError: if the disk is full.
    """
    draft = files.draft_path(path)
    try:
        files.create(draft, secret=True)
        written = write(draft)
        files.flush(draft)
        _link(draft, path)
    except FileExistsError:
        raise
    except OSError as error:
        raise files.cannot_write(path, error) from error
    finally:
        draft.unlink(missing_ok=True)
    return written


def discard(folder: Path) -> None:
    """Delete a folder of parts; it is renamed first, so that all parts disappear at once."""
    trash = files.draft_path(folder)
    with suppress(FileNotFoundError):
        os.rename(folder, trash)
    shutil.rmtree(trash, ignore_errors=True)


def unfinished(output: Path) -> Path:
    """Return the path of the folder with the parts of `output`."""
    return output.with_name(output.name + ".unfinished")


def _require_unfinished(output: Path, folder: Path, *, resume: bool) -> None:
    """Raise PrivotError if the output exists, or if parts exist and are not to be resumed."""
    if output.exists():
        if resume and folder.exists():  # killed after the last rename
            shutil.rmtree(folder)
            raise PrivotError(f"{output} was finished already: there is nothing to resume")
        raise PrivotError(
            f"{output} exists: to noise the same records again would spend their budget twice; "
            "if these are other records, give another -o, or remove it"
        )
    if folder.exists() and not resume:
        raise left_behind_error(folder)


def left_behind_error(folder: Path) -> PrivotError:
    """Return the error for a new run if a stopped run has left parts."""
    return PrivotError(
        f"{folder} is left from a run that was stopped: continue it with --resume; to start again, "
        "--discard it, but for people whose report somebody received, the budget is spent twice"
    )


def _require_same_run(folder: Path, made_with: dict[str, Any]) -> None:
    """Raise PrivotError if the manifest of the parts differs from `made_with`, that of this run."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise PrivotError(f"{folder} is damaged: remove it, and start again") from None
    if made_with["source"] is None:
        raise PrivotError(
            f"{folder} cannot be continued: its records came in an order that does not come back; "
            "remove it, and start again"
        )
    for key, difference in _MUST_AGREE.items():
        if manifest.get(key) != made_with[key]:
            raise PrivotError(
                f"{folder} was begun with {difference}: resume with the same, or remove it and start "
                "again"
            )


def _link(draft: Path, path: Path) -> None:
    """Link a draft to a path; raise FileExistsError if the path exists."""
    try:
        os.link(draft, path)
    except OSError as error:
        # Some network file systems have no links, and a rename would replace an existing file.
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(path) from None
        os.rename(draft, path)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def refuse_unknown_output(output: Path) -> None:
    """Raise PrivotError for an output path of an unsupported format."""
    if output.suffix and table_suffix(output) == ".npz":
        raise PrivotError(f"{output} would be npz: give parquet, csv, csv.gz, or a folder")


def publish(
    parts: Parts, output: Path | IO[bytes], randomizer: str, progress: Progress | None = None
) -> int:
    """Write the reports of all parts in random order, and return their number.

    The suffix of the output determines its format; a pipe gets CSV.

    Raises:
        PrivotError: if a part is missing, the disk is full, or the output exists; the parts stay.
    """
    if isinstance(output, Path):
        require_unwritten(parts, output)
    shuffled = in_random_order(parts.paths(), parts.buckets, parts.part_rows, progress)
    if not isinstance(output, Path):
        return write_text(output, shuffled)
    if not output.suffix:
        with files.replacing_folder(output) as folder:
            digest = hashlib.sha256()  # of all shards, so that none passes for one of another batch
            sizes = [
                write_reports(folder / shard_name(number), [table], randomizer, digest=digest)
                for number, table in enumerate(shuffled)
            ]
            write_manifest(folder, sizes)
        return sum(sizes)
    with files.replacing_file(output) as draft:
        if table_suffix(output) == ".parquet":
            return write_reports(draft, shuffled, randomizer)
        return write_text(draft, shuffled, zipped=output.name.endswith(".gz"))


def require_unwritten(parts: Parts, output: Path) -> None:
    """Raise PrivotError if another run has written the output."""
    if output.exists():
        raise PrivotError(
            f"{output} was written by another run meanwhile: keep one of the two reports, and make sure "
            f"that nobody gets {parts.folder}"
        )


def write_buckets(path: Path, pieces: Iterable[pa.Table], buckets: int) -> int:
    """Write tables as a part with one Arrow batch per bucket; return the number of rows."""
    tables = list(pieces)
    if not tables:
        raise PrivotError("there are no rows: give at least one record")
    rows, *more = pa.concat_tables(tables).combine_chunks().to_batches()
    if more:  # text of more than 2 GiB
        raise PrivotError(f"a part of {rows.num_rows:,} rows is too long: give smaller ones")
    words = id_words(rows.column(REPORT_ID))
    order = order_of(words)
    edges = [bucket * 2**64 // buckets for bucket in range(1, buckets)]
    ends = np.searchsorted(words[order, 0], np.array(edges, np.uint64))
    starts = [0, *ends.tolist(), rows.num_rows]
    shuffled = rows.take(pa.array(order))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as file:
        for start, stop in pairwise(starts):
            file.write_batch(shuffled.slice(start, stop - start))
    return int(rows.num_rows)


def _buckets_of(part: Path, first: int, stop: int) -> list[pa.RecordBatch]:
    """Return buckets `first` to `stop` − 1 of a part."""
    with pa.memory_map(str(part)) as source:
        return [pa.ipc.open_file(source).get_batch(bucket) for bucket in range(first, stop)]


def bucket_rows(parts: Sequence[Path], buckets: int) -> list[int]:
    """Count the reports in each bucket over all parts."""
    rows = [[batch.num_rows for batch in _buckets_of(part, 0, buckets)] for part in parts]
    return [sum(counts) for counts in zip(*rows, strict=True)]


def read_buckets(parts: Sequence[Path], first: int, stop: int) -> pa.Table:
    """Read the reports of buckets `first` to `stop` − 1 from all parts, sorted by id."""
    batches = [batch for part in parts for batch in _buckets_of(part, first, stop)]
    return sorted_by_id(pa.Table.from_batches(batches))


def in_random_order(
    parts: Sequence[Path], buckets: int, size: int, progress: Progress | None = None
) -> Iterator[pa.Table]:
    """Yield the reports of all parts, sorted by id, in tables of `size` rows or fewer in the last."""
    rows = bucket_rows(parts, buckets)
    runs = _bucket_runs(rows, size)

    def sorted_runs() -> Iterator[pa.Table]:
        written = 0
        for table in map_ahead(lambda run: read_buckets(parts, *run), runs, CORES):
            yield table
            written += table.num_rows
            if progress is not None:
                progress("shuffle", written, sum(rows))

    return _resized(sorted_runs(), size)


def _bucket_runs(rows: list[int], most: int) -> list[tuple[int, int]]:
    """Group consecutive buckets into runs of at most `most` reports, or of one larger bucket."""
    runs: list[tuple[int, int]] = []
    first, total = 0, 0
    for bucket, count in enumerate(rows):
        if total and total + count > most:
            runs.append((first, bucket))
            first, total = bucket, 0
        total += count
    if total:
        runs.append((first, len(rows)))
    return runs


def _resized(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Cut the rows of tables into tables of `size`; the last may be shorter."""
    pending: list[pa.Table] = []
    rows = 0
    for table in tables:
        start = 0
        while rows + table.num_rows - start >= size:
            pending.append(table.slice(start, size - rows))
            start += size - rows
            yield pa.concat_tables(pending)
            pending, rows = [], 0
        pending.append(table.slice(start))
        rows += table.num_rows - start
    if rows:
        yield pa.concat_tables(pending)


def map_ahead(
    action: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Yield the results of an action in the order of the items, computed ahead by `workers` threads.

    Examples:
        >>> list(map_ahead(abs, [-1, 2, -3], workers=2))
        [1, 2, 3]
    """
    pool = ThreadPoolExecutor(workers)
    ahead: deque[Future[Result]] = deque()
    try:
        for item in items:
            ahead.append(pool.submit(action, item))
            if len(ahead) > workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
