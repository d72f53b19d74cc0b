"""Rényi and zero-concentrated privacy: their conversion to (ε, δ), and what they refuse."""

import math

import mpmath
import pytest
from dp_accounting.rdp import rdp_privacy_accountant

from privot.errors import PrivotError
from privot.privacy import RenyiDP, ZeroConcentratedDP, gaussian_epsilon


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
