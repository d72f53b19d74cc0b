"""Collection of reports into releases: payloads of devices, mixed sources, and waves of a panel.

A payload is read as `privot.wire.payload` specifies, each field in the layout of its draw. A payload is
refused if it contains bytes that no device writes (an unsorted set, too many bits, nonzero padding), so
that every report has a unique encoding; `Randomizer.reasons` decides whether the mechanism can have
drawn the content.

**Waves.** A report contains its time, rounded down to an hour, which determines its wave if all waves
begin at full hours. In memory there is a release for each wave (`releases_by_wave`). A collector's
release contains all waves, and **each of its shards has the reports of one wave**. The Parquet metadata
of a shard (`privot.wave`) state the panel and the wave. Otherwise it is an ordinary release.

**Privacy review.** Post-processing of reports, by whoever received them: adjacency and Δ are those of a
report. A release stores no times; the wave of a shard is a function of the hour of its reports, and
coarser. Whoever knows the ids of persons can compute who was due in a wave, so that a report of the
wave comes from one of about N/w persons instead of N; if only one person is due, the wave identifies
them (the report is still ε-private). Two reports of one person have different ids, are in random order
in the shards of their waves, and are linked only by the slot, which many persons share. No report
names a person, and no code here searches for two reports of one person.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privot.collector.collecting import (
    count_once,
    nothing_left,
    received,
    report_files,
    require_one_batch,
    their_randomizer,
)
from privot.core.errors import PrivotError, printable
from privot.device.device import JointPart, SplitPart
from privot.randomizer.publishing import as_text
from privot.randomizer.randomizer import TIME_STEP, Randomizer, Release
from privot.randomizer.reports.joint import JointAnswers
from privot.randomizer.reports.rows import (
    ID_BYTES,
    ID_TYPE,
    REPORT_ID,
    ReportTable,
    in_order,
    is_release,
    shard_files,
)
from privot.waves import Panel
from privot.wire.payload import CellSet, Layout, Numbers, SignedIntegers, number_bytes
from privot.wire.report import MAGIC, MAX_PAYLOAD, Report, WireError, read_batch

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


class Payloads:
    """Reader of the payloads of one randomizer's reports.

    Arguments:
        randomizer: Randomizer with a program for devices.

    Attributes:
        width: Length of every payload, in bytes.
    """

    def __init__(self, randomizer: Randomizer) -> None:
        program = randomizer.program
        if program is None:
            raise PrivotError(
                "the randomizer has no program for devices, so devices cannot have sent reports: give "
                "release files, or calibrate columns that devices can draw"
            )
        self._joint_part, self._split_part = JointPart(program), SplitPart(program)
        self.width = self._joint_part.num_bytes + self._split_part.num_bytes
        if self.width > MAX_PAYLOAD:
            raise PrivotError(
                f"a report takes {self.width:,} bytes, more than {MAX_PAYLOAD:,}: declare fewer bins, "
                "or report fewer columns"
            )
        self.randomizer = randomizer
        self.fingerprint = bytes.fromhex(randomizer.fingerprint)

    def read(self, reports: Sequence[Report]) -> tuple[pa.Table, list[str | None]]:
        """Return the rows of possible reports, and a reason of refusal or None for each report (n,)."""
        reasons: list[str | None] = [self._refusal(report) for report in reports]
        readable = [i for i, reason in enumerate(reasons) if reason is None]
        payload_bytes = b"".join(reports[i].payload for i in readable)
        payloads = np.frombuffer(payload_bytes, np.uint8).reshape(len(readable), self.width)
        ids = np.frombuffer(b"".join(reports[i].id for i in readable), np.uint8)
        rows, found = self.rows(ids.reshape(len(readable), ID_BYTES), payloads)
        for i, reason in zip(readable, found, strict=True):
            reasons[i] = reason
        return rows, reasons

    def rows(self, ids: Bytes, payloads: Bytes) -> tuple[pa.Table, list[str | None]]:
        """Read payloads (n, w) of the right width, of reports with ids (n, 16); returns as `read`."""
        columns, bad = self._columns(payloads)
        id_bytes = pa.py_buffer(ids.tobytes())
        columns[REPORT_ID] = pa.FixedSizeBinaryArray.from_buffers(
            ID_TYPE, len(ids), [None, id_bytes]
        )
        rows = pa.table(columns).select(list(self.randomizer.types))
        reasons: list[str | None] = self.randomizer.reasons(rows).to_pylist()
        for i in np.flatnonzero(bad).tolist():
            reasons[i] = "a payload has bytes that no device writes"
        return rows.filter(pa.array([reason is None for reason in reasons], pa.bool_())), reasons

    def _refusal(self, report: Report) -> str | None:
        if report.fingerprint != self.fingerprint:
            return "it is of another randomizer"
        if len(report.payload) != self.width:
            return f"its payload has {len(report.payload)} bytes, not {self.width}"
        return None

    def _columns(self, payloads: Bytes) -> tuple[dict[str, pa.Array], Mask]:
        """Return a release's columns, and a mask (n,) of payloads that no device writes."""
        bad, head = np.zeros(len(payloads), bool), self._joint_part.num_bytes
        columns = self._read_joint(payloads[:, :head], bad) if head else {}
        return columns | self._read_split(payloads[:, head:], bad), bad

    def _read_joint(self, data: Bytes, bad: Mask) -> dict[str, pa.Array]:
        part, joint = self._joint_part, self.randomizer.joint
        assert joint is not None
        head = number_bytes(part.num_sheets)
        sheets = read_numbers(data[:, :head])
        bad |= sheets >= part.num_sheets
        sheets[bad] = 0
        offsets = np.concatenate([[0], np.cumsum(joint.widths[sheets])])
        cells = np.zeros(offsets[-1], np.int32)
        num_cells = joint.design.num_cells[sheets]
        for number in np.unique(num_cells):
            rows = np.flatnonzero(num_cells == number)
            draw = part.draws[int(number)]
            end = head + draw.num_bytes
            sets, wrong = read_field(draw.layout, data[rows, head:end])
            bad[rows] |= wrong | data[rows, end:].any(axis=1)
            cells[offsets[rows][:, None] + np.arange(draw.size)] = sets
        return JointAnswers(sheets.astype(np.int32), offsets, cells).to_table()

    def _read_split(self, data: Bytes, bad: Mask) -> dict[str, pa.Array]:
        part = self._split_part
        columns: dict[str, pa.Array] = {}
        chosen = np.ones((len(data), len(part.reports)), bool)
        if head := part.head_bytes:
            bits = np.unpackbits(data[:, :head], axis=1, bitorder="little").astype(bool)
            chosen, data = bits[:, : len(part.reports)], data[:, head:]
            bad |= bits[:, len(part.reports) :].any(axis=1) | (chosen.sum(axis=1) != part.choose)
        for reported, (name, draw) in zip(chosen.T, part.reports, strict=True):
            field, data = data[:, : draw.num_bytes], data[:, draw.num_bytes :]
            bad |= ~reported & field.any(axis=1)
            answers, wrong = read_field(draw.layout, field)
            bad |= reported & wrong
            answers[wrong] = 0
            report = self.randomizer.splits[name]
            drawn = report.mechanism.of_device(answers[reported])
            columns |= report.layout.write(drawn, report.mechanism, reported)
        return columns


