"""Publication of reports: stored in parts, sorted by random id, written as a file, shards or CSV.

Everything here is done to reports: post-processing, which may be repeated at no cost. A release appears
at once, when all of it is there; before they go to a pipe, the reports wait on a disk. The number and
the sizes of shards or row groups follow from the number of reports and the rows of a part: buckets,
whose number depends on the raw file's bytes, are cut anew.

**Parts.** Part k holds the reports of records k·R to (k+1)·R − 1 of the source. All parts are written
in `<output>.unfinished`, and nobody receives anything before `<output>` appears by one rename, when all
parts are there. A part is written as a draft, flushed to the disk, and linked to its name, which fails
if the name exists. So

* a part that has its name is whole and is never written again: a resumed run passes over its records,
  and of two runs at once only one can write a part;
* a part without its name may have left a draft. Its noise left nobody's hands: the draft is deleted,
  and the records are noised afresh. **Whoever copied a draft meanwhile holds a second report of the
  same people**, which is why a resumed run reports how many it deleted.

**Order.** Reports that do not fit in memory are sorted by their ids. Each begins with an independent
uniform word W of 64 bits (`privot.randomizer.reports.rows`). Its bucket is $⌊W B/2^{64}⌋$, uniform up
to $B/2^{64}$; buckets are laid one after the other, and within a bucket reports are sorted by id, so
all are. A part is sorted too, so that its share of each bucket is one run; a bucket is gathered from
all parts, and only one has to fit in memory.

**CSV**, for pipes, holds the table of a release, without its randomizer. Numbers are written so that
reading them gives the same bits, an id as 32 hexadecimal digits. A list (the cells of a joint report,
the codes of a set, an image) is one field of numbers with spaces between; `none` is the empty list. A
field is empty where the column was not reported. The text does not name the randomizer, which the
reader has to supply.

**Privacy review.** Parts are in the order of the records, and their manifest has a hash over the names,
sizes and times of the raw files: the folder belongs to whoever holds the raw records, is readable by its
owner only like every file in it, and is deleted when the output is there.
"""

from __future__ import annotations

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
import pyarrow.compute as pc
import pyarrow.csv as csv

from privot.core.errors import PrivotError
from privot.core.files import beside, cannot_write, create, flush, replacing_file, replacing_folder
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.rows import (
    ID_TYPE,
    REPORT_ID,
    from_hex,
    id_words,
    in_order,
    one_array,
    order_of,
    shard_name,
    to_hex,
    write_manifest,
    write_reports,
)
from privot.tables.files import table_suffix, write_csv

# Reports as CSV.

_EMPTY = "none"
_BLOCK_BYTES = 2**24


def write_text(target: Path | IO[bytes], pieces: Iterable[pa.Table], zipped: bool = False) -> int:
    """Write reports as CSV; returns the number of rows."""
    rows = write_csv((pa.table(dict(as_text(piece))) for piece in pieces), target, zipped=zipped)
    if not rows:
        raise PrivotError("there are no rows: give at least one record")
    if not isinstance(target, Path):
        target.flush()
    return rows


def read_text(
    source: Path | IO[bytes], randomizer: Randomizer, log: Callable[[str], None]
) -> Iterator[pa.Table]:
    """Yield the reports of a CSV piece by piece, unchecked; an illegible value is null.

    Arguments:
        source: The CSV.
        randomizer: The randomizer that made them.
        log: Callback for lines that have more or fewer fields, which are skipped.
    """

    def skip(line: csv.InvalidRow) -> str:
        log(f"a line of {line.actual_columns} fields instead of {line.expected_columns}")
        return "skip"

    types = randomizer.types
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(types, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # Nothing reported of the only column is an empty line.
    lines = csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=skip)
    blocks = csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
    with csv.open_csv(source, blocks, lines, options) as reader:
        if sorted(reader.schema.names) != sorted(types):
            raise PrivotError(
                f"{source} has columns {reader.schema.names}, the randomizer writes {list(types)}: "
                "give the randomizer that made these reports"
            )
        for batch in reader:
            yield pa.table({n: _from_text(batch.column(n), kind) for n, kind in types.items()})


