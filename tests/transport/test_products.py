"""Products of rows, by whichever library is used: as exact as single precision allows."""

import pytest
import torch

from privot.transport.costs import products

SHAPES = [(1, 1, 1), (3, 5, 2), (200, 130, 784), (1030, 1, 1025), (0, 4, 7)]


@pytest.mark.parametrize(("n", "m", "k"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_are_those_of_double_precision(n, m, k, transposed):
    rng = torch.Generator().manual_seed(n)
    a, b = torch.randn(n, k, generator=rng), torch.randn(m, k, generator=rng)
    if transposed:
        a, b = a.T.contiguous().T, b.T.contiguous().T
    exact = a.double() @ b.double().T
    lengths = a.double().norm(dim=1)[:, None] * b.double().norm(dim=1)
    found = products.product(a, b)
    assert found.dtype == torch.float32
    # Rounding to bfloat16 would err by 2⁻⁹ of the lengths' product.
    assert bool(((found - exact).abs() <= 2.0**-18 * lengths + 1e-12).all())


def test_an_operator_that_errs_is_not_used(monkeypatch):
    monkeypatch.setattr(products, "_by_onednn", lambda a, b: 2 * (a @ b.T))
    products._wide_product.cache_clear()
    try:
        a = torch.randn(1200, 1000)
        assert torch.equal(products.product(a, a), a @ a.T)
    finally:
        products._wide_product.cache_clear()