def read_numbers(data: Bytes) -> Codes:
    """Read big-endian numbers (n,) of b bytes each (n, b)."""
    numbers = np.zeros(len(data), np.int64)
    for byte in data.T:
        numbers = numbers << 8 | byte
    return numbers


def read_field(layout: Layout, data: Bytes) -> tuple[Codes, Mask]:
    """Return the answers (n, m) in fields (n, b), and a mask (n,) of malformed fields.

    The answers of malformed fields are arbitrary. A layout without a vectorized reader is read by rows.
    """
    return _READERS.get(type(layout), _read_rows)(layout, data)


def _read_numbers(layout: Numbers, data: Bytes) -> tuple[Codes, Mask]:
    numbers = read_numbers(data.reshape(-1, layout.width)).reshape(-1, layout.count)
    return numbers, np.asarray((numbers >= layout.bound).any(axis=1))


def _read_set(layout: CellSet, data: Bytes) -> tuple[Codes, Mask]:
    cells, size = layout.cells, layout.count
    if layout.width:
        sets = read_numbers(data.reshape(-1, layout.width)).reshape(-1, size)
        wrong = np.asarray(np.diff(sets, prepend=-1, axis=1) <= 0).any(axis=1)
        wrong |= sets[:, -1] >= cells
        sets[wrong] = np.arange(size)
        return sets, np.asarray(wrong)
    bits = np.unpackbits(data, axis=1, bitorder="little").astype(bool)
    wrong = (bits.sum(axis=1) != size) | bits[:, cells:].any(axis=1)
    bits[wrong] = np.arange(bits.shape[1]) < size
    return np.nonzero(bits)[1].reshape(-1, size), np.asarray(wrong)


