"""The loop goes on bit for bit, stops between two steps, and keeps the weights' average."""

import os
import signal

import pytest
import torch
from torch import nn

from privot.core.errors import PrivotError
from privot.core.processes import deferred_interruption
from privot.models import Checkpoint
from privot.training import Interrupted
from privot.training.loop import TrainingSettings, TrainingState, train

SETTINGS = TrainingSettings(steps=40, learning_rate=0.1, averaging=0.9)


class Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.tensor([3.0, -2.0]))


def trained(settings=SETTINGS, **arguments):
    point = Point()

    def objective(rng):
        return ((point.place - 0.01 * torch.randn(2, generator=rng)) ** 2).sum(), 0.5

    history = train(point, objective, settings, **arguments)
    return point.place.detach(), history


def test_it_goes_downhill_and_writes_it_down():
    place, history = trained(TrainingSettings(steps=300, learning_rate=0.1, averaging=0.9))
    assert place.norm() < 0.1
    assert len(history.rows) == 300
    assert history["loss"][-1] < 0.01 * history["loss"][0]
    assert (history["marginal_error"] == 0.5).all()
    assert history["learning_rate"].max() <= 0.1


def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path):
    def stop(step, steps, loss):
        if step == 17:
            os.kill(os.getpid(), signal.SIGINT)

    path, whole = tmp_path / "run.checkpoint", trained()
    with pytest.raises(Interrupted, match="after step 17 of 40"):
        trained(checkpoint=Checkpoint(path, {}, False), progress=stop)
    sought = []
    place, history = trained(checkpoint=Checkpoint(path, {}, True), seek=sought.append)
    assert sought == [17]
    assert torch.equal(place, whole[0])
    assert history["loss"].tolist() == whole[1]["loss"].tolist()
    with pytest.raises(PrivotError, match="learning_rate 0.1, this run has 0.2"):
        trained(TrainingSettings(40, 0.2, 0.9), checkpoint=Checkpoint(path, {}, True))


def test_an_interrupted_run_leaves_the_average_so_far():
    def stop(step, steps, loss):
        if step == 17:
            os.kill(os.getpid(), signal.SIGINT)

    point, seen = Point(), []

    def objective(rng):
        seen.append(point.place.detach().clone())
        return (point.place**2).sum(), 0.0

    with pytest.raises(Interrupted) as stopped:
        train(point, objective, SETTINGS, progress=stop)
    assert stopped.value.history.totals()["steps"] == len(seen) == 17
    assert stopped.value.history.rows[-1][0] == 17
    # Between the weights of its last steps, and no longer the last ones.
    low, high = torch.stack(seen[8:]).aminmax(dim=0)
    assert ((low < point.place) & (point.place < high)).all()


class Clock:
    """Clock of the loop, which goes on by 10 ms a step, whatever else the machine does."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def tick(self, step, steps, loss):
        self.now += 0.01


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("privot.training.loop.time", clock)
    return clock


def test_a_time_limit_takes_as_many_steps_as_fit_and_cools_down_over_them(clock):
    """A step of 10 ms and a limit of half a second: about 50 of 4 000 steps, down to a rate of 0."""
    settings = TrainingSettings(4_000, 0.1, 0.9, minutes=0.5 / 60)
    planned = []

    def slowly(step, steps, loss):
        planned.append(steps)
        clock.tick(step, steps, loss)

    _, history = trained(settings, progress=slowly)
    steps = history.totals()["steps"]
    assert 45 < steps < 55
    assert planned[0] == 4_000
    assert planned[-1] == steps
    assert history["learning_rate"][-1] < 1e-3


def test_a_resumed_run_keeps_to_the_steps_that_its_time_allowed(tmp_path, clock):
    settings = TrainingSettings(4_000, 0.1, 0.9, minutes=0.6 / 60)

    def slowly_until(last):
        def tick(step, steps, loss):
            clock.tick(step, steps, loss)
            if step == last:
                os.kill(os.getpid(), signal.SIGINT)

        return tick

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted, match=r"of \d\d$") as stopped:
        trained(
            settings,
            checkpoint=Checkpoint(path, {}, False),
            progress=slowly_until(21),
        )
    _, history = trained(settings, checkpoint=Checkpoint(path, {}, True))
    assert str(stopped.value).endswith(f"of {history.totals()['steps']}")


def test_a_loss_that_is_no_number_is_told():
    point = Point()
    with pytest.raises(PrivotError, match="the loss became nan"):
        train(point, lambda rng: (point.place.sum() * torch.nan, 0.0), SETTINGS)


def test_the_average_forgets_its_first_steps():
    """The decay at step t is (1+t)/(10+t), until that exceeds the one that was asked for."""
    state = TrainingState(Point(), 0.999, 0.1, 0)
    state.average.update_parameters(state.model)  # begins at the weights
    expected = state.model.place.detach().clone()
    for t in (1, 2, 3):
        with torch.no_grad():
            state.model.place.add_(1.0)
        state.average.update_parameters(state.model)
        decay = (1 + t) / (10 + t)
        expected = decay * expected + (1 - decay) * state.model.place.detach()
    torch.testing.assert_close(state.average.module.place.detach(), expected)


def test_a_second_interruption_is_not_held_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), deferred_interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.requested
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("wrong", [{"averaging": 1.0}, {"steps": 0}, {"learning_rate": 0.0}])
def test_settings_are_checked(wrong):
    with pytest.raises(PrivotError, match=next(iter(wrong))):
        TrainingSettings(**{"steps": 5} | wrong)
