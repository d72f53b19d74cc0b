"""Threads for compiled loops on tensors, and the test whether a tensor can be passed to such loops."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch

_NUMBA = find_spec("numba") is not None


def runs_compiled(tensor: torch.Tensor) -> bool:
    """Return whether compiled loops can process a tensor: on the CPU, in single or double precision."""
    supported = tensor.dtype in (torch.float32, torch.float64)
    return _NUMBA and tensor.device.type == "cpu" and supported


def in_threads(task: Callable[[int], Any], count: int, parallel: bool = True) -> list[Any]:
    """Return results of task(0), …, task(count − 1), run on as many threads as torch uses."""
    workers = min(torch.get_num_threads(), count) if parallel else 1
    if workers <= 1:
        return [task(k) for k in range(count)]
    return list(_pool(workers, os.getpid()).map(task, range(count)))


@lru_cache(maxsize=1)
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Return a cached pool of threads: starting threads would take longer than a small step.

    `process` is part of the cache's key because a forked child inherits the pool without its threads.
    """
    return ThreadPoolExecutor(workers, thread_name_prefix="privot")
