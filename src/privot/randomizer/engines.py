r"""Privatization and counting inside engines that repeat their tasks: Spark, Beam, Ray, DuckDB, Polars.

The engine's tasks call `EngineRun.privatize` with Arrow batches of their records. It writes the reports,
or only the counts of the reports, as parts to a folder that all workers see, and returns **receipts**,
which name the parts. `EngineRun.publish` makes a release, or counts, of the parts that receipts name.
`count_batches` counts existing reports in tasks.

**Every record is noised once** in the output, however often an engine calls the function: when a worker
dies, when it starts a slow task twice, when it computes a lost result or a lazy data frame again.

* A call writes new parts, under random names, and overwrites nothing. It returns its receipt after its
  last part was linked to its name (`privot.randomizer.publishing`).
* An engine delivers the result of one attempt of each task. So the receipts of **one execution** name
  one report of every record. Other parts are never read, and are deleted.
* The first list of receipts is stored by a link, which fails if a list is stored already. The output
  appears by one rename. Then the folder is deleted, after which the function refuses every call.

**Limits.** The receipts of two executions together name two reports of each record. A query that gives
other rows when an engine computes it again may repeat some rows and lose others. If `num_rows` is given,
both are refused, unless the number is the same by chance. Two runs draw two reports of every record.

**Every report is counted once**: of equal counts, which a task that ran twice returns, one is used, and
counts that share reports otherwise are refused (`privot.randomizer.reports.counts`).

**Privacy review.** Adjacency, Δ and sizes are as in `privot.randomizer.privatize`. The folder is
readable by its owner only, who has the raw records: parts that no receipt names are second reports of
the same people, and whoever copies them has both. Receipts pass through the engine; they contain the
number of records of a task and exact counts of values outside their bounds (**not private**). Tasks get
the public randomizer, neither seeds nor states of generators: every process draws from the operating
system. (Noise computed from a secret key and a record's id would be the same in every task, without a
folder. But the key would pass through the engine, and would reveal all records to whoever finds it.)

References:
    Armbrust et al., *Delta Lake: high-performance ACID table storage over cloud object stores* (2020),
    for tasks that write files, and a log that names the valid ones.
"""

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from privot.core.errors import PrivotError
from privot.randomizer import publishing
from privot.randomizer.privatize import PIPE_IDENTITY, Privatized, begin_parts, make_parts
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.counts import CountPlan, Counts, count
from privot.randomizer.reports.rows import COUNTS_SUFFIX
from privot.schema.schema import shuffled_promise
from privot.tables.files import TableBatches, as_table

RECEIPT, COUNTS = "receipt", "counts"  # columns of the returned batches
_FIRST_BITS = 62  # length of the random number of a call's first part


