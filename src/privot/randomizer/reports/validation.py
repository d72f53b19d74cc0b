"""What is as it was made: a randomizer under its seal, and the reports that it can have sent.

**The seal** of a randomizer's JSON is a hash against alteration by accident or by hand, not a signature:
whoever can write the file can seal it again. What a randomizer promises is computed from its noise
whenever it is read.

**Reports** come from strangers. A row that no device makes, or makes with probability below 2^−64
whatever the record (`Mechanism.possible`), is told with the first reason found. What is left may still
be a lie, of a kind that the mechanism bounds: no report, honest or made up, says more of a record than
ε allows.

**Privacy review.** Done to what was received, by whoever receives it: post-processing, which costs
nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms.mechanism import mechanism_from_dict
from privot.privacy import ApproximateDP, PureDP, guarantee_from_dict
from privot.randomizer.reports.candidates import CandidatesReport
from privot.randomizer.reports.joint import JointReport
from privot.randomizer.reports.rows import REPORT_ID, ReportTable, id_words, one_array, order_of
from privot.randomizer.reports.split import SplitReport
from privot.schema import Schema

if TYPE_CHECKING:
    from privot.randomizer.randomizer import Randomizer

# Programs: what of a randomizer a device needs, in integers and public numbers.
#
# Column kinds say how their values are taken, mechanisms how they draw; `privot.device` runs it, and
# `docs/reference/wire.md` specifies it. A program is part of the randomizer's JSON, under its seal,
# and is computed again whenever that is read: one that draws otherwise than its mechanisms is
# refused.
#
# **Privacy review.** A function of the schema and the mechanisms, of no record. Who draws by it has
# the mechanisms' guarantee, between any two records.


VERSION = 2
TIME_STEP = 3600

Program = dict[str, Any]


def device_program(
    schema: Schema, joint: JointReport | None, splits: Mapping[str, SplitReport], num_reported: int
) -> Program | None:
    """The program of a joint report and of split reports; None if devices cannot draw some of them."""
    coded = {name: schema.coded[name] for name in joint.asked.columns} if joint else {}
    takes = {name: column.code_program(name, column.codings) for name, column in coded.items()}
    takes |= {name: split_take(split) for name, split in splits.items()}
    draws = {name: split.mechanism.program(split.column) for name, split in splits.items()}
    if None in takes.values() or None in draws.values():
        return None
    reports = [{"column": name, "draw": draw} for name, draw in draws.items()]
    program = {
        "version": VERSION,
        "time_step": TIME_STEP,
        "columns": takes,
        "joint": _joint(joint) if joint else None,
        "split": {"choose": num_reported, "reports": reports} if reports else None,
    }
    if schema.unread_columns:
        program["unread"] = list(schema.unread_columns)
    return dict(json.loads(json.dumps(program)))  # as whoever reads it sees it


def require_program(stated: object, computed: Program | None) -> None:
    """Refuse a program that is not that of the mechanisms beside it."""
    if stated != computed:
        raise PrivotError(
            "the randomizer's program for devices is not that of its mechanisms, so nothing is promised "
            "there: calibrate it again"
        )


def split_take(split: SplitReport) -> Program | None:
    """How a device takes a split column's value."""
    name, column = split.name, split.column
    codes = split.mechanism.takes_codes
    return column.code_program(name, [column.alphabet]) if codes else column.point_program(name)


def _joint(joint: JointReport) -> Program:
    asked = joint.asked
    laws = {n: joint.mechanism(n).program() for n in sorted({*asked.num_cells.tolist()})}
    return {
        "columns": asked.columns,
        "sizes": list(asked.codings.values()),
        "views": asked.views,
        "forms": asked.forms,
        "weights": asked.weights,
        "sets": {str(n): {"size": law["size"], "out": law["out"]} for n, law in laws.items()},
    }


FORMAT = 3
Guarantee = PureDP | ApproximateDP
Made = TypeVar("Made")
_FIELDS = (
    "schema",
    "mechanisms",
    "report_columns",
    "delta",
    "joint",
    "candidates",
    "guarantee",
    "device",
)


def seal(**fields: Any) -> str:
    """Canonical JSON of a randomizer's fields, with their format and fingerprint."""
    fields = {"format": FORMAT} | fields
    return json.dumps(fields | {"fingerprint": _fingerprint(fields)}, separators=(",", ":"))


def unseal(text: str | bytes) -> dict[str, Any]:
    """The fields of a sealed JSON; refused if it is damaged, altered, or from a newer version.

    Others than a randomizer's, by which somebody could mark reports, are left out.
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


def seal_parts(parts: Randomizer) -> str:
    """The sealed JSON of a randomizer's arguments, and of the guarantee and the program they lead to."""
    held = [name for name in parts.schema.columns if name in parts.mechanisms]
    return seal(
        schema=parts.schema.to_dict(),
        mechanisms={name: parts.mechanisms[name].to_dict() for name in held},
        report_columns=parts.report_columns,
        delta=parts.delta,
        joint=None if parts.joint is None else parts.joint.to_dict(),
        **({} if parts.candidates is None else {"candidates": parts.candidates.to_dict()}),
        guarantee=parts.guarantee.to_dict(),
        device=parts.program,
    )


