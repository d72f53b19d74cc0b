"""Full batches against Sinkhorn's algorithm in the log domain on the whole matrix."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.transport.sinkhorn import Status
from studies.full_batch import solver as full_batch
from studies.full_batch.solver import full_batch_cost

GROUNDS = ["manhattan", "squared_euclidean"]


def costs(x, y, ground):
    gap = x[:, None] - y[None]
    return gap.abs().sum(2) if ground == "manhattan" else (gap * gap).sum(2)


def plan(x, y, result, ground, reg, a, b):
    scores = (result.f[:, None] + result.g[None] - costs(x, y, ground)) / reg
    return a[:, None] * b[None] * scores.exp()


def dense(x, y, ground, reg, a, b, steps=20_000, tolerance=1e-11):
    """Value, and the plan whose costs' gradient the envelope theorem takes."""
    scores, g = -costs(x, y, ground) / reg, torch.zeros(len(y), dtype=torch.float64)
    for _ in range(steps):
        f = -torch.logsumexp(scores + g + b.log(), dim=1)
        new = -torch.logsumexp(scores + f[:, None] + a.log()[:, None], dim=0)
        done = (new - g).abs().max() < tolerance
        g = new
        if done:
            break
    couplings = a[:, None] * b[None] * (scores + f[:, None] + g[None]).exp()
    return float(reg * (a @ f + b @ g)), couplings


