"""A fit that is told to stop keeps what it has."""

import os
import signal

import pytest

from privot.core.errors import PrivotError
from privot.training import Interrupted, Patience
from privot.training.settings import StepLimit, require_minutes


def test_patience_ends_with_its_time_and_says_so():
    assert not Patience().over()
    assert not Patience(5.0).over()
    short = Patience(1e-9)
    assert short.over()
    assert short.facts() == {"stopped": "stopped after 1e-09 minutes"}
    assert short.rest("a model") == "a model"
    assert Patience(5.0).facts() == {}


def test_an_interruption_ends_patience_and_carries_the_model():
    before, patience = signal.getsignal(signal.SIGINT), Patience()
    with patience.deferring():
        os.kill(os.getpid(), signal.SIGINT)
        assert patience.over()
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(Interrupted, match="interruption") as stopped:
        patience.finish("a model")
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
