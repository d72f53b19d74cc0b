"""Conversion of devices' payloads, the bytes of many reports, into the rows of a release.

A payload is read as `privot.wire.report` specifies, each field in the layout of its draw, for all
reports at once. A payload is refused if it contains bytes that no device writes (an unsorted set, too
many bits, nonzero padding), so that every report has a unique encoding, or by `Randomizer.reasons`.

**Privacy review.** Post-processing of reports by their recipient.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.device.device import JointPart, SplitPart
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.joint import JointAnswers
from privot.randomizer.reports.rows import ID_BYTES, ID_TYPE, REPORT_ID, grouped
from privot.wire.report import (
    MAX_PAYLOAD,
    CellSet,
    Layout,
    Numbers,
    Report,
    SignedIntegers,
    WireError,
    number_bytes,
)

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


class Payloads:
    """Reader of the payloads of one randomizer's reports.

    Arguments:
        randomizer: Randomizer with a program for devices.

    Attributes:
        width: Length of every payload, in bytes.

    Raises:
        PrivotError: if the randomizer has no program, or its reports are too long.
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
        """Return the rows of possible reports, and for each report the reason of refusal or None."""
        reasons: list[str | None] = [self._refusal(report) for report in reports]
        readable = [index for index, reason in enumerate(reasons) if reason is None]
        payload_bytes = b"".join(reports[index].payload for index in readable)
        payloads = np.frombuffer(payload_bytes, np.uint8).reshape(len(readable), self.width)
        ids = np.frombuffer(b"".join(reports[index].id for index in readable), np.uint8)
        rows, refusals = self.rows(ids.reshape(len(readable), ID_BYTES), payloads)
        for index, reason in zip(readable, refusals, strict=True):
            reasons[index] = reason
        return rows, reasons

    def rows(self, ids: Bytes, payloads: Bytes) -> tuple[pa.Table, list[str | None]]:
        """Return the result of `read` for payloads (n, width) of reports with ids (n, 16)."""
        joint_bytes = self._joint_part.num_bytes
        columns, malformed = self._read_split(payloads[:, joint_bytes:])
        if joint_bytes:
            joint, wrong = self._read_joint(payloads[:, :joint_bytes])
            columns, malformed = columns | joint, malformed | wrong
        buffers = [None, pa.py_buffer(ids.tobytes())]
        columns[REPORT_ID] = pa.FixedSizeBinaryArray.from_buffers(ID_TYPE, len(ids), buffers)
        rows = pa.table(columns).select(list(self.randomizer.types))
        reasons: list[str | None] = self.randomizer.reasons(rows).to_pylist()
        for index in np.flatnonzero(malformed).tolist():
            reasons[index] = "a payload has bytes that no device writes"
        return rows.filter(pa.array([reason is None for reason in reasons], pa.bool_())), reasons

    def _refusal(self, report: Report) -> str | None:
        """Return the reason why a report's payload cannot be read; None if it can."""
        if report.fingerprint != self.fingerprint:
            return "it is of another randomizer"
        if len(report.payload) != self.width:
            return f"its payload has {len(report.payload)} bytes, not {self.width}"
        return None

    def _read_joint(self, data: Bytes) -> tuple[dict[str, pa.Array], Mask]:
        """Return the joint report's columns, and the mask (n,) of malformed payloads."""
        part, joint = self._joint_part, self.randomizer.joint
        assert joint is not None
        head = number_bytes(part.num_sheets)
        sheets = read_numbers(data[:, :head])
        malformed = sheets >= part.num_sheets
        sheets[malformed] = 0
        offsets = np.concatenate([[0], np.cumsum(joint.widths[sheets])])
        cells = np.zeros(offsets[-1], np.int32)
        for size, rows in grouped(joint.design.num_cells[sheets]):
            draw = part.draws[size]
            end = head + draw.num_bytes
            sets, wrong = read_field(draw.layout, data[rows, head:end])
            malformed[rows] |= wrong | data[rows, end:].any(axis=1)
            cells[offsets[rows][:, None] + np.arange(draw.size)] = sets
        return JointAnswers(sheets.astype(np.int32), offsets, cells).to_table(), malformed

    def _read_split(self, data: Bytes) -> tuple[dict[str, pa.Array], Mask]:
        """Return the split reports' columns, and the mask (n,) of malformed payloads."""
        part, malformed = self._split_part, np.zeros(len(data), bool)
        columns: dict[str, pa.Array] = {}
        chosen = np.ones((len(data), len(part.reports)), bool)  # masks of the reported columns
        if head := part.head_bytes:
            bits = np.unpackbits(data[:, :head], axis=1, bitorder="little").astype(bool)
            chosen, data = bits[:, : len(part.reports)], data[:, head:]
            padding = bits[:, len(part.reports) :]
            malformed = padding.any(axis=1) | (chosen.sum(axis=1) != part.choose)
        for reported, (name, draw) in zip(chosen.T, part.reports, strict=True):
            field, data = data[:, : draw.num_bytes], data[:, draw.num_bytes :]
            answers, wrong = read_field(draw.layout, field)
            malformed |= np.where(reported, wrong, field.any(axis=1))
            answers[wrong] = 0
            report = self.randomizer.splits[name]
            drawn = report.mechanism.of_device(answers[reported])
            columns |= report.layout.write(drawn, report.mechanism, reported)
        return columns, malformed


def read_numbers(data: Bytes) -> Codes:
    """Read big-endian numbers (n,) from their b bytes (n, b)."""
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
    """Read sets of cells from increasing numbers or from bits; a wrong set becomes 0 … size − 1."""
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