def uniform(n):
    return torch.full((n,), 1 / n, dtype=torch.float64)


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("reg", [0.1, 0.5, 3.0, 1e3])
def test_value_and_gradients_are_those_of_the_matrix(ground, dim, reg):
    torch.manual_seed(0)
    x = (1.5 * torch.randn(120, dim, dtype=torch.float64) + 2).requires_grad_()
    y = torch.randn(90, dim, dtype=torch.float64)
    y[:10] = y[10:20]
    y.requires_grad_()
    a = torch.rand(120, dtype=torch.float64) + 0.1
    a, b = a / a.sum(), uniform(90)
    value, result = full_batch_cost(
        x, y, ground, reg, weights_x=a, tolerance=1e-9, max_iterations=20_000
    )
    want, couplings = dense(x.detach(), y.detach(), ground, reg, a, b)
    assert result.status is Status.CONVERGED
    assert result.value == pytest.approx(want, rel=1e-7)
    found = torch.autograd.grad(value, (x, y))
    wanted = torch.autograd.grad((couplings * costs(x, y, ground)).sum(), (x, y))
    for one, other in zip(found, wanted):
        assert float((one - other).norm() / other.norm()) < 1e-5


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("reg", [1e-3, 0.03, 1.0, 100.0])
def test_the_reported_error_is_that_of_the_plan(ground, reg):
    """Converged or not, both marginals of the plan are as the result says."""
    torch.manual_seed(1)
    x, y = torch.randn(150, 2).double() * 2, torch.randn(110, 2).double()
    a, b = uniform(150), uniform(110)
    for limit in (1, 2, 7, 60):
        _, result = full_batch_cost(x, y, ground, reg, tolerance=1e-4, max_iterations=limit)
        pi = plan(x, y, result, ground, reg, a, b)
        error = float((pi.sum(1) - a).abs().sum())
        assert result.marginal_error == pytest.approx(error, rel=1e-3, abs=1e-6)
        assert float((pi.sum(0) - b).abs().sum()) < 1e-6
        assert (result.status is Status.CONVERGED) == (error <= 1e-4)
        assert result.iterations <= limit


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(GROUNDS),
    st.integers(1, 2),
    st.integers(1, 60),
    st.integers(1, 60),
    st.floats(-2, 4),
    st.booleans(),
)
def test_any_clouds(seed, ground, dim, n, m, log_reg, outlier):
    """Duplicates, identical points, one point, outliers: a coupling, whatever reg."""
    rng = np.random.default_rng(seed)
    x, y = (torch.tensor(rng.integers(-3, 4, (k, dim)) / 2.0) for k in (n, m))
    if outlier:
        x[0] = 50.0
    reg = 10**log_reg
    value, result = full_batch_cost(x.requires_grad_(), y, ground, reg, max_iterations=3000)
    (gradient,) = torch.autograd.grad(value, x)
    assert bool(torch.isfinite(gradient).all())
    assert math.isfinite(result.value)
    a, b = uniform(n), uniform(m)
    pi = plan(x.detach(), y, result, ground, reg, a, b)
    assert float((pi.sum(0) - b).abs().sum()) < 1e-5
    assert float((pi.sum(1) - a).abs().sum()) == pytest.approx(result.marginal_error, abs=1e-5)
    ordinary = float((pi * costs(x.detach(), y, ground)).sum())
    independent = float(a @ costs(x.detach(), y, ground) @ b)
    # No coupling costs more than independence once its information is paid for.
    if result.status is Status.CONVERGED:
        assert ordinary <= independent + 1e-2 * (1 + independent)


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_point_has_a_closed_form(ground):
    """All mass in one point: the plan is the product, whatever reg."""
    y = torch.tensor([[1.0, 2.0], [-3.0, 0.0], [0.0, 0.0]])
    x = torch.tensor([[0.0, 0.0]], requires_grad=True)
    for reg in (1e-6, 1.0, 1e6):
        value, result = full_batch_cost(x, y, ground, reg)
        (gradient,) = torch.autograd.grad(value, x)
        assert result.status is Status.CONVERGED
        assert result.value == pytest.approx(float(costs(x.detach(), y, ground).mean()), rel=1e-5)
        want = torch.tensor([[0.0, -1 / 3]]) if ground == "manhattan" else -2 * y.mean(0)[None]
        torch.testing.assert_close(gradient, want, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("ground", GROUNDS)
def test_over_relaxation_halves_the_steps_where_they_are_many(ground, monkeypatch):
    torch.manual_seed(0)
    x, y = torch.randn(200, 2), 1.5 * torch.randn(200, 2)
    _, fast = full_batch_cost(x, y, ground, 0.05, tolerance=1e-4)
    monkeypatch.setattr(full_batch._Pace, "__call__", lambda self, error: 1.0)
    _, plain = full_batch_cost(x, y, ground, 0.05, tolerance=1e-4)
    assert fast.status is plain.status is Status.CONVERGED
    assert fast.iterations < plain.iterations / 2
    # Both stopped at the same error; their values differ by no more than it allows.
    assert fast.value == pytest.approx(plain.value, rel=1e-3)


@pytest.mark.parametrize("ground", GROUNDS)
def test_warm_start(ground):
    torch.manual_seed(0)
    x, y = torch.randn(400, 2), torch.randn(300, 2) + 1
    _, cold = full_batch_cost(x, y, ground, 0.1, tolerance=1e-4)
    _, warm = full_batch_cost(x + 1e-3, y, ground, 0.1, tolerance=1e-3, start=cold)
    _, carried = full_batch_cost(x, torch.cat([y, y[:7] + 0.1]), ground, 0.1, start=cold)
    _, afresh = full_batch_cost(x, torch.cat([y, y[:7] + 0.1]), ground, 0.1)
    assert warm.iterations < cold.iterations / 2
    assert carried.iterations < afresh.iterations
    assert carried.value == pytest.approx(afresh.value, rel=1e-3)


@pytest.mark.parametrize("ground", GROUNDS)
def test_potentials_extend_to_other_points(ground):
    torch.manual_seed(0)
    x, y = torch.randn(200, 2).double(), torch.randn(200, 2).double()
    _, result = full_batch_cost(x, y, ground, 0.5, tolerance=1e-8)
    torch.testing.assert_close(result.potential_x(x), result.f, atol=1e-6, rtol=0)
    torch.testing.assert_close(result.potential_y(y), result.g, atol=1e-6, rtol=0)
    new = torch.randn(5, 2).double()
    want = -0.5 * (torch.logsumexp((result.g - costs(new, y, ground)) / 0.5, 1) - math.log(200))
    torch.testing.assert_close(result.potential_x(new), want, atol=1e-6, rtol=0)


@pytest.mark.parametrize("ground", GROUNDS)
def test_single_precision_points_far_from_the_origin(ground):
    torch.manual_seed(0)
    x, y = torch.randn(100, 2), torch.randn(100, 2)
    near, _ = full_batch_cost(x, y, ground, 0.5)
    shift = 4096.0
    far = (x + shift).requires_grad_()
    value, _ = full_batch_cost(far, y + shift, ground, 0.5)
    value.backward()
    assert value.dtype == far.grad.dtype == torch.float32
    assert float(value.detach()) == pytest.approx(float(near), rel=5e-3)


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_reg_that_is_too_small_is_reported(ground):
    torch.manual_seed(0)
    x, y = torch.randn(80, 2), torch.randn(80, 2)
    _, result = full_batch_cost(x, y, ground, 1e-9, max_iterations=20)
    assert result.status is Status.MAX_ITERATIONS
    _, result = full_batch_cost(x, y, ground, 1e-14, max_iterations=20)
    assert result.status is Status.UNRESOLVED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(3, 3)}, r"x has shape \(3, 3\): full batches take points"),
        ({"y": torch.zeros(0, 2)}, "y has shape"),
        ({"y": torch.zeros(4, 1)}, "x has 2 coordinates and y has 1"),
        ({"x": torch.full((3, 2), math.nan)}, "x holds numbers that are not finite"),
        ({"ground": "cosine"}, "ground 'cosine' is not known"),
        ({"reg": 0.0}, "reg 0.0 is not a positive number"),
        ({"tolerance": 0.0}, "tolerance 0.0"),
        ({"max_iterations": 0}, "max_iterations 0"),
        ({"weights_x": torch.ones(3)}, "weights_x adds up to 3"),
        ({"weights_y": torch.ones(5)}, r"weights_y has shape \(5,\): give \(4,\)"),
    ],
)
def test_refusals(change, message):
    settled = {"x": torch.zeros(3, 2), "y": torch.ones(4, 2)}
    with pytest.raises(PrivotError, match=message):
        full_batch_cost(**(settled | change))
