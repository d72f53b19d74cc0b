"""What every way to fit a tilted density promises: a subclass gives one, and these tests follow."""

import numpy as np
import pytest

from laws.reference import FALSE_ALARM, chi_square
from privot.core.errors import PrivotError
from privot.integral.references import UniformBox

EPSILON = 1.5


class TiltedLaws:
    """Subclasses define `fit(records, reference, epsilon)`; records lie in the unit square."""

    reference = UniformBox([0.0, 0.0], [1.0, 1.0])
    epsilon = EPSILON

    def fit(self, records, reference, epsilon):
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def opposites(cls):
        """Models of two data sets that share nothing: of different places, and of different sizes."""
        rng = np.random.default_rng(0)
        left = rng.beta(2, 8, (1500, 2))
        right = 1 - rng.beta(1, 12, (400, 2))
        return [cls().fit(x, cls.reference, cls.epsilon) for x in (left, right)]

    @pytest.fixture(scope="class")
    @classmethod
    def tilts(cls, opposites):
        """Of both, on a grid of 200 × 200 points, corners included."""
        side = (np.arange(200) + 0.5) / 200
        x = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
        return [density.log_tilt(x) for density in opposites]

    def test_the_price_is_as_agreed(self, opposites):
        for density in opposites:
            assert 0.98 * self.epsilon <= density.epsilon <= self.epsilon

    def test_the_ratio_never_exceeds_e_to_epsilon(self, tilts):
        """Search on the grid; the normalizers by the same grid."""
        logs = [tilt - np.log(np.exp(tilt).mean()) for tilt in tilts]
        found = max((logs[0] - logs[1]).max(), (logs[1] - logs[0]).max())
        assert found <= self.epsilon + 1e-3
        assert found > 0.3 * self.epsilon, "the fits learned nothing, and the test says nothing"

    def test_accept_probabilities_keep_the_width_in_integers(self, opposites):
        rng = np.random.default_rng(1)
        x = self.reference.sample(20_000, rng)
        for density in opposites:
            coins = density.coins(x)
            fewest = int(density.coins_of(np.array([-1e300]))[0])
            assert int(coins.max()) <= 2**63
            assert int(coins.min()) >= fewest
            width = density.high - density.low
            assert 2**63 / fewest <= np.exp(width)
            assert fewest / 2**63 <= np.exp(-width) * (1 + 1e-12)

    def test_draws_are_of_the_density(self, opposites, tilts):
        """Two statistics, each with a false-alarm rate of 5e-7; uniform draws are told apart."""
        for density, tilt in zip(opposites, tilts, strict=True):
            mass = np.exp(tilt).reshape(20, 10, 20, 10).sum(axis=(1, 3))
            mass /= mass.sum()
            draws = density.draw(20_000)
            counts = np.histogramdd(draws, bins=20, range=[(0, 1)] * 2)[0]
            assert chi_square(counts.ravel(), mass.ravel() * len(draws)) > FALSE_ALARM
            flat = np.full(mass.size, len(draws) / mass.size)
            assert chi_square(counts.ravel(), flat) < 1e-6, "no power: the draws look uniform"

    def test_the_acceptance_floor_holds(self, opposites):
        x = self.reference.sample(20_000, np.random.default_rng(2))
        for density in opposites:
            accepted = (density.coins(x).astype(float) / 2.0**63).mean()
            assert accepted >= density.acceptance_floor * 0.98

    def test_one_record_and_equal_records(self):
        for records in (np.full((1, 2), 0.5), np.full((300, 2), 0.25)):
            density = self.fit(records, self.reference, self.epsilon)
            assert density.epsilon <= self.epsilon
            assert np.isfinite(density.draw(20)).all()

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 7.25])
    def test_records_outside_are_refused_and_not_repeated(self, bad):
        records = np.full((10, 2), 0.5)
        records[3, 1] = bad
        with pytest.raises(PrivotError, match="outside the reference's support") as refusal:
            self.fit(records, self.reference, self.epsilon)
        assert "7.25" not in str(refusal.value)

    def test_no_records_are_refused(self):
        with pytest.raises(PrivotError, match="records are empty"):
            self.fit(np.empty((0, 2)), self.reference, self.epsilon)

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf, 90.0, 1e6])
    def test_an_epsilon_without_an_envelope_is_refused(self, epsilon):
        with pytest.raises(PrivotError, match="epsilon"):
            self.fit(np.full((10, 2), 0.5), self.reference, epsilon)
