"""Haar groups and the optimal piecewise mechanism: reports have their law, estimates find a peak."""

import math

import numpy as np
import pytest

from studies.rivals.haar_groups import haar_shares
from studies.rivals.optimal_piecewise import piecewise_em, piecewise_reports

TRUTH = np.random.default_rng(0).normal(0.3, 0.05, 50_000).clip(0, 1)


@pytest.mark.parametrize("number", [0.0, 0.5, 0.97])
def test_piecewise_reports_have_two_densities(number):
    reports = piecewise_reports(np.full(200_000, number), 1.0, np.random.default_rng(0))
    length = math.expm1(0.5) / math.expm1(1.0)
    start = min(max(number - length / 2, 0), 1 - length)
    inside = (reports >= start) & (reports < start + length)
    assert reports.min() >= 0
    assert reports.max() < 1
    # 6 deviations of a share of 200 000
    assert inside.mean() == pytest.approx(length * math.exp(0.5), abs=6 * 0.5 / math.sqrt(2e5))


@pytest.mark.parametrize("smooth", [False, True])
def test_piecewise_reports_find_a_peak(smooth):
    reports = piecewise_reports(TRUTH, 2.0, np.random.default_rng(1))
    shares = piecewise_em(reports, 2.0, 64, smooth=smooth)
    assert shares @ ((np.arange(64) + 0.5) / 64) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_haar_coefficients_find_a_peak(ratio):
    shares = haar_shares(2 * TRUTH - 1, 2.0, 5, ratio, np.random.default_rng(1))
    assert shares.sum() == pytest.approx(1)
    assert shares.min() >= 0
    assert shares @ ((np.arange(32) + 0.5) / 32) == pytest.approx(0.3, abs=0.03)
