"""Settings are checked where they are given, and fill in what depends on the loss."""

import numpy as np
import pytest

from privot import FitSettings
from privot.core.errors import PrivotError
from privot.local.settings import Run


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"steps": 0}, "steps 0 cannot be"),
        ({"learning_rate": -1.0}, "learning_rate -1.0"),
        ({"batch_size": 1}, "batch_size 1 cannot be"),
        ({"loss": "wasserstein"}, "loss is 'wasserstein': choose one of"),
        ({"estimator": "gan"}, "estimator is 'gan': choose one of"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_refusals(given, words):
    with pytest.raises(PrivotError, match=words):
        FitSettings(**given)


def test_numbers_of_numpy_become_plain_ones():
    settings = FitSettings(steps=np.int64(7), batch_size=np.int64(9), seed=np.int64(3))
    assert [type(v) for v in (settings.steps, settings.batch_size, settings.seed)] == [int] * 3


def test_a_schedule_is_what_was_given_and_defaults_of_the_loss_otherwise():
    assert FitSettings(steps=7).schedule("likelihood") == (7, 200, 3e-3)
    assert FitSettings(batch_size=9).schedule(images=True, labels=True) == (6_000, 9, 2.5e-3)
    assert FitSettings(learning_rate=1.0).schedule("plain") == (12_000, 500, 1.0)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(PrivotError, match="device 'tpu9' is not known"):
        Run("tpu9")
