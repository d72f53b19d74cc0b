"""Guarantees as types: what they say, write, convert to and refuse."""

import json
import math
from dataclasses import replace

import pytest

from privot.core.errors import PrivotError
from privot.privacy import (
    ApproximateDP,
    DistributedDP,
    IntegralPrivacy,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    compose,
    guarantee_from_dict,
    weakest,
)

EVERY_KIND = [
    PureDP(4.0),
    ApproximateDP(1.0, 1e-6, "replace_one", "household"),
    RenyiDP((2.0, 8.0), (0.1, 0.4), "zero_out"),
    ZeroConcentratedDP(0.5),
    IntegralPrivacy(2.0),
    DistributedDP(1.0, 1e-6, "shuffled", 1000, floor=4.0),
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
        (lambda: DistributedDP(1.0, 1e-6, "local", 10), "where is 'local': choose one of shuffled"),
        (lambda: DistributedDP(1.0, 1e-6, "shuffled", 10, -1.0), "floor is -1.0"),
    ],
)
def test_refusals_name_value_and_remedy(build, message):
    with pytest.raises(PrivotError, match=message):
        build()


def test_who_is_trusted_and_what_is_left_if_they_lie():
    shuffled = DistributedDP(1.0, 1e-6, "shuffled", 200_000, floor=8.5)
    aggregated = DistributedDP(1.0, 1e-6, "aggregated", 200_000)
    assert str(shuffled) == (
        "ε = 1, δ = 1e-06 if the shuffler and 200,000 senders are honest, else ε = 8.5 (pure, local), "
        "replace_one, per person"
    )
    assert "else nothing" in str(aggregated)
    assert "nothing is promised then" in aggregated.describe()
    words = shuffled.describe()
    assert "counts all senders as honest" in words
    assert (
        "If they are all but one, or the shuffler lies, the noise of each report is left" in words
    )
    assert "e^8.5 = 5,000" in words
    for guarantee in (shuffled, aggregated):
        assert guarantee_from_dict(guarantee.to_dict()) == guarantee
        assert guarantee.to_approximate() == ApproximateDP(1.0, 1e-6, "replace_one")


def test_two_batches_of_one_person_add_up_and_the_smaller_is_named():
    first = DistributedDP(1.0, 1e-6, "shuffled", 200_000, floor=8.5)
    second = DistributedDP(0.5, 1e-7, "shuffled", 1_000, floor=3.0)
    both = compose(first, second)
    assert (both.epsilon, both.people, both.floor) == (1.5, 1_000, 11.5)
    assert both.delta == pytest.approx(1.1e-6)
    with pytest.raises(PrivotError, match="where is 'shuffled' in one guarantee"):
        compose(first, DistributedDP(0.5, 1e-7, "aggregated", 1_000))
    with pytest.raises(PrivotError, match="cannot be composed"):
        compose(first, ApproximateDP(0.5, 1e-7, "replace_one"))


def test_batches_with_reports_of_the_same_person_say_how_many_and_floors_add_up():
    one = DistributedDP(0.5, 1e-6, "shuffled", 2000, floor=3.0)
    both = one.plus(replace(one, epsilon=0.25, people=1000))
    assert both == DistributedDP(0.75, 2e-6, "shuffled", 1000, floor=6.0, batches=2, unequal=True)
    assert one.times(3) == DistributedDP(1.5, 3e-6, "shuffled", 2000, floor=9.0, batches=3)
    assert replace(one, floor=None).times(2).floor is None
    assert one.weaker(both) == replace(both, people=1000)
    assert str(both).startswith(
        "ε = 0.75, δ = 2e-06 of 2 batches if the shuffler and all senders of each batch, 1,000 or "
        "more, are honest, else ε = 6"
    )
    words = both.describe()
    assert "2 batches of 1,000 reports or more, with one of the same person in each, have" in words
    assert "batches" not in str(one)
    # 1,000 honest senders among 2,000 would not suffice for the ε of a batch of 2,000.
    either = one.weaker(replace(one, epsilon=0.25, people=1000))
    assert "if the shuffler and all senders of each batch, 1,000 or more, are honest" in str(either)
    assert "each batch, of 1,000 reports or more, has this promise" in either.describe()
    assert guarantee_from_dict(both.to_dict()) == both


@pytest.mark.parametrize("count", [1, 7])
def test_losses_of_many_uses_are_those_of_their_composition(count):
    for each in (PureDP(0.1), ApproximateDP(0.1, 1e-7), ZeroConcentratedDP(0.3)):
        for name in each.losses:
            summed = getattr(compose(*[each] * count), name)
            assert getattr(each.times(count), name) == pytest.approx(summed, rel=1e-12)
    curve = RenyiDP(orders=(2.0, 8.0), epsilons=(0.25, 0.5))
    assert curve.times(count) == compose(*[curve] * count)
    with pytest.raises(PrivotError, match="count 0 cannot be"):
        PureDP(1.0).times(0)


def test_guarantees_of_two_places_of_trust_have_no_weakest():
    with pytest.raises(PrivotError, match="fit releases of one place of trust together"):
        weakest(PureDP(1.0), DistributedDP(1.0, 1e-6, "shuffled", 1000, floor=4.0))
