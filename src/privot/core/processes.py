"""The current process: objects that it alone may use, its rank and threads, and deferred signals.

**Objects of one process** are a buffer of random bytes and a ledger with reserved uses: a forked copy
would use the same bytes, or spend the same budget, again. Python's fork hooks run after `os.fork` only,
not when a library forks in C. So an object checks before each use that it is in its own process: by
a page of memory that the kernel clears in every child (Linux 4.14), elsewhere by the process id.
The id is slower and less reliable: processes of different namespaces may share one. A copy of the
whole machine is not detected: a virtual machine must not be resumed twice from one snapshot.

**Signals** that would stop a step halfway are held back to its end (`deferred_interruption`).

References:
    BoringSSL, `fork_detect.c`, for the cleared page and the test for emulators that ignore the advice.
"""

import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")

_MADV_WIPEONFORK, _INVALID_ADVICE = 18, -1  # Python has no name for the first


class OwnProcess:
    """Base class of objects that only the process that made them may use."""

    def __init__(self) -> None:
        page = _cleared_in_children()
        self._mark: mmap.mmap | bytearray = bytearray(1) if page is None else page
        self._compare_ids = page is None
        self.claim()

    def claim(self) -> None:
        """Make the current process the owner."""
        self._process = os.getpid()
        self._mark[0] = 1

    @property
    def is_copy(self) -> bool:
        """Whether the current process is a forked child of the owner."""
        return not self._mark[0] or (self._compare_ids and self._process != os.getpid())


def _cleared_in_children() -> mmap.mmap | None:
    """Return memory that a fork sets to 0 in the child, or None where the kernel has no such memory."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_MADV_WIPEONFORK)
    except (AttributeError, OSError, ValueError):
        return None
    try:
        page.madvise(_INVALID_ADVICE)
    except OSError:
        return page
    return None  # an emulator that accepts any advice and ignores it


def started_by_torchrun() -> bool:
    """Return True if torchrun started this process and others."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Return True in the process of rank 0, which writes the files."""
    return int(os.environ.get("RANK", "0")) == 0


def num_threads() -> int:
    """Return the number of threads for compiled loops: `OMP_NUM_THREADS`, or the number of cores."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given):
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_threads(
    function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[Result]:
    """Map a function over tuples of arguments in threads; compiled loops release Python's lock."""
    calls = list(arguments)
    workers = min(num_threads(), len(calls))
    if workers < 2:
        yield from (function(*call) for call in calls)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda call: function(*call), calls)


class Interruption:
    """State of a deferred interruption: `requested` is True once a signal has arrived."""

    requested = False


@contextmanager
def deferred_interruption() -> Iterator[Interruption]:
    """Record the first SIGINT or SIGTERM in the block instead of raising; a second one acts as usual.

    The caller finishes its step before it stops, because half a step cannot be resumed.

    >>> with deferred_interruption() as interruption:
    ...     interruption.requested
    False
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # Python handles signals in the main thread only
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def record(number: int, frame: FrameType | None) -> None:
        interruption.requested = True
        signal.signal(number, previous[signal.Signals(number)])

    for number in previous:
        signal.signal(number, record)
    try:
        yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
