"""What was received and is not counted: a CSV of its source, row and reason, and the report as it came.

Rows are counted from 1. A whole file that cannot be used is one line, without a row. The file is for the
curator, who can ask its senders; it holds reports, and nothing private. Of what strangers wrote, names
of files and words about them have control characters escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv

from privot.errors import printable
from privot.release.collecting.report_text import as_text

SOURCE, ROW = "source", "row"
ORIGIN = {SOURCE: pa.int32(), ROW: pa.int64()}


def quarantine_of(output: Path) -> Path:
    """Where what does not go to `output` is put, unless another place is said."""
    return output.with_name(output.name + ".quarantine.csv")


class Quarantine:
    """Lines of a CSV, written as they are found.

    Arguments:
        path: Where; there is no file before the first line.
        types: Of the columns of a report.
        sources: Names of the sources, which rows give by their numbers.
    """

    def __init__(self, path: Path, types: dict[str, pa.DataType], sources: Sequence[str]) -> None:
        self._path, self._types = path, types
        self._sources = [printable(source) for source in sources]
        self.count = 0
        self.first = ""

    def add(self, reports: pa.Table, reasons: pa.Array | pa.ChunkedArray) -> None:
        """Rows with their origins, and why each is here."""
        if not len(reports):
            return
        named = pa.array(
            [self._sources[k] for k in reports.column(SOURCE).to_pylist()], pa.string()
        )
        columns = {SOURCE: named, ROW: reports.column(ROW), "reason": reasons}
        self._write(pa.table(columns | dict(as_text(reports.select(list(self._types))))))

    def add_file(self, source: int, reason: str, row: int | None = None) -> None:
        """A source, or a line of one, that is no report at all."""
        fields = {
            SOURCE: [self._sources[source]],
            ROW: pa.array([row], pa.int64()),
            "reason": [printable(reason)],
        }
        nothing = {name: pa.nulls(1, pa.string()) for name in self._types}
        self._write(pa.table(fields | nothing))

    def _write(self, lines: pa.Table) -> None:
        with open(self._path, "ab") as file:
            csv.write_csv(lines, file, csv.WriteOptions(include_header=self.count == 0))
        first = lines.slice(0, 1).to_pylist()[0]
        row = "" if first[ROW] is None else f", report {first[ROW]:,}"
        self.first = self.first or f"{first[SOURCE]}{row}: {first['reason']}"
        self.count += lines.num_rows
