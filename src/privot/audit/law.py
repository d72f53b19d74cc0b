"""Tests that reports have the distribution of their mechanisms, on one large sample and on streams.

`privot.audit.audit` lists what is tested, `privot.audit.statistics` has the tests and their errors.

**Streams.** A generator that is seeded, shared without a lock, or copied into a child process, repeats
its noise, and the difference of two people's reports is then that of their records. Every stream is of
the same record, some reports in one call and some one by one (single reports take another path): calls
in this thread, in two threads at once, and in this process and its children after a fork, by Python and
by the C library (where a system has it), whose children run none of Python's hooks. A child draws
reports, leaves them in a file, and ends without output; if it does not end, as may happen where a
process with threads forks, it is killed, and the stream is missing.
"""

from __future__ import annotations

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
    dependence,
    fit,
    most_common,
    neighbors,
    repeats,
)
from privot.audit.trials import Indices, Mask, Read, Trial
from privot.randomizer.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import REPORT_ID, ReportTable

Draw = Callable[[], pa.Table]

_PATIENCE = 30.0  # seconds


def draw_streams(draw: Draw) -> dict[str, pa.Table]:
    """Return the tables of reports that `draw` makes here, in threads and in children, by name."""
    streams = {"first call": draw(), "second call": draw()} | _threads(draw)
    for name, fork in _forks().items():
        child = _child(draw, fork)
        if child is not None:
            streams[f"child of {name}"] = child
            streams[f"parent after {name}"] = draw()
    return streams


def _threads(draw: Draw) -> dict[str, pa.Table]:
    barrier = threading.Barrier(2)

    def work() -> pa.Table:
        barrier.wait()
        return draw()

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(work) for _ in range(2)]
    return {f"thread {i}": drawn.result() for i, drawn in enumerate(both, start=1)}


def _forks() -> dict[str, Callable[[], int]]:
    """Return the ways to fork that this system has."""
    if not hasattr(os, "fork"):
        return {}
    forks = {"os.fork": os.fork}
    with contextlib.suppress(AttributeError, OSError, TypeError):
        # PyDLL keeps the interpreter's lock, as a host does.
        forks["a fork in C"] = ctypes.PyDLL(None).fork
    return forks


def _child(draw: Draw, fork: Callable[[], int]) -> pa.Table | None:
    """Return the reports that a child draws; None if it fails, or does not end in time."""
    with tempfile.TemporaryDirectory() as folder:
        left = Path(folder) / "reports"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            child = fork()
        if child == 0:
            failed = 1
            try:
                drawn = draw()
                with (
                    pa.OSFile(str(left), "wb") as sink,
                    pa.ipc.new_stream(sink, drawn.schema) as out,
                ):
                    out.write_table(drawn)
                failed = 0
            finally:
                os._exit(failed)
        deadline = time.monotonic() + _PATIENCE
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                ended = os.waitpid(child, 0)
                break
            time.sleep(0.01)
        return None if ended[1] else pa.ipc.open_stream(left.read_bytes()).read_all()


_MAX_DRAWS, _MIN_DRAWS = 200_000, 1_000
_VALUES = 2**22  # numbers in all reports of a sample
_STREAM_VALUES, _STREAM_ROWS = 2**15, 2**11
_SINGLES = 64  # of a stream
_COMPARED_ROWS, _COMPARED_NUMBERS = 2**17, 256


@dataclass(frozen=True)
class LawTest:
    """One test: its hypothesis, p-value, and the `level` below which it refutes."""

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
    """Reports of invented people: the index (n,) of each one's record, by part, and their table."""

    who: Mapping[str, Indices]
    table: pa.Table


