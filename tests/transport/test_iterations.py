"""Rows shared among threads: the same numbers as in one piece, up to the order of sums."""

import numpy as np
import pytest
import torch

from privot.transport import Problem, SinkhornSolver
from privot.transport.sinkhorn import RowParts

ONE = RowParts((slice(0, 90),))
THREE = RowParts((slice(0, 7), slice(7, 11), slice(11, 90)))


@pytest.mark.parametrize("reg", [0.05, 0.5])
def test_parts_change_nothing_but_the_order_of_sums(reg, two_threads, monkeypatch):
    rng = torch.Generator().manual_seed(0)
    points = torch.randn(90, 3, generator=rng), torch.randn(70, 3, generator=rng)
    problem = Problem(torch.cdist(*points), reg)
    solver = SinkhornSolver(tolerance=1e-4)
    results = []
    for parts in (ONE, THREE):
        monkeypatch.setattr(RowParts, "of", classmethod(lambda cls, n, m, parts=parts: parts))
        results.append(solver.solve(problem))
    one, three = results
    assert one.iterations > 5
    assert abs(one.iterations - three.iterations) <= 2
    assert float((one.plan - three.plan).abs().sum()) < 5e-4
    assert three.marginal_error <= 1e-4


def test_a_cost_that_is_not_finite_is_found_in_any_part(two_threads):
    cost = np.ones((90, 4))
    cost[30, 2] = np.nan
    assert not THREE.shift(cost, np.empty(90), np.empty(4))
    cost[30, 2] = 1.0
    assert THREE.shift(cost, np.empty(90), np.empty(4))


def test_only_large_problems_are_shared(two_threads):
    assert len(RowParts.of(2000, 2000).parts) == 1
    assert len(RowParts.of(2048, 2048).parts) == 2
    assert len(RowParts.of(1, 2**23).parts) == 1


def test_a_large_problem_is_solved_in_parts(two_threads):
    rng = torch.Generator().manual_seed(1)
    x, y = torch.randn(2100, 1, generator=rng), torch.randn(2000, 1, generator=rng)
    problem = Problem(torch.cdist(x, y), 1.0)
    result = SinkhornSolver(tolerance=1e-4).solve(problem)
    assert (result.plan.sum(0) - 1 / 2000).abs().sum() < 1e-4
    assert (result.plan.sum(1) - 1 / 2100).abs().sum() < 1.1e-4
