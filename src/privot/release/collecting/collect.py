r"""Reports of many devices, each counted once: what cannot be a report is put aside, and copies are one.

**Ids.** A report that is sent again, or copied, has the id and the content of the first, and counts
once, however often and in however many files it comes. **The same id with other content counts not at
all**: which of the two is the person's cannot be told, and a rule by order would let whoever names their
file `0.csv` replace a report by their own. So a stranger who knows an id can strike that report out, at
the cost of leaving both in the quarantine; nobody knows an id before its report was received, unless its
device or its way tells.

**How much of it is in memory.** Reports of files are put in buckets by their ids, as they are read
(`privot.release.streaming.publishing`); equal ids are in one bucket, and a bucket fits in memory, unless
strangers make up ids to the contrary. They lie beside the output, in a hidden folder `.<name>.….draft`
that its owner alone may read. A kill leaves it there, to be removed by hand: its maker may be at work.

**Influence.** A report that can be moves the log-likelihood ratio of any two records by at most ε, of
Gaussian noise by what its reach allows (`privot.mechanisms.additive.additive_noise`): one among n.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.files import beside, cannot_write, replacing_file
from privot.release.collecting.inbox import (
    ORIGIN,
    Quarantine,
    quarantine_of,
    received,
    report_files,
    their_randomizer,
)
from privot.release.collecting.report_text import as_text
from privot.release.randomizer import Randomizer, Release
from privot.release.reports.genuine import first_fault, reasons
from privot.release.reports.ids import REPORT_ID, id_words, in_order, one_array
from privot.release.reports.rows import ReportTable, write_reports
from privot.release.streaming.publishing import gather, write_scattered

_BUCKET_BYTES = 2**25
_CONFLICT = "its id came with other content, so neither is counted"


@dataclass(frozen=True)
class Collection:
    """How many reports there are, how many more were copies, and how many were put aside.

    Arguments:
        randomizer: That made them.
        num_reports: Counted once each.
        copies: The same again.
        quarantined: Impossible ones, those of conflicting ids, and files that cannot be read.
        quarantine: Where they are, if there are any.
        first: The first of them, in words.

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


@dataclass(frozen=True)
class Collected:
    """A release of all that can be counted, and the rest.

    Arguments:
        release: In random order.
        quarantined: With the reason, and reports as in a CSV.
        copies: How many reports were there again.

    Examples:
        >>> from privot import Schema
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> release = Randomizer.calibrate(schema, epsilon=1.0).privatize({"bit": [True, False]})
        >>> found = collect([release])
        >>> len(found.release), found.quarantined.num_rows, found.copies
        (2, 0, 0)
    """

    release: Release
    quarantined: pa.Table
    copies: int


def collect(releases: Iterable[Release]) -> Collected:
    """All reports of some releases that the same randomizer made, in memory and in random order.

    Each person's guarantee is that of their own report: reports of different people do not compose.
    (A person who has noised their record twice has spent two budgets; nobody can tell from here.)

    Raises:
        PrivotError: if there are none, their randomizers differ, or nothing of them can be counted.

    Examples:
        >>> from privot import Schema
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=1.0)
        >>> sent = [randomizer.privatize({"bit": [bit]}) for bit in (True, False)]
        >>> len(collect(sent).release), collect([*sent, sent[0]]).copies
        (2, 1)
    """
    parts = list(releases)
    if not parts:
        raise PrivotError("releases are none: give at least one")
    randomizer = parts[0].randomizer
    for number, part in enumerate(parts[1:], start=2):
        if part.randomizer.to_json() != randomizer.to_json():
            raise PrivotError(
                f"release {number} was made by another randomizer than the first: "
                "collect reports of one randomizer, and fit others apart"
            )
    names = list(randomizer.types)
    whole = pa.concat_tables([part.table.select(names) for part in parts]).combine_chunks()
    return collect_table(randomizer, whole)


