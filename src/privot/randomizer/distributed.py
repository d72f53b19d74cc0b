"""Privatization of records on a Ray cluster.

**Every record is noised once.** Ray runs a task again if its worker dies. A record is then noised twice,
and the guarantee of one report holds only if nobody sees the first report. Therefore:

* `privatize_files` (`privot privatize --engine ray`) runs one task for each part of the source. A task
  publishes its part by a link, which fails if the part exists (`privot.randomizer.publishing`). A task
  that dies before the link leaves a draft that no reader receives; a task that is repeated after the
  link finds its part and noises nothing.
* `privatize` returns a lazy Ray data set. The output of a task becomes visible only when it has ended.
  But Ray repeats a task if its *finished* output is lost with a node, and whenever the data set is
  executed again. So execute it once, and write to a place that nobody reads before the job has ended.

**Independent noise.** Every worker is a separate process, and each of its threads has its own random
stream from the operating system (`privot.mechanisms.samplers`), also after a fork. Tasks receive the
public randomizer, and neither seeds nor states of generators.

**Speed.** Starting Ray takes ten seconds, and without it one process uses all cores of a machine.

References:
    Moritz et al., *Ray: a distributed framework for emerging AI applications* (2018).
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import ray

from privot.core.errors import PrivotError
from privot.randomizer import Randomizer
from privot.randomizer.privatize import (
    NewReports,
    Privatized,
    batch_rows,
    make_parts,
    privatize_records,
)
from privot.randomizer.publishing import Left, Parts, Progress
from privot.randomizer.reports.rows import REPORT_ID
from privot.tables.csv_records import COMMA_SEPARATED, RecordForm
from privot.tables.record_files import RecordBatches, open_records

if TYPE_CHECKING:
    import ray.data  # takes a second in each worker, and no task needs it

_CANCEL_SECONDS = 30.0  # time limit for canceled tasks to end


def privatize(
    dataset: ray.data.Dataset, randomizer: Randomizer, *, keep_order: bool = False
) -> ray.data.Dataset:
    """Privatize every record of a Ray data set lazily; reports come in random order.

    Reports are sorted by their random ids across all blocks. With `keep_order` they have the order of
    the records, which is not private. Execute the result only once (see the module).

    Raises:
        PrivotError: if rows are to stay in order, and the schema promises shuffled reports; in a worker,
            wrapped by Ray, for records that the schema does not allow.
    """
    if keep_order:
        randomizer.require_order()
    reports = dataset.map_batches(
        partial(_noise_batch, text=randomizer.to_json()),
        batch_format="pyarrow",
        batch_size=batch_rows(randomizer),
        zero_copy_batch=True,
    )
    return reports if keep_order else reports.sort(REPORT_ID)


def privatize_files(
    randomizer: Randomizer,
    source: Path,
    output: Path,
    *,
    form: RecordForm = COMMA_SEPARATED,
    left: Left = "refuse",
    part_rows: int | None = None,
    progress: Progress | None = None,
    log: Callable[[str], None] = lambda words: None,
) -> Privatized:
    """Privatize the records of Parquet files on a Ray cluster (see `privot.randomizer.privatize`).

    All workers must see `source` and `output` under these paths. Connects to a cluster, or starts one.

    Arguments:
        randomizer: Randomizer of every record.
        source: A Parquet file, or a folder of them.
        output: A path that ends in parquet, csv or csv.gz, or a folder.
        form: Columns to ignore.
        left: Treatment of the parts that a killed run left: "refuse", "resume" or "discard".
        part_rows: Number of records in a task.
        progress: Callback after every task.
        log: Callback for messages about a resumed run.

    Raises:
        PrivotError: as `privatize_records`, and for a source whose number of rows is unknown.
    """
    source, output = source.resolve(), output.resolve()
    records = open_records(source, randomizer.schema, form)
    if not records.num_rows or records.identity() is None:
        raise PrivotError(f"{source} cannot be cut for several workers: give parquet with rows")
    return privatize_records(
        randomizer,
        records,
        output,
        left=left,
        part_rows=part_rows,
        progress=progress,
        log=log,
        make=partial(_make_on_workers, source=source, form=form),
    )


def _make_on_workers(
    randomizer: Randomizer,
    records: RecordBatches,
    parts: Parts,
    progress: Progress | None,
    source: Path,
    form: RecordForm,
) -> NewReports:
    """Privatize the missing parts, a task each."""
    done, expected = parts.done(), records.num_rows or 0
    missing = [n for n in range(-(-expected // parts.part_rows)) if n not in done]
    num_new, outside = 0, Counter[str]()
    if not missing:
        return NewReports(0, {})
    _connect()
    make = ray.remote(_make_part).options(scheduling_strategy="SPREAD")
    running = [make.remote(n, randomizer.to_json(), source, form, parts) for n in missing]
    try:
        while running:
            ended, running = ray.wait(running)
            result = ray.get(ended[0])
            if isinstance(result, PrivotError):
                raise result
            num_new += result.num_rows
            outside.update(result.outside)
            if progress is not None:
                progress("noise", len(done) * parts.part_rows + num_new, expected)
    except ray.exceptions.RayError as error:
        raise PrivotError(
            f"a worker of the cluster failed ({type(error).__name__}): the parts that are whole are "
            f"stored in {parts.folder}; go on with --resume"
        ) from error
    finally:
        for task in running:
            ray.cancel(task, force=True)
        if running:  # tasks must not write parts into a folder that is being removed
            ray.wait(running, num_returns=len(running), timeout=_CANCEL_SECONDS)
    return NewReports(num_new, dict(outside))


def _connect() -> None:
    """Connect to the cluster of RAY_ADDRESS or an earlier ray.init, or start one on this machine."""
    if ray.is_initialized():
        return
    if "RAY_ADDRESS" in os.environ:
        ray.init(logging_level=logging.ERROR)
    else:
        ray.init(include_dashboard=False, logging_level=logging.ERROR)


def _make_part(
    number: int, text: str, source: Path, form: RecordForm, parts: Parts
) -> NewReports | PrivotError:
    """Privatize one part unless it exists; errors are returned, so that Ray repeats only crashes."""
    if parts.path(number).exists():
        return NewReports(0, {})
    randomizer = Randomizer.from_json(text)
    try:
        records = open_records(source, randomizer.schema, form)
        return make_parts(randomizer, records, parts, workers=1, only=lambda n: n == number)
    except PrivotError as error:
        return error


def _noise_batch(batch: pa.Table, text: str) -> pa.Table:
    return Randomizer.from_json(text).reports_in_order(batch)
