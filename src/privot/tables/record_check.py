"""Records held against a schema: everything that is wrong with them, told at once.

For whoever holds the raw records, before the first report. **What it tells is not private**: counts,
rows and examples are exact functions of raw records. It is the one place that shows a value.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.raw_values import Problem
from privot.tables.batches import RecordBatches

_MOST_PLACES, _MOST_LETTERS = 3, 40


@dataclass
class Finding:
    """One kind of problem of one table column (**not private**).

    Arguments:
        column: Its name.
        what: The kind of problem.
        remedy: What to do about it.
        count: In how many rows.
        places: Where the first of them are.
        example: The first value.
    """

    column: str
    what: str
    remedy: str
    count: int = 0
    places: list[str] = field(default_factory=list)
    example: str = ""

    def add(self, problem: Problem, table: pa.Table, first: int, records: RecordBatches) -> None:
        """Count what a piece of the records adds, which begins with row `first`."""
        rows = np.flatnonzero(problem.rows).tolist()
        self.count += len(rows)
        self.example = self.example or _shown(table.column(self.column)[rows[0]])
        for row in rows[: _MOST_PLACES - len(self.places)]:
            self.places.append(records.place(first + row))


@dataclass(frozen=True)
class RecordCheck:
    """What was found (**not private**).

    Arguments:
        num_rows: Number of records.
        findings: All that would be refused.
        outside: By column, how many values lie outside their bounds, and would be moved to them.
    """

    num_rows: int
    findings: tuple[Finding, ...]
    outside: dict[str, int]


def check_records(records: RecordBatches, schema: Schema) -> RecordCheck:
    """Everything that the schema does not allow in the records."""
    findings: dict[tuple[str, str], Finding] = {}
    outside: Counter[str] = Counter()
    num_rows = 0
    for _, table in records.batches():
        schema.check_table(table)
        for name, column in schema.columns.items():
            problems = column.read(name, table)[1]
            for problem in problems:
                new = Finding(problem.column, problem.what, problem.remedy)
                finding = findings.setdefault((problem.column, problem.what), new)
                finding.add(problem, table, num_rows, records)
            if name in schema.points and not problems:
                outside[name] += schema.points[name].count_outside(name, table)
        num_rows += table.num_rows
    if not num_rows:
        raise PrivotError(f"{records.source} has no rows: give at least one record")
    return RecordCheck(num_rows, tuple(findings.values()), +outside)


def _shown(value: pa.Scalar) -> str:
    """A value on one line, its end left out if it is long."""
    text = repr(value.as_py())
    return text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "…"
