"""A fit that is told to stop keeps what it has."""

import os
import signal

import pytest

from privot.core.errors import PrivotError, require_minutes
from privot.training import FitMonitor, Interrupted, StepLimit


def test_a_monitor_ends_with_its_time_and_says_so():
    assert not FitMonitor().over()
    assert not FitMonitor(5.0).over()
    short = FitMonitor(1e-9)
    assert short.over()
    assert short.facts()["stopped"] == "stopped after 1e-09 minutes"
    assert short.finish("a model") == "a model"
    assert [*FitMonitor(5.0).facts()] == ["seconds"]


def test_an_interruption_ends_a_fit_and_carries_the_model():
    before, monitor = signal.getsignal(signal.SIGINT), FitMonitor()
    with monitor.deferring():
        os.kill(os.getpid(), signal.SIGINT)
        assert monitor.over()
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(Interrupted, match="interruption") as stopped:
        monitor.finish("a model")
    assert stopped.value.model == "a model"


def test_a_limit_knows_how_many_steps_are_left_and_forgets_the_slow_first_ones():
    """100 s, of which the first five steps take 10 s each, and others 1 s."""
    limit, told = StepLimit(100.0, step=30), []
    for done in range(1, 21):
        told.append(limit.steps(30 + done, 10.0 * min(done, 5) + max(0, done - 5)))
    assert told[:-1] == [0] * 19
    assert told[-1] == 50 + 35


def test_time_that_is_up_at_once_is_told_at_once():
    assert StepLimit(1.0, step=0).steps(1, 2.0) == 1


@pytest.mark.parametrize("minutes", [0, -1.0, float("nan"), float("inf")])
def test_no_time_is_refused(minutes):
    with pytest.raises(PrivotError, match="minutes"):
        require_minutes(minutes)
