from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_mechanism
from hypothesis import given
from hypothesis import strategies as st

from privot.errors import PrivotError
from privot.privacy import calibrate_laplace, laplace_epsilon

positive = st.floats(1e-100, 1e100)


@given(sensitivity=positive, epsilon=positive)
def test_scale_is_the_smallest_safe_float(sensitivity, epsilon):
    scale = calibrate_laplace(sensitivity, epsilon)
    exact = Fraction(sensitivity) / Fraction(epsilon)
    assert exact <= Fraction(scale) <= exact * (1 + Fraction(1, 2**52))


@given(sensitivity=positive, scale=positive)
def test_epsilon_is_never_below_the_truth(sensitivity, scale):
    exact = Fraction(sensitivity) / Fraction(scale)
    assert exact <= Fraction(laplace_epsilon(scale, sensitivity))


@given(sensitivity=positive, epsilon=st.floats(1e-3, 1e3))
def test_epsilon_inverts_calibration(sensitivity, epsilon):
    assert laplace_epsilon(calibrate_laplace(sensitivity, epsilon), sensitivity) <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_dp_accounting_sees_no_delta_at_our_epsilon(epsilon):
    scale = calibrate_laplace(3.0, epsilon)
    loss = privacy_loss_mechanism.LaplacePrivacyLoss(scale, sensitivity=3.0)
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(0.0, abs=1e-15)
    assert loss.get_delta_for_epsilon(0.9 * epsilon) > 0.01


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate_laplace(0.0, 1.0), "sensitivity is 0.0"),
        (lambda: calibrate_laplace(1.0, 0.0), "epsilon is 0.0"),
        (lambda: calibrate_laplace(1e300, 1e-300), "scale sensitivity/epsilon is inf"),
        (lambda: laplace_epsilon(0.0, 1.0), "scale is 0.0"),
        (lambda: laplace_epsilon(1.0, -1.0), "sensitivity is -1.0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()
