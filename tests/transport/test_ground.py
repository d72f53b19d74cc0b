"""Ground costs, their gradients and products against the definition, differentiated by autograd."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.transport import ground as costs
from privot.transport import manhattan, squared_euclidean

GROUNDS = {manhattan: 1, squared_euclidean: 2}
QUICK = {"fast_mode": True}  # along a random direction, instead of every coordinate by itself


def by_definition(x, y, power):
    return (x[:, None] - y[None]).abs().pow(power).sum(2)


@settings(max_examples=25, deadline=None)
@given(
    ground=st.sampled_from(list(GROUNDS)),
    n=st.integers(1, 40),
    m=st.integers(1, 40),
    d=st.sampled_from([1, 2, 8, 9, 32, 33, 70, 405]),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    sparse=st.booleans(),
    offset=st.sampled_from([0.0, 100.0]),
    ties=st.booleans(),
)
def test_costs_and_gradients(ground, n, m, d, seed, dtype, sparse, offset, ties):
    rng = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(k, d, generator=rng, dtype=dtype) + offset for k in (n, m))
    if ties:
        # Saturated coordinates, and some points equal: sign(0) must be 0.
        x, y = x.clamp(offset - 0.5, offset + 0.5), y.clamp(offset - 0.5, offset + 0.5)
    weights = torch.randn(n, m, generator=rng, dtype=dtype)
    if sparse:
        weights = weights * (torch.rand(n, m, generator=rng) < 0.1)
    x.requires_grad_()
    y.requires_grad_()
    cost = ground(x, y)
    expected = by_definition(x.double(), y.double(), GROUNDS[ground])
    eps = torch.finfo(dtype).eps * (1 + offset)
    torch.testing.assert_close(cost.double(), expected, rtol=100 * eps, atol=200 * eps * d)
    found = torch.autograd.grad((cost * weights).sum(), (x, y))
    right = torch.autograd.grad((expected * weights).sum(), (x, y))
    for one, other in zip(found, right):
        torch.testing.assert_close(one, other, rtol=0, atol=400 * eps * (n + m))


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("d", [3, 50])
def test_first_and_second_input_alone(ground, d):
    x, y = torch.randn(6, d, dtype=torch.float64), torch.randn(5, d, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda p: ground(p, y), (x.clone().requires_grad_(),), **QUICK)
    assert torch.autograd.gradcheck(lambda p: ground(x, p), (y.clone().requires_grad_(),), **QUICK)


@pytest.mark.parametrize("ground", GROUNDS)
def test_points_that_are_not_contiguous(ground):
    x, y = torch.randn(50, 40).T, torch.randn(100, 30).T[:, ::2]
    torch.testing.assert_close(
        ground(x, y), by_definition(x, y, GROUNDS[ground]), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("ground", GROUNDS)
def test_threads_change_nothing_but_the_order(ground):
    x, y = torch.randn(300, 200, requires_grad=True), torch.randn(310, 200)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            cost = ground(x, y)
            results.append((cost, *torch.autograd.grad(cost.square().sum(), x)))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*results):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("ground", GROUNDS)
def test_shapes_that_do_not_fit(ground):
    with pytest.raises(PrivotError, match="points have shapes"):
        ground(torch.ones(3, 2), torch.ones(3, 4))


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("d", [2, 40])
def test_plain_tensor_operations_agree(ground, d, monkeypatch):
    x, y = torch.randn(20, d, requires_grad=True), torch.randn(30, d)
    results = []
    for compiled in (True, False):
        monkeypatch.setattr(costs, "runs_compiled", lambda _, compiled=compiled: compiled)
        cost = ground(x, y)
        results.append((cost, *torch.autograd.grad(cost.sqrt().sum(), x)))
    for one, two in zip(*results):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-3)


def test_costs_are_never_in_short_numbers():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with costs._full_precision(torch.zeros(1)):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


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
    found = costs.product(a, b)
    assert found.dtype == torch.float32
    # Rounding to bfloat16 would err by 2⁻⁹ of the lengths' product.
    assert bool(((found - exact).abs() <= 2.0**-18 * lengths + 1e-12).all())


def test_an_operator_that_errs_is_not_used(monkeypatch):
    monkeypatch.setattr(costs, "_by_onednn", lambda a, b: 2 * (a @ b.T))
    costs._onednn_is_faster.cache_clear()
    try:
        a = torch.randn(1200, 1000)
        assert torch.equal(costs.product(a, a), a @ a.T)
    finally:
        costs._onednn_is_faster.cache_clear()
