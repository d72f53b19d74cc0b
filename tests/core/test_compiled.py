"""Loops are compiled at their first call, call each other, and say what is missing without Numba."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from privot.core import compiled as module
from privot.core.compiled import Loop, compiled, compiled_part
from privot.core.errors import PrivotError


@compiled_part
def _square(x):
    return x * x


@compiled
def _sum_of_squares(x):
    total = 0.0
    for i in range(len(x)):
        total += _square(x[i])
    return total


def test_loops_call_loops_and_take_their_own_place():
    before = _sum_of_squares
    assert before(np.arange(4.0)) == 14.0
    assert not isinstance(_sum_of_squares, Loop)
    assert _sum_of_squares(np.arange(3.0)) == before(np.arange(3.0)) == 5.0


def test_many_threads_may_call_first():
    @compiled
    def total(x):
        return x.sum()

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(total, [np.full(3, k, float) for k in range(32)])] == [
            3.0 * k for k in range(32)
        ]


def test_importing_a_module_with_loops_imports_no_numba():
    heavy = ("numba", "torch", "scipy.stats")
    code = f"import sys, privot.local; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_numba_a_loop_says_what_to_install(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(module.importlib, "import_module", missing)

    @compiled
    def loop(x):
        return x

    with pytest.raises(PrivotError, match=r"loop needs numba.*pip install 'privot\[learn\]'"):
        loop(1)
