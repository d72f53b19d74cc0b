"""The mean of unit vectors from reports of candidates, beside PrivUnit, and what bias is left.

    python -m studies vectors.unit_means means --epsilons 1 4 10 --seeds 0 1 2 -o means.json
    python -m studies vectors.unit_means gains -o gains.json

`means`: people around one direction; the root of the mean square error of all coordinates, of both in
one process on the same people, and what theory says. `gains`: how far the reported candidate really
leans to the record, over the gain that estimates are divided by, for records of many numbers and of
few. One less than that is the bias of every mean, as a share of it. Privacy's own noise has no seed, so
that numbers repeat up to its randomness only.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privot.mechanisms.candidates.codebook import ClosestCandidates
from studies.common.rows import gather
from studies.rivals.priv_unit import PrivUnit

_AT_ONCE = 500


def compare_means(
    dimension: int, epsilon: float, people: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Rows of both methods on the same people."""
    rng = np.random.default_rng(seed)
    center = rng.standard_normal(dimension) / math.sqrt(dimension)
    x = center + rng.standard_normal((people, dimension)) / math.sqrt(dimension)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    truth = x.mean(axis=0)
    about = {"seed": seed, "dimension": dimension, "epsilon": epsilon, "people": people}

    mechanism = ClosestCandidates.for_dimension(dimension, epsilon)
    started = time.perf_counter()
    mean, expected = mechanism.estimate_mean(*mechanism.privatize(x))
    yield about | _row("candidates", mean[:dimension], truth, expected, started)

    rival = PrivUnit(dimension, epsilon)
    started = time.perf_counter()
    total = np.zeros(dimension)
    for start in range(0, people, _AT_ONCE):
        total += rival.privatize(x[start : start + _AT_ONCE], rng).sum(axis=0)
    expected = rival.stddev / math.sqrt(people)
    yield about | _row("PrivUnit", total / people, truth, expected, started)


def _row(
    method: str, mean: np.ndarray, truth: np.ndarray, expected: float, started: float
) -> dict[str, Any]:
    seconds = time.perf_counter() - started
    error = math.sqrt(float(((mean - truth) ** 2).mean()))
    slope = float(mean @ truth / (truth @ truth))
    return {
        "method": method,
        "error": round(error, 6),
        "expected": round(expected, 6),
        "slope": round(slope, 4),
        "seconds": round(seconds, 1),
    }


def measure_gains(
    dimension: int, epsilon: float, draws: int, seed: int
) -> Iterator[dict[str, Any]]:
    """The lean of reports over the gain, for records of one, two, sixteen and all numbers."""
    mechanism = ClosestCandidates.for_dimension(dimension, epsilon)
    size, close = mechanism.codebook.dimension, mechanism.closest
    inside, outside = mechanism.probabilities
    rng = np.random.default_rng(seed)
    for kind, numbers in {"one": 1, "two": 2, "sixteen": 16, "all": dimension}.items():
        means = []
        for _ in range(max(1, draws // _AT_ONCE)):
            x = np.zeros((_AT_ONCE, size), np.float32)
            x[:, :numbers] = 1.0 if numbers < dimension else rng.standard_normal(numbers)
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            seeds = rng.integers(0, 2**64, _AT_ONCE, dtype=np.uint64)
            for start in range(0, _AT_ONCE, 10):
                rows = slice(start, start + 10)
                scores = mechanism.codebook.products(seeds[rows], x[rows])
                top = np.partition(scores, -close, axis=1)[:, -close:]
                means += top.sum(axis=1, dtype=np.float64).tolist()
        lean = np.array(means) * (inside - outside) * math.sqrt(size)
        yield {
            "seed": seed,
            "dimension": dimension,
            "epsilon": epsilon,
            "candidates": mechanism.codebook.num_candidates,
            "numbers": kind,
            "gain": round(mechanism.gain, 4),
            "ratio": round(float(lean.mean()) / mechanism.gain, 5),
            "error": round(float(lean.std()) / math.sqrt(len(lean)) / mechanism.gain, 5),
        }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("what", choices=["means", "gains"])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0, 10.0])
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--draws", type=int, default=20_000, help="codebooks, of `gains`")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """One setting after another."""
    gather(_measured(chosen), chosen.output)


def _measured(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for dimension in chosen.dimensions:
        for epsilon in chosen.epsilons:
            for seed in chosen.seeds:
                if chosen.what == "means":
                    yield from compare_means(dimension, epsilon, chosen.people, seed)
                else:
                    yield from measure_gains(dimension, epsilon, chosen.draws, seed)
