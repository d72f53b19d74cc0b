"""Which of several processes this one is, where torchrun started them, and how many threads it has."""

from __future__ import annotations

import os


def started_by_torchrun() -> bool:
    """Whether this process is one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return int(os.environ.get("RANK", "0")) == 0


def num_threads() -> int:
    """Threads for compiled loops: `OMP_NUM_THREADS` where it is set, or the processor's cores.

    torchrun sets it to 1.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given):
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
