"""Laplace noise and randomized response: exact on the safe side, against rationals and 60 digits."""

import math
from fractions import Fraction

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution, privacy_loss_mechanism
from hypothesis import given
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.privacy import (
    calibrate_laplace,
    calibrate_randomized_response,
    laplace_epsilon,
    randomized_response_epsilon,
)

positive = st.floats(1e-100, 1e100)


@given(sensitivity=positive, epsilon=positive)
def test_laplace_scale_is_the_smallest_safe_float(sensitivity, epsilon):
    scale = calibrate_laplace(sensitivity, epsilon)
    exact = Fraction(sensitivity) / Fraction(epsilon)
    assert exact <= Fraction(scale) <= exact * (1 + Fraction(1, 2**52))


@given(sensitivity=positive, scale=positive)
def test_laplace_epsilon_is_never_below_the_truth(sensitivity, scale):
    exact = Fraction(sensitivity) / Fraction(scale)
    assert exact <= Fraction(laplace_epsilon(scale, sensitivity))


@given(sensitivity=positive, epsilon=st.floats(1e-3, 1e3))
def test_laplace_epsilon_inverts_calibration(sensitivity, epsilon):
    assert laplace_epsilon(calibrate_laplace(sensitivity, epsilon), sensitivity) <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_dp_accounting_sees_no_delta_at_our_laplace_epsilon(epsilon):
    scale = calibrate_laplace(3.0, epsilon)
    loss = privacy_loss_mechanism.LaplacePrivacyLoss(scale, sensitivity=3.0)
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(0.0, abs=1e-15)
    assert loss.get_delta_for_epsilon(0.9 * epsilon) > 0.01


def exact_epsilon(keep, num_categories):
    with mpmath.workdps(60):
        keep = mpmath.mpf(keep)
        return abs(mpmath.log(keep * (num_categories - 1) / (1 - keep)))


@given(keep=st.floats(1e-12, 1 - 1e-12), num_categories=st.integers(2, 10_000))
def test_epsilon_is_rounded_up_once(keep, num_categories):
    exact = exact_epsilon(keep, num_categories)
    epsilon = randomized_response_epsilon(keep, num_categories)
    assert exact <= epsilon <= exact * (1 + mpmath.mpf(2) ** -51)


@given(epsilon=st.floats(0.01, 30.0), num_categories=st.integers(2, 10_000))
def test_keep_probability_is_the_largest_safe_float(epsilon, num_categories):
    keep = calibrate_randomized_response(num_categories, epsilon)
    assert exact_epsilon(keep, num_categories) <= epsilon
    assert exact_epsilon(math.nextafter(keep, 1.0), num_categories) > epsilon


def test_extremes():
    assert calibrate_randomized_response(2, 0.0) == 0.5
    assert calibrate_randomized_response(2, 1000.0) == math.nextafter(1.0, 0.0)
    # Reporting anything but the truth gives the truth away as well.
    assert randomized_response_epsilon(0.1, 2) == pytest.approx(math.log(9))


@pytest.mark.parametrize("num_categories", [2, 7])
def test_dp_accounting_sees_no_delta_at_our_epsilon(num_categories):
    keep = calibrate_randomized_response(num_categories, 1.5)
    noise = (1 - keep) * num_categories / (num_categories - 1)
    loss = privacy_loss_distribution.from_randomized_response(
        noise, num_categories, value_discretization_interval=1e-4
    )
    assert loss.get_delta_for_epsilon(1.5 + 1e-4) == pytest.approx(0.0, abs=1e-12)
    assert loss.get_delta_for_epsilon(1.3) > 0.01


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate_laplace(0.0, 1.0), "sensitivity is 0.0"),
        (lambda: calibrate_laplace(1.0, 0.0), "epsilon is 0.0"),
        (lambda: calibrate_laplace(1e300, 1e-300), "scale sensitivity/epsilon is inf"),
        (lambda: laplace_epsilon(0.0, 1.0), "scale is 0.0"),
        (lambda: laplace_epsilon(1.0, -1.0), "sensitivity is -1.0"),
        (lambda: calibrate_randomized_response(1, 1.0), "categories 1 cannot be"),
        (lambda: calibrate_randomized_response(2, -1.0), "epsilon is -1.0"),
        (lambda: randomized_response_epsilon(1.0, 2), "strictly between 0 and 1"),
        (lambda: randomized_response_epsilon(0.5, 1), "categories 1 cannot be"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()
