r"""Laws of a few points whose reports nobody can tell from those of the half circle.

Gaussian noise hides all but the first moments: m points with the curve's moments have reports whose
divergence falls faster than exponentially in m, while they stay about 1/m away from the curve. With n
reports the total variation between both is at most $\sqrt{n\,\mathrm{KL}/2}$ (Pinsker). Where that is t,
any method that learns from the reports alone errs by at least half the distance of the two laws, for one
of them, with probability at least (1 − t)/2 (Le Cam): whatever its loss, network and steps.

Usage:
    python -m studies entropic.few_points -o docs/results/half_circle/few_points.json

References:
    Yu, *Assouad, Fano, and Le Cam* (1997).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from privot.evaluation.distances import sample_distance
from studies.common.pages import table
from studies.common.rows import Row, gather

PEOPLE = 400_000
STDDEV = 1.59  # of Gaussian noise at ε = 5, δ = 1e-4, for the curve's diameter
_CURVE = 400


def half_circle(num_points: int) -> np.ndarray:
    """Points (num_points, 2) at equal steps along the curve of radius 1."""
    angles = (np.arange(num_points) + 0.5) * np.pi / num_points
    return np.column_stack([np.cos(angles), np.sin(angles)])


class NoisyPlane:
    """Densities of reports on a grid that reaches five deviations beyond the curve.

    Arguments:
        stddev: Of the Gaussian noise on each coordinate.
        num_nodes: Of the grid, along each axis.
    """

    def __init__(self, stddev: float, num_nodes: int = 70) -> None:
        nodes = np.linspace(-1 - 5 * stddev, 1 + 5 * stddev, num_nodes)
        self._nodes, self._stddev = nodes, stddev
        self._area = (nodes[1] - nodes[0]) ** 2

    def density(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Of reports of points (m, 2) with these probabilities (m,), on the grid."""
        x, y = (
            np.exp(-((self._nodes - points[:, [axis]]) ** 2) / (2 * self._stddev**2))
            for axis in (0, 1)
        )
        found: np.ndarray = np.einsum("m,mi,mj->ij", weights, x, y) / (2 * np.pi * self._stddev**2)
        return found

    def divergence(self, p: np.ndarray, q: np.ndarray) -> float:
        """KL(p‖q) in nats; the sum holds for densities, and rounding leaves it above 0."""
        return float(self._area * (p * np.log(p / q) - p + q).sum())


def nearest(num_points: int, stddev: float = STDDEV) -> Row:
    """The law of so few points whose reports are likest those of the half circle, and its distance."""
    plane = NoisyPlane(stddev)
    curve = half_circle(_CURVE)
    truth = plane.density(curve, np.full(_CURVE, 1 / _CURVE))

    def parts(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        points = values[: 2 * num_points].reshape(num_points, 2)
        logits = values[2 * num_points :]
        weights = np.exp(logits - logits.max())
        return points, weights / weights.sum()

    def loss(values: np.ndarray) -> float:
        return 1e6 * plane.divergence(truth, plane.density(*parts(values)))

    start = np.concatenate([half_circle(num_points).ravel(), np.zeros(num_points)])
    points, weights = parts(minimize(loss, start, method="BFGS", options={"maxiter": 500}).x)
    divergence = plane.divergence(truth, plane.density(points, weights))
    counts = np.diff(np.round(2000 * np.concatenate([[0.0], np.cumsum(weights)]))).astype(int)
    distance = sample_distance(
        half_circle(2000), np.repeat(points, counts, axis=0), 2000, repeats=1
    )
    return {
        "points": num_points,
        "people": PEOPLE,
        "stddev": stddev,
        "divergence": divergence,
        "total_variation": min(1.0, math.sqrt(PEOPLE * divergence / 2)),
        "w2": round(distance, 4),
    }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("-o", "--output", type=Path, help="JSON of the rows")


def run(chosen: argparse.Namespace) -> None:
    """Two to five points."""
    rows = gather((nearest(num_points) for num_points in (2, 3, 4, 5)), chosen.output)
    head = (
        "points",
        "W₂ to the half circle",
        "KL of a report (nats)",
        "all reports: total variation ≤",
    )
    print(
        table(
            head,
            [
                (
                    str(row["points"]),
                    f"{row['w2']:.2f}",
                    f"{row['divergence']:.1e}",
                    f"{row['total_variation']:.2f}",
                )
                for row in rows
            ],
        )
    )
