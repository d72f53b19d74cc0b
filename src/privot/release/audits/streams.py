r"""Streams: reports of one record from calls, threads and processes, which must share no noise.

A generator that is seeded, shared without a lock, or copied into a child process, repeats its noise, and
the difference of two people's reports is then that of their records. Every stream is of the same record,
some reports in one call and some one by one (single reports take another path): calls in this thread, in
two threads at once, and in this process and its children after a fork, by Python and by the C library
(where a system has it), whose children know nothing of Python's hooks.

A child draws reports, leaves them in a file, and ends without a word; if it does not end, as may happen
where a process with threads forks, it is ended, and the stream is missing.
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

Draw = Callable[[], pa.Table]

_PATIENCE = 30.0  # seconds


def draw_streams(draw: Draw) -> dict[str, pa.Table]:
    """The tables of reports that `draw` makes here, in threads and in children, by name."""
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
    """Ways to fork that this system has."""
    if not hasattr(os, "fork"):
        return {}
    forks = {"os.fork": os.fork}
    with contextlib.suppress(AttributeError, OSError, TypeError):
        # PyDLL keeps the interpreter's lock, as a host does.
        forks["a fork in C"] = ctypes.PyDLL(None).fork
    return forks


def _child(draw: Draw, fork: Callable[[], int]) -> pa.Table | None:
    """What a child draws; None if it fails, or does not end in time."""
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
