"""Bumps sum to the curve, and what stands out is apart."""

import numpy as np

from privot.local.classes.marginals import NUM_BUMPS, Curve, Pieces
from privot.schema.sampling import LineCells


def test_pieces_make_up_the_marginal_and_are_local():
    rng = np.random.default_rng(0)
    marginal = rng.dirichlet(np.ones(60))
    marginal[10] += 1.0
    marginal /= marginal.sum()
    low = np.append(np.arange(59.0), np.nan)  # the last is a missing value
    cells = LineCells(low, low + 1, integer=False)
    found = Pieces.bumps(Curve(marginal, np.array([30]), np.ones(1)), cells)
    np.testing.assert_allclose(found.law.sum(axis=0), 1)
    np.testing.assert_allclose(found.law @ found.shares, marginal, atol=1e-12)
    alone = [int(np.flatnonzero(piece)[0]) for piece in found.law.T if (piece > 0).sum() == 1]
    assert {10, 30, 59} <= set(alone)
    bumps = [np.flatnonzero(piece) for piece in found.law.T if (piece > 0).sum() > 1]
    assert len(bumps) <= NUM_BUMPS
    for inside in bumps:
        share = marginal[np.setdiff1d(np.arange(inside[0], inside[-1]), [10, 30])].sum()
        assert share < 2.5 / (NUM_BUMPS - 1)
