"""Privatization on a Ray cluster, each worker with its own entropy; needs no PyTorch.

**Exactly once, and its meaning for privacy.** Ray runs a task again when its worker dies. A record
is then noised twice, and the guarantee of one report holds only if nobody sees the first noise. So:

* `privatize_files` (`privot privatize --engine ray`) makes one task of each part of the source. A task
  publishes its part by a link that fails if the part is there (`privot.randomizer.publishing`). A
  task that died before left a draft that no reader receives; one that died after is run again, finds
  its part, and noises nothing.
* `privatize` returns a lazy Ray data set. A task's output becomes visible to the rest of the pipeline
  when the task has ended, all at once; of a task that died, nothing was visible. But Ray also runs a
  task again when its *finished* output is lost with a node, and every time the data set is executed: so
  consume it once, into a place that nobody reads before the whole job has ended. Where that is not
  possible, use `privatize_files`.

**Independent noise.** Each worker is a process of its own, and every thread in it keys its own stream
from the operating system (`privot.mechanisms.samplers.entropy`), also after a fork. No generator's
state, and no seed, is sent with a task: the randomizer that is sent is public.

**When it pays.** To start Ray takes some ten seconds, and one process has threads on all cores: on one
machine this is slower at any size. It is for several machines, and for more parts than one has cores.

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
from privot.randomizer.privatize import Privatized, batch_rows, make_parts, privatize_records
from privot.randomizer.publishing import Left, Parts, Progress
from privot.randomizer.reports.rows import REPORT_ID
from privot.tables.csv_records import COMMA_SEPARATED, RecordForm
from privot.tables.record_files import RecordBatches, open_records

if TYPE_CHECKING:
    import ray.data  # takes a second in each worker, and no task needs it

_PATIENCE = 30.0  # seconds


def privatize(
    dataset: ray.data.Dataset, randomizer: Randomizer, *, keep_order: bool = False
) -> ray.data.Dataset:
    """Privatize every record of a Ray data set, lazily, in random order.

    Ray sorts them by their ids, which are random, across all blocks; with `keep_order` it does not, and
    they come in the order of the records, which is not private. Read the module's note on what to do
    with the result, and execute it once.

    Raises:
        PrivotError: if order is to be kept, and the schema promises shuffled reports; in a worker,
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
    """Noise the records of Parquet files on a Ray cluster; see `privot.randomizer.privatize`.

    Every worker must see `source` and `output` under these paths: a local folder for a local cluster, a
    shared one otherwise. Connects to the cluster that Ray finds, or starts a local one.

    Arguments:
        randomizer: Randomizer of every record.
        source: A Parquet file, or a folder of them.
        output: A path that ends in parquet, csv or csv.gz, or a folder.
        form: Columns to ignore.
        left: Treatment of what a killed run left: "refuse", "resume" or "discard" it.
        part_rows: Records a task.
        progress: Callback after every task.
        log: Callback for messages about a resumed run.

    Raises:
        PrivotError: as `privatize_records`, and for a source whose rows are not counted.
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
) -> tuple[int, dict[str, int]]:
    """Make the missing parts, one task for each; see `make_parts`."""
    there, expected = parts.done(), records.num_rows or 0
    missing = [n for n in range(-(-expected // parts.part_rows)) if n not in there]
    fresh, outside = 0, Counter[str]()
    if not missing:
        return fresh, outside
    _connect()
    make = ray.remote(_make_part).options(scheduling_strategy="SPREAD")
    running = [make.remote(n, randomizer.to_json(), source, form, parts) for n in missing]
    try:
        while running:
            ended, running = ray.wait(running)
            done = ray.get(ended[0])
            if isinstance(done, PrivotError):
                raise done
            fresh += done[0]
            outside.update(done[1])
            if progress is not None:
                progress("noise", len(there) * parts.part_rows + fresh, expected)
    except ray.exceptions.RayError as error:
        raise PrivotError(
            f"a worker of the cluster failed ({type(error).__name__}): the parts that are whole are "
            f"stored in {parts.folder}; go on with --resume"
        ) from error
    finally:
        for task in running:
            ray.cancel(task, force=True)
        if running:  # nobody is to write a part into a folder that is being removed
            ray.wait(running, num_returns=len(running), timeout=_PATIENCE)
    return fresh, dict(outside)


def _connect() -> None:
    """Use the cluster that is there (RAY_ADDRESS, or ray.init), or start one on this machine."""
    if ray.is_initialized():
        return
    if "RAY_ADDRESS" in os.environ:
        ray.init(logging_level=logging.ERROR)
    else:
        ray.init(include_dashboard=False, logging_level=logging.ERROR)


def _make_part(
    number: int, text: str, source: Path, form: RecordForm, parts: Parts
) -> tuple[int, dict[str, int]] | PrivotError:
    """Noise one part, unless it is there. A refusal is a result; only a crash is retried."""
    if parts.path(number).exists():
        return 0, {}
    randomizer = Randomizer.from_json(text)
    try:
        records = open_records(source, randomizer.schema, form)
        return make_parts(randomizer, records, parts, workers=1, only=lambda n: n == number)
    except PrivotError as error:
        return error


def _noise_batch(batch: pa.Table, text: str) -> pa.Table:
    return Randomizer.from_json(text).reports_in_order(batch)
