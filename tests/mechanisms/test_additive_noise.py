"""Laws of noise on a grid, on top of those of every mechanism."""

import numpy as np
import pytest

from laws.mechanism import MechanismLaws
from privot.core.errors import PrivotError
from privot.mechanisms import Gaussian, Laplace
from privot.mechanisms.additive_noise import choose_grid, rounded_sensitivity, stand_in
from privot.schema import NumericColumn, Polyline
from privot.schema.domains import Box, L2Ball


class AdditiveNoiseLaws(MechanismLaws):
    domain = Box((0.0,), (7.0,))
    record = np.array([0.4])
    worst_pairs = ((np.array([-1.0]), np.array([1.0])), (np.array([1.0]), np.array([-1.0])))
    records = np.linspace(-1.0, 1.0, 401)[:, None]
    cells = np.arange(-600, 601)

    def index(self, reports):
        cells = np.rint(reports[..., 0] / self.mechanism.grid).astype(np.int64)
        inside = (cells >= self.cells[0]) & (cells <= self.cells[-1])
        return np.where(inside, cells - self.cells[0], len(self.cells))

    def test_reports_are_multiples_of_the_grid_whatever_the_record(self):
        """The low bits of float noise would tell records apart (Mironov 2012)."""
        for records in (self.records, self.records[:5] / 3, np.float64([[np.pi / 4]])):
            steps = self.mechanism.privatize(records) / self.mechanism.grid
            assert (steps == np.rint(steps)).all()

    def test_low_bits_and_signs_of_zero_are_independent_of_the_record(self):
        fine = self.fine()
        for record in (-1e-12, 0.0, 1 / 3, 1.0):
            records = np.full((200_000, 1), record)
            low = np.bincount(((fine.privatize(records) / fine.grid)[:, 0] % 16).astype(int))
            assert np.abs(low - 12_500).max() < 6 * np.sqrt(12_500)
            zeros = self.mechanism.privatize(records)
            assert not np.signbit(zeros[zeros == 0]).any()
            few = np.array([self.mechanism.privatize(records[:1])[0, 0] for _ in range(200)])
            assert not np.signbit(few[few == 0]).any()

    def test_variance_is_exact(self):
        probabilities = np.exp(self.mechanism.log_likelihood(self.outcomes, np.zeros(1)))
        values = self.outcomes[:, 0]
        assert probabilities @ values == pytest.approx(self.mechanism.bias, abs=1e-12)
        assert probabilities @ values**2 == pytest.approx(self.mechanism.variance, rel=1e-10)

    def test_off_grid_reports_are_impossible(self):
        off = np.array([self.mechanism.grid * 0.5])
        assert self.mechanism.log_likelihood(off, np.zeros(1)) == -np.inf

    def test_likelihood_broadcasts_and_sums_coordinates(self):
        y = self.outcomes[590:594].reshape(2, 1, 2)
        x = np.array([[0.1, -0.2], [0.0, 0.5], [0.7, 0.7]])
        pairs = self.mechanism.log_likelihood(y, x)
        assert pairs.shape == (2, 3)
        single = [
            self.mechanism.log_likelihood(y[1, 0, j : j + 1], x[2, j : j + 1]) for j in (0, 1)
        ]
        assert pairs[1, 2] == pytest.approx(sum(single), rel=1e-14)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
    @pytest.mark.parametrize("count", [1, 100])
    def test_values_out_of_reach_are_refused(self, value, count):
        records = np.zeros((count, 1))
        records[-1] = value
        with pytest.raises(PrivotError, match="project it"):
            self.mechanism.privatize(records)

    def test_missing_domain_is_refused(self):
        with pytest.raises(PrivotError, match="domain is None"):
            self.mechanism.guarantee(None, 1e-6)

    def test_grid_is_fine_and_dyadic(self):
        fine = self.fine()
        assert np.frexp(fine.grid)[0] == 0.5
        assert 2**19 <= self.noise(fine) / fine.grid < 2**21

    def test_rounding_counts_where_it_can_leave_the_domain(self):
        """Off the grid, the guarantee at the bare diameter would be too good."""
        ball, box = L2Ball(2, 1.0), Box((-1.0,), (1.0,))
        coarse = self.mechanism
        assert ball.diameter(2) == box.diameter(2) == 2.0
        assert coarse.guarantee(ball, 1e-6).epsilon > coarse.guarantee(box, 1e-6).epsilon * (
            1 + coarse.grid / 2
        )


@pytest.mark.parametrize("noise", [1e-300, 1e-6, 0.3, 1.0, 7.0, 1e5])
def test_grids_are_dyadic_fine_and_within_limits(noise):
    grid = choose_grid(noise)
    assert np.frexp(grid)[0] == 0.5
    assert 2.0**-40 <= grid <= 2.0**-10
    if 2.0**-40 < grid < 2.0**-10:
        assert 2**19 <= noise / grid < 2**20


def test_rounding_adds_a_step_a_coordinate_where_it_can_leave_the_domain():
    ball, box, grid = L2Ball(4, 3.0), Box((0.0, 1.0), (2.0, 5.0)), 2.0**-10
    assert rounded_sensitivity(ball, 2, grid) == pytest.approx(2 + 2 * grid, rel=1e-12)
    assert rounded_sensitivity(ball, 2, grid) >= 2 + 2 * grid
    assert rounded_sensitivity(ball, 1, grid) == pytest.approx(2 * 2 + 4 * grid, rel=1e-12)
    assert rounded_sensitivity(box, 1, grid) == 4.0
    rng = np.random.default_rng(0)
    x = ball.unit.project(rng.standard_normal((500, 4)) * 9)
    rounded = np.rint(x / grid) * grid
    gaps = np.sqrt(((rounded[:, None] - rounded) ** 2).sum(axis=2))
    assert gaps.max() <= rounded_sensitivity(ball, 2, grid)


def test_what_stands_in_for_a_missing_record_lies_in_the_domain():
    bend = Polyline(((0.0, 0.0), (2.0, 0.0), (2.0, 2.0)))
    for domain in (Box((0.0,), (7.0,)), L2Ball(2, 1.0, non_negative=True), bend):
        point = stand_in(domain)
        np.testing.assert_allclose(domain.unit.project(point[None])[0], point, atol=1e-12)
        assert (point == stand_in(domain)).all()


@pytest.mark.parametrize("mechanism", [Laplace(0.5, 2.0**-20), Gaussian(0.5, 2.0**-20)], ids=repr)
def test_reports_of_the_farthest_records_are_possible_and_far_ones_are_not(mechanism):
    domain = Box((0.0, 0.0), (7.0, 3.0))
    corners = np.array([[-1.0, -1.0], [1.0, 1.0]])[np.arange(2000) % 2]
    assert mechanism.possible(mechanism.privatize(corners), domain).all()
    strange = np.array([[60.0, 0.0], [np.nan, 0.0], [np.inf, 0.0], [0.0, -60.0]])
    assert not mechanism.possible(strange, domain).any()


def test_a_number_that_may_be_missing_is_not_for_noise_alone():
    number = NumericColumn(kind="numeric", bounds=(0, 1))
    assert Laplace.unfit(number) == ""
    assert "never missing" in Laplace.unfit(number.model_copy(update={"nullable": True}))