def _read_signed(layout: SignedIntegers, data: Bytes) -> tuple[Codes, Mask]:
    numbers = data.reshape(-1, 8).copy().view(">i8").reshape(len(data), -1).astype(np.int64)
    return numbers, np.zeros(len(data), bool)


def _read_rows(layout: Layout, data: Bytes) -> tuple[Codes, Mask]:
    answers = np.zeros((len(data), layout.count), np.int64)
    wrong = np.zeros(len(data), bool)
    for index, row in enumerate(data):
        try:
            answers[index] = layout.unpack(row.tobytes())
        except WireError:
            wrong[index] = True
    return answers, wrong


_READERS: dict[type[Layout], Callable[[Any, Bytes], tuple[Codes, Mask]]] = {
    Numbers: _read_numbers,
    CellSet: _read_set,
    SignedIntegers: _read_signed,
}


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
        >>> found = collect(release)
        >>> len(found.release), found.quarantined.num_rows, found.copies
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
    given = [sources] if isinstance(sources, Source) else list(sources)
    releases = [each for each in given if isinstance(each, Release)]
    sent = [each for each in given if isinstance(each, bytes | Report)]
    paths = [Path(each) for each in given if isinstance(each, str | Path)]
    if len(releases) + len(sent) + len(paths) < len(given):
        raise PrivotError("sources are releases, reports as bytes, or paths: give nothing else")
    files, named = report_files(paths), randomizer is not None or bool(releases)
    randomizer = _only_randomizer(randomizer, releases, files, bool(sent))
    require_one_batch(randomizer, paths, files, len(releases) + bool(sent))
    refused: list[str] = []

    def aside(file: int, reason: str, row: int | None = None) -> None:
        where = "" if row is None else f", report {row:,}"
        refused.append(f"{printable(str(files[file]))}{where}: {printable(reason)}")

    tables = [pa.table({name: pa.array([], kind) for name, kind in randomizer.types.items()})]
    tables += [release.table for release in releases]
    tables += received(files, randomizer, aside, named=named)
    if sent:
        rows, unread = _read_sent(randomizer, sent)
        tables.append(rows)
        refused += unread
    names = list(randomizer.types)
    whole = pa.concat_tables([table.select(names) for table in tables]).combine_chunks()
    against = randomizer.reasons(whole)
    distinct, copies = count_once(in_order(whole.filter(pc.is_null(against))))
    quarantined = _quarantined(refused, whole.filter(pc.is_valid(against)), against.drop_null())
    if not len(distinct):
        raise nothing_left(str(quarantined["reason"][0]) if len(quarantined) else "there is none")
    return Collected(Release(ReportTable.of(distinct), randomizer), quarantined, copies)


def _only_randomizer(
    named: Randomizer | None, releases: list[Release], files: list[Path], sent: bool
) -> Randomizer:
    """Return the named randomizer, else the first release's or file's; check that releases agree."""
    if not (named or releases or files):
        raise PrivotError(
            "reports do not carry their randomizer: give it as `randomizer`"
            if sent
            else "releases are none: give at least one"
        )
    made_by = named or (releases[0].randomizer if releases else their_randomizer(files))
    for number, each in enumerate(releases, start=1):
        if each.randomizer.to_json() != made_by.to_json():
            raise PrivotError(
                f"release {number} was made by another randomizer: collect reports of one randomizer, "
                "and fit others apart"
            )
    return made_by


def _quarantined(unread: list[str], impossible: pa.Table, against: pa.Array) -> pa.Table:
    """Return a table of unreadable reports, with null columns, and of impossible ones, with reasons."""
    columns = {name: column.cast(pa.string()) for name, column in as_text(impossible)}
    nulls = {name: pa.nulls(len(unread), pa.string()) for name in columns}
    unread_rows = pa.table({"reason": pa.array(unread, pa.string())} | nulls)
    return pa.concat_tables([unread_rows, pa.table({"reason": against} | columns)])


def _read_sent(
    randomizer: Randomizer, sent: Iterable[bytes | Report]
) -> tuple[pa.Table, list[str]]:
    """Return the rows of readable reports and batches, and the reasons why others cannot be read."""
    payloads, read, refused = Payloads(randomizer), list[Report](), list[str]()
    for data in sent:
        try:
            if isinstance(data, Report):
                read.append(data)
            else:
                parts = read_batch(data) if data.startswith(MAGIC) else [data]
                read += [Report.from_bytes(each) for each in parts]
        except WireError as error:
            refused.append(str(error))
    rows, against = payloads.read(read)
    return rows, refused + [words for words in against if words]


