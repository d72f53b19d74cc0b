"""Gaussian noise on a grid: the laws, and a likelihood that keeps its digits."""

import mpmath
import numpy as np
import pytest

from mechanisms.test_additive_noise import AdditiveNoiseLaws
from privot.core.errors import PrivotError
from privot.mechanisms import Gaussian
from privot.schema.domains import Box, L2Ball


class TestGaussian(AdditiveNoiseLaws):
    mechanism = Gaussian(stddev=40 * 2.0**-5, grid=2.0**-5)
    wrong = (Gaussian(40.4 * 2.0**-5, 2.0**-5), Gaussian(39.6 * 2.0**-5, 2.0**-5))
    outcomes = (AdditiveNoiseLaws.cells * 2.0**-5)[:, None]
    delta = 1e-4
    tight = 1e-2  # rounding is post-processing: it can only lower the loss
    invalid_fields = (
        ("stddev", 0.0),
        ("stddev", float("inf")),
        ("grid", 0.3),
        ("grid", 2.0),
    )

    def noise(self, mechanism):
        return mechanism.stddev

    def fine(self):
        return Gaussian.calibrate(self.domain, epsilon=1.0, delta=1e-6)

    def test_needs_a_delta(self):
        with pytest.raises(PrivotError, match="delta"):
            self.mechanism.guarantee(self.domain)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("domain", [Box((0.0,) * 3, (1.0,) * 3), L2Ball(50, 20.0)], ids=repr)
def test_calibration_keeps_epsilon_and_wastes_nothing(domain, epsilon):
    mechanism = Gaussian.calibrate(domain, epsilon, 1e-5)
    reached = mechanism.guarantee(domain, 1e-5).epsilon
    assert epsilon * (1 - 1e-8) <= reached <= epsilon


@pytest.mark.parametrize("ratio", [0.3, 1.0, 7.0, 511.0, 512.0, 2.0**19.5])
def test_log_likelihood_against_mpmath(ratio):
    mechanism = Gaussian(stddev=ratio * 2.0**-20, grid=2.0**-20)
    integers = np.unique(np.rint(np.array([0, 0.01, 0.3, 1, 3, 8, 25]) * ratio))
    with mpmath.workdps(60):
        exact = [
            float(mpmath.log(mpmath.ncdf((0.5 - k) / ratio) - mpmath.ncdf((-0.5 - k) / ratio)))
            for k in map(mpmath.mpf, integers)
        ]
    computed = mechanism.log_likelihood(integers[:, None] * 2.0**-20, np.zeros(1))
    assert computed == pytest.approx(exact, rel=1e-11, abs=1e-11)
    mirrored = mechanism.log_likelihood(-integers[:, None] * 2.0**-20, np.zeros(1))
    assert (mirrored == computed).all()


@pytest.mark.parametrize("ratio", [0.2, 0.5, 1.0, 3.0])
def test_variance_of_coarse_rounding(ratio):
    mechanism = Gaussian(stddev=ratio, grid=1.0)
    k = np.arange(-60.0, 61.0)[:, None]
    probabilities = np.exp(mechanism.log_likelihood(k, np.zeros(1)))
    assert mechanism.variance == pytest.approx(probabilities @ k[:, 0] ** 2, rel=1e-10)
