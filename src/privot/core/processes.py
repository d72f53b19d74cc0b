"""Objects that belong to the process that made them: noise drawn ahead, a budget in hand.

A child's copy of either would be used twice. Python's hooks run after `os.fork` only, not where a server
or a library forks in C. So the owner checks before each use that it runs in the process that
made the object: by a page of memory that the kernel clears in every child (Linux 4.14), elsewhere
by the process's number, which is not as good (each in a namespace of its own, two processes may have one
number) and slower. What no process can see is a copy of its whole machine: a virtual machine must not
be resumed from one snapshot twice.

References:
    BoringSSL, `fork_detect.c`, for the page and the test for an emulator.
"""

from __future__ import annotations

import mmap
import os

_MADV_WIPEONFORK, _NO_ADVICE = 18, -1  # Python has no name for the first


class OwnProcess:
    """Base class of objects that belong to one process."""

    def __init__(self) -> None:
        page = _cleared_in_children()
        self._mark: mmap.mmap | bytearray = bytearray(1) if page is None else page
        self._by_number = page is None
        self.belong_here()

    def belong_here(self) -> None:
        """Make this process the owner."""
        self._process = os.getpid()
        self._mark[0] = 1

    @property
    def is_copy(self) -> bool:
        """True in a child's copy of another process's object."""
        return not self._mark[0] or (self._by_number and self._process != os.getpid())


def _cleared_in_children() -> mmap.mmap | None:
    """Return memory that a fork sets to 0 in the child, or None where the kernel has no such memory."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_MADV_WIPEONFORK)
    except (AttributeError, OSError, ValueError):
        return None
    try:
        page.madvise(_NO_ADVICE)
    except OSError:
        return page
    return None  # an emulator that says yes to everything
