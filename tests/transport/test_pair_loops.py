"""Loops over pairs of points: signs in any unit, and which pairs are left out of a gradient."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.transport import manhattan, pair_loops


@settings(max_examples=30, deadline=None)
@given(
    unit=st.sampled_from([1e-30, 1e-12, 1.0, 1e12, 1e30]),
    d=st.sampled_from([3, 50]),
    seed=st.integers(0, 1000),
)
def test_signs_in_any_unit(unit, d, seed):
    rng = torch.Generator().manual_seed(seed)
    # Neighbors in floating point, ties, zeros, and coordinates a million times smaller than others.
    x = torch.randn(6, d, generator=rng) * unit * torch.tensor([[1], [1e-6], [1], [1], [1], [0]])
    y = torch.randn(7, d, generator=rng) * unit
    y[0], y[1] = x[1], torch.nextafter(x[2], torch.tensor(torch.inf))
    x.requires_grad_()
    weights = torch.rand(6, 7, generator=rng)
    found = torch.autograd.grad((manhattan(x, y) * weights).sum(), x)[0]
    right = (weights[:, :, None] * torch.sign(x[:, None] - y[None])).sum(1)
    torch.testing.assert_close(found, right.detach(), rtol=0, atol=1e-5)


def test_pairs_are_left_out_only_where_they_cannot_be_seen():
    rng = np.random.default_rng(0)
    weights = 10.0 ** rng.uniform(-14, 0, (50, 300))
    counts, columns = np.empty(50, np.int32), np.empty(weights.shape, np.int32)
    total = pair_loops.list_columns(weights, 0, 50, counts, columns)
    assert 0.2 * weights.size < total == counts.sum() < 0.8 * weights.size
    for row, count, listed in zip(weights, counts, columns, strict=True):
        left = np.delete(row, listed[:count])
        assert left.sum() < 1e-6 * row.sum()
        assert len(np.unique(listed[:count])) == count
