"""No noise is drawn in two processes, however the second one came to be.

Servers that embed Python fork in C, where none of Python's hooks run. If a child repeated its
parent's noise, the difference of two people's reports would be the difference of their records.

The forks are made by a process of its own, a fork of the server of `multiprocessing`: in one that has
threads (other tests' of Arrow, of PyTorch), a child can wait for ever for a lock that no thread of its
own holds.
"""

import ctypes
import itertools
import os

import numpy as np
import pytest
import torch

from forked_commands import call
from privot.central.slices import draw_directions
from privot.core import processes
from privot.mechanisms import Laplace, samplers
from privot.mechanisms.samplers import random_bits, random_word, random_words
from privot.randomizer import Randomizer
from privot.schema import Box, Schema

AGE = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
PLACE = Schema.from_toml("""
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 1]]
[columns.sex]
kind = "categorical"
categories = ["a", "b"]
""")
SPLIT = Randomizer.calibrate(AGE, 1.0, mechanism="laplace")
JOINT = Randomizer.calibrate(PLACE, 8.0, report="joint", mechanism="laplace")
WIDE = Laplace(2.0**20, 2.0**-18)  # noise that does not repeat by chance


def _single_numbers():
    return [float(WIDE.privatize(np.zeros(1))[0]) for _ in range(200)]


def _reports():
    release = SPLIT.privatize({"age": [50.0] * 300})
    return release.table["age"].to_pylist()


def _places():
    table = {"x": [0.5] * 300, "y": [0.5] * 300, "sex": ["a"] * 300}
    return JOINT.privatize(table).table["x"].to_pylist()


DRAWS = {
    "words": lambda: random_words(500).tolist(),
    "single words": lambda: [random_word() for _ in range(200)],
    "bits": lambda: [random_bits(64) for _ in range(400)],
    "single numbers": _single_numbers,
    "many numbers": lambda: WIDE.privatize(np.zeros((300, 1)))[:, 0].tolist(),
    "reports": _reports,
    "places": _places,
    "directions": lambda: draw_directions(40, 10).flatten().tolist(),
}
# Python's fork runs hooks in the child; that of the C library runs none.
PAGES = ("by the page", "by the number")
FORKS = {"os.fork": os.fork, "C fork": ctypes.PyDLL(None).fork}


def in_a_child(fork, draw):
    """What `draw` draws in this process and in its child, from the same state."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.write(writer, np.array(draw(), np.float64).tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    ours = np.array(draw(), np.float64)
    with os.fdopen(reader, "rb") as pipe:
        theirs = np.frombuffer(pipe.read())
    os.waitpid(child, 0)
    assert len(theirs) == len(ours)
    return ours, theirs


def draw_in_children():
    """What every case draws in a process and in its child, by the case's name."""
    found = {}
    torch.set_num_threads(1)
    cleared = processes._cleared_in_children
    for page, (fork, draw) in itertools.product(PAGES, itertools.product(FORKS, DRAWS)):
        processes._cleared_in_children = cleared if page == "by the page" else lambda: None
        samplers._thread_local = samplers._ThreadLocal()
        DRAWS[draw]()  # a key, and buffers of single numbers, are there before the fork
        found[f"{page}, {fork}, {draw}"] = in_a_child(FORKS[fork], DRAWS[draw])
    processes._cleared_in_children, os.getpid = cleared, lambda: 1
    if cleared() is not None:
        found["grandchild"] = in_a_child(FORKS["C fork"], DRAWS["single numbers"])
    return {name: (ours.tolist(), theirs.tolist()) for name, (ours, theirs) in found.items()}


@pytest.fixture(scope="module")
def drawn():
    return call(draw_in_children)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("fork", FORKS)
@pytest.mark.parametrize("draw", DRAWS)
def test_a_child_draws_afresh(draw, fork, page, drawn):
    ours, theirs = map(np.array, drawn[f"{page}, {fork}, {draw}"])
    # Reports of 300 people at 2^20 steps of noise agree in one place in a million.
    assert (ours == theirs).mean() < 0.05
    # Of 200 pairs or more, independent ones have a correlation of .5 once in 10^12 runs.
    assert abs(np.corrcoef(ours, theirs)[0, 1]) < 0.5


def test_a_grandchild_with_the_number_of_its_grandparent_draws_afresh(drawn):
    """In a namespace of its own a child may have any number, also its parent's."""
    if "grandchild" not in drawn:
        pytest.skip("this kernel clears no memory in children")
    ours, theirs = drawn["grandchild"]
    assert not set(ours) & set(theirs)


def test_an_emulator_that_agrees_to_everything_is_not_believed(monkeypatch):
    class Agreeable:
        PAGESIZE, MAP_PRIVATE, MAP_ANONYMOUS = 4096, 0, 0

        def mmap(self, *_, **__):
            return self

        def madvise(self, _):
            pass

    monkeypatch.setattr(processes, "mmap", Agreeable())
    assert processes._cleared_in_children() is None


def test_noise_in_a_box_is_still_that_of_the_mechanism():
    """A new key in the midst of a draw leaves the law alone."""
    mechanism = Laplace.calibrate(Box((0.0,), (1.0,)), 1.0)
    parts = []
    for _ in range(200):
        samplers._stream().rekey()
        parts.append(mechanism.privatize(np.zeros((100, 1))))
    noise = np.abs(np.concatenate(parts)) / mechanism.scale
    assert abs(noise.mean() - 1) < 6 / np.sqrt(noise.size)
