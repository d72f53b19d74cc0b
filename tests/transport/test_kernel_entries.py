"""First potentials and the kernel that they give, against NumPy in double precision."""

import numpy as np
import pytest

from privot.transport import sweeps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 1), (33, 50)])
@pytest.mark.parametrize("reg", [0.05, 3.0])
def test_every_row_and_column_holds_a_one_and_entries_are_powers(n, m, reg, dtype):
    cost = np.random.default_rng(0).normal(1e4, 2.0, (n, m))
    f, g, kernel = np.empty(n), np.empty(m), np.empty((n, m), dtype)
    assert sweeps.shift(cost, f, g)
    np.testing.assert_array_equal(f, cost.min(axis=1))
    np.testing.assert_array_equal(g, (cost - f[:, None]).min(axis=0))
    sweeps.build(cost, f, g, reg, kernel)
    exact = np.exp(((f[:, None] - cost) + g) / reg)
    seen = exact > 2e-30
    np.testing.assert_allclose(kernel[seen], exact[seen], rtol=2e-15 * 70 + np.finfo(dtype).eps)
    assert not kernel[exact < 5e-31].any()
    assert (kernel.max(axis=0) == 1).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_cost_that_is_not_finite_is_told(bad):
    cost = np.zeros((5, 6))
    assert sweeps.shift(cost, np.empty(5), np.empty(6))
    cost[4, 5] = bad
    assert not sweeps.shift(cost, np.empty(5), np.empty(6))
