"""The gain: near the best there is, and that of the codebook at hand."""

import math

import numpy as np
import pytest
from scipy import stats

from privot.mechanisms.candidates.codebook import ClosestCandidates, best_close_share


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_share_is_the_best_there_is(epsilon):
    t = np.linspace(0, 6, 60_001)
    told = stats.norm.pdf(t) * math.expm1(epsilon) / (stats.norm.sf(t) * math.expm1(epsilon) + 1)
    assert best_close_share(epsilon) == pytest.approx(stats.norm.sf(t[told.argmax()]), rel=1e-3)


@pytest.mark.parametrize(("epsilon", "within"), [(0.5, 0.0005), (2.0, 0.001), (10.0, 0.002)])
def test_gain_is_that_of_this_codebook_and_near_the_best(epsilon, within):
    mechanism = ClosestCandidates.for_dimension(300, epsilon)
    size, rng = mechanism.codebook.dimension, np.random.default_rng(0)
    inside, outside = mechanism.probabilities
    unit = rng.standard_normal(300)
    unit /= np.linalg.norm(unit)
    x = np.tile(np.pad(unit, (0, size - 300)).astype(np.float32), (100, 1))
    means = []
    for _ in range(40):
        scores = mechanism.codebook.products(rng.integers(0, 2**63, 100).astype(np.uint64), x)
        top = np.partition(scores, -mechanism.closest, axis=1)[:, -mechanism.closest :]
        means.append(top.sum(axis=1).mean() * (inside - outside) * math.sqrt(size))
    error = np.std(means) / math.sqrt(40)
    assert abs(np.mean(means) / mechanism.gain - 1) < within + 5 * error / mechanism.gain
    assert error < 0.002 * mechanism.gain
    t = stats.norm.isf(best_close_share(epsilon))
    best = stats.norm.pdf(t) / (stats.norm.sf(t) + 1 / math.expm1(epsilon))
    assert 0.98 < mechanism.gain / best < 1