def unseal_parts(text: str | bytes, make: Callable[..., Made]) -> tuple[Made, Guarantee, Any, str]:
    """What is made of a randomizer's arguments; the guarantee and program stated; the sealed JSON."""
    fields = unseal(text)
    try:
        schema, seeded = Schema.from_dict(fields["schema"]), fields.get("candidates")
        made = {name: mechanism_from_dict(m) for name, m in fields["mechanisms"].items()}
        joint = None if fields["joint"] is None else JointReport.from_dict(fields["joint"])
        several = schema, made, fields["report_columns"], fields["delta"], joint
        randomizer = make(*several, seeded and CandidatesReport.from_dict(schema, seeded))
        return (
            randomizer,
            guarantee_from_dict(fields["guarantee"]),
            fields["device"],
            seal(**fields),
        )
    except (KeyError, AttributeError, TypeError):
        raise PrivotError("the randomizer lacks parts: calibrate it again") from None


def read_text(path: str | Path) -> str:
    """The text of a randomizer's file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"randomizer {path} cannot be read: {error}") from None


def _fingerprint(fields: dict[str, Any]) -> str:
    # In the order given: columns are numbered by it.
    text = json.dumps(fields, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def reasons(randomizer: Randomizer, table: pa.Table) -> pa.Array:
    """Why each row of columns of these types cannot be a report; null where it can."""
    found = _Reasons(table.num_rows)
    found.add(_is_null(table, REPORT_ID), "it has no id of 32 hexadecimal digits")
    for part in randomizer.parts:
        for against, words in part.faults(table):
            found.add(against, words)
    count = np.zeros(table.num_rows, np.int64)
    for split in randomizer.splits.values():
        count += split.reported(table)
    wanted = randomizer.num_reported
    found.add(count != wanted, f"it does not hold {wanted} columns of those split")
    return found.in_words()


def first_fault(randomizer: Randomizer, rows: ReportTable) -> tuple[int, str] | None:
    """A report that cannot be, or is there again, and the reason, in words.

    Another report of the same id is no copy of it (`privot.collector.collecting`). Ids of reports
    that are not in their order, or not once each, have to be in memory together.
    """
    last, first, rising = np.zeros((1, 2), np.uint64), 0, True
    for piece in rows.pieces():
        against = reasons(randomizer, piece)
        for row in np.flatnonzero(np.asarray(against.is_valid()))[:1]:
            return first + int(row), str(against[row])
        words = id_words(one_array(piece.column(REPORT_ID)))
        rising = rising and bool(
            _less(np.concatenate([last, words[:-1]]), words)[first == 0 :].all()
        )
        last, first = words[-1:], first + len(words)
    return None if rising else _repeated(rows)


def _repeated(rows: ReportTable) -> tuple[int, str] | None:
    """The first report whose id and content were there before."""
    words = np.concatenate([id_words(one_array(p.column(REPORT_ID))) for p in rows.pieces()])
    order = order_of(words)
    same = (words[order[1:]] == words[order[:-1]]).all(axis=1)
    several = np.zeros(len(words), bool)
    several[order] = np.append(same, False) | np.append(False, same)
    first, seen = 0, set()
    for piece in rows.pieces():
        places = np.flatnonzero(several[first : first + len(piece)])
        reports = piece.take(pa.array(places, pa.int64())).to_pylist()
        for row, report in zip(places, reports, strict=True):
            told = hashlib.blake2b(repr(report).encode(), digest_size=16).digest()
            if told in seen:
                return first + int(row), "it is there twice"
            seen.add(told)
        first += len(piece)
    return None


def _less(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether pairs of words are in order."""
    high, low = first.T < second.T
    return np.asarray(high | ((first[:, 0] == second[:, 0]) & low))


def require_possible(randomizer: Randomizer, rows: ReportTable) -> None:
    """Refuse reports that cannot be, or are there again.

    Raises:
        PrivotError: naming the first row, and the reason.
    """
    if fault := first_fault(randomizer, rows):
        row, reason = fault
        raise PrivotError(
            f"{rows.source}, report {row + 1:,}: {reason}, so the file was altered: `privot collect` "
            "keeps what can be, and quarantines the rest"
        )


def _is_null(table: pa.Table, name: str) -> NDArray[np.bool_]:
    return np.asarray(pc.is_null(table.column(name)).to_numpy())


class _Reasons:
    """The first reason against each row."""

    def __init__(self, num_rows: int) -> None:
        self._words: list[str | None] = [None]
        self._first = np.zeros(num_rows, np.int32)

    def add(self, against: NDArray[np.bool_], words: str) -> None:
        self._first[against & (self._first == 0)] = len(self._words)
        self._words.append(words)

    def in_words(self) -> pa.Array:
        return pa.array(self._words, pa.string()).take(pa.array(self._first))
