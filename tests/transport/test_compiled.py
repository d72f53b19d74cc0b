"""Compiled loops and their threads: in forked children too, and told of where Numba is missing."""

import os

import pytest
import torch

from privot.errors import PrivotError
from privot.transport import compiled as module
from privot.transport.compiled import compiled, in_threads


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order(two_threads):
    assert in_threads(lambda k: k * k, 7) == [k * k for k in range(7)]
    assert in_threads(lambda k: k, 0) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(two_threads):
    assert in_threads(lambda k: k, 3) == [0, 1, 2]
    child = os.fork()
    if child == 0:
        os._exit(0 if in_threads(lambda k: k + 1, 3) == [1, 2, 3] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_numba_a_loop_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "numba", None)

    @compiled
    def loop(x):
        return x

    with pytest.raises(PrivotError, match=r"loop needs numba.*pip install 'privot\[learn\]'"):
        loop(1)
    assert not module.runs_compiled(torch.zeros(1))