def collect_table(
    randomizer: Randomizer, whole: pa.Table, refused: Sequence[str] = ()
) -> Collected:
    """Of a table of reports, those that count, once each; beside what was refused before, and why."""
    against = reasons(randomizer, whole)
    kept, conflicting, copies = count_once(in_order(whole.filter(pc.is_null(against))))
    nothing = whole.slice(0, 0)
    unread = {name: pa.nulls(len(refused), pa.string()) for name, _ in as_text(nothing)}
    told = [pa.table({"reason": pa.array(list(refused), pa.string())} | unread)]
    for rows, words in (
        (whole.filter(pc.is_valid(against)), against.drop_null()),
        (conflicting, pa.array([_CONFLICT] * len(conflicting), pa.string())),
    ):
        text = {name: column.cast(pa.string()) for name, column in as_text(rows)}
        told.append(pa.table({"reason": words} | text))
    aside = pa.concat_tables(told)
    if not len(kept):
        raise _nothing_left(str(aside["reason"][0]) if len(aside) else "there is none")
    return Collected(Release(ReportTable.of(kept), randomizer), aside, copies)


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
        randomizer: Whose reports they are; that of the first file otherwise. CSV needs it.
        quarantine: Where to put what is not counted; `<output>.quarantine.csv` by default.
        strict: Refuse instead.

    Raises:
        PrivotError: if nothing can be counted, or `strict` and something cannot; if a file is of another
            randomizer, and none was given.
    """
    files = report_files(sources)
    made_by = randomizer or their_randomizer(files)
    aside = quarantine or quarantine_of(output)
    work = beside(output)
    try:
        work.mkdir(mode=0o700)
        found = Quarantine(work / "aside.csv", made_by.types, [str(f) for f in files])
        buckets = 1 + sum(f.stat().st_size for f in files if f.is_file()) // _BUCKET_BYTES
        reports = received(files, made_by, found, named=randomizer is not None)
        parts = list(_scattered(reports, made_by, found, work, buckets))
        rows = copies = 0

        def counted() -> Iterator[pa.Table]:
            """The reports that count, by increasing id, without their origins."""
            nonlocal copies
            for bucket in range(buckets):
                kept, conflicting, more = count_once(gather(parts, bucket, bucket + 1))
                copies += more
                found.add(conflicting, pa.array([_CONFLICT] * len(conflicting), pa.string()))
                if len(kept):
                    yield kept.drop_columns(list(ORIGIN))

        with replacing_file(output) as draft:
            if parts:
                rows = write_reports(draft, counted(), made_by.to_json())
            if not rows or (strict and found.count):
                raise _nothing_left(found.first) if not rows else _refused(found)
            if found.count:
                with replacing_file(aside) as lines:
                    shutil.copyfile(work / "aside.csv", lines)
        where = aside if found.count else None
        return Collection(made_by, rows, copies, found.count, where, found.first)
    except OSError as error:
        raise cannot_write(output, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _scattered(
    pieces: Iterable[pa.Table], made_by: Randomizer, found: Quarantine, work: Path, buckets: int
) -> Iterator[Path]:
    """Parts of all reports that can be, in buckets by id; the others go to quarantine."""
    for number, reports in enumerate(pieces):
        against = reasons(made_by, reports)
        found.add(reports.filter(pc.is_valid(against)), against.drop_null())
        if len(possible := reports.filter(pc.is_null(against))):
            path = work / f"part-{number:06d}.arrow"
            write_scattered(path, [possible], buckets)
            yield path


@contextmanager
def checked(
    path: Path, quarantine: Path, strict: bool
) -> Iterator[tuple[Release, Collection | None]]:
    """A release to learn from: the file itself, or what can be counted of it, and what was found."""
    release = Release.open(path)
    if first_fault(release.randomizer, release.rows) is None:
        yield release, None
        return
    with TemporaryDirectory(prefix="privot-") as folder:
        counted = Path(folder) / "release.parquet"
        found = collect_files([path], counted, quarantine=quarantine, strict=strict)
        yield Release.open(counted), found


def count_once(reports: pa.Table) -> tuple[pa.Table, pa.Table, int]:
    """Of reports in the order of their ids: those that count, those in conflict, how many copies."""
    words = id_words(one_array(reports.column(REPORT_ID)))
    again = np.zeros(len(words), bool)
    again[1:] = (words[1:] == words[:-1]).all(axis=1)
    if not again.any():
        return reports, reports.slice(0, 0), 0
    group = np.cumsum(~again) - 1
    # Of the reports whose ids come more than once, and of no others, the content is looked at.
    several = np.flatnonzero((np.bincount(group) > 1)[group])
    other = np.zeros(len(words), bool)
    other[several[1:]] = ~_same_as_before(reports.take(pa.array(several)))
    conflict = (np.bincount(group, other & again) > 0)[group]
    kept, aside = pa.array(~again & ~conflict), pa.array(conflict)
    return reports.filter(kept), reports.filter(aside), int((again & ~conflict).sum())


def _same_as_before(reports: pa.Table) -> NDArray[np.bool_]:
    """Whether each report but the first says what the one before it says."""
    same = np.ones(len(reports) - 1, bool)
    for name, column in as_text(reports):
        if name in ORIGIN:
            continue
        here, before = column[1:], column[:-1]
        equal = np.asarray(pc.fill_null(pc.equal(here, before), False))
        same &= equal | (np.asarray(here.is_null()) & np.asarray(before.is_null()))
    return same


def _nothing_left(first: str) -> PrivotError:
    return PrivotError(f"no report can be counted ({first}): give what `privot privatize` wrote")


def _refused(found: Quarantine) -> PrivotError:
    return PrivotError(
        f"{found.count:,} reports cannot be counted, the first is {found.first}; without --strict they "
        "are put in quarantine, and the others collected"
    )