def as_text(reports: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Yield columns as they are written: ids and lists as text."""
    for name in reports.column_names:
        column = one_array(reports.column(name))
        if column.type == ID_TYPE:
            column = to_hex(column)
        elif _is_list(column.type):
            column = _joined(column)
        yield name, column


def _from_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == ID_TYPE:
        return from_hex(texts)
    try:
        return _as_list(texts, kind) if _is_list(kind) else texts.cast(kind)
    except pa.ArrowInvalid:
        # Untrusted text may be no number: only what is, is read.
        texts = pc.if_else(pc.match_substring_regex(texts, _pattern(kind)), texts, None)
        return _as_list(texts, kind) if _is_list(kind) else texts.cast(kind)


def _joined(lists: pa.Array) -> pa.Array:
    lists = lists.cast(pa.list_(lists.type.value_type)).cast(pa.list_(pa.string()))
    texts = pc.binary_join(lists, " ")
    return pc.if_else(pc.equal(texts, ""), _EMPTY, texts)


def _as_list(column: pa.Array, kind: pa.DataType) -> pa.Array:
    # No text splits into an empty list: split one number, and leave it out again.
    empty = np.asarray(pc.fill_null(pc.equal(column, _EMPTY), False))
    numbers = pa.list_(kind.value_type)
    lists = pc.split_pattern(pc.if_else(empty, "0", column), " ").cast(numbers)
    width = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    values = lists.flatten().filter(pa.array(np.repeat(~empty, width)))
    ends = np.concatenate([[0], np.cumsum(np.where(empty, 0, width))]).astype(np.int32)
    absent = np.asarray(lists.is_null())
    if pa.types.is_fixed_size_list(kind):
        return _of_length(kind, values, width, absent)
    ends = pa.array(ends, mask=np.concatenate([absent, [False]]))
    return pa.ListArray.from_arrays(ends, values)


def _of_length(
    kind: pa.DataType, values: pa.Array, width: np.ndarray, absent: np.ndarray
) -> pa.Array:
    """Return lists of the required length; null for others and where absent."""
    right = ~absent & (width == kind.list_size)
    rows = np.zeros((len(width), kind.list_size), kind.value_type.to_pandas_dtype())
    rows[right] = (
        values.filter(pa.array(np.repeat(right, width))).to_numpy().reshape(-1, kind.list_size)
    )
    return pa.FixedSizeListArray.from_arrays(
        pa.array(rows.ravel()), type=kind, mask=pa.array(~right)
    )


def _pattern(kind: pa.DataType) -> str:
    if _is_list(kind):
        number = _pattern(kind.value_type).strip("^$")
        return f"^({_EMPTY}|{number}( {number})*)$"
    if pa.types.is_boolean(kind):
        return "^(true|false)$"
    if pa.types.is_floating(kind):
        return r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
    if pa.types.is_unsigned_integer(kind):
        return f"^({_at_most(2**kind.bit_width - 1)})$"
    return r"^-?\d{1,9}$"


def _at_most(largest: int) -> str:
    """Return a pattern of the integers up to `largest`, in decimals."""
    digits = str(largest)
    ways = [rf"\d{{1,{len(digits) - 1}}}", digits]
    for place, digit in enumerate(digits):
        first = int(place == 0)
        if int(digit) > first:
            below = f"[{first}-{int(digit) - 1}]"
            ways.append(rf"{digits[:place]}{below}\d{{{len(digits) - place - 1}}}")
    return "|".join(ways)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)


# Parts.

_FORMAT = 1
_MANIFEST = "unfinished.json"
# Fields that a resumed run has in common with the one that began it, and what a difference means.
_SAME = {
    "format": "another version of privot",
    "randomizer": "another randomizer",
    "source": "other records, or their files changed since",
    "part_rows": "another --shard-rows",
    "buckets": "another --shard-rows",
}
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP)

# Treatment of what a stopped run has left.
Left = Literal["refuse", "resume", "discard"]


@dataclass(frozen=True)
class Parts:
    """The parts of a run, so that a killed run is resumed where it was.

    Arguments:
        folder: Path of the parts.
        part_rows: Records a part.
        buckets: Number of random buckets of each part.
        deleted_drafts: Number of drafts of a killed run that were deleted.
    """

    folder: Path
    part_rows: int
    buckets: int
    deleted_drafts: int = 0

    @classmethod
    def begin(
        cls,
        output: Path,
        part_rows: int,
        buckets: int,
        randomizer: str,
        identity: dict[str, Any] | None,
        left: Left,
    ) -> Self:
        """Start a run, or continue one that was killed.

        Arguments:
            output: Path of the run's output.
            part_rows: Records a part.
            buckets: Number of random buckets of each part.
            randomizer: JSON of the randomizer.
            identity: Fields that change with the source; None if there are none.
            left: Treatment of parts of a killed run.
        """
        folder = unfinished(output)
        if left == "discard":
            discard(folder)
        _require_fresh(output, folder, left == "resume")
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
            # Parts without a manifest are left from a killed removal: their records are unknown.
            if (folder / _MANIFEST).exists() or any(folder.glob("part-*.arrow")):
                _require_same_run(folder, made_with)
            else:
                with replacing_file(folder / _MANIFEST, secret=True) as draft:
                    draft.write_text(json.dumps(made_with, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise cannot_write(output, error) from error
        return cls(folder, part_rows, buckets, len(drafts))

    def path(self, number: int) -> Path:
        """Return the path of a part."""
        return self.folder / f"part-{number:06d}.arrow"

    def done(self) -> set[int]:
        """Return the numbers of the parts that are whole."""
        names = (re.fullmatch(r"part-(\d+)\.arrow", file.name) for file in self.folder.iterdir())
        return {int(name[1]) for name in names if name}

    def publish(self, number: int, write: Callable[[Path], int]) -> int:
        """Let `write` fill a draft and return its number of rows, then give it the part's name."""
        path = self.path(number)
        draft = beside(path)
        try:
            create(draft, secret=True)
            rows = write(draft)
            flush(draft)
            _link(draft, path)
        except FileExistsError:
            raise PrivotError(
                f"{path} was written by another run at the same time, so these reports were thrown "
                "away: let one run write an output"
            ) from None
        except OSError as error:
            raise cannot_write(path, error) from error
        finally:
            draft.unlink(missing_ok=True)
        return rows

    def whole(self) -> list[Path]:
        """Return all parts in order; refused if one is missing."""
        numbers = sorted(self.done())
        if not numbers or numbers != list(range(len(numbers))):
            raise PrivotError(f"{self.folder} lacks parts: run again with --resume")
        return [self.path(number) for number in numbers]

    def remove(self) -> None:
        """Delete all parts, because everything is published, or nothing is to be."""
        discard(self.folder)


def discard(folder: Path) -> None:
    """Delete parts, which disappear all at once."""
    trash = beside(folder)
    with suppress(FileNotFoundError):
        os.rename(folder, trash)
    shutil.rmtree(trash, ignore_errors=True)


def unfinished(output: Path) -> Path:
    """Return the folder of the parts of `output`."""
    return output.with_name(output.name + ".unfinished")


def _require_fresh(output: Path, folder: Path, resume: bool) -> None:
    if output.exists():
        if resume and folder.exists():  # killed after the last rename
            shutil.rmtree(folder)
            raise PrivotError(f"{output} was finished already: there is nothing to resume")
        raise PrivotError(
            f"{output} exists: to noise the same records again would spend their budget twice; "
            "if these are other records, give another -o, or remove it"
        )
    if folder.exists() and not resume:
        raise left_behind(folder)


def left_behind(folder: Path) -> PrivotError:
    """Return the error of a fresh run where a stopped one left parts."""
    return PrivotError(
        f"{folder} is left from a run that was stopped: continue it with --resume; to start again, "
        "--discard it, but for people whose report somebody received, the budget is spent twice"
    )


def _require_same_run(folder: Path, now: dict[str, Any]) -> None:
    try:
        left = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise PrivotError(f"{folder} is damaged: remove it, and start again") from None
    if now["source"] is None:
        raise PrivotError(
            f"{folder} cannot be continued: its records came in an order that does not come back; "
            "remove it, and start again"
        )
    for key, words in _SAME.items():
        if left.get(key) != now[key]:
            raise PrivotError(
                f"{folder} was begun with {words}: resume with the same, or remove it and start again"
            )


def _link(draft: Path, path: Path) -> None:
    """Give a file its name unless the name is taken."""
    try:
        os.link(draft, path)
    except OSError as error:
        # Some network file systems have no links; a rename would replace, so look first.
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(path) from None
        os.rename(draft, path)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


Item = TypeVar("Item")
Result = TypeVar("Result")
CORES = os.cpu_count() or 1
# Callback for the stage ("noise", "shuffle"), the reports done, and their total if known.
Progress = Callable[[str, int, int | None], None]


def refuse_unknown_output(output: Path) -> None:
    """Refuse, before anything is read, a path that could not be written."""
    if output.suffix and table_suffix(output) == ".npz":
        raise PrivotError(f"{output} would be npz: give parquet, csv, csv.gz, or a folder")


def write_scattered(path: Path, pieces: Iterable[pa.Table], buckets: int) -> int:
    """Write a part as Arrow batches, one a bucket, from tables of one type; returns the row count."""
    tables = list(pieces)
    if not tables:
        raise PrivotError("there are no rows: give at least one record")
    rows, *beyond = pa.concat_tables(tables).combine_chunks().to_batches()
    if beyond:  # text of more than 2 GiB
        raise PrivotError(
            f"a part of {rows.num_rows:,} rows and more is too long: give smaller parts"
        )
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


def _read_buckets(part: Path, first: int, stop: int) -> list[pa.RecordBatch]:
    with pa.memory_map(str(part)) as source:
        file = pa.ipc.open_file(source)
        return [file.get_batch(bucket) for bucket in range(first, stop)]


def bucket_rows(parts: Sequence[Path], buckets: int) -> list[int]:
    """Count the reports of some parts in each bucket."""
    rows = [[batch.num_rows for batch in _read_buckets(part, 0, buckets)] for part in parts]
    return [sum(counts) for counts in zip(*rows, strict=True)]


def gather(parts: Sequence[Path], first: int, stop: int) -> pa.Table:
    """Read the reports of all parts in buckets `first` to `stop` − 1, by increasing id."""
    batches = [batch for part in parts for batch in _read_buckets(part, first, stop)]
    return in_order(pa.Table.from_batches(batches))


def publish(
    parts: Parts, output: Path | IO[bytes], randomizer: str, progress: Progress | None = None
) -> int:
    """Write all parts' reports in random order, as the output's suffix says; returns the row count.

    Raises:
        PrivotError: if a part is missing, the disk is full, or another run has published meanwhile;
            the parts stay.
    """
    if isinstance(output, Path) and output.exists():
        raise PrivotError(
            f"{output} was written by another run meanwhile: keep one of the two reports, and make sure "
            f"that nobody gets {parts.folder}"
        )
    shuffled = reordered(parts.whole(), parts.buckets, parts.part_rows, progress)
    if not isinstance(output, Path):
        return write_text(output, shuffled)
    if not output.suffix:
        with replacing_folder(output) as folder:
            sizes = [
                write_reports(folder / shard_name(number), [table], randomizer)
                for number, table in enumerate(shuffled)
            ]
            write_manifest(folder, sizes)
        return sum(sizes)
    with replacing_file(output) as draft:
        if table_suffix(output) == ".parquet":
            return write_reports(draft, shuffled, randomizer)
        return write_text(draft, shuffled, zipped=output.name.endswith(".gz"))


def reordered(
    parts: Sequence[Path], buckets: int, size: int, progress: Progress | None = None
) -> Iterator[pa.Table]:
    """Yield all reports of some parts, by increasing id, in tables of `size` rows (but the last)."""
    rows = bucket_rows(parts, buckets)
    runs = _runs(rows, size)

    def gathered() -> Iterator[pa.Table]:
        written = 0
        for table in map_ahead(lambda run: gather(parts, *run), runs, CORES):
            yield table
            written += table.num_rows
            if progress is not None:
                progress("shuffle", written, sum(rows))

    return _cut(gathered(), size)


def map_ahead(
    action: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Yield results in the order of the items, computed ahead by as many threads as `workers`.

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


def _cut(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Cut the rows of tables into tables of `size`; the last may be shorter."""
    held: list[pa.Table] = []
    rows = 0
    for table in tables:
        start = 0
        while rows + table.num_rows - start >= size:
            held.append(table.slice(start, size - rows))
            start += size - rows
            yield pa.concat_tables(held)
            held, rows = [], 0
        held.append(table.slice(start))
        rows += table.num_rows - start
    if rows:
        yield pa.concat_tables(held)


def _runs(rows: list[int], least: int) -> list[tuple[int, int]]:
    """Group buckets that are not empty into runs, small ones together up to `least` reports."""
    runs: list[tuple[int, int]] = []
    first, held = 0, 0
    for bucket, number in enumerate(rows):
        if held and held + number > least:
            runs.append((first, bucket))
            first, held = bucket, 0
        held += number
    if held:
        runs.append((first, len(rows)))
    return runs
