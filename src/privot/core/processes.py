"""Detection of forked copies of objects that only one process may use.

Such objects are a buffer of random bytes and a ledger with reserved uses: a copy in a child process
would use the same bytes, or spend the same budget, again. Python's fork hooks run after `os.fork` only,
not when a library forks in C. So an object checks before each use that it is in its own process: by
a page of memory that the kernel clears in every child (Linux 4.14), elsewhere by the process number.
The number is slower and less reliable: processes of different namespaces may share one. A copy of the
whole machine is not detected: a virtual machine must not be resumed twice from one snapshot.

References:
    BoringSSL, `fork_detect.c`, for the cleared page and the test for emulators that ignore the advice.
"""

from __future__ import annotations

import mmap
import os

_MADV_WIPEONFORK, _INVALID_ADVICE = 18, -1  # Python has no name for the first


class OwnProcess:
    """Base class of objects that only the process that made them may use."""

    def __init__(self) -> None:
        page = _cleared_in_children()
        self._mark: mmap.mmap | bytearray = bytearray(1) if page is None else page
        self._compare_numbers = page is None
        self.belong_here()

    def belong_here(self) -> None:
        """Make the current process the owner."""
        self._process = os.getpid()
        self._mark[0] = 1

    @property
    def is_copy(self) -> bool:
        """Whether the current process is a forked child of the owner."""
        return not self._mark[0] or (self._compare_numbers and self._process != os.getpid())


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
