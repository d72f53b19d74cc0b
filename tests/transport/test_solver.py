"""The solver against exact answers, its log-domain twin, and POT in double precision; its gradient."""

import math

import numpy as np
import ot
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.transport import (
    Problem,
    SinkhornSolver,
    Status,
    entropic_cost,
    manhattan,
    squared_euclidean,
)
from privot.transport.sinkhorn import entropic_cost_of_rows
from transport.log_domain import solve_log


def cloud(seed, n, m, d, spread=1.0, dtype=torch.float64):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=rng, dtype=dtype) * spread
    y = torch.randn(m, d, generator=rng, dtype=dtype) * spread + 0.3
    return x, y


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 40),
    m=st.integers(1, 40),
    reg=st.floats(0.05, 20),
    spread=st.floats(0.1, 5),
)
def test_plan_is_a_coupling_of_gibbs_form(seed, n, m, reg, spread):
    """The optimality conditions: exact columns, rows within the error, log π − C/λ of rank one."""
    x, y = cloud(seed, n, m, 3, spread)
    problem = Problem(manhattan(x, y), reg)
    result = SinkhornSolver(tolerance=1e-6, max_iterations=20_000).solve(problem)
    plan = result.plan
    torch.testing.assert_close(plan.sum(0), problem.b, rtol=1e-9, atol=0)
    assert abs(float((plan.sum(1) - problem.a).abs().sum()) - result.marginal_error) < 1e-8
    if result.status is Status.CONVERGED:
        assert result.marginal_error <= 1e-6


@pytest.mark.parametrize("reg", [0.02, 0.3, 5.0])
@pytest.mark.parametrize("cost", [manhattan, squared_euclidean])
def test_matches_pot_in_double_precision(reg, cost):
    """The stabilized method: the answer of the log domain to 1e-7, in a fifteenth of its time."""
    x, y = cloud(0, 50, 60, 4)
    expected = ot.sinkhorn(
        np.full(50, 1 / 50), np.full(60, 1 / 60), cost(x, y).numpy(), reg,
        method="sinkhorn_stabilized", stopThr=1e-6, numItermax=200_000,
    )  # fmt: skip
    solver = SinkhornSolver(tolerance=1e-5, max_iterations=100_000)
    for dtype in (torch.float32, torch.float64):
        plan = solver.solve(Problem(cost(x, y).to(dtype), reg)).plan
        assert np.abs(plan.double().numpy() - expected).sum() < 2e-3


def test_domains_agree_with_weights():
    x, y = cloud(1, 30, 20, 2)
    rng = np.random.default_rng(0)
    a, b = (torch.as_tensor(rng.dirichlet(np.ones(k))) for k in (30, 20))
    problem = Problem(squared_euclidean(x, y), 0.2, a, b)
    kernel, log = SinkhornSolver(1e-10, 100_000).solve(problem), solve_log(problem, 1e-10)
    torch.testing.assert_close(kernel.plan, log.plan, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(kernel.value, log.value, rtol=1e-8, atol=0)


def gaussian_plan_cross_covariance(sigma_x, sigma_y, reg):
    """Entropic transport of N(0, s²) to N(0, t²), squared cost: the plan is Gaussian with this."""
    return -reg / 4 + math.sqrt(reg**2 / 16 + sigma_x**2 * sigma_y**2)


def test_large_samples_reach_the_closed_form_between_gaussians():
    """Entropic OT between Gaussians has a Gaussian plan (Janati et al. 2020): check E[xy]."""
    grid = torch.linspace(-9, 9, 500, dtype=torch.float64)
    weights = [torch.exp(-(grid**2) / (2 * s**2)) for s in (1.0, 1.5)]
    a, b = (w / w.sum() for w in weights)
    reg = 0.7
    problem = Problem(squared_euclidean(grid[:, None], grid[:, None]), reg, a, b)
    plan = SinkhornSolver(1e-10, 10_000).solve(problem).plan
    found = float(grid @ plan @ grid)
    assert found == pytest.approx(gaussian_plan_cross_covariance(1.0, 1.5, reg), abs=1e-4)


def test_status_is_honest():
    x, y = cloud(3, 30, 30, 5, spread=3)
    cost = manhattan(x, y)
    stopped = SinkhornSolver(1e-9, max_iterations=3).solve(Problem(cost, 0.1))
    assert stopped.status is Status.MAX_ITERATIONS
    assert stopped.iterations == 3
    assert stopped.marginal_error > 1e-9
    broken = cost.clone()
    broken[0, 0] = math.nan
    assert SinkhornSolver().solve(Problem(broken, 0.1)).status is Status.NOT_FINITE


def test_single_precision_survives_small_reg_and_outliers():
    """Scalings far beyond single precision's range: absorption keeps the plan right."""
    x, y = cloud(4, 40, 40, 20, spread=3)
    x[0] += 100
    problem = Problem(squared_euclidean(x, y), 2.0)
    exact = solve_log(problem, 1e-5)
    single = SinkhornSolver(1e-4, 100_000).solve(Problem(problem.cost.float(), 2.0))
    assert single.status is Status.CONVERGED
    assert float((single.plan.double() - exact.plan).abs().sum()) < 2e-2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Problem(torch.ones(3)), "cost has shape"),
        (lambda: Problem(torch.ones(0, 3)), "at least one entry"),
        (lambda: Problem(torch.ones(2, 2), reg=0.0), "reg 0.0 is not positive"),
        (lambda: Problem(torch.ones(2, 2), weights_x=torch.ones(2)), "adds up to 2"),
        (lambda: Problem(torch.ones(2, 2), weights_y=torch.ones(3) / 3), "weights_y has shape"),
        (lambda: SinkhornSolver(tolerance=0.0), "tolerance 0.0"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(PrivotError, match=words):
        make()


def entropic_cloud(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_envelope_gradient_is_the_derivative_of_the_converged_value():
    x, y = entropic_cloud(2, 12, 2).requires_grad_(), 0.3 + entropic_cloud(3, 9, 2)
    solver = SinkhornSolver(1e-12, 100_000)

    def value(points):
        return entropic_cost(squared_euclidean(points, y), 0.5, solver)[0]

    assert torch.autograd.gradcheck(value, (x,), eps=1e-5, atol=1e-5)


def test_the_value_is_the_plans_own_cost():
    x, y = entropic_cloud(0, 20, 2), 1 + entropic_cloud(1, 30, 2)
    cost, reg = squared_euclidean(x, y), 0.3
    value, result = entropic_cost(cost, reg, SinkhornSolver(1e-10, 100_000))
    plan, outer = result.plan, torch.full_like(cost, 1 / 600)
    direct = (plan * cost).sum() + reg * torch.special.xlogy(plan, plan / outer).sum()
    assert float(value) == pytest.approx(float(direct), rel=1e-8)
    assert isinstance(result.problem, Problem)


@pytest.mark.parametrize(("first", "last"), [(0, 8), (8, 20)])
def test_rows_have_their_part_of_the_whole_gradient(first, last):
    cost, solver = (
        squared_euclidean(entropic_cloud(0, 20, 2), entropic_cloud(1, 30, 2)),
        SinkhornSolver(1e-8),
    )
    whole = cost.clone().requires_grad_()
    value, _ = entropic_cost(whole, solver=solver)
    value.backward()
    rows = cost[first:last].clone().requires_grad_()
    part, _ = entropic_cost_of_rows(rows, first, lambda mine: cost, solver)
    part.backward()
    assert torch.equal(part, value)
    assert whole.grad is not None
    assert torch.equal(rows.grad, whole.grad[first:last])
