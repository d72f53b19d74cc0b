import math

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_mechanism
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.privacy import (
    calibrate_gaussian,
    calibrate_gaussian_zhao,
    gaussian_delta,
    gaussian_epsilon,
)


def exact_delta(stddev, sensitivity, epsilon, about):
    """Balle and Wang's formula, term by term, with 100 digits to spare of a δ of `about` that size."""
    with mpmath.workdps(100 + math.ceil(-math.log10(max(about, 1e-320)))):
        m, epsilon = mpmath.mpf(sensitivity) / mpmath.mpf(stddev), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - epsilon / m) - mpmath.exp(epsilon) * mpmath.ncdf(
            -m / 2 - epsilon / m
        )


epsilons = st.one_of(st.just(0.0), st.floats(1e-4, 3000.0))
deltas = st.floats(-300.0, -0.1).map(lambda exponent: 10.0**exponent)


@settings(max_examples=20, deadline=None)
@given(epsilon=epsilons, delta=deltas)
def test_calibration_is_safe_and_tight(epsilon, delta):
    stddev = calibrate_gaussian(1.0, epsilon, delta)
    assert exact_delta(stddev, 1.0, epsilon, delta) <= delta
    assert exact_delta(stddev * (1 - 1e-10), 1.0, epsilon, delta) > delta


@settings(max_examples=150, deadline=None)
@given(m=st.floats(1e-3, 60.0), ratio=st.floats(0.0, 30.0))
def test_delta_is_an_upper_bound_within_rounding(m, ratio):
    epsilon = ratio * m
    delta = gaussian_delta(1.0, m, epsilon)
    exact = exact_delta(1.0, m, epsilon, delta)
    assert exact <= delta
    assert delta <= exact * (1 + 1e-10) + mpmath.mpf(1e-300)


@pytest.mark.parametrize("stddev", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_delta_agrees_with_dp_accounting(stddev, epsilon):
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(stddev, sensitivity=1.0)
    theirs = loss.get_delta_for_epsilon(epsilon)
    assert gaussian_delta(stddev, 1.0, epsilon) == pytest.approx(theirs, rel=1e-9)


def test_published_number():
    assert calibrate_gaussian(1.0, 1.0, 1e-6) == pytest.approx(4.22468, abs=5e-6)


@pytest.mark.parametrize(("epsilon", "looser"), [(35.0, 1.04), (5.0, 1.13), (1.0, 1.28)])
def test_closed_form_is_valid_and_looser_by_what_is_claimed(epsilon, looser):
    closed = calibrate_gaussian_zhao(1.0, epsilon, 1e-4)
    assert gaussian_delta(closed, 1.0, epsilon) <= 1e-4
    assert closed / calibrate_gaussian(1.0, epsilon, 1e-4) == pytest.approx(looser, abs=0.005)


@pytest.mark.parametrize(
    ("radius", "claimed", "delta", "true"), [(28.0, 35.0, 1e-4, 94.7), (20.0, 25.0, 1e-4, 64.4)]
)
def test_radius_in_place_of_the_diameter_is_far_more_than_twice(radius, claimed, delta, true):
    stddev = calibrate_gaussian_zhao(radius, claimed, delta)
    assert gaussian_epsilon(stddev, 2 * radius, delta) == pytest.approx(true, abs=0.06)


@settings(max_examples=60, deadline=None)
@example(epsilon=0.0625, delta=0.1, sensitivity=1.0)
@given(epsilon=st.floats(1e-3, 50.0), delta=deltas, sensitivity=st.floats(1e-6, 1e6))
def test_epsilon_inverts_calibration(epsilon, delta, sensitivity):
    stddev = calibrate_gaussian(sensitivity, epsilon, delta)
    back = gaussian_epsilon(stddev, sensitivity, delta)
    # δ barely moves with σ where it is close to 1, so ε is compared through δ.
    assert gaussian_delta(stddev, sensitivity, back) <= delta
    assert back <= epsilon * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.floats(0.0, 50.0),
    more=st.floats(1.001, 3.0),
    delta=deltas,
    sensitivity=st.floats(1e-3, 1e3),
)
def test_monotone(epsilon, more, delta, sensitivity):
    stddev = calibrate_gaussian(sensitivity, epsilon, delta)
    assert calibrate_gaussian(sensitivity * more, epsilon, delta) > stddev
    assert calibrate_gaussian(sensitivity, epsilon * more + 0.01, delta) < stddev
    assert gaussian_epsilon(stddev, sensitivity * more, delta) >= gaussian_epsilon(
        stddev, sensitivity, delta
    )


@pytest.mark.parametrize("epsilon", [0.0, 1e-18, 1e-12, 1e-6])
@pytest.mark.parametrize("delta", [1e-200, 1e-6, 0.1, 0.9])
def test_epsilon_near_zero_is_found(epsilon, delta):
    back = gaussian_epsilon(calibrate_gaussian(1.0, epsilon, delta), 1.0, delta)
    assert back <= epsilon * (1 + 1e-9) + 1e-15


def test_no_difference_between_neighbors_costs_nothing():
    assert gaussian_delta(1.0, 0.0, 0.0) == 0.0
    assert gaussian_epsilon(1.0, 0.0, 1e-6) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate_gaussian(0.0, 1.0, 1e-6), "sensitivity is 0.0"),
        (lambda: calibrate_gaussian(1.0, -1.0, 1e-6), "epsilon is -1.0"),
        (lambda: calibrate_gaussian(1.0, 1.0, 0.0), "delta is 0.0: give 0 < delta < 1"),
        (lambda: calibrate_gaussian_zhao(1.0, 1.0, 0.5), "delta is 0.5"),
        (lambda: gaussian_delta(0.0, 1.0, 1.0), "stddev is 0.0"),
        (lambda: gaussian_epsilon(1.0, 1.0, 0.0), "delta is 0.0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()


@pytest.mark.parametrize(
    "compute",
    [
        lambda: gaussian_delta(1.0, 1e300, 0.1),
        lambda: gaussian_delta(1e-300, 1e3, 5.0),
        lambda: gaussian_epsilon(1.0, 1e200, 0.1),
        lambda: calibrate_gaussian(1.0, 1e300, 1e-9),
    ],
)
def test_numbers_beyond_use_are_refused(compute):
    with pytest.raises(PrivotError, match="give"):
        compute()


def test_vanishing_sensitivity_needs_no_delta():
    assert gaussian_delta(1.0, 1e-300, 0.1) < 1e-300
    assert gaussian_delta(1.0, 1e-300, 0.0) == pytest.approx(3.989e-301, rel=1e-3)
