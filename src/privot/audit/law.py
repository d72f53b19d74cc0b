"""Tests that reports have the distribution of their mechanisms, on one large sample and on streams.

`privot.audit` lists the tests, and `privot.audit.statistics` computes their p-values. Tests treat each
**part** of a report separately (one column, the joint report, the report's id). A `Trial`
(`privot.audit.trials`) has the invented records of a part, and converts reports to intervals of their
distribution function.

**Streams.** A random generator that is seeded, shared without a lock, or copied into a child process
repeats its noise, and the difference of two reports then reveals the difference of the records. So
several streams of reports of one record are drawn: in successive calls, in two threads at once, and in
parent and child after a fork. Processes are forked by Python, and by the C library, whose children do
not run Python's fork hooks. Each stream draws some reports in one call and some one by one, which is
another code path. A child writes its reports to a file. If it does not end, as may happen when a process
with threads forks, it is killed, and its stream is left out.
"""

import contextlib
import ctypes
import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from privot.audit.statistics import (
    Array,
    Stream,
    agreement,
    bonferroni,
    dependence,
    most_common,
    repeats,
    serial_dependence,
    uniformity,
)
from privot.audit.trials import Indices, Mask, PartReports, Trial
from privot.randomizer.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import REPORT_ID, ReportTable, sorted_by_id

_MIN_DRAWS, _MAX_DRAWS = 1_000, 200_000  # default number of reports of each record
# The limits below bound the time and memory of an audit of any schema.
_MAX_SAMPLE_NUMBERS = 2**22  # numbers in all reports of a sample
_MAX_STREAM_ROWS, _MAX_STREAM_NUMBERS = 2**11, 2**15  # rows and numbers of a stream's one call
_NUM_SINGLES = 64  # reports of each stream that are drawn one by one
_COMPARED_ROWS, _COMPARED_NUMBERS = 2**17, 256  # of a part, in tests of independence
_CHILD_SECONDS = 30.0  # time limit of a child process

Draw = Callable[[], pa.Table]


@dataclass(frozen=True)
class LawTest:
    """One test of the hypothesis `question`, rejected if the p-value is at most `level`."""

    question: str
    p_value: float
    level: float
    finding: str = ""

    @property
    def refuted(self) -> bool:
        """True if the p-value is at most the level."""
        return self.p_value <= self.level


@dataclass(frozen=True)
class Sample:
    """Reports of n invented people, whose record of each part has the given index (n,)."""

    indices: Mapping[str, Indices]
    table: pa.Table


