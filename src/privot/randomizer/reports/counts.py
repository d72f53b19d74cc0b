r"""Counts of reports: how many people sent each distinct answer, in files that can be merged.

Maps and tables are learned from the likelihood of reports. It is a product over reports, so the numbers
of equal **answers** (`privot.mechanisms.forms`) are sufficient statistics: a fit reads `Counts` alone,
and costs the same for a thousand reports and for a billion. Answers about the same columns are a group,
which has a **key**:

| reports | key | answer |
|---|---|---|
| joint | number of the sheet | the set of cells |
| split, all columns as codes | numbers of the reported columns | their codes, column after column |
| one column of points | 0 | the report's cell, or the bin of its noise |

**Merging is exact.** Counts are integers. Answers are sorted, and a merge adds the counts of equal
answers, so that merging is associative and does not depend on the order, byte for byte.

**Every report is counted once.** Ids are uniform words of 128 bits. Counts contain a **sample** of ids:
all ids below a **limit**, the largest power of two below which there are at most 65,536 ids. So the
sample has all ids if there are few reports, and the sample of a union is a function of the samples of
its parts. Counts that share a sampled id are not merged. If they share m of n reports, the sample of
about k ≥ 32,768 ids has none of these with probability about $(1 − k/n)^m$. This is less than 10⁻¹³ for
a shard of a million reports that is counted twice among a billion. Within one source, copies are found
exactly, as in every release; shards with counts are read only if they share a sampled id.

**Splits.** Cross-validation holds out random reports, independently of their content. Given counts, the
number of held-out reports among n equal reports is binomial. So folds, halves and held-out waves are
drawn from the counts when they are needed (`halves`; `CountTables.held_out` of
`privot.local.classes.counts`), with the distribution of a split by ids.

**Memory** grows with the number of distinct answers, for a map at most the number of cells, not with the
number of reports.

**Privacy review.** Counts are a function of reports, hence post-processing, with their guarantee. Anyone
who saw a sampled id learns that its report is counted, as from the release. The checksum finds damage,
and answers that no device sends are refused; but a file can be forged, as reports can.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.core.files import write_file
from privot.mechanisms.forms import SPACINGS, Answers, Form
from privot.randomizer.randomizer import Randomizer, Release, Reports
from privot.randomizer.reports.rows import (
    MOST_IDS,
    REPORT_ID,
    IdSample,
    ReportTable,
    counts_name,
    distinct_ids,
    distinct_rows,
    grouped,
)
from privot.randomizer.reports.split import PointAnswers, SplitReport

Ints = NDArray[np.int64]
Key = tuple[int, ...]

_ANY_VERSION = b"privot counts "
_MAGIC = _ANY_VERSION + b"1\n"
_MAX_DENSE = 2**24  # largest number of possible answers that are counted in an array of all of them
_MIN_WAITING = 2**15  # answers wait until they have more integers than this
_ROWS_AT_ONCE = 2**20  # reports in tables that are counted together
_MOST_PARTS = 32  # most counts of shards in memory


class Counted(NamedTuple):
    """Distinct answers (d, w), sorted, and the number of people (d,) who sent each."""

    answers: Answers
    people: Ints

    @classmethod
    def sum(cls, parts: Iterable[tuple[NDArray[Any], Ints]]) -> Self:
        """Add up answers (n, w), which may be equal, with the number of people (n,) who sent each."""
        answers, people = map(np.concatenate, zip(*parts, strict=True))
        places, ranks = distinct_rows(answers)
        sums = np.bincount(ranks, people, len(places))  # exact in floats below 2^53
        return cls(answers[places], sums.astype(np.int64))


class Tally:
    """Counts of distinct answers that arrive in batches.

    Few possible answers are counted in an array of all of them. Otherwise answers wait until they are
    more numerous than the distinct answers counted before, so that each is sorted only a few times.

    Arguments:
        size: Number of possible answers, of one integer each, if these are few; otherwise None.
    """

    def __init__(self, size: int | None = None) -> None:
        self._dense = None if size is None else np.zeros(size, np.int64)
        self._parts: list[tuple[Answers, Ints]] = []  # the first is counted, the others wait
        self._num_waiting = 0

    def add(self, answers: Answers) -> None:
        """Count answers (n, w)."""
        if self._dense is not None:
            self._dense += np.bincount(answers[:, 0], minlength=self._dense.size)
            return
        self._parts.append((answers, np.ones(len(answers), np.int64)))
        self._num_waiting += answers.size
        if self._num_waiting > max(_MIN_WAITING, self._parts[0][0].size):
            self.total()

    def total(self) -> Counted:
        """Return the distinct answers and their counts."""
        if self._dense is not None:
            present = np.flatnonzero(self._dense)
            return Counted(present.astype(np.int32)[:, None], self._dense[present])
        counted = Counted.sum(self._parts)
        self._parts, self._num_waiting = [counted], 0
        return counted


@dataclass(frozen=True, eq=False, repr=False)
class Counts(Reports):
    """Number of people who sent each answer, for reports of one randomizer.

    Arguments:
        randomizer: Randomizer of the reports.
        groups: Counts by key (see the module).
        ids: Sample of the reports' ids.
        source: Name of the reports in error messages.
        waves: See `Reports`.

    Examples:
        >>> from privot import Randomizer, Schema, count
        >>> schema = Schema.from_dict({"columns": {"age": {"kind": "numeric", "bounds": [0, 100]}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=2.0)
        >>> first, second = (count(randomizer.privatize({"age": [20, 30, 70]})) for _ in range(2))
        >>> merged = first.merge(second)
        >>> len(merged), merged.to_bytes() == second.merge(first).to_bytes()
        (6, True)
    """

    randomizer: Randomizer
    groups: Mapping[Key, Counted]
    ids: IdSample
    source: str = "the counts"
    waves: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return sum(int(people.sum()) for _, people in self.groups.values())

    def summary(self) -> dict[str, object]:
        """Return the number of reports and of distinct answers, and the summary of the randomizer."""
        numbers = {"reports": f"{len(self):,}", "distinct": f"{self.distinct:,}"}
        return numbers | self.randomizer.summary()

    @property
    def distinct(self) -> int:
        """Number of distinct answers."""
        return sum(len(people) for _, people in self.groups.values())

    def merge(self, *others: "Counts") -> "Counts":
        """Add up counts of different reports of one randomizer.

        Raises:
            PrivotError: for counts of several randomizers or of shuffled batches, or that share reports.
        """
        for other in others:
            sources = f"{self.source} and {other.source}"
            if self.randomizer.to_json() != other.randomizer.to_json():
                raise PrivotError(
                    f"{sources} are of two randomizers: merge counts of one, and give `fit` those of "
                    "several"
                )
            if self.schema.shuffled_promise:
                raise PrivotError(
                    f"{sources} are of shuffled reports, and ε is of a batch: count each batch by "
                    "itself, from its release, and give `fit` all of them"
                )
        require_disjoint((self, *others))
        return sum_counts([self, *others])

    def halves(self, rng: np.random.Generator) -> tuple[Self, Self]:
        """Divide the people into two random halves, each with probability ½."""
        first: dict[Key, Counted] = {}
        second: dict[Key, Counted] = {}
        for key, (answers, people) in self.groups.items():
            drawn = rng.binomial(people, 0.5)
            for half, counts in ((first, drawn), (second, people - drawn)):
                if counts.any():
                    half[key] = Counted(answers[counts > 0], counts[counts > 0])
        return replace(self, groups=first), replace(self, groups=second)

    def dense(self, size: int) -> NDArray[np.float64]:
        """Return the counts (size,) of all answers of one column of points."""
        counts = np.zeros(size)
        for answers, people in self.groups.values():
            counts[answers[:, 0]] = people
        return counts

    def to_bytes(self) -> bytes:
        """Return the content of a counts file, which is the same for equal counts."""
        groups = sorted(self.groups.items())
        answers = [counted.answers.ravel() for _, counted in groups]
        people = [counted.people for _, counted in groups]
        arrays = [
            _narrow(np.concatenate([np.zeros(0, np.int32), *answers])),
            _narrow(np.concatenate([np.zeros(0, np.int64), *people])),
            self.ids.words.astype("<u8"),
        ]
        fields = {
            "randomizer": self.randomizer.to_json(),
            "groups": [[key, *counted.answers.shape] for key, counted in groups],
            "arrays": [[array.dtype.str, array.size] for array in arrays],
            "limit": self.ids.limit,
        }
        if self.waves:
            fields["waves"] = sorted(self.waves)
        head = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        content = zlib.compress(head + b"".join(array.tobytes() for array in arrays), 1)
        return _MAGIC + hashlib.sha256(content).digest() + content

    @classmethod
    def from_bytes(cls, content: bytes, source: str = "the counts") -> Self:
        """Read the content of a counts file; `source` names it in errors.

        Raises:
            PrivotError: if it is damaged, has another version, or has answers that no device sends.
        """
        if not content.startswith(_MAGIC):
            raise PrivotError(f"{source} are no counts of this version: count the reports again")
        digest, packed = content[len(_MAGIC) :][:32], content[len(_MAGIC) + 32 :]
        try:
            if hashlib.sha256(packed).digest() != digest:
                raise ValueError
            head, _, body = zlib.decompress(packed).partition(b"\n")
            fields, arrays, start = json.loads(head), list[NDArray[Any]](), 0
            for kind, size in fields["arrays"]:
                arrays.append(np.frombuffer(body, np.dtype(kind), size, start))
                start += arrays[-1].nbytes
            answers, people, words = arrays
            groups: dict[Key, Counted] = {}
            for key, rows, width in fields["groups"]:
                group_answers, answers = np.split(answers, [rows * width])
                group_people, people = np.split(people, [rows])
                group_answers = group_answers.astype(np.int32).reshape(rows, width)
                groups[tuple(key)] = Counted(group_answers, group_people.astype(np.int64))
            ids = IdSample(int(fields["limit"]), words.astype(np.uint64).reshape(-1, 2))
            waves = frozenset(map(str, fields.get("waves", ())))
            if not 0 < ids.limit <= 2**64:
                raise ValueError
        except (ValueError, KeyError, TypeError, OverflowError, zlib.error):
            raise PrivotError(f"{source} are damaged: copy them again, or count again") from None
        randomizer = Randomizer.from_json(fields["randomizer"])
        if answers.size or people.size or not CountPlan.of(randomizer).allows(groups):
            raise PrivotError(
                f"{source} have answers that no device sends: count the reports again"
            )
        return cls(randomizer, groups, ids, source, waves)

    def save(self, path: str | Path) -> None:
        """Write a counts file; if writing fails, an existing file stays."""
        write_file(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a counts file.

        Raises:
            PrivotError: as `from_bytes`, and if the file cannot be read.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise PrivotError(f"counts {path} cannot be read ({error.strerror or error})") from None
        return cls.from_bytes(content, str(path))


def _narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return non-negative integers in the smallest unsigned type."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))).newbyteorder("<"))


def is_counts(path: str | Path) -> bool:
    """Return whether a path is a counts file, of any version."""
    path = Path(path)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_ANY_VERSION)) == _ANY_VERSION


def require_disjoint(parts: Sequence[Counts]) -> None:
    """Raise PrivotError if counts share sampled ids, which different reports do not."""
    limit = min(part.ids.limit for part in parts)
    ids = [part.ids.below(limit) for part in parts]
    if len(distinct_ids(*ids)) == sum(map(len, ids)):
        return
    for (number, first), (later, second) in combinations(enumerate(parts, start=1), 2):
        if shared := first.ids.shared(second.ids):
            raise PrivotError(
                f"releases {number} and {later} ({first.source}, {second.source}) share {shared:,} "
                "reports, by their ids: give each report once, or collect them into one release by "
                "`privot collect`"
            )


def sum_counts(parts: Sequence[Counts]) -> Counts:
    """Add up counts of one randomizer, which share no reports."""
    parts_by_key: dict[Key, list[Counted]] = {}
    for part in parts:
        for key, counted in part.groups.items():
            parts_by_key.setdefault(key, []).append(counted)
    ids = reduce(IdSample.joined, (part.ids for part in parts))
    groups = {key: Counted.sum(group) for key, group in parts_by_key.items()}
    waves = frozenset[str]().union(*(part.waves for part in parts))
    return Counts(parts[0].randomizer, groups, ids, parts[0].source, waves)


def grid_form(randomizer: Randomizer) -> Form | None:
    """Return the form of reports of one column of ≤ 3 coordinates; None for other randomizers."""
    if randomizer.joint is not None or len(randomizer.mechanisms) != 1:
        return None
    ((name, mechanism),) = randomizer.mechanisms.items()
    column = randomizer.schema.columns[name]
    if column.domain is None or column.declares_codes or column.image_shape is not None:
        return None
    dimension, form = mechanism.report_domain(column.domain).dimension, mechanism.point_form(column)
    few = dimension in SPACINGS and not form.learns_codes
    return form if few and form.num_answers(dimension) is not None else None


def is_counted(randomizer: Randomizer) -> bool:
    """Return True if models are learned from counts of the reports, for maps and tables of codes."""
    return randomizer.all_coded or grid_form(randomizer) is not None


_point_answers = lru_cache(maxsize=8)(PointAnswers)  # construction takes milliseconds


@dataclass(frozen=True, eq=False)
class CountPlan:
    """Conversion of the reports of one randomizer to answers by key."""

    randomizer: Randomizer
    # Split columns, in the schema's order, with the forms that number their answers.
    columns: tuple[tuple[SplitReport, Form], ...] = ()
    points: PointAnswers | None = None  # conversion for the only column, if it has points

    @classmethod
    def of(cls, randomizer: Randomizer) -> Self:
        """Return the plan of a randomizer.

        Raises:
            PrivotError: if its reports cannot be counted.
        """
        form, splits = grid_form(randomizer), randomizer.splits
        if form is not None:
            (split,) = splits.values()
            return cls(randomizer, ((split, form),), _point_answers(split, form))
        if not randomizer.all_coded:
            raise PrivotError(
                "reports of this randomizer are not counted, only maps (one column of at most three "
                "coordinates) and tables of codes are: give `fit` the release itself"
            )
        if randomizer.joint is not None:
            return cls(randomizer)
        coded = randomizer.schema.coded.items()
        columns = ((splits[name], splits[name].mechanism.form(column)) for name, column in coded)
        return cls(randomizer, tuple(columns))

    @property
    def size(self) -> int | None:
        """Number of possible answers of a column of points, if they are few; otherwise None."""
        size = None if self.points is None else self.points.size
        return None if size is None or size > _MAX_DENSE else size

    def read(self, table: pa.Table) -> tuple[pa.Array, dict[Key, Answers]]:
        """Return the reasons why no device sends a report (n,), else null, and the answers by key.

        If any report has a reason, the answers may be missing or wrong.
        """
        if self.points is not None:
            answers, found = self.points.read(table)
            doubtful = np.flatnonzero(~found | table.column(REPORT_ID).is_null().to_numpy())
            reasons = pa.nulls(len(table), pa.string())
            if doubtful.size:
                reports = table.take(pa.array(doubtful))
                doubtful_reasons = self.randomizer.reasons(reports)
                index = np.full(len(table), -1)
                index[doubtful] = np.arange(doubtful.size)
                reasons = doubtful_reasons.take(pa.array(index, mask=index < 0))
                if doubtful_reasons.null_count == len(reports):
                    answers[doubtful] = self.points.convert(reports)
            return reasons, {(0,): answers}
        reasons = self.randomizer.reasons(table)
        if reasons.null_count < len(reasons):
            return reasons, {}
        joint = self.randomizer.joint
        return reasons, self._split(table) if joint is None else joint.sets_by_sheet(table)

    def _split(self, table: pa.Table) -> dict[Key, Answers]:
        """Return the answers about each set of columns that some people reported, by key."""
        answers, masks = [], []
        for split, form in self.columns:
            values, mask = split.read(table)
            answers.append(form.answers(values))
            masks.append(mask)
        reported = np.stack(masks, axis=1)
        places, ranks = distinct_rows(reported)
        answers_by_key = {}
        for rank, rows in grouped(ranks):
            key = tuple(np.flatnonzero(reported[places[rank]]).tolist())
            answers_by_key[key] = np.hstack([answers[column][rows] for column in key])
        return answers_by_key

    def forms(self, key: Key) -> list[Form]:
        """Return the forms of the parts of the answers with a key, in order."""
        if self.columns:
            return [self.columns[column][1] for column in key]
        joint = self.randomizer.joint
        assert joint is not None
        return [joint.mechanism(int(joint.design.num_cells[key[0]])).supports]

    def allows(self, groups: Mapping[Key, Counted]) -> bool:
        """Return whether all answers of groups are possible, distinct, sorted, and sent by somebody."""
        joint = self.randomizer.joint
        for key, (answers, people) in groups.items():
            limit = len(self.columns) or (joint.design.num_sheets if joint else 0)
            length = self.randomizer.num_reported if self.columns else 1
            if len(key) != length or sorted({*key}) != [*key] or not 0 <= key[0] <= key[-1] < limit:
                return False
            forms = self.forms(key)
            widths = [form.width for form in forms]
            if answers.shape[1] != sum(widths) or not len(people) or people.min() < 1:
                return False
            parts = np.split(answers, np.cumsum(widths)[:-1], axis=1)
            limits = [self.points.size] if self.points else [form.num_answers() for form in forms]
            for part, size in zip(parts, limits, strict=True):
                increasing = (np.diff(part, axis=1, prepend=-1) > 0).all()
                if not increasing or size is None or part[:, -1].max() >= size:
                    return False
            if self.points and not self.points.possible(answers).all():
                return False
            if not np.array_equal(distinct_rows(answers)[0], np.arange(len(answers))):
                return False
        return True


Source: TypeAlias = Release | pa.Table | pa.RecordBatch | str | Path


def count(sources: Source | Iterable[Source], randomizer: Randomizer | None = None) -> Counts:
    """Count the reports of one randomizer, and validate each, in one pass.

    Arguments:
        sources: One or several of: releases, paths of releases (Parquet files, or folders of shards),
            and Arrow tables or batches of reports. All must be different reports.
        randomizer: Randomizer of the reports in Arrow tables or batches; releases contain theirs.

    Raises:
        PrivotError: if there is no report, or one that no device sends; if reports cannot be counted,
            are of two randomizers, or are repeated.

    Examples:
        >>> from privot import Randomizer, Schema
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> release = Randomizer.calibrate(schema, epsilon=1.0).privatize({"bit": [True, False]})
        >>> len(count(release))
        2
    """
    merged: Counts | None = None
    for release in _releases(sources, randomizer):
        counts = _count_release(release)
        merged = counts if merged is None else merged.merge(counts)
    if merged is None:
        raise PrivotError("sources are none: give at least one release")
    return merged


def _releases(
    sources: Source | Iterable[Source], randomizer: Randomizer | None
) -> Iterator[Release]:
    """Yield the sources as releases; consecutive tables are joined to one release."""
    tables: list[pa.Table] = []
    for source in [sources] if isinstance(sources, Source) else sources:
        if isinstance(source, str | Path | Release):
            yield source if isinstance(source, Release) else Release.open(source)
            continue
        if randomizer is None:
            raise PrivotError("reports do not carry their randomizer: give it as `randomizer`")
        if randomizer.schema.shuffled_promise:
            raise PrivotError(
                "tables do not say which reports were shuffled together, and ε is of a batch: give the "
                "release of each, or its file"
            )
        tables.append(pa.table(source).replace_schema_metadata(None))
        if sum(map(len, tables)) > _ROWS_AT_ONCE:
            yield Release(ReportTable.of(*tables), randomizer)
            tables = []
    if tables and randomizer is not None:
        yield Release(ReportTable.of(*tables), randomizer)


def _count_release(release: Release) -> Counts:
    """Count the reports of a release, from the counts beside its shards if there are any."""
    # Counts of shards do not show whether shuffled shards are of one batch.
    if not any(release.rows.counts_hashes.values()) or release.schema.shuffled_promise:
        return _count_rows(release)
    parts, ids = list[Counts](), IdSample()
    for part in _parts_of(release):
        if ids.shared(part.ids):  # copies, which are refused, or different reports with a forged id
            return _count_rows(release)
        ids = ids.joined(part.ids)
        parts.append(part)
        if len(parts) == _MOST_PARTS:
            parts = [sum_counts(parts)]
    return sum_counts(parts)


def _parts_of(release: Release) -> Iterator[Counts]:
    """Yield the counts of each shard, which a collector may have written beside it."""
    for path, digest in release.rows.counts_hashes.items():
        counts_file = Path(counts_name(path))
        content = counts_file.read_bytes() if digest and counts_file.is_file() else b""
        if hashlib.sha256(content).hexdigest().encode() == digest:
            yield replace(Counts.from_bytes(content, release.rows.source), waves=release.waves)
        elif len(rows := ReportTable.open(path)[0]):
            yield _count_rows(Release(rows, release.randomizer))


def _count_rows(release: Release) -> Counts:
    """Count the reports of a release one by one, and validate each."""
    plan, tallies = CountPlan.of(release.randomizer), dict[Key, Tally]()
    ids = waiting = IdSample()
    shuffled = release.randomizer.schema.shuffled_promise is not None
    for words, answers in release.rows.validated(plan.read, shuffled):
        below = IdSample(words=words).below(ids.limit)
        waiting = IdSample(words=np.concatenate([waiting.words, below]))
        if len(waiting.words) > MOST_IDS:
            ids, waiting = ids.joined(waiting), IdSample()
        for key, rows in answers.items():
            tallies.setdefault(key, Tally(plan.size)).add(rows)
    groups = {key: tally.total() for key, tally in tallies.items()}
    ids, source = ids.joined(waiting), release.rows.source
    return Counts(release.randomizer, groups, ids, source, release.waves)
