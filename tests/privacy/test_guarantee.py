import json
import math

import mpmath
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st

from privot.errors import PrivotError
from privot.privacy import (
    ApproximateDP,
    IntegralPrivacy,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    compose,
    gaussian_epsilon,
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
        (lambda: RenyiDP((), ()), "at least one order"),
        (lambda: RenyiDP((2.0,), (1.0, 2.0)), "one epsilon for each order"),
        (lambda: RenyiDP((1.0,), (1.0,)), "orders holds 1.0"),
        (lambda: RenyiDP((2.0,), (-1.0,)), "epsilons is -1.0"),
        (lambda: ZeroConcentratedDP(-0.1), "rho is -0.1"),
        (lambda: IntegralPrivacy(1.0, "local"), "use to_pure"),
        (lambda: IntegralPrivacy(1.0).to_pure("local"), "trusts a curator with raw records"),
        (lambda: ApproximateDP(1.0, 1e-3).to_approximate(1e-6), "calibrate the mechanism again"),
        (lambda: ZeroConcentratedDP(1.0).to_approximate(0.0), "give 0 < delta < 1"),
        (lambda: compose(), "give at least one"),
        (lambda: compose(PureDP(1.0), PureDP(1.0, "replace_one")), "neighboring is 'local'"),
        (lambda: compose(PureDP(1.0), PureDP(1.0, unit="visit")), "unit is 'person'"),
        (
            lambda: compose(ZeroConcentratedDP(1.0), ApproximateDP(1.0, 1e-6)),
            r"to_approximate\(delta\)",
        ),
        (lambda: compose(RenyiDP((2.0,), (1.0,)), RenyiDP((3.0,), (1.0,))), "same orders"),
        (lambda: guarantee_from_dict({"kind": "DP"}), "kind is 'DP': choose one of PureDP"),
        (lambda: guarantee_from_dict({"kind": "PureDP", "eps": 1.0}), "no field 'eps'"),
        (lambda: guarantee_from_dict({"kind": "PureDP"}), "cannot be read"),
    ],
)
def test_refusals_name_value_and_remedy(build, message):
    with pytest.raises(PrivotError, match=message):
        build()


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_pure_composition_is_a_safe_sum(epsilons):
    total = compose(*map(PureDP, epsilons)).epsilon
    exact = sum(mpmath.mpf(epsilon) for epsilon in epsilons)
    assert exact <= total <= exact * (1 + 1e-14)


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


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_zcdp_conversion_is_the_best_order_and_safe(rho, delta):
    def conversion(order):
        order = mpmath.mpf(order)
        return rho * order + mpmath.log1p(-1 / order) - mpmath.log(delta * order) / (order - 1)

    best = min(conversion(1 + 10 ** (k / 200)) for k in range(-800, 1400))
    epsilon = ZeroConcentratedDP(rho).to_approximate(delta).epsilon
    assert epsilon <= max(0, best) * (1 + 1e-9) + 1e-12
    # The Gaussian mechanism with this rho really needs less, never more.
    assert gaussian_epsilon(1 / math.sqrt(2 * rho), 1.0, delta) <= epsilon * (1 + 1e-9)


def test_renyi_conversion_agrees_with_dp_accounting():

    orders = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    curve = ZeroConcentratedDP(0.05).to_renyi(orders)
    theirs, _ = rdp_privacy_accountant.compute_epsilon(orders, curve.epsilons, 1e-5)
    assert curve.to_approximate(1e-5).epsilon == pytest.approx(theirs, rel=1e-12)
