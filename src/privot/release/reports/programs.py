"""Programs: what of a randomizer a device needs, in integers and public numbers.

Column kinds say how their values are taken, mechanisms how they draw; `privot.device` runs it, and
`docs/reference/wire.md` specifies it. A program is part of the randomizer's JSON, under its seal, and is
computed again whenever that is read: one that draws otherwise than its mechanisms is refused.

**Privacy review.** A function of the schema and the mechanisms, of no record. Who draws by it has
the mechanisms' guarantee, between any two records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from privot.errors import PrivotError
from privot.release.reports.joint import JointReport
from privot.release.reports.split import SplitReport
from privot.schema import Schema

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