_WAVE_KEY = b"privot.wave"


class WaveReleases(NamedTuple):
    """Releases of a panel's waves.

    Arguments:
        collected: Release of each wave that has reports, by the wave's number.
        outside: Number of reports that cannot be read, or that belong to no wave of the panel.

    Examples:
        >>> WaveReleases(collected={}, outside=2).outside
        2
    """

    collected: dict[int, Collected]
    outside: int


def releases_by_wave(
    randomizer: Randomizer, panel: Panel, reports: Iterable[bytes | Report]
) -> WaveReleases:
    """Collect reports, in any order, into one release a wave; copies count once.

    Arguments:
        randomizer: The reports' randomizer.
        panel: The panel in which people reported.
        reports: Reports as `privot.device` makes them, or `privot.device.read_batch` reads them.

    Raises:
        PrivotError: if waves do not begin with whole steps of time, or no report can be counted.

    Examples:
        >>> from privot import Schema
        >>> from privot.device import Device
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=1.0)
        >>> panel = Panel("bits", window=1, start=0, length=3600, seed="public")
        >>> device = Device.from_json(randomizer.to_json())
        >>> sent = [device.report({"bit": True}, now=now) for now in (10, 20, 3700)]
        >>> found = releases_by_wave(randomizer, panel, sent).collected
        >>> {wave: len(each.release) for wave, each in found.items()}
        {0: 2, 1: 1}
    """
    require_whole_hours(panel)
    waves: dict[int, list[Source]] = {}
    outside = 0
    for data in reports:
        try:
            report = Report.from_bytes(data) if isinstance(data, bytes) else data
            waves.setdefault(panel.wave_at(report.time * TIME_STEP), []).append(report)
        except PrivotError:
            outside += 1
    if not waves:
        raise PrivotError(
            f"{outside:,} reports are of no wave of panel {panel.name!r}: check its start"
        )
    collected = {wave: collect(waves[wave], randomizer) for wave in sorted(waves)}
    return WaveReleases(collected, outside)


def require_whole_hours(panel: Panel) -> None:
    """Refuse a panel whose waves do not begin at full hours: the hour of a report is its wave."""
    if panel.start % TIME_STEP or panel.length % TIME_STEP:
        raise PrivotError(
            f"panel {panel.name!r} has waves that begin within an hour, and reports state the hour: let "
            f"start and length be multiples of {TIME_STEP} seconds"
        )


def waves_of_hours(panel: Panel, hours: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the wave (n,) of each hour since 1970 (n,); −1 before the first wave and after the last."""
    waves = (hours.astype(np.int64) * TIME_STEP - panel.start) // panel.length
    after = np.inf if panel.waves is None else panel.waves
    return np.where((waves < 0) | (waves >= after), -1, waves)


def wave_metadata(panel: Panel, wave: int) -> dict[bytes, bytes]:
    """Return the Parquet metadata that name the panel and the wave of a shard."""
    fields = {"panel": panel.to_dict(), "wave": wave}
    return {_WAVE_KEY: json.dumps(fields, sort_keys=True).encode()}


class SealedWaves(NamedTuple):
    """Shards of each wave of a collector's release.

    Arguments:
        panel: The panel in which people reported.
        shards: Files of each wave, by the wave's number.
    """

    panel: Panel
    shards: dict[int, list[Path]]


def sealed_waves(path: Path) -> SealedWaves | None:
    """Return the waves of a release's shards; None if it was sealed without a panel.

    Raises:
        PrivotError: if shards are of several panels, or some of none.
    """
    if not path.is_dir() or not is_release(path):
        return None
    panels: set[str] = set()
    waves: dict[int, list[Path]] = {}
    for file in shard_files(path):
        try:
            stored = (pq.read_schema(file).metadata or {}).get(_WAVE_KEY)
            fields = json.loads(stored or b'{"panel": null, "wave": -1}')
            panels.add(json.dumps(fields["panel"], sort_keys=True))
            waves.setdefault(int(fields["wave"]), []).append(file)
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
            raise PrivotError(
                f"{printable(str(file))} cannot be read, or its wave: copy it again"
            ) from None
    if panels == {"null"}:
        return None
    if len(panels) > 1:
        raise PrivotError(
            f"release {printable(str(path))} has shards of several panels, or of none: give releases "
            "of its waves, each as a file"
        )
    return SealedWaves(Panel.from_json(panels.pop()), dict(sorted(waves.items())))
