r"""Fréchet and kernel distances between samples of features.

**Fréchet**: the squared W₂ of two Gaussians with the samples' means and covariances,

$$ ‖μ − ν‖^2 + \mathrm{tr}(A) + \mathrm{tr}(B) − 2\, \mathrm{tr}\big((A^{1/2} B A^{1/2})^{1/2}\big) . $$

With Inception features it is known as FID; the number means nothing without the features. Of n points
it is biased upwards, by an amount that falls like 1/n: print the floor of two honest samples beside it.

**Kernel**: the squared maximum mean discrepancy with the kernel $(⟨x, y⟩/d + 1)^3$, by its unbiased
estimate: it may come out slightly negative, and needs no floor.

References:
    Heusel, Ramsauer, Unterthiner, Nessler, Hochreiter, *GANs trained by a two time-scale update rule*
    (2017). Bińkowski, Sutherland, Arbel, Gretton, *Demystifying MMD GANs* (2018).
"""

from __future__ import annotations

import numpy as np

from privot.core.errors import PrivotError


def frechet_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Squared W₂ of the Gaussians fitted to features x (n, d) and y (m, d), in their squared units.

    Raises:
        PrivotError: if the features have different widths, or there are fewer than two of either.

    Examples:
        >>> x = np.random.default_rng(0).standard_normal((50, 3))
        >>> round(frechet_distance(x, x + 2.0), 6)
        12.0
    """
    _check(x, y)
    gap = x.mean(axis=0) - y.mean(axis=0)
    a, b = (np.atleast_2d(np.cov(points, rowvar=False)) for points in (x, y))
    values, vectors = np.linalg.eigh(a)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    cross = np.sqrt(np.linalg.eigvalsh(root @ b @ root).clip(0)).sum()
    return float(gap @ gap + np.trace(a) + np.trace(b) - 2 * cross)


def kernel_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Unbiased squared MMD of features x (n, d) and y (m, d) under the cubic kernel.

    Raises:
        PrivotError: as `frechet_distance`.
    """
    _check(x, y)
    n, m, d = len(x), len(y), x.shape[1]
    within_x, within_y = ((_cubic(points, points, d)) for points in (x, y))
    first = (within_x.sum() - np.trace(within_x)) / (n * (n - 1))
    second = (within_y.sum() - np.trace(within_y)) / (m * (m - 1))
    return float(first + second - 2 * _cubic(x, y, d).mean())


def _cubic(x: np.ndarray, y: np.ndarray, d: int) -> np.ndarray:
    kernel: np.ndarray = (x @ y.T / d + 1) ** 3
    return kernel


def _check(x: np.ndarray, y: np.ndarray) -> None:
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or min(len(x), len(y)) < 2:
        raise PrivotError(
            f"features have shapes {x.shape} and {y.shape}: give (n, d) and (m, d), two rows or more"
        )
