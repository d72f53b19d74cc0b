"""No result may differ from the reference by more than its reported error implies.

A plan of Gibbs form with exact columns *is* the solution for its own row marginal: `law_of_the_error`
checks the three things that make the reported error mean that, in double precision and from the costs
alone. Where the condition allows, the distance to the log-domain reference is checked as well. The rule
for ω, and steps of ω times their length, are tried as compiled loops call them.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from privot.core.compiled import compiled
from privot.transport import Problem, SinkhornSolver, Status, manhattan, squared_euclidean, sweeps
from privot.transport.sweeps import move, next_omega
from transport.log_domain import solve_log

TOLERANCE = 1e-3
SOLVER = SinkhornSolver(TOLERANCE, max_iterations=3000)
GROUNDS = {"manhattan": manhattan, "squared_euclidean": squared_euclidean}


def between(x, y, ground, reg, *weights):
    """The problem of two clouds, in double precision where rounded costs would be another problem."""
    cost = GROUNDS[ground](x, y)
    if not torch.finfo(cost.dtype).eps * float(cost.abs().max()) <= 1e-4 * reg:
        cost = GROUNDS[ground](x.double(), y.double())
    return Problem(cost, reg, *weights)


def clouds(seed, n, m, d, sigma, kind="plain", dtype=torch.float32):
    """Points near each other, data of scale 1; y is noised by sigma."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=rng, dtype=torch.float64)
    clean = 0.3 + torch.randn(m, d, generator=rng, dtype=torch.float64)
    y = clean + sigma * torch.randn(m, d, generator=rng, dtype=torch.float64)
    if kind == "duplicates":
        x[n // 2 :] = x[0].clone()
        y[m // 2 :] = y[0].clone()
    elif kind == "outlier":
        x[0] += 300.0
        y[-1] -= 1000.0
    elif kind == "same":
        y = x[torch.randint(n, (m,), generator=rng)]
    elif kind == "offset":
        x, y = x + 1000, y + 1000
    return x.to(dtype), y.to(dtype)


def gibbs(result):
    """The plan that potentials and costs make, in double precision."""
    problem = result.problem
    scores = (result.f[:, None] + result.g[None, :] - problem.cost.double()) / problem.reg
    return problem.a.double()[:, None] * problem.b.double()[None, :] * scores.exp()


def law_of_the_error(result, rounding=2e-5):
    plan, problem = result.plan.double(), result.problem
    assert bool(torch.isfinite(plan).all())
    # The scores of `gibbs` are differences of numbers this many times larger than themselves.
    unit = 4 * torch.finfo(torch.float64).eps * float(problem.cost.abs().max()) / problem.reg
    assert float((plan - gibbs(result)).abs().sum()) < rounding + unit
    assert float((plan.sum(0) - problem.b).abs().sum()) < rounding
    measured = float((plan.sum(1) - problem.a).abs().sum())
    assert measured == pytest.approx(result.marginal_error, abs=rounding)
    if result.status is Status.CONVERGED:
        assert result.marginal_error <= SOLVER.tolerance


sizes = st.one_of(st.integers(1, 9), st.integers(10, 90))


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=sizes,
    m=sizes,
    d=st.sampled_from([1, 2, 3, 8, 9, 32, 33, 100, 784, 3000]),
    sigma=st.floats(math.log(0.05), math.log(100)).map(math.exp),
    ground=st.sampled_from(["manhattan", "squared_euclidean"]),
    kind=st.sampled_from(["plain", "duplicates", "outlier", "same", "offset"]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    weighted=st.booleans(),
)
@example(0, 1, 1, 1, 1.0, "manhattan", "same", torch.float32, False)
@example(0, 40, 1, 5, 0.05, "squared_euclidean", "outlier", torch.float32, True)
@example(0, 1, 40, 5, 0.05, "manhattan", "outlier", torch.float32, True)
@example(0, 1, 2, 3000, math.exp(-2.75), "squared_euclidean", "outlier", torch.float64, False)
def test_every_result_means_what_it_reports(
    seed, n, m, d, sigma, ground, kind, dtype, weighted
):  # fmt: skip
    x, y = clouds(seed, n, m, d, sigma, kind, dtype)
    weights = (None, None)
    if weighted:
        rng = torch.Generator().manual_seed(seed + 1)
        weights = tuple(
            (w / w.sum()).to(dtype)
            for w in (torch.rand(k, generator=rng).double() ** 4 + 1e-6 for k in (n, m))
        )
    reg = 2 * sigma**2 if ground == "squared_euclidean" else sigma / math.sqrt(2)
    result = SOLVER.solve(between(x, y, ground, reg, *weights))
    assert result.status in (Status.CONVERGED, Status.MAX_ITERATIONS)
    law_of_the_error(result)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 60),
    m=st.integers(2, 60),
    d=st.sampled_from([1, 2, 5, 50, 784]),
    sigma=st.floats(1, 20),
    kind=st.sampled_from(["plain", "duplicates", "offset"]),
)
def test_distance_to_the_reference(seed, n, m, d, sigma, kind):
    """Pinsker: ‖π* − π‖₁ ≤ √(2 (D* − D)/λ), D* being the reference's dual value; and the plain bound."""
    x, y = clouds(seed, n, m, d, sigma, kind)
    problem = between(x, y, "squared_euclidean", 2 * sigma**2)
    exact = solve_log(Problem(problem.cost.double(), problem.reg), 1e-9, 5_000)
    assume(exact.marginal_error <= 1e-9)
    result = SOLVER.solve(problem)
    a, b = problem.a.double(), problem.b.double()
    gap = float(a @ (exact.f - result.f) + b @ (exact.g - result.g)) / problem.reg
    # Single precision leaves the mass of the plan, hence the gap, uncertain by some 1e-7.
    assert gap > -1e-6
    apart = float((result.plan.double() - exact.plan).abs().sum())
    assert apart <= math.sqrt(2 * (max(gap, 0) + 1e-7))
    if exact.iterations < 200:
        # Few plain iterations: a contraction of 0.9 or less, so 1/√(1 − ρ) is near 3.
        assert apart <= 5 * result.marginal_error + 2e-5


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.5, 4.0])
@pytest.mark.parametrize("ground", ["manhattan", "squared_euclidean"])
def test_large_batches(sigma, ground):
    x, y = clouds(0, 4096, 4096, 784, sigma)
    reg = 2 * sigma**2 if ground == "squared_euclidean" else sigma / math.sqrt(2)
    result = SinkhornSolver(1e-3, 300).solve(between(x, y, ground, reg))
    law_of_the_error(result, rounding=5e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_costs_that_are_not_finite(bad, dtype):
    cost = torch.rand(20, 30, dtype=dtype)
    cost[3, 5] = bad
    result = SinkhornSolver().solve(Problem(cost))
    assert result.status is Status.NOT_FINITE
    assert math.isnan(result.marginal_error)


def test_huge_costs_are_not_called_solved():
    cost = 1e30 * torch.rand(20, 30, generator=torch.Generator().manual_seed(0))
    result = SOLVER.solve(Problem(cost))
    assert result.status in (Status.UNRESOLVED, Status.NOT_FINITE)


def test_a_common_shift_of_the_costs_changes_nothing():
    """Rows and columns may be shifted by numbers far beyond single precision's digits beside reg."""
    x, y = clouds(1, 30, 40, 3, 1.0, dtype=torch.float64)
    cost = squared_euclidean(x, y)
    shifted = cost + 1e7 * torch.arange(30)[:, None] + 1e6 * torch.arange(40)[None, :]
    plans = [SOLVER.solve(Problem(c, 0.5)).plan for c in (cost, shifted)]
    assert float((plans[0] - plans[1]).abs().sum()) < 2e-3


def test_small_tolerances_move_to_double_precision():
    x, y = clouds(2, 50, 50, 4, 1.0)
    problem = between(x, y, "squared_euclidean", 2.0)
    loose, tight = SOLVER.solve(problem), SinkhornSolver(1e-8, 20_000).solve(problem)
    assert (loose.precision, tight.precision) == ("single", "double")
    assert tight.status is Status.CONVERGED
    assert tight.marginal_error <= 1e-7


def test_weights_beyond_single_precision_move_to_double_precision():
    """A column of weight 1e-42 overflows single precision's scalings or sums; double does not."""
    weights = torch.tensor([1.0, 1e-42], dtype=torch.float64)
    result = SOLVER.solve(Problem(torch.tensor([[0.0, 90.0]]), 1.0, None, weights))
    assert result.status is Status.CONVERGED
    assert float(result.g[1]) == pytest.approx(90.0 - float(result.f[0]), abs=1e-3)


def test_over_relaxation_beats_plain_steps():
    x, y = clouds(4, 100, 100, 3, 0.3)
    problem = between(x, y, "squared_euclidean", 0.05)
    plain = solve_log(problem, 1e-3)
    relaxed = SinkhornSolver(1e-3, 20_000).solve(problem)
    assert relaxed.status is Status.CONVERGED
    assert relaxed.iterations < plain.iterations / 2


def test_tensor_operations_agree_with_compiled_loops(monkeypatch):
    x, y = clouds(5, 40, 30, 4, 1.0)
    problem = between(x, y, "squared_euclidean", 2.0)
    compiled = SOLVER.solve(problem)
    monkeypatch.setattr("privot.transport.sinkhorn.runs_compiled", lambda tensor: False)
    tensors = SOLVER.solve(problem)
    law_of_the_error(tensors)
    assert float((compiled.plan - tensors.plan).abs().sum()) < 5e-3


@compiled
def moved(x, towards, omega):
    move(x, towards, omega, x.size, np.empty(x.size), np.empty(x.size))
    return x


@compiled
def rule(omega, errors, now, changed):
    return next_omega(omega, errors, now, changed)


@pytest.mark.parametrize("omega", [1.0, 1.3, 1.99])
def test_a_step_goes_omega_times_as_far_in_logarithms(omega):
    rng = np.random.default_rng(0)
    x, towards = 10.0 ** rng.uniform(-8, 8, 1000), 10.0 ** rng.uniform(-8, 8, 1000)
    exact = np.log(x) + omega * (np.log(towards) - np.log(x))
    np.testing.assert_allclose(np.log(moved(x.copy(), towards, omega)), exact, atol=1e-4)


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.999])
def test_the_first_omega_is_youngs_for_the_rate_seen(rate):
    errors = rate ** np.arange(10.0)
    omega, changed = rule(1.0, errors, 5, 0)
    assert changed == 5
    assert omega == pytest.approx(min(1.995, 2 / (1 + np.sqrt(1 - rate))))
    assert rule(1.0, errors, 2, 0) == (1.0, 0)  # three plain steps come first


def test_growing_errors_end_it():
    errors = np.array([1.0, 1.0, 1.0, 50.0])
    assert rule(1.9, errors, 3, 1) == (1.0, 3)
    assert rule(1.9, np.ones(4), 3, 1) == (1.9, 1)
    assert sweeps._MAX_OMEGA < 2
