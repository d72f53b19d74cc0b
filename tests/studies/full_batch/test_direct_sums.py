"""Direct sums leave out only what cannot matter."""

import numpy as np
import pytest
from scipy.special import logsumexp

from privot.core.errors import PrivotError
from studies.full_batch import direct_sums
from studies.full_batch.direct_sums import DirectSums


def dense(x, y, h):
    gaps = x[:, None] - y[None]
    scores = h - (gaps**2).sum(axis=2) / 2
    sums = logsumexp(scores, axis=1)
    return sums, np.einsum("ij,ijk->ik", np.exp(scores - sums[:, None]), gaps)


@pytest.mark.parametrize("scale", [0.0, 0.1, 3.0, 40.0, 1e5])
@pytest.mark.parametrize("sizes", [(1, 1), (63, 200), (500, 65), (1000, 1500)])
def test_sums_and_means_are_those_of_all_pairs(scale, sizes):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(n, 2)) * scale for n in sizes)
    # Weights as steep as potentials are: distant sources may matter most.
    h = rng.normal(size=sizes[1]) + scale * y[:, 0]
    sums, gaps = DirectSums(y)(x, h)
    want, want_gaps = dense(x, y, h)
    np.testing.assert_allclose(sums, want, rtol=1e-14, atol=1e-12)
    # A tie between terms of exponent E is decided by the rounding of E.
    blur = 1e-12 + 1e-15 * np.abs(want).max()
    np.testing.assert_allclose(gaps, want_gaps, atol=max(scale, 1) * 20 * blur)


def test_spread_clouds_are_pruned():
    """With 400² pairs of distant clusters, a budget of some blocks is enough."""
    rng = np.random.default_rng(0)
    y = np.repeat(rng.normal(size=(20, 2)) * 1e4, 64, axis=0) + rng.normal(size=(1280, 2))
    pairs = []
    original = direct_sums._floors
    direct_sums._floors = lambda *a: pairs.append(original(*a)) or pairs[-1]
    try:
        sums, _ = DirectSums(y)(y, np.zeros(1280))
    finally:
        direct_sums._floors = original
    np.testing.assert_allclose(sums, dense(y, y, np.zeros(1280))[0], rtol=1e-12)
    assert pairs[0] < 0.3 * 20**2


def test_too_many_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(direct_sums, "_MOST_PAIRS", 1e4)
    with pytest.raises(PrivotError, match="reg is too small .* give a larger reg, or batches"):
        DirectSums(np.zeros((300, 2)))(np.zeros((300, 2)), np.zeros(300))
