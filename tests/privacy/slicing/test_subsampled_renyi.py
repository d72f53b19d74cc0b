"""Rényi curves against the formulas in 50 digits, and against dp-accounting at d = 1."""

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as theirs

from privot.privacy.slice_accounting import (
    full_batch_renyi,
    padded_poisson_renyi,
    without_replacement_renyi,
)
from privot.privacy.slice_sensitivity import ProjectedLength

LENGTH, STDDEV, RATE = ProjectedLength(12, 9, 0.8), 1.7, 0.03


def moment(length, stddev, order):
    """E exp(α(α−1)H/2σ²), term by term."""
    x = mpmath.mpf(order) * (order - 1) * length.sensitivity**2 / (2 * mpmath.mpf(stddev) ** 2)
    return mpmath.hyp1f1(0.5, mpmath.mpf(length.dim) / 2, x) ** length.num_projections


def without_replacement(length, stddev, rate, order):
    loss = {j: mpmath.log(moment(length, stddev, j)) / (j - 1) for j in range(2, order + 1)}
    total = 1 + rate**2 * mpmath.binomial(order, 2) * min(
        4 * mpmath.expm1(loss[2]), 2 * mpmath.exp(loss[2])
    )
    for j in range(3, order + 1):
        total += (
            2 * mpmath.mpf(rate) ** j * mpmath.binomial(order, j) * mpmath.exp((j - 1) * loss[j])
        )
    return mpmath.log(total) / (order - 1)


def poisson(length, stddev, rate, order):
    rate = mpmath.mpf(rate)
    total = sum(
        mpmath.binomial(order, j)
        * (1 - rate) ** (order - j)
        * rate**j
        * (moment(length, stddev, j) if j else 1)
        for j in range(order + 1)
    )
    return mpmath.log(total) / (order - 1)


@pytest.mark.parametrize(
    ("ours", "formula"),
    [(without_replacement_renyi, without_replacement), (padded_poisson_renyi, poisson)],
)
@pytest.mark.parametrize(("stddev", "rate"), [(1.7, 0.03), (0.3, 0.5), (50.0, 1e-4), (1.0, 1.0)])
def test_against_the_formula(ours, formula, stddev, rate):
    orders, epsilons = ours(LENGTH, stddev, rate)
    with mpmath.workdps(50):
        for order in (2, 3, 7, 64):
            got = epsilons[list(orders).index(order)]
            true = formula(LENGTH, stddev, rate, order)
            assert true <= got <= true * (1 + 1e-8)


def test_full_batch_against_mpmath_at_fractional_orders():
    orders, epsilons = full_batch_renyi(LENGTH, STDDEV)
    with mpmath.workdps(50):
        for i in range(0, 250, 10):
            true = mpmath.log(moment(LENGTH, STDDEV, mpmath.mpf(orders[i]))) / (orders[i] - 1)
            assert true <= epsilons[i] <= true * (1 + 1e-8)


def test_padded_poisson_is_the_sampled_gaussian_in_one_dimension():
    # d = 1: every direction is ±1, so that H = k surely.
    orders, epsilons = padded_poisson_renyi(ProjectedLength(1, 4, 1.0), 3.0, 0.01)
    oracle = theirs._compute_rdp_poisson_subsampled_gaussian(0.01, 1.5, orders.tolist())
    assert epsilons == pytest.approx(oracle, rel=1e-8)


def test_full_batch_is_the_gaussian_in_one_dimension():
    orders, epsilons = full_batch_renyi(ProjectedLength(1, 4, 1.0), 3.0)
    assert epsilons == pytest.approx(orders * 4 / (2 * 9), rel=1e-9)


@pytest.mark.parametrize("ours", [without_replacement_renyi, padded_poisson_renyi])
def test_curves_grow_with_rate_and_fall_with_noise(ours):
    _, base = ours(LENGTH, STDDEV, RATE)
    assert (ours(LENGTH, STDDEV, 1.2 * RATE)[1] > base).all()
    assert (ours(LENGTH, 1.2 * STDDEV, RATE)[1] < base).all()


def test_extremes_stay_finite_or_infinite_but_never_nan():
    with np.errstate(over="ignore"):
        for length in (ProjectedLength(2, 1, 1.0), ProjectedLength(10**6, 10**5, 1.0)):
            for stddev in (1e-6, 1e6):
                for curve in (
                    full_batch_renyi(length, stddev),
                    without_replacement_renyi(length, stddev, 1e-3),
                    padded_poisson_renyi(length, stddev, 1e-3),
                ):
                    assert not np.isnan(curve[1]).any()
                    assert (curve[1] >= 0).all()
