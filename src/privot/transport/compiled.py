"""Loops compiled by Numba, and threads for them.

Compiled code is cached on disk between processes, and runs without the interpreter's lock, so that
plain threads can share the work. Where Numba is missing, importing still works, and calling a
compiled loop says what to install.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial, wraps
from typing import Any

import torch

from privot.errors import PrivotError

try:
    import numba
except ImportError:
    numba = None


# Additions may be reordered, so that sums use vector registers; NaN and infinity keep their meaning.
_REORDERING = {"reassoc", "contract", "nsz", "arcp"}


def compiled(
    function: Callable[..., Any], *, reordering: bool = False, entered: bool = True
) -> Callable[..., Any]:
    """`function`, compiled at its first call for the types that it is given.

    With `reordering`, sums may be added up in any order, which is several times faster. What only
    compiled loops call is not `entered` from Python.
    """
    if numba is not None:
        # Division by zero gives infinity, as in NumPy: to raise would keep loops from vector registers,
        # and take as long to compile as the loop. So would entries that nobody calls.
        decorate = numba.njit(
            cache=True,
            nogil=True,
            fastmath=_REORDERING if reordering else False,
            error_model="numpy",
            no_cfunc_wrapper=True,
            no_cpython_wrapper=not entered,
        )
        return decorate(function)

    @wraps(function)
    def refuse(*args: object) -> None:
        raise PrivotError(
            f"{function.__name__} needs numba, which is not installed: pip install 'privot[learn]'"
        )

    return refuse


compiled_part = partial(compiled, entered=False)
compiled_reordering = partial(compiled, reordering=True)
compiled_reordering_part = partial(compiled, reordering=True, entered=False)


def runs_compiled(tensor: torch.Tensor) -> bool:
    """Whether compiled loops can work on a tensor: on the CPU, single or double, Numba present."""
    known = tensor.dtype in (torch.float32, torch.float64)
    return numba is not None and tensor.device.type == "cpu" and known


def in_threads(task: Callable[[int], Any], count: int, parallel: bool = True) -> list[Any]:
    """Results of task(0), …, task(count − 1), run on as many threads as torch is told to use."""
    workers = min(torch.get_num_threads(), count) if parallel else 1
    if workers <= 1:
        return [task(k) for k in range(count)]
    return list(_pool(workers, os.getpid()).map(task, range(count)))


@lru_cache(maxsize=1)
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Threads kept between calls: starting them would take longer than a small step.

    By process, since a forked child has the pool but not its threads.
    """
    return ThreadPoolExecutor(workers, thread_name_prefix="privot")
