r"""Precision, recall, density and coverage: fidelity and variety apart.

Around each point stands the ball that reaches to its k-th nearest neighbor in its own sample. With
$B(x_i)$ the balls of the real sample and $B(y_j)$ those of the learned one,

 - precision: share of learned points in some $B(x_i)$; recall: share of real points in some $B(y_j)$;
 - density: $\frac{1}{km} \sum_j \#\{i : y_j ∈ B(x_i)\}$, which outliers among the real do not inflate;
   near 1 for equal laws, and may exceed it;
 - coverage: share of real balls that hold a learned point.

A model that repeats one good image has high precision and no coverage; noise around every mode has
recall and no precision.

References:
    Kynkäänniemi, Karras, Laine, Lehtinen, Aila, *Improved precision and recall metric* (2019).
    Naeem, Oh, Uh, Choi, Yoo, *Reliable fidelity and diversity metrics for generative models* (2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privot.core.errors import PrivotError


@dataclass(frozen=True)
class Coverage:
    """Shares in [0, 1], but for `density`, which is ≥ 0."""

    precision: float
    recall: float
    density: float
    coverage: float


def measure_coverage(real: np.ndarray, learned: np.ndarray, neighbors: int = 5) -> Coverage:
    """The four numbers for features `real` (n, d) and `learned` (m, d).

    Raises:
        PrivotError: if a sample has no more than `neighbors` points.
    """
    if min(len(real), len(learned)) <= neighbors or neighbors < 1:
        raise PrivotError(
            f"neighbors {neighbors} of {len(real)} and {len(learned)} points: give more points than "
            "neighbors, and at least one neighbor"
        )
    between = _squared_distances(real, learned)
    radius_real, radius_learned = (_radii(points, neighbors) for points in (real, learned))
    in_real = between <= radius_real[:, None]
    return Coverage(
        precision=float(in_real.any(axis=0).mean()),
        recall=float((between <= radius_learned[None, :]).any(axis=1).mean()),
        density=float(in_real.sum() / (neighbors * len(learned))),
        coverage=float(in_real.any(axis=1).mean()),
    )


def _radii(points: np.ndarray, neighbors: int) -> np.ndarray:
    """Squared distance of each point (n, d) to its k-th nearest other point."""
    distances = _squared_distances(points, points)
    np.fill_diagonal(distances, np.inf)
    radii: np.ndarray = np.partition(distances, neighbors - 1, axis=1)[:, neighbors - 1]
    return radii


def _squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    lengths = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1)[None, :]
    distances: np.ndarray = np.maximum(lengths - 2 * x @ y.T, 0)
    return distances
