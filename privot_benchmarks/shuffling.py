"""Printed ε of shuffled sets of categories over the best lower bound, for a hundred to a million people.

A lower bound is the δ of one event of one data set: all others hold a third category, or all hold one of
the two of person 1; the event is that the sum of Z of `privot.privacy.shuffling` exceeds a threshold.
Atoms are rounded to a grid to define the event; its δ is computed exactly.

    python privot_benchmarks/shuffling.py       # a minute or two
"""

import math

import numpy as np
import scipy

from privot.privacy.distributed import ReportLaw
from privot.privacy.shuffling import shuffled_epsilon

Atoms = tuple[np.ndarray, np.ndarray]
_POINTS, _REACH = 2**18, 60.0


def atoms(law: ReportLaw, sets: tuple[int, int], epsilon: float, held: str) -> Atoms:
    """Return (probabilities, values) of Z at reports of the record that all others hold."""
    odds, cost, (size, total) = math.exp(law.epsilon0), math.expm1(epsilon), sets
    gain, loss = odds - math.exp(epsilon), odds * math.exp(epsilon) - 1
    # Masses of ω, values of Z where the others' record does not support the report, and the shares
    # of reports that it supports: of those by record 0 alone, 1 alone, both, neither.
    masses = np.array([law.one, law.one, law.both, law.neither])
    values = np.array([gain, -loss, -cost * odds, -cost])
    supported = {
        "third": np.array([size - 1, size - 1, max(size - 2, 0), size]) / max(total - 2, 1),
        "first": np.array([1, 0, 1, 0]),
        "second": np.array([0, 1, 1, 0]),
    }[held]
    probabilities = np.append(masses * (1 - supported), odds * masses * supported)
    values = np.append(values, values / odds)
    return probabilities[probabilities > 0], values[probabilities > 0]


def attained_delta(
    law: ReportLaw, sets: tuple[int, int], people: int, epsilon: float, held: str
) -> float:
    """Return the largest δ of an event {Σ ⌊Z/h⌋ ≥ threshold}."""
    masses, values = atoms(law, sets, epsilon, held)
    largest = float(np.abs(values).max())
    half = 2 * math.sqrt(2 * people * float(masses @ values**2) * _REACH) + _REACH * largest
    step = largest / min(2048, max(16, _POINTS * largest / (2 * half)))
    cells = np.floor(values / step)
    mean = float(masses @ (values - step * cells))  # what floors lose, on average
    moved = step * cells + mean

    def slope(tilt: float) -> float:
        return float(masses * np.exp(tilt * moved / largest) @ moved)

    if slope(30.0) <= 0:  # ε is close to ε₀: no useful lower bound
        return 0.0
    tilt = scipy.optimize.brentq(slope, 0.0, 30.0) / largest if slope(0.0) < 0 else 0.0
    total = float(masses @ np.exp(tilt * moved))
    size = scipy.fft.next_fast_len(math.ceil(2 * half / step), real=True)
    tilted = np.bincount(cells.astype(int) % size, masses * np.exp(tilt * moved) / total, size)
    others = np.maximum(scipy.fft.irfft(scipy.fft.rfft(tilted) ** (people - 1), size), 0)
    sums = np.arange(size) - size // 2 - round((people - 1) * mean / step)
    exponents = (people - 1) * math.log(total) - tilt * (sums * step + (people - 1) * mean)
    at_least = np.cumsum((others[sums % size] * np.exp(np.minimum(exponents, 0.0)))[::-1])[::-1]
    reach = 2 * int(largest / step)
    thresholds = np.arange(size // 2 - reach, size // 2 + reach)
    return max(
        sum(
            m * v * at_least[thresholds - int(c)]
            for m, v, c in zip(masses, values, cells, strict=True)
        )
    )


def attained_epsilon(law: ReportLaw, sets: tuple[int, int], people: int, delta: float) -> float:
    """Return the largest ε at which one of the data sets has δ(ε) > `delta`."""
    low, high = 0.0, law.epsilon0
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        held = ("third", "first", "second") if law.third is not None else ("first", "second")
        above = any(attained_delta(law, sets, people, middle, each) > delta for each in held)
        low, high = (middle, high) if above else (low, middle)
    return low


def main() -> None:
    """Print one row of ratios for each mechanism."""
    sizes = (100, 200, 400, 1000, 10_000, 1_000_000)
    print("| ε₀ | sets | " + " | ".join(f"{n:,} people" for n in sizes) + " |")
    print("|---|---|" + "---|" * len(sizes))
    settings = [
        (1, 1, 2),
        (8, 1, 2),
        (0.5, 38, 100),
        (1, 2, 6),
        (1, 27, 100),
        (2, 12, 100),
        (4, 2, 100),
    ]
    for epsilon0, size, total in settings:
        law = ReportLaw.of_subsets(epsilon0, size, total)
        row = [
            shuffled_epsilon(law, n, 1e-6).epsilon / attained_epsilon(law, (size, total), n, 1e-6)
            for n in sizes
        ]
        cells = " | ".join(f"{ratio:.3f}" for ratio in row)
        print(f"| {epsilon0} | {size} of {total} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
