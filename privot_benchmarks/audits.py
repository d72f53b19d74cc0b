"""What the audit finds of every shipped mechanism, and of four that are broken on purpose.

    python privot_benchmarks/audits.py   # the tables of docs/results/privacy.md, some minutes
    python privot_benchmarks/audits.py --quick    # a tenth of the draws

A bound is a lower confidence bound on ε at 99.9 %: for an honest mechanism it lies below ε, and near
it where the attack is good. For a broken one it lies above the ε that is claimed.
"""

import argparse
from collections.abc import Callable

import numpy as np

from privot.audit.statistics import AuditResult, audit
from privot.mechanisms import (
    Gaussian,
    Laplace,
    Mechanism,
    RandomizedResponse,
    SubsetSelection,
    Window,
)
from privot.privacy import calibrate_gaussian, calibrate_laplace, calibrate_randomized_response
from privot.schema.domains import Box, L2Ball
from studies.rivals.planar_laplace import PlanarLaplace
from studies.rivals.unary_encoding import UnaryEncoding

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-4
INTERVAL = Box((-1.0,), (1.0,))
TYPES = {"subset_selection": np.int64, "unary_encoding": np.bool_}
ENDS = ((-1.0,), (1.0,))
# Mechanism for an ε, the pair of records that it protects least, draws, δ.
HONEST: dict[str, tuple[Callable[[float], Mechanism], tuple, int, float]] = {
    "Laplace": (lambda e: Laplace.calibrate(INTERVAL, e), ENDS, 2_000_000, 0.0),
    "Gaussian, δ=1e-4": (lambda e: Gaussian.calibrate(INTERVAL, e, DELTA), ENDS, 8_000_000, DELTA),
    "randomized response, 5 categories": (
        lambda e: RandomizedResponse(5, e), (0, 4), 2_000_000, 0.0),
    "subset selection, 12 cells": (lambda e: SubsetSelection(12, e), (2, 9), 2_000_000, 0.0),
    "window": (lambda e: Window.for_domain(INTERVAL, e), ENDS, 2_000_000, 0.0),
    "window, a disk": (
        lambda e: Window.for_domain(L2Ball(2, 1.0), e),
        ((-1.0, 0.0), (1.0, 0.0)), 2_000_000, 0.0),
    "planar Laplace": (
        lambda e: PlanarLaplace.calibrate(L2Ball(2, 1.0), e),
        ((-1.0, 0.0), (1.0, 0.0)), 2_000_000, 0.0),
    "unary encoding, 6 categories": (lambda e: UnaryEncoding(6, e), (1, 4), 2_000_000, 0.0),
}  # fmt: skip


def attack(mechanism: Mechanism, pair: tuple, num_draws: int, delta: float) -> AuditResult:
    """Events by the mechanism's own likelihood ratio, on the pair it protects least."""

    def randomize(record: tuple, n: int) -> np.ndarray:
        reports = mechanism.privatize(np.repeat(np.asarray(record)[None], n, axis=0))
        return reports.reshape(n, -1).astype(np.float64)

    def score(reports: np.ndarray, record: tuple, other: tuple) -> np.ndarray:
        reports = reports.astype(TYPES.get(mechanism.kind, np.float64))
        if mechanism.kind == "randomized_response":
            reports = reports[:, 0].astype(np.int64)
        here, there = (mechanism.log_likelihood(reports, np.asarray(x)) for x in (record, other))
        return here - there

    return audit(randomize, [pair], num_draws=num_draws, delta=delta, score=score)


def broken(epsilon: float, num_draws: int) -> dict[str, AuditResult]:
    """Four faults that histograms do not show at a glance."""
    rng = np.random.default_rng(0)
    weak = 0.9 * calibrate_laplace(2.0, epsilon)
    radius = calibrate_gaussian(1.0, epsilon, DELTA)
    keep = calibrate_randomized_response(4, epsilon)
    full = calibrate_laplace(2.0, epsilon)

    def off_by_one(x: int, n: int) -> np.ndarray:
        other = (x + rng.integers(1, 5, n)) % 5
        return np.where(rng.random(n) < keep, x, other).astype(float)

    def on_grid(noise: np.ndarray) -> np.ndarray:
        return np.rint(noise * 2**20) / 2**20

    ends = [(-1.0, 1.0)]
    return {
        "Laplace, 10 % too little noise": audit(
            lambda x, n: on_grid(x + rng.laplace(0, weak, n)), ends, num_draws=num_draws),
        "Gaussian, radius for diameter": audit(
            lambda x, n: on_grid(x + rng.normal(0, radius, n)), ends, num_draws=num_draws,
            delta=DELTA),
        "randomized response, 5 categories as 4": audit(
            off_by_one, [(0, 4)], num_draws=num_draws),
        "Laplace in floating point": audit(
            lambda x, n: x + rng.laplace(0, full, n), [(-1.0, 0.3)], num_draws=num_draws),
    }  # fmt: skip


def main() -> None:
    """Print both tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    share = 10 if parser.parse_args().quick else 1
    head = " | ".join(f"ε = {e:g}" for e in EPSILONS)
    rule = "|---" * (len(EPSILONS) + 1) + "|"
    print(f"| honest | {head} |\n{rule}")
    for name, (make, pair, num_draws, delta) in HONEST.items():
        found = [attack(make(e), pair, num_draws // share, delta).epsilon_lower for e in EPSILONS]
        print(f"| {name} | " + " | ".join(f"{bound:.3f}" for bound in found) + " |", flush=True)
    print(f"\n| broken, claimed ε | {head} |\n{rule}")
    tables = [broken(e, 2_000_000 // share) for e in EPSILONS]
    for name in tables[0]:
        cells = [
            f"{t[name].epsilon_lower:.3f}" + (" caught" if t[name].refutes(e) else " missed")
            for e, t in zip(EPSILONS, tables, strict=True)
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
