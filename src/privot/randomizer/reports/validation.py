"""Checksums of randomizers, and validation of the reports of a whole release.

**The checksum** (seal) of a randomizer's JSON is a hash against alteration by accident or by hand, not a
signature: whoever can write the file can seal it again. The guarantee of a randomizer is computed from
its noise whenever it is read, and so is the **program** by which devices draw (`privot.device` runs it,
`docs/reference/wire.md` specifies it): a file that states others than its mechanisms give is refused.

**Reports** come from untrusted devices. A row that no device makes, or makes with probability below
2^−64 whatever the record (`Mechanism.possible`), is reported with the first reason found. The others may
still be forged, within bounds that the mechanism sets: no report, honest or forged, reveals more of a
record than ε allows.

**Privacy review.** A program is a function of the schema and the mechanisms, of no record; who draws by
it has the mechanisms' guarantee, between any two records. Validation is done to what was received, by
whoever receives it: post-processing, which costs nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
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
    """Canonical JSON of a randomizer's fields, with their format and fingerprint."""
    fields = {"format": FORMAT} | fields
    return json.dumps(fields | {"fingerprint": _fingerprint(fields)}, separators=(",", ":"))


def unseal(text: str | bytes) -> dict[str, Any]:
    """Return the fields of a sealed JSON; refused if it is damaged, altered, or of another version.

    Fields that no randomizer has, by which somebody could mark reports, are left out.
    """
    try:
        fields: dict[str, Any] = json.loads(text)
        fingerprint = fields.pop("fingerprint")
        version = fields["format"]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise PrivotError(
            "the randomizer is not readable: write it again with `privot calibrate`"
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


def read_text(path: str | Path) -> str:
    """Read the text of a randomizer's file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"randomizer {path} cannot be read: {error}") from None


def _fingerprint(fields: dict[str, Any]) -> str:
    # In the order given: columns are numbered by it.
    text = json.dumps(fields, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def first_reasons(faults: Iterable[tuple[Mask, str]], num_rows: int) -> pa.Array:
    """Return the reason of the first fault of each row, of masks (n,) with reasons; null without one."""
    reasons: list[str | None] = [None]
    first = np.zeros(num_rows, np.int32)
    for against, reason in faults:
        first[against & (first == 0)] = len(reasons)
        reasons.append(reason)
    return pa.array(reasons, pa.string()).take(pa.array(first))


def first_fault(
    rows: ReportTable, reasons: Callable[[pa.Table], pa.Array]
) -> tuple[int, str] | None:
    """Return the index of an impossible or repeated report, and the reason; None if there is none.

    Another report of the same id is no copy of it (`privot.collector.collecting`). Ids of reports
    that are out of order, or repeated, have to be in memory together.
    """
    last, first, rising = np.zeros((1, 2), np.uint64), 0, True
    for piece in rows.pieces():
        against = reasons(piece)
        for row in np.flatnonzero(np.asarray(against.is_valid()))[:1]:
            return first + int(row), str(against[row])
        words = id_words(one_array(piece.column(REPORT_ID)))
        rising = rising and bool(
            _less(np.concatenate([last, words[:-1]]), words)[first == 0 :].all()
        )
        last, first = words[-1:], first + len(words)
    return None if rising else _repeated(rows)


def _repeated(rows: ReportTable) -> tuple[int, str] | None:
    """Return the first report whose id and content repeat an earlier one's."""
    words = rows.id_words()
    order = order_of(words)
    same = (words[order[1:]] == words[order[:-1]]).all(axis=1)
    several = np.zeros(len(words), bool)
    several[order] = np.append(same, False) | np.append(False, same)
    first, seen = 0, set()
    for piece in rows.pieces():
        places = np.flatnonzero(several[first : first + len(piece)])
        reports = piece.take(pa.array(places, pa.int64())).to_pylist()
        for row, report in zip(places, reports, strict=True):
            digest = hashlib.blake2b(repr(report).encode(), digest_size=16).digest()
            if digest in seen:
                return first + int(row), "it is there twice"
            seen.add(digest)
        first += len(piece)
    return None


def _less(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Compare pairs of words."""
    high, low = first.T < second.T
    return np.asarray(high | ((first[:, 0] == second[:, 0]) & low))
