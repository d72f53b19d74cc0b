"""Guarantees as types: what they say, write, convert to and refuse."""

import json
import math

import pytest

from privot.core.errors import PrivotError
from privot.privacy import (
    ApproximateDP,
    IntegralPrivacy,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    guarantee_from_dict,
)

EVERY_KIND = [
    PureDP(4.0),
    ApproximateDP(1.0, 1e-6, "replace_one", "household"),
    RenyiDP((2.0, 8.0), (0.1, 0.4), "zero_out"),
    ZeroConcentratedDP(0.5),
    IntegralPrivacy(2.0),
]


@pytest.mark.parametrize("guarantee", EVERY_KIND, ids=lambda g: type(g).__name__)
def test_json_round_trip(guarantee):
    assert guarantee_from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


@pytest.mark.parametrize("guarantee", EVERY_KIND, ids=lambda g: type(g).__name__)
def test_text_names_the_neighbors_and_the_unit(guarantee):
    assert guarantee.neighboring in str(guarantee)
    assert guarantee.unit in str(guarantee)
    assert "factor of" in guarantee.describe()


def test_plain_words():
    expected = (
        "Whoever sees one person's report can change their odds between any two values of that "
        "person's record by a factor of at most e^4 = 55"
    )
    assert expected in PureDP(4.0).describe()
    text = ApproximateDP(1.0, 1e-6).describe()
    assert "e^1 = 2.72 plus 1e-06" in text
    assert "except with probability" not in text
    assert ApproximateDP(1.0, 0.0).describe() == PureDP(1.0).describe()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PureDP(-1.0), "epsilon is -1.0: give a number that is finite and at least 0"),
        (lambda: PureDP(math.nan), "epsilon is nan"),
        (lambda: PureDP(math.inf), "epsilon is inf"),
        (lambda: PureDP(1.0, "neighbour"), "choose one of local, replace_one, zero_out, any"),
        (lambda: PureDP(1.0, unit=""), "unit is empty"),
        (lambda: ApproximateDP(1.0, 1.0), r"delta is 1.0: give 0 <= delta < 1"),
        (lambda: ApproximateDP(1.0, math.nan), "delta is nan"),
        (lambda: IntegralPrivacy(1.0, "local"), "use to_pure"),
        (lambda: IntegralPrivacy(1.0).to_pure("local"), "trusts a curator with raw records"),
    ],
)
def test_refusals_name_value_and_remedy(build, message):
    with pytest.raises(PrivotError, match=message):
        build()
