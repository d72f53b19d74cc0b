"""Microseconds of a candidates report on one core, and of reading one, by length of the vector and ε.

    OMP_NUM_THREADS=1 python privot_benchmarks/candidates.py

Reports are made 256 at a time, best of several repeats, with nothing but NumPy. `one by one` is a call
a record, as on a device.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from privot.mechanisms.candidates.codebook import ClosestCandidates

SETTINGS = ((2440, 10.0), (2440, 5.0), (2440, 2.0), (1000, 10.0), (1000, 1.0), (100, 4.0))
PEOPLE, ALONE = 256, 16


def best_seconds(action: Callable[[], object], repeats: int) -> float:
    """Least seconds of several calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Run all settings and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    print("| numbers | ε | candidates | a report, µs | one by one, µs | read, µs |")
    print("|---|---|---|---|---|---|")
    for numbers, epsilon in SETTINGS:
        mechanism = ClosestCandidates.for_dimension(numbers, epsilon)
        x = np.random.default_rng(0).standard_normal((PEOPLE, numbers)).astype(np.float32)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        reports = mechanism.privatize(x)

        def together(mechanism: ClosestCandidates = mechanism, x: np.ndarray = x) -> object:
            return mechanism.privatize(x)

        def alone(mechanism: ClosestCandidates = mechanism, x: np.ndarray = x) -> object:
            return [mechanism.privatize(x[i : i + 1]) for i in range(ALONE)]

        def read(mechanism: ClosestCandidates = mechanism, reports: tuple = reports) -> object:
            return mechanism.estimate_mean(*reports)

        told = (
            best_seconds(together, repeats) / PEOPLE,
            best_seconds(alone, repeats) / ALONE,
            best_seconds(read, repeats) / PEOPLE,
        )
        each = " | ".join(f"{seconds * 1e6:.0f}" for seconds in told)
        print(f"| {numbers:,} | {epsilon:g} | {mechanism.codebook.num_candidates:,} | {each} |")


if __name__ == "__main__":
    main()
