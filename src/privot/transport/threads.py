"""Threads for compiled loops on tensors, and which tensors they take."""

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
    """Return True if compiled loops take a tensor: on the CPU, single or double, with Numba."""
    known = tensor.dtype in (torch.float32, torch.float64)
    return _NUMBA and tensor.device.type == "cpu" and known


def in_threads(task: Callable[[int], Any], count: int, parallel: bool = True) -> list[Any]:
    """Return results of task(0), …, task(count − 1), run on as many threads as torch uses."""
    workers = min(torch.get_num_threads(), count) if parallel else 1
    if workers <= 1:
        return [task(k) for k in range(count)]
    return list(_pool(workers, os.getpid()).map(task, range(count)))


@lru_cache(maxsize=1)
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Return threads that stay between calls: starting them would take longer than a small step.

    By process, since a forked child has the pool but not its threads.
    """
    return ThreadPoolExecutor(workers, thread_name_prefix="privot")
