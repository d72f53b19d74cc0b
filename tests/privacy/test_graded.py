"""Rényi and zero-concentrated privacy: their conversion to (ε, δ), and what they refuse.

A promise in proportion to distance: what it says, converts to, and composes with.
"""

import json
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant

from privot.core.errors import PrivotError
from privot.privacy import (
    ApproximateDP,
    GeoIndistinguishability,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    compose,
    gaussian_epsilon,
    guarantee_from_dict,
)


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_zcdp_conversion_is_the_best_order_and_safe(rho, delta):
    def conversion(order):
        return rho * order + np.log1p(-1 / order) - np.log(delta * order) / (order - 1)

    # Doubles suffice: orders are 1 + 1e-4 or more, so each term errs by at most 1e-11 of itself.
    best = conversion(1 + 10 ** (np.arange(-800, 1400) / 200)).min()
    epsilon = ZeroConcentratedDP(rho).to_approximate(delta).epsilon
    assert epsilon <= max(0, best) * (1 + 1e-9) + 1e-12
    # The Gaussian mechanism with this rho really needs less, never more.
    assert gaussian_epsilon(1 / math.sqrt(2 * rho), 1.0, delta) <= epsilon * (1 + 1e-9)


def test_renyi_conversion_agrees_with_dp_accounting():
    orders = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    curve = ZeroConcentratedDP(0.05).to_renyi(orders)
    theirs, _ = rdp_privacy_accountant.compute_epsilon(orders, curve.epsilons, 1e-5)
    assert curve.to_approximate(1e-5).epsilon == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 12.0])
def test_what_a_pure_promise_implies_covers_randomized_response_and_is_reached(epsilon):
    """Two answers of odds e^ε have D_α = log(p^α q^(1−α) + q^α p^(1−α)) / (α−1), exactly."""
    orders = (1.001, 1.5, 2.0, 8.0, 100.0)
    rho = ZeroConcentratedDP.of_pure(PureDP(epsilon)).rho
    curve = RenyiDP.of_pure(PureDP(epsilon), orders).epsilons
    with mpmath.workdps(40):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        for order, bound in zip(orders, curve, strict=True):
            a = mpmath.mpf(order)
            power = p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)
            loss = mpmath.log(power) / (a - 1)
            assert loss <= bound <= epsilon
            assert loss <= rho * a
            assert epsilon > 0.1 or order > 2 or loss > 0.98 * rho * a


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RenyiDP((), ()), "at least one order"),
        (lambda: RenyiDP((2.0,), (1.0, 2.0)), "one epsilon for each order"),
        (lambda: RenyiDP((1.0,), (1.0,)), "orders holds 1.0"),
        (lambda: RenyiDP((2.0,), (-1.0,)), "epsilons is -1.0"),
        (lambda: ZeroConcentratedDP(-0.1), "rho is -0.1"),
        (lambda: ZeroConcentratedDP(1.0).to_approximate(0.0), "give 0 < delta < 1"),
    ],
)
def test_refusals_name_value_and_remedy(build, message):
    with pytest.raises(PrivotError, match=message):
        build()


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
