"""Fitting waves: what cannot be is refused, and waves of one randomizer are fitted as one."""

import pytest

from moving_people import SCHEMA, SQUARE, people, places, waves
from privot import Randomizer, count
from privot.core.errors import PrivotError
from privot.local import fit_waves
from privot.local.waves.wave_model import _merge_waves


def test_waves_of_one_randomizer_are_one_release():
    first = waves([0.2, 0.3], 50)
    other = Randomizer.calibrate(SCHEMA, 2.0).privatize(people(0.3, 40, 5))
    assert [len(each) for each in _merge_waves([*map(count, (*first, other))])] == [100, 40]


@pytest.mark.parametrize(
    ("given", "times", "words"),
    [
        (lambda: waves([0.2], 20), None, "releases has 1: give two waves"),
        (lambda: waves([0.2, 0.3], 20), [1], "times has 1 for 2 waves"),
        (lambda: [*waves([0.2], 20), people(0.2, 20, 0)], None, "release is a dict"),
        (
            lambda: [*waves([0.2], 20), *waves([0.2], 20, drawn=places, schema=SQUARE)],
            None,
            "fit them apart",
        ),
    ],
)
def test_what_cannot_be_is_refused(given, times, words):
    with pytest.raises(PrivotError, match=words):
        fit_waves(given(), times)