def draw_sample(
    randomizer: Randomizer, parts: Sequence[Trial], num_draws: int | None, rng: np.random.Generator
) -> Sample:
    """Draw `num_draws` reports of every record of every part, in random order, in one call."""
    most = max(part.num_records for part in parts)
    if num_draws is None:
        width = _report_width(randomizer, parts, rng)
        num_draws = max(_MIN_DRAWS, min(_MAX_DRAWS, _VALUES // (width * most)))
    return _privatized(randomizer, parts, most * num_draws, rng)


def test_law(
    randomizer: Randomizer,
    parts: Sequence[Trial],
    sample: Sample,
    error: float,
    rng: np.random.Generator,
) -> tuple[LawTest, ...]:
    """Run all tests; the probability that any of them errs is at most `error`."""
    reads = {part.name: part.read(sample.table, sample.who[part.name], rng) for part in parts}
    few = {name: own[:100] for name, own in sample.who.items()}
    found = [
        *_support(randomizer, reads, _people(parts, few, rng)),
        *_fits(parts, sample, reads, rng),
        *_frequencies(parts, sample, reads),
        *_independence(reads, rng),
        *_stream_tests(randomizer, parts, rng),
    ]
    level = error / len(found)
    return tuple(LawTest(question, p, level) for question, p in found)


def _privatized(
    randomizer: Randomizer, parts: Sequence[Trial], rows: int, rng: np.random.Generator
) -> Sample:
    """Draw reports of people among whom the records of every part are equally frequent."""
    who = {part.name: rng.permutation(np.arange(rows) % part.num_records) for part in parts}
    return Sample(who, _reports(randomizer, _people(parts, who, rng)))


def _people(
    parts: Sequence[Trial], who: Mapping[str, Indices], rng: np.random.Generator
) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for part in parts:
        columns |= part.raw(who[part.name], rng)
    return pa.table(columns)


def _reports(randomizer: Randomizer, people: pa.Table) -> pa.Table:
    """Return reports as devices send them; refused if one is impossible."""
    release = Release(ReportTable.of(randomizer.reports_in_order(people)), randomizer)
    release.require_possible()
    return release.table


def _report_width(randomizer: Randomizer, parts: Sequence[Trial], rng: np.random.Generator) -> int:
    """Count the numbers of one report, in the table or among those tested."""
    sample = _privatized(randomizer, parts, 16, rng)
    tested = (part.read(sample.table, sample.who[part.name], rng).low.size for part in parts)
    numbers = int(max(sum(tested), sample.table.nbytes // 8) // 16)
    return numbers + sum(part.work for part in parts)


def _support(
    randomizer: Randomizer, reads: Mapping[str, Read], people: pa.Table
) -> Iterator[tuple[str, float]]:
    """Check deterministic facts: one that is false refutes."""
    for name, read in reads.items():
        yield f"{name}: every report is a possible one", 0.0 if read.impossible else 1.0
    ids = randomizer.privatize(people).table.column(REPORT_ID).to_pylist()
    yield "rows come in the order of random ids", 1.0 if ids == sorted(ids) else 0.0


def _fits(
    parts: Sequence[Trial], sample: Sample, reads: Mapping[str, Read], rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Test every part's distribution: over all records, and given each record of every part."""
    for part in parts:
        read = reads[part.name]
        numbers = read.uniforms(rng)
        found = [fit(numbers[read.present]), fit(numbers[read.present].reshape(-1, 1))]
        for who in sample.who.values():
            for record in range(int(who.max()) + 1):
                found.append(fit(numbers[read.present & (who == record)]))
        yield f"{part.name}: reports have the law of {part.kind}", _smallest(found)


def _frequencies(
    parts: Sequence[Trial], sample: Sample, reads: Mapping[str, Read]
) -> Iterator[tuple[str, float]]:
    """Test whether reports of one record agree to the last digit more often than by chance."""
    for part in parts:
        if part.noisy:
            read, who = reads[part.name], sample.who[part.name]
            rows = [read.present & (who == record) for record in range(part.num_records)]
            found = [most_common(Stream(read.keys[own], read.bits[own])) for own in rows]
            yield f"{part.name}: no report comes more often than its law allows", _smallest(found)


def _independence(
    reads: Mapping[str, Read], rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Test the independence of coordinates, of people, and of parts."""
    numbers, present, owners = _compared(reads, rng)
    for name in reads:
        own = owners == name
        p = dependence(numbers[:, own], present[:, own])
        yield f"{name}: coordinates are independent", p
        p = neighbors(numbers[:_COMPARED_ROWS, own], present[:_COMPARED_ROWS, own])
        yield f"{name}: people are independent", p
    if len(reads) > 1:
        yield "columns are independent of each other", dependence(numbers, present)


def _compared(
    reads: Mapping[str, Read], rng: np.random.Generator
) -> tuple[Array, Mask, np.ndarray]:
    """Return uniform numbers (n, m), at most 256 a part, who reported them, and the part of each."""
    numbers, present, owners = [], [], []
    for name, read in reads.items():
        own = read.uniforms(rng)
        width = own.shape[1]
        if width > _COMPARED_NUMBERS:
            own = own[:, np.sort(rng.choice(width, _COMPARED_NUMBERS, replace=False))]
        numbers.append(own)
        present.append(np.broadcast_to(read.present[:, None], own.shape))
        owners += [name] * own.shape[1]
    return np.hstack(numbers), np.hstack(present), np.array(owners)


def _stream_tests(
    randomizer: Randomizer, parts: Sequence[Trial], rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Test for repeats between streams, and the distribution of reports made one by one."""
    width = _report_width(randomizer, parts, rng)
    size = max(32, min(_STREAM_ROWS, _STREAM_VALUES // width))
    who = {part.name: np.zeros(size, np.int64) for part in parts}
    people = _people(parts, who, rng)

    def draw() -> pa.Table:
        one_by_one = [_reports(randomizer, people.slice(i, 1)) for i in range(_SINGLES)]
        return pa.concat_tables([_reports(randomizer, people), *one_by_one]).combine_chunks()

    streams = draw_streams(draw)
    for part in parts:
        own = np.zeros(size + _SINGLES, np.int64)
        reads = [part.read(table, own, rng) for table in streams.values()]
        numbers = [read.uniforms(rng) for read in reads]
        ways = {"one by one": slice(size, None), "of one record only": slice(size)}
        for made, part_of in ways.items():
            drawn = [u[part_of][r.present[part_of]] for u, r in zip(numbers, reads, strict=True)]
            yield f"{part.name}: reports made {made} have the law, too", fit(np.concatenate(drawn))
        agree = []
        for i, j in combinations(range(len(reads)), 2):
            both = (reads[i].present & reads[j].present)[:, None]
            shown = np.broadcast_to(both, numbers[i].shape)
            agree.append(agreement(numbers[i], numbers[j], shown))
        cut = [piece for read in reads for piece in _pieces(read, size)]
        again = [p for p in (repeats(cut),) if p is not None]
        question = f"{part.name}: no noise repeats between {', '.join(streams)}"
        yield question, _smallest([_smallest(agree), *again])


def _pieces(read: Read, size: int) -> Iterator[Stream]:
    """Yield two halves of the reports drawn in one call, and those drawn one by one."""
    half = size // 2
    for rows in (slice(0, half), slice(half, size), slice(size, None)):
        yield Stream(read.keys[rows], read.bits[rows])


def _smallest(p_values: Sequence[float]) -> float:
    return float(min(1.0, len(p_values) * min(p_values))) if p_values else 1.0
