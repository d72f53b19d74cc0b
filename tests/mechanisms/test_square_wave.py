"""The square wave: the laws, the ratio e^ε in integers, bins, and an unbiased estimate."""

from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.mechanism import MechanismLaws
from privot.errors import PrivotError
from privot.mechanisms import SquareWave
from privot.mechanisms.square_wave import GRID, STEPS
from privot.schema import Box, NumericColumn
from privot.schema.columns.alphabet import Categories

HALF = SquareWave(2.0)._half_cells
CELLS = np.arange(-HALF, STEPS + HALF + 1)


class TestSquareWave(MechanismLaws):
    mechanism = SquareWave(2.0)
    wrong = (SquareWave(2.02), SquareWave(1.98))
    domain = Box((0.0,), (5.0,))
    record = np.array([0.3])
    worst_pairs = ((np.array([-1.0]), np.array([1.0])), (np.array([0.9]), np.array([-0.2])))
    records = np.linspace(-1.0, 1.0, 401)[:, None]
    outcomes = (CELLS * GRID - 1.0)[:, None]
    invalid_fields = (("epsilon", 0.0), ("epsilon", float("nan")), ("epsilon", 100.0))

    def index(self, reports):
        cells = np.rint((reports[:, 0] + 1.0) / GRID).astype(int)
        assert cells.min() >= CELLS[0]
        assert cells.max() <= CELLS[-1]
        return cells - CELLS[0]

    @pytest.mark.parametrize("value", [1.1, -np.inf, np.nan])
    def test_values_outside_are_refused(self, value):
        with pytest.raises(PrivotError, match="project it"):
            self.mechanism.privatize(np.array([[0.0], [value]]))

    def test_variance_is_that_of_the_unbiased_estimate(self):
        probabilities = np.exp(self.mechanism.log_likelihood(self.outcomes[:, None], self.records))
        values = self.outcomes[:, 0]
        means = values @ probabilities
        rounded = np.rint(self.records[:, 0] / GRID) * GRID
        slope = np.polyfit(rounded, means, 1)[0]
        assert means == pytest.approx(slope * rounded, abs=1e-12)
        variances = (values**2 @ probabilities - means**2) / slope**2
        assert variances.max() == pytest.approx(self.mechanism.variance, rel=1e-9)

    def test_coordinates_add_up(self):
        assert self.mechanism.guarantee(Box((0.0,) * 3, (1.0,) * 3)).epsilon == 6.0


@given(epsilon=st.floats(0.01, 30.0))
def test_integers_keep_epsilon_and_waste_nothing(epsilon):
    mechanism = SquareWave(epsilon)
    inside, outside = mechanism.words
    ratio = Fraction(inside, outside) * Fraction(STEPS, 2 * mechanism._half_cells + 1)
    with mpmath.workdps(60):
        loss = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert mpmath.mpf(epsilon) - mpmath.mpf(4) / outside <= loss <= mpmath.mpf(epsilon)


def test_it_is_for_bins_and_not_for_a_point_that_is_named():
    """A kind of one's own may have a domain, and categories for codes."""
    named = SimpleNamespace(
        domain=Box((0.0,), (1.0,)), alphabet=Categories(("a", "b")), nullable=False
    )
    assert "for numbers and dates" in SquareWave.unfit(named)
    assert not SquareWave.unfit(NumericColumn(kind="numeric", bounds=(0, 1)))
