r"""Distances between samples: exact Wasserstein of equal subsamples, total variation of counts.

The Wasserstein distance of two *samples* of the same distribution is not zero: with n points it is
about $n^{-1/d}$ in d ≥ 3 dimensions. So every number here stands beside its **floor**, the same
distance between two honest samples, and means are taken over several subsamples.
"""

from __future__ import annotations

import numpy as np
import torch

from privot.errors import PrivotError
from privot.transport import wasserstein


def sample_distance(
    x: np.ndarray, y: np.ndarray, num_points: int = 3000, repeats: int = 3, seed: int = 0
) -> float:
    """Mean exact W₂ of `num_points` points of x (n, d) against as many of y (m, d).

    Subsamples are drawn without replacement, afresh for each of the `repeats`. If `y` is `x` itself,
    the two subsamples are disjoint: the floor.

    Raises:
        PrivotError: if there are no points, or too few for two disjoint subsamples.
    """
    rng = np.random.default_rng(seed)
    same = y is x
    size = min(num_points, len(x) // 2 if same else min(len(x), len(y)))
    if size < 1:
        raise PrivotError(
            f"samples have {len(x)} and {len(y)} points: give at least one each (two for a floor)"
        )
    distances = []
    for _ in range(repeats):
        first = rng.permutation(len(x))
        second = first[size:] if same else rng.permutation(len(y))
        pair = (torch.as_tensor(x[first[:size]]), torch.as_tensor(y[second[:size]]))
        distances.append(float(wasserstein(*pair)))
    return float(np.mean(distances))


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    """Half the ℓ1 distance of two distributions on the same cells.

    Examples:
        >>> total_variation(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
        0.5
    """
    return float(np.abs(p - q).sum() / 2)
