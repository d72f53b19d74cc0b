"""Pairs of larger weight are told better, at the same promise; what is no pair of columns is refused."""

import math

import numpy as np
import pytest

from privot import PrivotError, Randomizer, Schema
from privot.randomizer import weigh_pairs
from privot.randomizer.information import joint_errors

SCHEMA = Schema.from_dict(
    {"columns": {name: {"kind": "numeric", "bounds": [0, 1], "bins": 8} for name in "abcdef"}}
)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_a_heavy_pair_errs_less_and_the_others_more(epsilon):
    plain = Randomizer.calibrate(SCHEMA, epsilon)
    weighed = weigh_pairs(plain, {("c", "a"): 20.0})
    assert weighed.guarantee == plain.guarantee
    before, after = (joint_errors(r.joint.asked, epsilon, 10_000)[1] for r in (plain, weighed))
    assert after[0, 2] < 0.95 * before[0, 2]
    others = ~np.eye(6, dtype=bool)
    others[0, 2] = others[2, 0] = False
    assert np.all(after[others] > before[others])
    assert np.all(np.isfinite(after[others]))  # nobody stops to be asked


def test_equal_weights_are_what_calibration_takes():
    plain = Randomizer.calibrate(SCHEMA, 4.0)
    assert weigh_pairs(plain, {("a", "b"): 1.0}).to_json() == plain.to_json()


def test_it_is_saved_read_and_drawn_from(tmp_path):
    weighed = weigh_pairs(Randomizer.calibrate(SCHEMA, 4.0), {("a", "b"): 9.0})
    weighed.save(tmp_path / "randomizer.json")
    loaded = Randomizer.load(tmp_path / "randomizer.json")
    assert loaded.joint.asked.weights == weighed.joint.asked.weights
    people = {name: np.random.default_rng(0).random(50) for name in "abcdef"}
    assert len(loaded.privatize(people)) == 50


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({("a", "a"): 2.0}, "no pair of the joint report's columns"),
        ({("a", "z"): 2.0}, "no pair of the joint report's columns"),
        ({("a", "b", "c"): 2.0}, "no pair"),
        ({("a", "b"): 0.0}, "give a number above 0"),
        ({("a", "b"): math.inf}, "give a number above 0"),
        ({("a", "b"): math.nan}, "give a number above 0"),
    ],
)
def test_what_is_no_weight_of_a_pair_is_refused(weights, message):
    with pytest.raises(PrivotError, match=message):
        weigh_pairs(Randomizer.calibrate(SCHEMA, 4.0), weights)


def test_split_columns_have_no_pairs():
    with pytest.raises(PrivotError, match="no joint report"):
        weigh_pairs(Randomizer.calibrate(SCHEMA, 4.0, report="split"), {("a", "b"): 2.0})
