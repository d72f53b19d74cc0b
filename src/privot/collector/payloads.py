"""What devices sent, as the rows of a release: payloads read many at a time, and nothing guessed.

A payload is read as `privot.wire.payload` says it is written. Bytes that no device writes (a set out
of order, a bit too many, something where zeros belong) make a payload refused, so that a report has one
form only; whether a device may draw what it says is `privot.randomizer.reports.validation`'s to see.

**Privacy review.** Post-processing, by whoever receives reports: it costs nothing, and the time of a
report is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privot.collector.collecting import Collected, collect_table
from privot.core.errors import PrivotError, printable
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.joint import JointAnswers, JointReport
from privot.randomizer.reports.rows import ID_BYTES, ID_TYPE, REPORT_ID, is_release, shard_files
from privot.randomizer.reports.validation import TIME_STEP, reasons
from privot.waves import Panel
from privot.wire.payload import (
    Program,
    field_bytes,
    joint_set_bytes,
    number_bytes,
    payload_bytes,
    set_bytes,
    window_geometry,
)
from privot.wire.report import MOST_PAYLOAD, Report, WireError

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


class Payloads:
    """Reads the payloads of one randomizer's reports.

    Arguments:
        randomizer: One that has a program for devices.
    """

    def __init__(self, randomizer: Randomizer) -> None:
        program = randomizer.program
        if program is None:
            raise PrivotError(
                "the randomizer has no program for devices, so there are no such reports of it: give "
                "release files, or calibrate columns that devices can draw"
            )
        if payload_bytes(program) > MOST_PAYLOAD:
            raise PrivotError(
                f"a report takes {payload_bytes(program):,} bytes, more than {MOST_PAYLOAD:,}: declare "
                "fewer bins, or report fewer columns"
            )
        self.randomizer, self._program = randomizer, program
        self.fingerprint = bytes.fromhex(randomizer.fingerprint)

    @cached_property
    def width(self) -> int:
        """Bytes of every payload."""
        return payload_bytes(self._program)

    def read(self, reports: Sequence[Report]) -> tuple[pa.Table, list[str | None]]:
        """Rows of the reports that can be, in their order; and why each of the others cannot (n,)."""
        against: list[str | None] = [self._refusal(report) for report in reports]
        right = [i for i, words in enumerate(against) if words is None]
        held = b"".join(reports[i].payload for i in right)
        payloads = np.frombuffer(held, np.uint8).reshape(len(right), self.width)
        ids = np.frombuffer(b"".join(reports[i].id for i in right), np.uint8)
        rows, found = self.rows(ids.reshape(len(right), ID_BYTES), payloads)
        for i, words in zip(right, found, strict=True):
            against[i] = words
        return rows, against

    def rows(self, ids: Bytes, payloads: Bytes) -> tuple[pa.Table, list[str | None]]:
        """The same of payloads of the right width (n, w), and their reports' ids (n, 16)."""
        columns, bad = self._columns(payloads)
        held = pa.py_buffer(ids.tobytes())
        columns[REPORT_ID] = pa.FixedSizeBinaryArray.from_buffers(ID_TYPE, len(ids), [None, held])
        rows = pa.table(columns).select(list(self.randomizer.types))
        against: list[str | None] = [
            "a payload has bytes that no device writes" if illegible else words
            for illegible, words in zip(
                bad.tolist(), reasons(self.randomizer, rows).to_pylist(), strict=True
            )
        ]
        return rows.filter(pa.array([words is None for words in against], pa.bool_())), against

    def _refusal(self, report: Report) -> str | None:
        if report.fingerprint != self.fingerprint:
            return "it is of another randomizer"
        if len(report.payload) != self.width:
            return f"its payload has {len(report.payload)} bytes, not {self.width}"
        return None

    def _columns(self, payloads: Bytes) -> tuple[dict[str, pa.Array], Mask]:
        """Columns of a release's table, and which rows (n,) are not as a device writes them."""
        columns: dict[str, pa.Array] = {}
        bad = np.zeros(len(payloads), bool)
        if joint := self._program["joint"]:
            width = number_bytes(self._joint.design.num_sheets) + joint_set_bytes(joint)
            columns |= self._read_joint(payloads[:, :width], bad)
            payloads = payloads[:, width:]
        if split := self._program["split"]:
            columns |= self._read_split(split, payloads, bad)
        return columns, bad

    @property
    def _joint(self) -> JointReport:
        assert self.randomizer.joint is not None
        return self.randomizer.joint

    def _read_joint(self, data: Bytes, bad: Mask) -> dict[str, pa.Array]:
        joint, head = self._joint, number_bytes(self._joint.design.num_sheets)
        sheets = read_numbers(data[:, :head])
        bad |= sheets >= joint.design.num_sheets
        sheets[bad] = 0
        offsets = np.concatenate([[0], np.cumsum(joint.widths[sheets])])
        cells = np.zeros(offsets[-1], np.int32)
        num_cells = joint.design.num_cells[sheets]
        for number in np.unique(num_cells):
            rows = np.flatnonzero(num_cells == number)
            size = joint.mechanism(int(number)).subset_size
            end = head + set_bytes(int(number), size)
            sets, wrong = read_sets(data[rows, head:end], int(number), size)
            bad[rows] |= wrong | data[rows, end:].any(axis=1)
            cells[offsets[rows][:, None] + np.arange(size)] = sets
        return JointAnswers(sheets.astype(np.int32), offsets, cells).to_table()

    def _read_split(self, split: Program, data: Bytes, bad: Mask) -> dict[str, pa.Array]:
        reports: list[Program] = split["reports"]
        columns: dict[str, pa.Array] = {}
        held = np.ones((len(data), len(reports)), bool)
        if split["choose"] < len(reports):
            head = (len(reports) + 7) // 8
            bits = np.unpackbits(data[:, :head], axis=1, bitorder="little").astype(bool)
            held, data = bits[:, : len(reports)], data[:, head:]
            bad |= bits[:, len(reports) :].any(axis=1) | (held.sum(axis=1) != split["choose"])
        for index, each in enumerate(reports):
            field, data = np.split(data, [field_bytes(each["draw"])], axis=1)
            reported = held[:, index]
            bad |= ~reported & field.any(axis=1)
            answers, wrong = read_field(each["draw"], field)
            bad |= reported & wrong
            answers[wrong] = 0
            report = self.randomizer.splits[each["column"]]
            drawn = report.mechanism.of_device(answers[reported])
            columns |= report.layout.write(drawn, report.mechanism, reported)
        return columns


