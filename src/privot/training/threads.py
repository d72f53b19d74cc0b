"""How many threads a step may use on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# A batch's cost matrix of up to this many entries is one thread's work.
_ONE_THREADS_WORK = 2**20


@contextmanager
def threads_for(num_entries: int) -> Iterator[None]:
    """Use one thread inside the block if steps handle matrices of few entries.

    Threads that meet after every small operation gain nothing, and on a machine whose cores are
    busy they wait for each other: ten to fifty times slower was measured. One thread also makes
    the numbers independent of the number of cores.
    """
    before = torch.get_num_threads()
    if num_entries <= _ONE_THREADS_WORK:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
