import functools
import json
import math

import pytest

from privot.errors import PrivotError
from privot.privacy.slicing import SlicedAccounting
from privot.sliced import BudgetExhausted, Ledger, Plan


@functools.cache
def make_plan(steps=5, epsilon=5.0, **changes):
    def accounting(grid):
        fields = {"dim": 6, "num_projections": 4, "records": 200, "batch_size": 10, "grid": grid}
        return SlicedAccounting(**fields | changes)

    return Plan.calibrate(epsilon, 1e-3, steps, accounting)


def test_plan_keeps_its_promise_and_counts_the_grid():
    plan = make_plan()
    assert plan.guarantee(5).epsilon <= 5.0
    assert plan.guarantee(5).epsilon > 4.9
    assert plan.guarantee(2).epsilon < plan.guarantee(5).epsilon
    assert plan.guarantee(0).epsilon == 0.0
    assert plan.accounting.grid == (2 + math.sqrt(plan.rows)) * plan.grid
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_plan_refuses_an_uncounted_grid():
    plan = make_plan()
    with pytest.raises(PrivotError, match="use Plan.calibrate"):
        Plan(plan.accounting, plan.stddev, 5, 1e-3, 2 * plan.grid)
    with pytest.raises(PrivotError, match="no power of two"):
        Plan(plan.accounting, plan.stddev, 5, 1e-3, 0.9 * plan.grid)


def test_padded_batches_have_a_public_number_of_rows():
    plan = make_plan(sampling="padded_poisson", neighboring="zero_out")
    assert 10 < plan.rows <= 200
    assert make_plan().rows == 10


def test_budget_ends():
    ledger = Ledger(make_plan())
    for _ in range(5):
        ledger.spend()
    with pytest.raises(BudgetExhausted, match="all 5 releases are spent"):
        ledger.spend()
    assert ledger.spent == 5
    assert ledger.left == 0


def test_disk_is_never_behind(tmp_path):
    """What is on disk counts at least what was spent, after every single release."""
    path = tmp_path / "run.ledger"
    plan = make_plan()
    plan = Plan(plan.accounting, plan.stddev, 3000, plan.delta, plan.grid)
    ledger = Ledger(plan, path)
    for spent in range(1, 20):
        ledger.spend()
        assert json.loads(path.read_text())["spent"] >= spent
    killed = Ledger(plan, path, resume=True)
    assert killed.spent >= 19
    ledger.close()
    assert Ledger(plan, path, resume=True).spent == 19


def test_two_runs_never_spend_one_budget_twice(tmp_path):
    """A run that seemed dead, and its resumption: what both released is on the disk."""
    path = tmp_path / "run.ledger"
    plan = make_plan()
    plan = Plan(plan.accounting, plan.stddev, 3000, plan.delta, plan.grid)
    first, other = Ledger(plan, path), Ledger(plan, path)
    first.spend()
    with pytest.raises(PrivotError, match="written by another run"):
        other.spend()
    assert other.spent == 0
    second = Ledger(plan, path, resume=True)
    before = second.spent
    for _ in range(100):
        second.spend()
    with pytest.raises(PrivotError, match="written by another run"):
        for _ in range(100):
            first.spend()
    made = first.spent + second.spent - before
    first.close()
    assert json.loads(path.read_text())["spent"] >= made
    second.close()
    assert json.loads(path.read_text())["spent"] == second.spent >= made


def test_another_plan_is_refused_and_the_ledger_says_why(tmp_path):
    path = tmp_path / "run.ledger"
    plan = make_plan()
    ledger = Ledger(plan, path)
    ledger.spend()
    ledger.close()
    other = Plan(plan.accounting, 2 * plan.stddev, 5, plan.delta, plan.grid)
    with pytest.raises(
        PrivotError, match="counted 1 releases with .*another plan is another budget"
    ):
        Ledger(other, path, resume=True)
    with pytest.raises(PrivotError, match="has counted 1 releases already"):
        Ledger(make_plan(), path)
    path.write_text("{")
    with pytest.raises(PrivotError, match="cannot be read"):
        Ledger(make_plan(), path, resume=True)
