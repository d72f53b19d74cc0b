r"""Streams: reports of one record from calls, threads and processes, which must share no noise.

A generator that is seeded, shared without a lock, or copied into a child process, repeats its noise, and
the difference of two people's reports is then that of their records. Every stream is of the same record,
some reports in one call and some one by one (single reports take another path): calls in this thread, in
two threads at once, and in this process and its children after a fork, by Python and by the C library
(where a system has it), whose children know nothing of Python's hooks.

A child draws reports, sends them back, and ends without a word; if it does not answer, as may happen
where a process with threads forks, it is ended, and the stream is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import threading
import warnings
from collections.abc import Callable

import pyarrow as pa

Draw = Callable[[], pa.Table]

_PATIENCE = 30.0  # seconds


def draw_streams(draw: Draw) -> dict[str, pa.Table]:
    """The tables of reports that `draw` makes here, in threads and in children, by name."""
    streams = {"first call": draw(), "second call": draw()}
    streams |= _threads(draw)
    for name, fork in _forks().items():
        child = _child(draw, fork)
        if child is not None:
            streams[f"child of {name}"] = child
            streams[f"parent after {name}"] = draw()
    return streams


def _threads(draw: Draw) -> dict[str, pa.Table]:
    drawn: dict[str, pa.Table] = {}
    barrier = threading.Barrier(2)

    def work(name: str) -> None:
        barrier.wait()
        drawn[name] = draw()

    threads = [threading.Thread(target=work, args=(f"thread {i}",)) for i in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(sorted(drawn.items()))


def _forks() -> dict[str, Callable[[], int]]:
    """Ways to fork that this system has."""
    if not hasattr(os, "fork"):
        return {}
    forks = {"os.fork": os.fork}
    with contextlib.suppress(AttributeError, OSError, TypeError):
        # PyDLL keeps the interpreter's lock, as a host does.
        forks["a fork in C"] = ctypes.PyDLL(None).fork
    return forks


def _child(draw: Draw, fork: Callable[[], int]) -> pa.Table | None:
    """What a child draws; None if it fails, or does not answer in time."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = fork()
    if child == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(_to_bytes(draw()))
        finally:
            os._exit(0)
    os.close(writer)
    received = _received(reader)
    if received is None:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None if not received else pa.ipc.open_stream(received).read_all()


def _received(reader: int) -> bytes | None:
    parts: list[bytes] = []
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], _PATIENCE)[0]:
            part = pipe.read(2**16)
            if not part:
                return b"".join(parts)
            parts.append(part)
    return None


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())