@dataclass(frozen=True)
class EngineRun:
    """Privatization of one table by tasks of an engine, which sends this object to them.

    Arguments:
        randomizer: Randomizer of every record.
        output: Absolute path of the release: parquet, csv, csv.gz, or a folder; or of counts: .counts.
        parts: Folder of the parts, beside the output.
        num_rows: Number of records, if known.
    """

    randomizer: Randomizer
    output: Path
    parts: publishing.Parts
    num_rows: int | None = None

    @classmethod
    def begin(
        cls,
        randomizer: Randomizer,
        output: str | Path,
        *,
        num_rows: int | None = None,
        part_rows: int | None = None,
        leftover: publishing.Leftover = "refuse",
    ) -> Self:
        """Create a run, to be sent to tasks, and its folder of parts, which all must see, as one user.

        Arguments:
            randomizer: Randomizer of every record.
            output: Path of the release or the counts, which does not exist.
            num_rows: Number of records; with another number, nothing is published.
            part_rows: Most records in a part, and approximately the reports in a shard.
            leftover: Treatment of a stopped run's parts: "refuse" to run; "resume" to publish the
                committed parts, or to privatize again if none are committed; or "discard".

        Raises:
            PrivotError: if the output exists, or parts of another run do; for counts, if reports of
                this randomizer cannot be counted in tasks.
        """
        path = Path(output).resolve()
        if path.suffix == COUNTS_SUFFIX:
            CountPlan.of(randomizer)  # raises an error for reports that are not counted
            if shuffled_promise(randomizer.schema) is not None:
                raise PrivotError(
                    f"{path} would be counts of several tasks, and the schema promises shuffled "
                    "reports: make a release, and count it"
                )
        else:
            publishing.refuse_unknown_output(path)
        parts = begin_parts(
            randomizer, path, (num_rows, None), PIPE_IDENTITY, leftover, part_rows, lambda _: None
        )
        return cls(randomizer, path, parts, num_rows)

    def privatize(
        self, batches: Iterable[pa.RecordBatch | pa.Table], *, workers: int = 1
    ) -> Iterator[pa.RecordBatch]:
        """Write reports of the records, or their counts, as parts; yield one batch with one receipt.

        Arguments:
            batches: Arrow batches or tables with the schema's columns.
            workers: Number of threads of this task.

        Raises:
            PrivotError: for records that the schema does not allow, or if the run has ended.
        """
        self._require_unended()
        first = secrets.randbits(_FIRST_BITS)
        records = TableBatches(batches, "the batches")
        write = self._write_counts if self.output.suffix == COUNTS_SUFFIX else None
        num_rows, outside = make_parts(
            self.randomizer, records, self.parts, workers=workers, first=first, write=write
        )
        receipt = {
            "parts": [first, -(-num_rows // self.parts.part_rows)],
            "rows": num_rows,
            "outside": {name: count for name, count in outside.items() if count},
        }
        yield pa.record_batch({RECEIPT: [json.dumps(receipt)]})

    def commit(self, receipts: Any) -> None:
        """Select the parts to publish: the parts of these receipts, or of those committed before.

        Arguments:
            receipts: Table with a column of receipts of one execution, or an iterable of tables or Arrow
                batches. Repeated receipts are used once.

        Raises:
            PrivotError: if the receipts are not for `num_rows` records, or the run has ended.
        """
        self._require_unended()
        parsed = [json.loads(text) for text in _distinct(receipts, RECEIPT)]
        num_rows = sum(receipt["rows"] for receipt in parsed)
        if num_rows == 0 or self.num_rows not in (None, num_rows):
            expected = "some" if self.num_rows is None else f"{self.num_rows:,}"
            raise PrivotError(
                f"the receipts are for {num_rows:,} records, not {expected}: give all receipts of one "
                "execution, and of no other"
            )
        self.parts.commit(parsed)

    def publish(self, receipts: Any = None) -> Privatized:
        """Commit the receipts, if given, and publish the parts that were committed.

        Raises:
            PrivotError: as `commit`; if a part is missing, the output exists, or the disk is full.
        """
        if receipts is not None:
            self.commit(receipts)
        committed, outside = self.parts.committed(), Counter[str]()
        if committed is None:
            raise PrivotError(f"{self.parts.folder} lacks receipts: give those of one execution")
        for receipt in committed:
            outside.update(receipt["outside"])
        if self.output.suffix == COUNTS_SUFFIX:
            publishing.require_unwritten(self.parts, self.output)
            counts = reduce(Counts.merge, map(Counts.load, self.parts.paths()))
            counts.save(self.output)
            num_rows = len(counts)
        else:
            num_rows = publishing.publish(self.parts, self.output, self.randomizer.to_json())
        publishing.discard(self.parts.folder)
        return Privatized(num_rows, 0, dict(outside))

    def _write_counts(self, path: Path, pieces: Iterable[pa.Table]) -> int:
        counts = count(pieces, self.randomizer)
        path.write_bytes(counts.to_bytes())
        return len(counts)

    def _require_unended(self) -> None:
        """Raise PrivotError if the release was published, or the parts were discarded."""
        if not self.parts.folder.exists():
            raise PrivotError(
                f"{self.parts.folder} is gone, as its run has ended: to noise the same records again "
                "would spend their budget twice; if these are other records, begin another run"
            )


def count_batches(
    batches: Iterable[pa.RecordBatch | pa.Table], randomizer: Randomizer
) -> Iterator[pa.RecordBatch]:
    """Count reports in a task; yield one row: a counts file's content, or null if there are no reports.

    Columns whose types an engine has changed, such as the ids, are converted back.
    """
    types = pa.schema(randomizer.types)
    tables = (pa.table(batch).select(types.names).cast(types) for batch in batches)
    nonempty = (table for table in tables if table.num_rows)
    first = next(nonempty, None)
    content = None if first is None else count(chain([first], nonempty), randomizer).to_bytes()
    yield pa.record_batch({COUNTS: pa.array([content], pa.binary())})


def merge_counts(rows: Any) -> Counts:
    """Add up the distinct counts that `count_batches` returned.

    Arguments:
        rows: Table with a column of counts, or an iterable of tables or Arrow batches.

    Raises:
        PrivotError: if there are no counts, or counts of different tasks share reports.

    Examples:
        >>> from privot import Randomizer, Schema
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=1.0)
        >>> tasks = [randomizer.privatize({"bit": [True, bit]}).table for bit in (True, False)]
        >>> len(merge_counts(batch for task in tasks for batch in count_batches([task], randomizer)))
        4
    """
    contents = sorted(_distinct(rows, COUNTS) - {None})
    if not contents:
        raise PrivotError("the tasks have counted no reports: give at least one")
    parts = (Counts.from_bytes(content, f"counts {k}") for k, content in enumerate(contents, 1))
    return reduce(Counts.merge, parts)


def _distinct(rows: Any, column: str) -> set[Any]:
    """Return the distinct values of a column of a table, or of an iterable of tables or batches."""
    if not hasattr(rows, "columns"):
        rows = pa.concat_tables(map(pa.table, rows))
    return {*as_table(rows).column(column).to_pylist()}
