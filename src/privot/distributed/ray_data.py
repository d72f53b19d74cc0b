r"""Ray Data runs the randomizer on the workers of a cluster.

**Exactly once, and what that means for privacy.** Ray runs a task again when its worker dies. A record
is then noised twice, and the guarantee of one report holds only if nobody sees the first noise. So:

* `privatize_files` (`privot privatize --engine ray`) makes one task of each part of the source. A task
  publishes its part by a link that fails if the part is there (`privot.release.streaming.parts`). A
  task that died before left a draft that no reader is given; one that died after is run again, finds
  its part, and noises nothing.
* `privatize` returns a lazy Ray data set. A task's output becomes visible to the rest of the pipeline
  when the task has ended, all at once; of a task that died, nothing was visible. But Ray also runs a
  task again when its *finished* output is lost with a node, and every time the data set is executed: so
  consume it once, into a place that nobody reads before the whole job has ended. Where that cannot be
  had, use `privatize_files`.

**Independent noise.** Each worker is a process of its own, and every thread in it keys its own stream
from the operating system (`privot.mechanisms.samplers.entropy`), also after a fork. No generator's
state, and no seed, is sent with a task: the randomizer that is sent is public.

References:
    Moritz et al., *Ray: a distributed framework for emerging AI applications* (2018).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
import ray.data

from privot.errors import PrivotError
from privot.release import Randomizer
from privot.release.reports.ids import REPORT_ID
from privot.release.streaming.parts import Left, Parts
from privot.release.streaming.privatize import (
    Privatized,
    RefusedRecordsError,
    batch_rows,
    begin_parts,
    make_parts,
    tell_deleted,
)
from privot.release.streaming.publishing import Progress, publish, refuse_unknown_output
from privot.release.streaming.sending import require_sent
from privot.tables.record_files import open_records
from privot.tables.record_form import COMMA_SEPARATED, RecordForm


def privatize(
    dataset: ray.data.Dataset, randomizer: Randomizer, *, keep_order: bool = False
) -> ray.data.Dataset:
    """Reports of every record of a Ray data set, lazily, in random order.

    Ray sorts them by their ids, which are random, across all blocks; with `keep_order` it does not, and
    they come in the order of the records, which is not private. Read the module's note on what to do
    with the result, and execute it once.

    Raises:
        PrivotError: in a worker, wrapped by Ray, for records that the schema does not allow.
    """
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
    told: Callable[[str], None] = lambda words: None,
) -> Privatized:
    """Noise the records of Parquet files on a Ray cluster; see `privot.release.streaming.privatize`.

    Every worker must see `source` and `output` under these paths: a local folder for a local cluster, a
    shared one otherwise. Connects to the cluster that Ray finds, or starts a local one.

    Arguments:
        randomizer: What every record goes through.
        source: A Parquet file, or a folder of them.
        output: A path that ends in parquet, csv or csv.gz, or a folder.
        form: Columns to ignore.
        left: What to do with what a killed run left: "refuse", "resume" or "discard" it.
        part_rows: Records a task.
        progress: Told after every task.
        told: Told what a resumed run found.

    Raises:
        PrivotError: as `privatize_records`, and for a source whose rows are not counted.
    """
    source, output = source.resolve(), output.resolve()
    records = open_records(source, randomizer.schema, form)
    if not records.num_rows or records.identity() is None:
        raise PrivotError(f"{source} cannot be cut for several workers: give parquet with rows")
    refuse_unknown_output(output)
    require_sent(records, randomizer, left)
    parts = begin_parts(randomizer, records, output, records.identity(), left, part_rows)
    tell_deleted(parts, told)
    kept = parts.done()
    missing = [n for n in range(-(-records.num_rows // parts.part_rows)) if n not in kept]
    task = partial(_make_part, text=randomizer.to_json(), source=source, form=form, parts=parts)
    _connect()
    try:
        fresh, outside = _run(
            task, missing, len(kept) * parts.part_rows, records.num_rows, progress
        )
    except RefusedRecordsError:
        parts.remove()
        raise
    rows = publish(parts, output, randomizer.to_json(), progress)
    parts.remove()
    return Privatized(rows, rows - fresh, outside)


def _connect() -> None:
    """Use the cluster that is there (RAY_ADDRESS, or ray.init), or start one on this machine."""
    if ray.is_initialized():
        return
    if "RAY_ADDRESS" in os.environ:
        ray.init(logging_level=logging.ERROR)
    else:
        ray.init(include_dashboard=False, logging_level=logging.ERROR)


def _run(
    task: Callable[[dict[str, Any]], dict[str, Any]],
    numbers: list[int],
    kept_rows: int,
    expected: int,
    progress: Progress | None,
) -> tuple[int, dict[str, int]]:
    """Run a task for every number; the records noised, and counts of values outside their bounds."""
    fresh, outside = 0, dict[str, int]()
    if not numbers:
        return fresh, outside
    ray.data.DataContext.get_current().enable_progress_bars = progress is None
    tasks = ray.data.from_items(numbers, override_num_blocks=len(numbers))
    for done in tasks.map(task).iter_rows():
        if done["refused"]:
            raise RefusedRecordsError(done["refused"])
        if done["failed"]:
            raise PrivotError(done["failed"])
        fresh += done["rows"]
        for name, number in zip(done["names"], done["outside"], strict=True):
            outside[name] = outside.get(name, 0) + int(number)
        if progress is not None:
            progress("noise", kept_rows + fresh, expected)
    return fresh, outside


def _make_part(
    row: dict[str, Any], text: str, source: Path, form: RecordForm, parts: Parts
) -> dict[str, Any]:
    """One task: noise one part, unless it is there. A refusal is an answer; only a crash is retried."""
    number = int(row["item"])
    randomizer = Randomizer.from_json(text)
    rows, outside, refused, failed = 0, dict[str, int](), "", ""
    if not parts.path(number).exists():
        try:
            records = open_records(source, randomizer.schema, form)
            rows, outside = make_parts(randomizer, records, parts, only=lambda n: n == number)
        except RefusedRecordsError as error:
            refused = str(error)
        except PrivotError as error:
            failed = str(error)
    names = sorted(outside)
    return {
        "rows": rows,
        "refused": refused,
        "failed": failed,
        "names": names,
        "outside": [outside[name] for name in names],
    }


def _noise_batch(batch: pa.Table, text: str) -> pa.Table:
    return Randomizer.from_json(text).privatize(batch, keep_order=True).table
