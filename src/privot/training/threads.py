"""What a step of training may ask of the machine: threads, memory that it keeps, short numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
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
    keep_freed_memory()
    before = torch.get_num_threads()
    if num_entries <= _ONE_THREADS_WORK:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def short_products() -> Iterator[None]:
    """Let products of single precision use bfloat16 inside the block, where the processor has it.

    Twice as fast on such processors, and the same as before on others.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@cache
def keep_freed_memory() -> None:
    """Have this process keep arrays of a step's size, once they are freed, for the next step.

    Linux's allocator returns freed arrays above 128 KiB to the system, and fetches the next one page by
    page: up to a third of a small step's time. Freeing one large block, untouched, raises that limit to
    the block's size, for good (mallopt(3), M_MMAP_THRESHOLD; it adjusts itself up to 32 MiB).
    """
    block = np.empty(31 * 2**20, np.uint8)
    del block