def read_numbers(data: Bytes) -> Codes:
    """Numbers (n,) of some bytes each (n, b), the highest first."""
    numbers = np.zeros(len(data), np.int64)
    for byte in data.T:
        numbers = numbers << 8 | byte
    return numbers


def read_sets(data: Bytes, cells: int, size: int) -> tuple[Codes, Mask]:
    """Sets (n, w) in order, and which rows are none."""
    each = number_bytes(cells)
    if size * each <= (cells + 7) // 8:
        sets = read_numbers(data.reshape(-1, each)).reshape(-1, size)
        wrong = np.asarray(np.diff(sets, prepend=-1, axis=1) <= 0).any(axis=1)
        wrong |= sets[:, -1] >= cells
        sets[wrong] = np.arange(size)
        return sets, np.asarray(wrong)
    bits = np.unpackbits(data, axis=1, bitorder="little").astype(bool)
    wrong = (bits.sum(axis=1) != size) | bits[:, cells:].any(axis=1)
    bits[wrong] = np.arange(bits.shape[1]) < size
    return np.nonzero(bits)[1].reshape(-1, size), np.asarray(wrong)


def read_field(draw: Program, data: Bytes) -> tuple[Codes, Mask]:
    """What was drawn (n, m), and which rows say what their program never does."""
    kind = draw["draw"]
    if kind == "subset":
        return read_sets(data, draw["cells"], draw["size"])
    if kind == "laplace":
        numbers = data.reshape(-1, 8).copy().view(">i8").reshape(len(data), -1).astype(np.int64)
        return numbers, np.zeros(len(data), bool)
    if kind == "response":
        codes = read_numbers(data)[:, None]
        return codes, codes[:, 0] >= draw["values"]
    blocks, most = draw["blocks"], window_geometry(draw).numbers - (not draw["nullable"])
    numbers = read_numbers(data.reshape(len(data) * blocks, data.shape[1] // blocks))
    numbers = numbers.reshape(-1, blocks)
    return numbers, np.asarray((numbers > most).any(axis=1))


def from_reports(randomizer: Randomizer, reports: Iterable[bytes | Report]) -> Collected:
    """The release of reports in their binary form: each counted once, and what is none put aside.

    Arguments:
        randomizer: Whose reports they are.
        reports: As `privot.device` makes them, or `privot.device.read_batch` reads them.

    Raises:
        PrivotError: if the randomizer has no program for devices, or nothing of them can be counted.

    Examples:
        >>> from privot import Schema
        >>> from privot.device import Device
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=1.0)
        >>> device = Device.from_json(randomizer.to_json())
        >>> len(from_reports(randomizer, [device.report({"bit": bit}) for bit in (True, False)]).release)
        2
    """
    payloads, read, refused = Payloads(randomizer), [], []
    for data in reports:
        try:
            read.append(Report.from_bytes(data) if isinstance(data, bytes) else data)
        except WireError as error:
            refused.append(str(error))
    rows, against = payloads.read(read)
    return collect_table(randomizer, rows, refused + [words for words in against if words])


# Releases of waves: the reports of a panel, each in the wave that its hour says.
#
# A report carries its time, rounded down to a public step (an hour), so that the wave of each is
# known where waves begin with such steps. In memory there is a release for each wave
# (`releases_by_wave`). A collector's release has all of them: **every shard is of one wave**, which
# its Parquet metadata say with the panel, under `privot.wave`; manifest, columns and order are those
# of any release (`open_waves`).
#
# **Privacy review.** Post-processing of reports, by whoever received them: adjacency and Δ are those
# of a report. What a shard says is a function of the hour that its reports came with, and coarser.
# Who knows ids of people can compute who was due in a wave, so that a report in it is of one of N/w
# people and not of N: how many they are is how well they hide, and a wave of one person's names them
# (what they report stays ε-private). Two reports of one person have ids of their own, lie in random
# order in shards of their waves, and are linked by nothing but their slot, which all of it share. No
# report names a person, and nothing here looks for two of one.


_WAVE_KEY = b"privot.wave"


class WaveReleases(NamedTuple):
    """What came in each wave.

    Arguments:
        collected: By the number of the wave, for those in which something came.
        outside: How many reports were no reports, or of no wave of the panel.

    Examples:
        >>> WaveReleases(collected={}, outside=2).outside
        2
    """

    collected: dict[int, Collected]
    outside: int


def releases_by_wave(
    randomizer: Randomizer, panel: Panel, reports: Iterable[bytes | Report]
) -> WaveReleases:
    """One release a wave, of reports in any order; a report that is there several times counts once.

    Arguments:
        randomizer: Whose reports they are.
        panel: In which people reported.
        reports: As `privot.device` makes them, or `privot.device.read_batch` reads them.

    Raises:
        PrivotError: if waves do not begin with whole steps of time, or nothing can be counted.

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
    waves: dict[int, list[Report]] = {}
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
    collected = {wave: from_reports(randomizer, waves[wave]) for wave in sorted(waves)}
    return WaveReleases(collected, outside)


def require_whole_hours(panel: Panel) -> None:
    """Refuse a panel of whose waves the hour of a report says nothing."""
    if panel.start % TIME_STEP or panel.length % TIME_STEP:
        raise PrivotError(
            f"panel {panel.name!r} has waves that begin within an hour, and reports say the hour: let "
            f"start and length be multiples of {TIME_STEP} seconds"
        )


def waves_of_hours(panel: Panel, hours: NDArray[np.integer]) -> NDArray[np.int64]:
    """The wave of each time, in steps of reports; −1 before the first and after the last."""
    waves = (hours.astype(np.int64) * TIME_STEP - panel.start) // panel.length
    after = np.inf if panel.waves is None else panel.waves
    return np.where((waves < 0) | (waves >= after), -1, waves)


def wave_metadata(panel: Panel, wave: int) -> dict[bytes, bytes]:
    """What a shard of one wave carries beside its randomizer."""
    fields = {"panel": panel.to_dict(), "wave": wave}
    return {_WAVE_KEY: json.dumps(fields, sort_keys=True).encode()}


class SealedWaves(NamedTuple):
    """What a collector's release has of each wave.

    Arguments:
        panel: In which people reported.
        shards: By the number of the wave, in order.
    """

    panel: Panel
    shards: dict[int, list[Path]]


def sealed_waves(path: Path) -> SealedWaves | None:
    """The waves of a release's shards; None of what was sealed without a panel.

    Raises:
        PrivotError: if shards are of several panels, or some of none.
    """
    if not path.is_dir() or not is_release(path):
        return None
    panels: set[str] = set()
    waves: dict[int, list[Path]] = {}
    for file in shard_files(path):
        try:
            told = (pq.read_schema(file).metadata or {}).get(_WAVE_KEY)
            fields = json.loads(told or b'{"panel": null, "wave": -1}')
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
