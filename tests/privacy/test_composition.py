"""Composition of guarantees: safe sums within one kind, and what mixed kinds imply together."""

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.privacy import (
    ApproximateDP,
    IntegralPrivacy,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    compose,
    guarantee_from_dict,
)
from privot.privacy.guarantees import weakest


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_pure_composition_is_a_safe_sum(epsilons):
    total = compose(*map(PureDP, epsilons)).epsilon
    exact = sum(mpmath.mpf(epsilon) for epsilon in epsilons)
    assert exact <= total <= exact * (1 + 1e-14)


def test_the_weakest_promise_has_the_largest_of_both_numbers():
    """Of promises to different people; whatever their order."""
    mixed = PureDP(3.0), ApproximateDP(1.0, 1e-6), ApproximateDP(2.0, 1e-9)
    assert weakest(*mixed) == weakest(*mixed[::-1]) == ApproximateDP(3.0, 1e-6)
    assert weakest(PureDP(1.0, unit="visit"), PureDP(4.0, unit="visit")) == PureDP(
        4.0, unit="visit"
    )
    crossing = RenyiDP((2.0, 8.0), (0.5, 1.0)), RenyiDP((2.0, 8.0), (0.25, 4.0))
    assert weakest(*crossing) == weakest(*crossing[::-1]) == RenyiDP((2.0, 8.0), (0.5, 4.0))


def test_mixed_kinds_compose_to_the_kind_all_of_them_imply():
    assert compose(PureDP(1.0), ApproximateDP(0.5, 1e-6)) == ApproximateDP(1.5, 1e-6)
    assert compose(ApproximateDP(0.5, 1e-6), PureDP(1.0)) == ApproximateDP(1.5, 1e-6)
    assert compose(PureDP(1.0), ZeroConcentratedDP(0.25)) == ZeroConcentratedDP(0.75)
    assert compose(PureDP(4.0), ZeroConcentratedDP(0.25)) == ZeroConcentratedDP(4.25)
    curve = RenyiDP((2.0, 32.0), (0.5, 1.0))
    assert compose(curve, PureDP(0.5)) == RenyiDP((2.0, 32.0), (0.75, 1.5))
    assert compose(ZeroConcentratedDP(0.1), curve).epsilons == pytest.approx((0.7, 4.2))
    assert compose(IntegralPrivacy(1.0), IntegralPrivacy(2.0)) == IntegralPrivacy(3.0)
    assert IntegralPrivacy(1.0).to_pure("replace_one") == PureDP(1.0, "replace_one")
    estimated = ApproximateDP(1.0, 1e-9, "any")
    assert compose(IntegralPrivacy(0.5), estimated) == ApproximateDP(1.5, 1e-9, "any")


@pytest.mark.parametrize("neighboring", ["replace_one", "zero_out"])
def test_any_two_data_sets_are_neighbors_of_every_kind(neighboring):
    slices = ApproximateDP(0.5, 1e-6, neighboring)
    both = ApproximateDP(1.5, 1e-6, neighboring)
    assert compose(slices, IntegralPrivacy(1.0)) == compose(IntegralPrivacy(1.0), slices) == both
    assert compose(ApproximateDP(1.0, 0.0, "any"), slices) == both
    assert compose(PureDP(1.0, neighboring), IntegralPrivacy(1.0)) == PureDP(2.0, neighboring)
    for refused in (PureDP(1.0), ApproximateDP(0.5, 1e-6, neighboring, "household")):
        with pytest.raises(PrivotError, match="neighboring is|unit is"):
            compose(IntegralPrivacy(1.0), refused)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: compose(), "give at least one"),
        (lambda: compose(PureDP(1.0), PureDP(1.0, "replace_one")), "neighboring is 'local'"),
        (lambda: compose(PureDP(1.0), PureDP(1.0, unit="visit")), "unit is 'person'"),
        (lambda: weakest(PureDP(1.0), PureDP(2.0, unit="visit")), "unit is 'person'"),
        (lambda: weakest(PureDP(1.0), PureDP(2.0, "replace_one")), "neighboring is 'local'"),
        (lambda: weakest(RenyiDP((2.0,), (1.0,)), RenyiDP((3.0,), (1.0,))), "same orders"),
        (
            lambda: compose(ZeroConcentratedDP(1.0), ApproximateDP(1.0, 1e-6)),
            r"to_approximate\(delta\)",
        ),
        (lambda: compose(RenyiDP((2.0,), (1.0,)), RenyiDP((3.0,), (1.0,))), "same orders"),
        (lambda: guarantee_from_dict({"kind": "DP"}), "kind is 'DP': choose one of"),
        (lambda: guarantee_from_dict({"kind": "PureDP", "eps": 1.0}), "no field 'eps'"),
        (lambda: guarantee_from_dict({"kind": "PureDP"}), "cannot be read"),
    ],
)
def test_refusals_name_value_and_remedy(build, message):
    with pytest.raises(PrivotError, match=message):
        build()