def draw_sample(
    randomizer: Randomizer, parts: Sequence[Trial], num_draws: int | None, rng: np.random.Generator
) -> Sample:
    """Draw at least `num_draws` reports of every record of every part, in random order, in one call."""
    most = max(part.num_records for part in parts)
    if num_draws is None:
        cost = _report_cost(randomizer, parts, rng)
        num_draws = max(_MIN_DRAWS, min(_MAX_DRAWS, _MAX_SAMPLE_NUMBERS // (cost * most)))
    return _draw_balanced(randomizer, parts, most * num_draws, rng)


def run_law_tests(
    randomizer: Randomizer,
    parts: Sequence[Trial],
    sample: Sample,
    error: float,
    rng: np.random.Generator,
) -> tuple[LawTest, ...]:
    """Return all tests, of which any rejects a true hypothesis with probability at most `error`."""
    reads = {part.name: part.read(sample.table, sample.indices[part.name], rng) for part in parts}
    few = {name: indices[:100] for name, indices in sample.indices.items()}  # for the order of ids
    p_values = [
        *_test_support(randomizer, reads, _people(parts, few, rng)),
        *_test_distributions(parts, sample, reads, rng),
        *_test_frequencies(parts, sample, reads),
        *_test_independence(reads, rng),
        *_test_streams(randomizer, parts, rng),
    ]
    return tuple(LawTest(question, p, error / len(p_values)) for question, p in p_values)


def _draw_balanced(
    randomizer: Randomizer, parts: Sequence[Trial], rows: int, rng: np.random.Generator
) -> Sample:
    """Draw reports of `rows` invented people, with equally frequent records of every part."""
    indices = {part.name: rng.permutation(np.arange(rows) % part.num_records) for part in parts}
    return Sample(indices, _reports(randomizer, _people(parts, indices, rng)))


def _people(
    parts: Sequence[Trial], indices: Mapping[str, Indices], rng: np.random.Generator
) -> pa.Table:
    """Return the raw table of people whose records of all parts have these indices."""
    columns: dict[str, pa.Array] = {}
    for part in parts:
        columns |= part.raw(indices[part.name], rng)
    return pa.table(columns)


def _reports(randomizer: Randomizer, people: pa.Table) -> pa.Table:
    """Return reports as devices send them; raise PrivotError if one is impossible."""
    reports = randomizer.reports_in_order(people)
    Release(ReportTable.of(sorted_by_id(reports)), randomizer).require_possible()
    return reports


def _report_cost(randomizer: Randomizer, parts: Sequence[Trial], rng: np.random.Generator) -> int:
    """Return the cost of one report: the 64-bit numbers stored or tested, plus the parts' `work`."""
    rows = 16
    sample = _draw_balanced(randomizer, parts, rows, rng)
    tested = sum(part.read(sample.table, sample.indices[part.name], rng).low.size for part in parts)
    return int(max(tested, sample.table.nbytes // 8) // rows) + sum(part.work for part in parts)


def _test_support(
    randomizer: Randomizer, reads: Mapping[str, PartReports], people: pa.Table
) -> Iterator[tuple[str, float]]:
    """Test facts that are certain for an honest randomizer, with p-values 0 or 1."""
    for name, read in reads.items():
        yield f"{name}: every report is a possible one", 0.0 if read.impossible else 1.0
    ids = randomizer.privatize(people).table.column(REPORT_ID).to_pylist()
    yield "rows come in the order of random ids", 1.0 if ids == sorted(ids) else 0.0


def _test_distributions(
    parts: Sequence[Trial],
    sample: Sample,
    reads: Mapping[str, PartReports],
    rng: np.random.Generator,
) -> Iterator[tuple[str, float]]:
    """Test the distribution of every part, over all records, and given each record of every part."""
    for part in parts:
        read = reads[part.name]
        numbers = read.uniforms(rng)
        reported = numbers[read.present]
        p_values = [uniformity(reported), uniformity(reported.reshape(-1, 1))]
        for indices in sample.indices.values():
            for record in range(int(indices.max()) + 1):
                p_values.append(uniformity(numbers[read.present & (indices == record)]))
        yield f"{part.name}: reports have the distribution of {part.kind}", bonferroni(p_values)


def _test_frequencies(
    parts: Sequence[Trial], sample: Sample, reads: Mapping[str, PartReports]
) -> Iterator[tuple[str, float]]:
    """Test whether noisy reports of one record are equal more often than by chance."""
    for part in parts:
        if part.noisy:
            read, indices = reads[part.name], sample.indices[part.name]
            p_values = []
            for record in range(part.num_records):
                rows = read.present & (indices == record)
                p_values.append(most_common(Stream(read.keys[rows], read.bits[rows])))
            yield f"{part.name}: no report is more frequent than by chance", bonferroni(p_values)


def _test_independence(
    reads: Mapping[str, PartReports], rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Test the independence of coordinates, of people, and of parts."""
    numbers, present, owners = _uniform_columns(reads, rng)
    for name in reads:
        columns = owners == name
        p = dependence(numbers[:, columns], present[:, columns])
        yield f"{name}: coordinates are independent", p
        p = serial_dependence(numbers[:_COMPARED_ROWS, columns], present[:_COMPARED_ROWS, columns])
        yield f"{name}: people are independent", p
    if len(reads) > 1:
        yield "columns are independent of each other", dependence(numbers, present)


def _uniform_columns(
    reads: Mapping[str, PartReports], rng: np.random.Generator
) -> tuple[Array, Mask, np.ndarray]:
    """Return uniform numbers (n, m), at most 256 of a part, their mask, and their parts' names (m,)."""
    numbers, present, owners = [], [], []
    for name, read in reads.items():
        uniforms = read.uniforms(rng)
        width = uniforms.shape[1]
        if width > _COMPARED_NUMBERS:
            uniforms = uniforms[:, np.sort(rng.choice(width, _COMPARED_NUMBERS, replace=False))]
        numbers.append(uniforms)
        present.append(np.broadcast_to(read.present[:, None], uniforms.shape))
        owners += [name] * uniforms.shape[1]
    return np.hstack(numbers), np.hstack(present), np.array(owners)


def _test_streams(
    randomizer: Randomizer, parts: Sequence[Trial], rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Test the distribution of reports drawn one by one, and that streams have no noise in common.

    A stream has reports of every part's record 0: `size` drawn in one call, then 64 drawn one by one.
    """
    cost = _report_cost(randomizer, parts, rng)
    size = max(32, min(_MAX_STREAM_ROWS, _MAX_STREAM_NUMBERS // cost))
    people = _people(parts, {part.name: np.zeros(size, np.int64) for part in parts}, rng)

    def draw() -> pa.Table:
        one_by_one = [_reports(randomizer, people.slice(i, 1)) for i in range(_NUM_SINGLES)]
        return pa.concat_tables([_reports(randomizer, people), *one_by_one]).combine_chunks()

    streams = draw_streams(draw)
    records = np.zeros(size + _NUM_SINGLES, np.int64)
    for part in parts:
        reads = [part.read(table, records, rng) for table in streams.values()]
        numbers = [read.uniforms(rng) for read in reads]
        ways = {"one by one": slice(size, None), "of one record only": slice(size)}
        for way, rows in ways.items():
            pairs = zip(numbers, reads, strict=True)
            drawn = [uniforms[rows][read.present[rows]] for uniforms, read in pairs]
            question = f"{part.name}: reports made {way} have this distribution, too"
            yield question, uniformity(np.concatenate(drawn))
        p_values = [_test_agreement(reads, numbers)]
        repeated = repeats([piece for read in reads for piece in _pieces(read, size)])
        if repeated is not None:
            p_values.append(repeated)
        yield f"{part.name}: no noise repeats between {', '.join(streams)}", bonferroni(p_values)


def _test_agreement(reads: Sequence[PartReports], numbers: Sequence[Array]) -> float:
    """Return the p-value of the hypothesis that any two streams are independent, row by row."""
    p_values = []
    for i, j in combinations(range(len(reads)), 2):
        rows = (reads[i].present & reads[j].present)[:, None]
        present = np.broadcast_to(rows, numbers[i].shape)
        p_values.append(agreement(numbers[i], numbers[j], present))
    return bonferroni(p_values)


def _pieces(read: PartReports, size: int) -> Iterator[Stream]:
    """Yield the two halves of the reports drawn in one call, and the reports drawn one by one."""
    half = size // 2
    for rows in (slice(0, half), slice(half, size), slice(size, None)):
        yield Stream(read.keys[rows], read.bits[rows])


def draw_streams(draw: Draw) -> dict[str, pa.Table]:
    """Call `draw` in this thread, in two threads and in child processes; return the tables by name."""
    streams = {"first call": draw(), "second call": draw()} | _draw_in_threads(draw)
    for name, fork in _forks().items():
        child = _draw_in_child(draw, fork)
        if child is not None:
            streams[f"child of {name}"] = child
            streams[f"parent after {name}"] = draw()
    return streams


def _draw_in_threads(draw: Draw) -> dict[str, pa.Table]:
    """Return the reports that two threads draw at the same time, by the name of the thread."""
    barrier = threading.Barrier(2)

    def work() -> pa.Table:
        barrier.wait()
        return draw()

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(work) for _ in range(2)]
    return {f"thread {i}": future.result() for i, future in enumerate(futures, start=1)}


def _forks() -> dict[str, Callable[[], int]]:
    """Return this system's functions that fork, by name."""
    if not hasattr(os, "fork"):
        return {}
    forks = {"os.fork": os.fork}
    with contextlib.suppress(AttributeError, OSError, TypeError):
        # PyDLL holds the interpreter's lock during the call, as an embedding program does.
        forks["a fork in C"] = ctypes.PyDLL(None).fork
    return forks


def _draw_in_child(draw: Draw, fork: Callable[[], int]) -> pa.Table | None:
    """Return the reports that a child process draws; None if it fails or exceeds the time limit."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reports"
        with warnings.catch_warnings():
            # Python warns of forks in a process with threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = fork()
        if child == 0:
            exit_code = 1
            try:
                reports = draw()
                sink = pa.OSFile(str(file), "wb")
                with sink, pa.ipc.new_stream(sink, reports.schema) as out:
                    out.write_table(reports)
                exit_code = 0
            finally:
                os._exit(exit_code)
        deadline = time.monotonic() + _CHILD_SECONDS
        finished, status = 0, 0
        while not finished:
            time.sleep(0.01)
            finished, status = os.waitpid(child, os.WNOHANG)
            if not finished and time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                finished, status = os.waitpid(child, 0)
        return None if status else pa.ipc.open_stream(file.read_bytes()).read_all()
