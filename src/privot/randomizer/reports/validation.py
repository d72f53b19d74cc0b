"""Checksums of randomizers, and validation of the reports of a release.

**The checksum** of a randomizer's JSON detects changes by accident or by hand. It is not a signature:
anyone who can write the file can compute the checksum again. Whenever a randomizer is read, its
guarantee is computed from its noise, and so is the **program** by which devices draw (`privot.device`
runs it, `docs/reference/wire.md` specifies it). Files that state others are refused.

**Reports** come from untrusted devices. A row that no device makes, or makes with probability below
2^−64 for every record (`Mechanism.possible`), is refused with the first reason found. Other rows may
still be forged, within the limits of the mechanism; no report reveals more of a record than ε allows.

**Privacy review.** A program is a function of the schema and the mechanisms, not of records, and reports
drawn with it have the mechanisms' guarantee. Validation of reports is post-processing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.randomizer.reports.rows import REPORT_ID, ReportTable, id_words, one_array, order_of

Mask = NDArray[np.bool_]

FORMAT = 3
_FIELDS = (
    "schema", "mechanisms", "report_columns", "delta", "joint", "candidates", "guarantee", "device",
)  # fmt: skip


def seal(**fields: Any) -> str:
    """Return the canonical JSON of a randomizer's fields, with format and fingerprint."""
    fields = {"format": FORMAT} | fields
    return json.dumps(fields | {"fingerprint": _fingerprint(fields)}, separators=(",", ":"))


def unseal(text: str | bytes) -> dict[str, Any]:
    """Return the fields of a sealed JSON.

    Unknown fields, which could serve to mark reports, are left out.

    Raises:
        PrivotError: if the JSON is damaged, altered, or has another format.
    """
    try:
        fields: dict[str, Any] = json.loads(text)
        fingerprint = fields.pop("fingerprint")
        version = fields["format"]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise PrivotError(
            "the randomizer is not readable: write it again with `privot calibrate`; an encoder is no "
            "randomizer: its shares are for two servers, without waves"
        ) from None
    if version != FORMAT:
        remedy = "calibrate it again" if version in range(FORMAT) else "upgrade privot"
        raise PrivotError(
            f"the randomizer has format {version}, this version reads {FORMAT}: {remedy}"
        )
    if fingerprint != _fingerprint(fields):
        raise PrivotError(
            "the randomizer was altered after it was calibrated, so its guarantee is void: "
            "calibrate again with `privot calibrate`"
        )
    return {name: fields[name] for name in _FIELDS if name in fields}


def _fingerprint(fields: dict[str, Any]) -> str:
    # Keys are not sorted, because the order of columns matters.
    text = json.dumps(fields, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def first_reasons(faults: Iterable[tuple[Mask, str]], num_rows: int) -> pa.Array:
    """Return for each row the reason of the first mask (n,) that has it, or null."""
    reasons: list[str | None] = [None]
    index = np.zeros(num_rows, np.int32)  # of each row's reason
    for faulty, reason in faults:
        index[faulty & (index == 0)] = len(reasons)
        reasons.append(reason)
    return pa.array(reasons, pa.string()).take(pa.array(index))


class ImpossibleReportError(PrivotError):
    """Error of a release with a report that no device sends, or with one that stands twice."""


def require_possible(rows: ReportTable, reasons: Callable[[pa.Table], pa.Array]) -> None:
    """Raise an error for the first impossible or repeated report, with its row and the reason.

    Different reports with the same id are not copies (`privot.collector.collecting`). If ids are not
    strictly increasing, all of them are read into memory to find copies.
    """
    last_words, num_read, increasing = np.zeros((0, 2), np.uint64), 0, True
    for piece in rows.pieces():
        piece_reasons = reasons(piece)
        if piece_reasons.null_count < len(piece):
            row = int(np.flatnonzero(np.asarray(piece_reasons.is_valid()))[0])
            raise _impossible_error(rows, num_read + row, str(piece_reasons[row]))
        words = np.concatenate([last_words, id_words(one_array(piece.column(REPORT_ID)))])
        increasing = increasing and bool(_less(words[:-1], words[1:]).all())
        last_words, num_read = words[-1:], num_read + len(piece)
    repeated = None if increasing else _repeated(rows)
    if repeated is not None:
        raise _impossible_error(rows, repeated, "it is there twice")


def _impossible_error(rows: ReportTable, row: int, reason: str) -> ImpossibleReportError:
    return ImpossibleReportError(
        f"{rows.source}, report {row + 1:,}: {reason}, so the file was altered: `privot collect` "
        "accepts possible reports, and quarantines the rest"
    )


def _repeated(rows: ReportTable) -> int | None:
    """Return the index of the first report with the id and content of an earlier one."""
    words = rows.id_words()
    order = order_of(words)
    same = (words[order[1:]] == words[order[:-1]]).all(axis=1)
    shared = np.zeros(len(words), bool)  # whether another report has the same id
    shared[order] = np.append(same, False) | np.append(False, same)
    num_read, digests = 0, set()
    for piece in rows.pieces():
        places = np.flatnonzero(shared[num_read : num_read + len(piece)])
        reports = piece.take(pa.array(places, pa.int64())).to_pylist()
        for row, report in zip(places, reports, strict=True):
            digest = hashlib.blake2b(repr(report).encode(), digest_size=16).digest()
            if digest in digests:
                return num_read + int(row)
            digests.add(digest)
        num_read += len(piece)
    return None


def _less(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return the mask (n,) of rows in which a pair of words (n, 2) is below that of `second`."""
    high, low = first.T < second.T
    return np.asarray(high | ((first[:, 0] == second[:, 0]) & low))
