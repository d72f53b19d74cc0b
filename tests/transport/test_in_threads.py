"""Threads of compiled loops, in forked children too."""

import os

import pytest
import torch

from privot.transport import ground
from privot.transport.ground import in_threads


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


def test_without_numba_no_tensor_runs_compiled(monkeypatch):
    assert ground.runs_compiled(torch.zeros(1))
    monkeypatch.setattr(ground, "_NUMBA", False)
    assert not ground.runs_compiled(torch.zeros(1))
