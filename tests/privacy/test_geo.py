"""A promise in proportion to distance: what it says, converts to, and composes with."""

import json

import pytest

from privot.errors import PrivotError
from privot.privacy import (
    ApproximateDP,
    GeoIndistinguishability,
    PureDP,
    compose,
    guarantee_from_dict,
)

WALK = GeoIndistinguishability(0.5, distance_unit="kilometer", epsilon_rounding=1e-6)


def test_json_round_trip():
    assert guarantee_from_dict(json.loads(json.dumps(WALK.to_dict()))) == WALK


def test_plain_words():
    text = WALK.describe()
    assert "one kilometer apart by a factor of at most e^0.5001 = 1.65" in text
    assert "at twice that distance e^1.001 = 2.73" in text
    assert str(WALK) == (
        "ε = 0.5 per kilometer plus 1e-06 (geo-indistinguishability), local, per person"
    )


def test_distance_and_rounding_count_upward():
    assert WALK.epsilon_at(0.0) == 1e-6
    assert WALK.to_pure(20.0) == PureDP(WALK.epsilon_at(20.0))
    assert WALK.to_pure(20.0).epsilon > 10.0
    third = GeoIndistinguishability(1 / 3)
    assert third.to_pure(3.0).epsilon >= 3 * (1 / 3)


def test_reports_of_one_person_add_up():
    both = compose(WALK, WALK, WALK)
    assert both.epsilon_per_unit == 1.5
    assert both.epsilon_rounding >= 3e-6
    assert both.distance_unit == "kilometer"


@pytest.mark.parametrize("other", [PureDP(1.0), ApproximateDP(1.0, 1e-6)])
def test_other_kinds_are_refused_until_a_diameter_is_given(other):
    for pair in ((WALK, other), (other, WALK)):
        with pytest.raises(PrivotError, match="to_pure"):
            compose(*pair)
    assert compose(WALK.to_pure(2.0), other).epsilon > 2.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GeoIndistinguishability(-1.0), "epsilon_per_unit is -1.0"),
        (lambda: GeoIndistinguishability(1.0, epsilon_rounding=-1.0), "epsilon_rounding is -1.0"),
        (lambda: GeoIndistinguishability(1.0, "replace_one"), "leave it 'local'"),
        (lambda: GeoIndistinguishability(1.0, unit=""), "unit is empty"),
        (lambda: GeoIndistinguishability(1.0, distance_unit=""), "distance_unit is empty"),
        (lambda: WALK.to_pure(-1.0), "distance is -1.0"),
        (
            lambda: compose(WALK, GeoIndistinguishability(1.0, distance_unit="mile")),
            "same distance_unit",
        ),
        (lambda: compose(WALK, GeoIndistinguishability(1.0, unit="visit")), "unit is 'person'"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()
