r"""Latent classes fitted to counts of all pairs of codes whose errors are Gaussian and known.

With class weights π and each class's probabilities of all codes, $P ∈ R^{D×C}$, expected shares are
$P \operatorname{diag}(π) P^\top$ off the diagonal and $P π$ on it. Adam over logits minimizes least
squares in units of the errors: the likelihood. A function of what was released.

References:
    Lazarsfeld, Henry, *Latent structure analysis* (1968).
    Kingma, Ba, *Adam: a method for stochastic optimization* (2015).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privot.local.classes.product_mixture import LatentClasses

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_STEPS = 2000
_RATE = 0.05
_SPREAD = 0.5  # of logits at the start
_LEAST = 1e-5


def fit_pairs(
    shares: Floats, stddev: Floats, sizes: list[int], classes: int, seed: int
) -> tuple[LatentClasses, float]:
    """The mixture whose shares of pairs are nearest in units of their errors, and half the distance².

    Arguments:
        shares: Of all pairs of codes (D, D), symmetric; of codes on the diagonal.
        stddev: Of their errors, infinite where nothing was asked.
        sizes: Codes of each column.
        classes: How many.
        seed: Of the start.
    """
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes[:-1]])
    # Both halves of a symmetric matrix hold every pair.
    weight = stddev**-2.0 * (0.25 + 0.25 * np.eye(len(shares)))
    start = np.log(np.maximum(np.diag(shares), _LEAST))
    noise = _SPREAD * rng.standard_normal((len(shares), classes))
    state = [start[:, None] + noise, np.zeros(classes)]
    steps = [_Adam(each) for each in state]
    for step in range(_STEPS):
        rate = _RATE * (1 + math.cos(math.pi * step / _STEPS)) / 2
        gradients, tables, loss = _slopes(state[0], state[1], shares, weight, starts)
        for adam, gradient in zip(steps, gradients, strict=True):
            adam.step(gradient, rate)
    weights = _softmax(state[1], np.zeros(1, np.int64))
    parts = [part / part.sum(axis=0) for part in np.split(tables, starts[1:])]
    return LatentClasses(weights / weights.sum(), tuple(parts)), loss


def _slopes(
    logits: Floats, log_weights: Floats, target: Floats, weight: Floats, starts: Integers
) -> tuple[tuple[Floats, Floats], Floats, float]:
    r"""Gradients of the weighted squares in both arguments, the probabilities, and the sum of squares.

    With $E = P \operatorname{diag}(π) P^\top$ off the diagonal and $E_{ii} = (Pπ)_i$ on it, the loss
    $\sum_{ij} w_{ij} (E_{ij} − T_{ij})^2$ has the slopes $G = 2 w ∘ (E − T)$ in E; hence, G being
    symmetric and $G°$ being G without its diagonal g, the slope in P is
    $2 G° P \operatorname{diag}(π) + g π^\top$, and in π $\operatorname{diag}(P^\top G° P) + P^\top g$.
    """
    tables, weights = _softmax(logits, starts), _softmax(log_weights, np.zeros(1, np.int64))
    expected = (tables * weights) @ tables.T
    np.fill_diagonal(expected, tables @ weights)
    gap = expected - target
    slope = 2 * weight * gap
    own = np.diag(slope).copy()
    np.fill_diagonal(slope, 0.0)
    turned = slope @ tables
    of_tables = 2 * turned * weights + own[:, None] * weights
    of_weights = (tables * turned).sum(axis=0) + own @ tables
    of_logits = tables * (of_tables - _within(tables * of_tables, starts, len(tables)))
    of_log_weights = weights * (of_weights - weights @ of_weights)
    return (of_logits, of_log_weights), tables, float((weight * gap**2).sum())


def _within(values: Floats, starts: Integers, size: int) -> Floats:
    """Sums over each column's codes, once for each code."""
    counts = np.diff(starts, append=size)
    return np.repeat(np.add.reduceat(values, starts, axis=0), counts, axis=0)


def _softmax(logits: Floats, starts: Integers) -> Floats:
    """Probabilities that sum to 1 over the codes of each column, which start at `starts`."""
    counts = np.diff(starts, append=len(logits))
    highest = np.repeat(np.maximum.reduceat(logits, starts, axis=0), counts, axis=0)
    powers = np.exp(logits - highest)
    return np.asarray(powers / _within(powers, starts, len(logits)))


class _Adam:
    """Adam's steps on one array, in place (β = .9, .999)."""

    def __init__(self, values: Floats) -> None:
        self._values, self._count = values, 0
        self._mean, self._square = np.zeros_like(values), np.zeros_like(values)

    def step(self, gradient: Floats, rate: float) -> None:
        self._count += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient**2 - self._square)
        mean = self._mean / (1 - 0.9**self._count)
        square = self._square / (1 - 0.999**self._count)
        self._values -= rate * mean / (np.sqrt(square) + 1e-8)
