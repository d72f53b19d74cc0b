r"""Reports of many devices, each counted once: what cannot be a report is put aside, and copies are one.

**Ids.** A report that is sent again, or copied, has the id and the content of the first, and counts
once, however often and in however many files it comes. **The same id with other content is another
report, and counts too**: one of them is forged, and which cannot be told. Any other rule would let
whoever knows an id, from the report's way or from a release, replace that report (where the first
counts) or strike it out (where neither does). So they add one that is made up, as anybody can under an
id of their own, and that is all. A collector counts alike (`privot.collector.records`).

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


@dataclass(frozen=True)
class Collection:
    """How many reports there are, how many more were copies, and how many were put aside.

    Arguments:
        randomizer: That made them.
        num_reports: Counted once each.
        copies: The same again.
        quarantined: Impossible ones, and files that cannot be read.
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
    kept, copies = count_once(in_order(whole.filter(pc.is_null(against))))
    nothing = whole.slice(0, 0)
    unread = {name: pa.nulls(len(refused), pa.string()) for name, _ in as_text(nothing)}
    told = [pa.table({"reason": pa.array(list(refused), pa.string())} | unread)]
    text = as_text(whole.filter(pc.is_valid(against)))
    columns = {name: column.cast(pa.string()) for name, column in text}
    told.append(pa.table({"reason": against.drop_null()} | columns))
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
                kept, more = count_once(gather(parts, bucket, bucket + 1))
                copies += more
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


def count_once(reports: pa.Table) -> tuple[pa.Table, int]:
    """Of reports in the order of their ids: each id and content once, and how many copies there were."""
    words = id_words(one_array(reports.column(REPORT_ID)))
    same = (words[1:] == words[:-1]).all(axis=1)
    if not same.any():
        return reports, 0
    # Of the reports whose ids come more than once, and of no others, the content is looked at.
    several = np.flatnonzero(np.append(same, False) | np.append(False, same))
    kept = np.ones(len(words), bool)
    kept[several] = _firsts(reports.take(pa.array(several)))
    return reports.filter(pa.array(kept)), int((~kept).sum())


def _firsts(reports: pa.Table) -> NDArray[np.bool_]:
    """Which reports say, with their ids, what none before them says."""
    texts = [text.cast(pa.string()) for name, text in as_text(reports) if name not in ORIGIN]
    told = pc.binary_join_element_wise(
        *texts, "\x1f", null_handling="replace", null_replacement="\0"
    )
    _, first = np.unique(np.asarray(told.dictionary_encode().indices), return_index=True)
    firsts = np.zeros(len(reports), bool)
    firsts[first] = True
    return firsts


def _nothing_left(first: str) -> PrivotError:
    return PrivotError(f"no report can be counted ({first}): give what `privot privatize` wrote")


def _refused(found: Quarantine) -> PrivotError:
    return PrivotError(
        f"{found.count:,} reports cannot be counted, the first is {found.first}; without --strict they "
        "are put in quarantine, and the others collected"
    )
