import functools
import json
import math
import signal

import pytest

from central.halves import learn
from privot.central.slices import SlicePlan
from privot.core.errors import PrivotError
from privot.privacy.slice_accounting import SlicedAccounting
from privot.training import Interrupted


@functools.cache
def make_plan(steps=5, epsilon=5.0, **changes):
    def accounting(grid):
        fields = {"dim": 6, "num_projections": 4, "records": 200, "batch_size": 10, "grid": grid}
        return SlicedAccounting(**fields | changes)

    return SlicePlan.calibrate(epsilon, 1e-3, steps, accounting)


def test_plan_keeps_its_promise_and_counts_the_grid():
    plan = make_plan()
    assert 4.9 < plan.guarantee.epsilon <= 5.0
    assert plan.guarantee.delta == 1e-3
    assert plan.accounting.grid == (2 + math.sqrt(plan.rows)) * plan.grid
    assert SlicePlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_plan_refuses_an_uncounted_grid():
    plan = make_plan()
    with pytest.raises(PrivotError, match="use SlicePlan.calibrate"):
        SlicePlan(plan.accounting, plan.stddev, 5, 1e-3, 2 * plan.grid)
    with pytest.raises(PrivotError, match="no power of two"):
        SlicePlan(plan.accounting, plan.stddev, 5, 1e-3, 0.9 * plan.grid)


def test_padded_batches_have_a_public_number_of_rows():
    plan = make_plan(sampling="padded_poisson", neighboring="zero_out")
    assert 10 < plan.rows <= 200
    assert make_plan().rows == 10


pytestmark = pytest.mark.usefixtures("little_noise")


def test_interrupted_runs_go_on_with_their_ledger(tmp_path):
    settings = {"steps": 60, "generated": 20}
    path = tmp_path / "run"

    def stop(step, steps, loss):
        if step == 20:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        learn(settings, checkpoint=path, progress=stop)
    spent = json.loads((tmp_path / "run.ledger").read_text())["entries"][-1]["spent"]
    assert 20 <= spent < 60
    with pytest.raises(PrivotError, match="releases already"):
        learn(settings, checkpoint=path)
    other = {"steps": 60, "batch_size": 30}
    with pytest.raises(PrivotError, match="another budget"):
        learn(other, checkpoint=path, resume=True)
    model = learn(settings, checkpoint=path, resume=True)
    assert model.releases == 60
    assert model.guarantee.epsilon == model.plan.guarantee.epsilon


def test_a_run_without_its_ledger_is_not_resumed(tmp_path):
    """Its checkpoint holds releases that nobody could count."""
    settings = {"steps": 60, "generated": 20}

    def stop(step, steps, loss):
        if step == 20:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        learn(settings, checkpoint=tmp_path / "run", progress=stop)
    (tmp_path / "run.ledger").unlink()
    with pytest.raises(PrivotError, match="run.ledger is gone"):
        learn(settings, checkpoint=tmp_path / "run", resume=True)
