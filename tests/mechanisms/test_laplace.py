"""Laplace noise on a grid: the laws, and ε = Δ₁/b in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.test_additive_noise import AdditiveNoiseLaws
from privot.core.errors import PrivotError
from privot.mechanisms import Laplace
from privot.schema.domains import Box, L1Ball


class TestLaplace(AdditiveNoiseLaws):
    mechanism = Laplace(scale=1.7 * 2.0**-5, grid=2.0**-5)
    wrong = (Laplace(1.717 * 2.0**-5, 2.0**-5), Laplace(1.683 * 2.0**-5, 2.0**-5))
    outcomes = (AdditiveNoiseLaws.cells * 2.0**-5)[:, None]
    invalid_fields = (
        ("scale", 0.0),
        ("scale", float("nan")),
        ("scale", True),
        ("grid", 0.3),
        ("grid", 2.0),
        ("grid", -0.5),
        ("grid", 2.0**-60),
    )

    def noise(self, mechanism):
        return mechanism.scale

    def fine(self):
        return Laplace.calibrate(self.domain, epsilon=1.0)


domains = st.one_of(
    st.integers(1, 2000).map(lambda d: Box((0.0,) * d, (3.0,) * d)),
    st.integers(1, 2000).map(lambda d: L1Ball(d, 140.0)),
)


@given(domain=domains, epsilon=st.floats(1e-3, 100.0))
def test_calibration_keeps_epsilon_exactly(domain, epsilon):
    mechanism = Laplace.calibrate(domain, epsilon)
    steps = 0 if domain.unit.on_grid else domain.dimension
    sensitivity = Fraction(domain.unit.diameter(1)) + steps * Fraction(mechanism.grid)
    loss = sensitivity / Fraction(mechanism.scale)
    assert loss <= Fraction(epsilon)
    assert loss >= Fraction(epsilon) * (1 - Fraction(1, 2**50))
    assert loss <= Fraction(mechanism.guarantee(domain).epsilon) <= Fraction(epsilon)
    assert mechanism.grid <= 2.0**-10


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_epsilon_is_refused(epsilon):
    with pytest.raises(PrivotError, match="epsilon"):
        Laplace.calibrate(Box((0.0,), (1.0,)), epsilon)


def test_fine_grid_likelihood_is_the_density():
    mechanism = Laplace.calibrate(Box((0.0,), (1.0,)), 2.0)
    y = np.rint(np.array([-3.0, 0.1, 5.0]) / mechanism.grid) * mechanism.grid
    log_density = -np.abs(y) / mechanism.scale - np.log(2 * mechanism.scale)
    log_pmf = mechanism.log_likelihood(y[:, None], np.zeros((3, 1)))
    assert log_pmf - np.log(mechanism.grid) == pytest.approx(log_density, abs=1e-10)
